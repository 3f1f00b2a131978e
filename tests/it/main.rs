//! The one test binary. Each room of the product has its folder here.

mod api;
mod cli;
mod clock;
mod delivery;
mod domain;
mod engine;
mod faults;
mod house;
mod plugins;
mod store;
mod support;
