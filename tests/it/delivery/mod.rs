//! Delivery: its settings, rendezvous hashing, and slots through a real nats-server.

mod rendezvous;
mod rig;
mod settings;
mod shared;
