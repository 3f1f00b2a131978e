//! The HTTP API, over the real router and a real store.

mod actions;
mod bad_input;
mod batch;
mod compensations;
mod datasources;
mod document;
mod document_3_0;
mod errors;
mod explain;
mod fuzz;
mod keys;
mod lists;
mod operations;
mod pauses;
mod plugins;
mod real_plugins;
mod register;
mod revisions;
mod rights;
mod secrets;
mod slow;
mod stats;
mod stream;
mod types;
