//! The plugin host against real components: what it takes, what it runs, and what it holds off.

mod address;
mod cache;
mod cost;
mod host;
mod http;
mod misbehaviour;
mod order_timeout;
mod purity;
mod server;
mod uploads;
