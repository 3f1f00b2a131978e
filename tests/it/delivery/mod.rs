//! Delivery: its settings, rendezvous hashing, and slots through a real nats-server.

mod broker;
mod outages;
mod punctual;
mod rendezvous;
mod rig;
mod settings;
mod shared;
