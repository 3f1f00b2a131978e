//! Delivery: its settings, rendezvous hashing, and slots through a real nats-server.

mod settings;
