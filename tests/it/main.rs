//! The one test binary. Each room of the product has its folder here.

#![expect(clippy::print_stdout, reason = "a test says its seed, and what it measured")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and its helpers are part of it")]

mod api;
mod breaker;
mod cli;
mod clock;
mod cluster;
mod codegen;
mod console;
mod costs;
mod delivery;
mod domain;
mod engine;
mod faults;
mod house;
mod plugins;
mod schema;
mod sql;
mod store;
mod support;
mod telemetry;
