//! The plugin host against real components: what it takes, what it runs, and what it holds off.

mod address;
mod after_sale;
mod cache;
mod cost;
mod group_buy;
pub mod host;
mod http;
mod misbehaviour;
mod node;
mod on_a_node;
mod order_timeout;
mod purity;
mod python;
pub mod reference;
mod revoked;
mod scripted;
pub mod server;
mod shipping_sla;
mod upgrade;
mod uploads;
mod waiting;
mod wasi;
