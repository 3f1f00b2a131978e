//! The store: one conformance suite for every driver, and what is SQLite's own.

mod bed;
mod conformance;
mod sqlite;
