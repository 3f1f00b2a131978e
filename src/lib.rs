//! Lapse: a timing-task platform. See `ARCHITECTURE.md` for the rooms and the way of a timer through them.

pub mod api;
pub mod app;
pub mod breaker;
pub mod catalog;
pub mod cli;
pub mod client;
pub mod clock;
pub mod codegen;
pub mod compensate;
pub mod config;
pub mod console;
pub mod costs;
pub mod delivery;
pub mod demo_shop;
pub mod dispatch;
pub mod domain;
pub mod plugin;
pub mod schema;
pub mod sql;
pub mod stats;
pub mod store;
pub mod telemetry;
pub mod vault;
