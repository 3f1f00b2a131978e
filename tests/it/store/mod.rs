//! The store: one conformance suite for every driver, group commit, and what is SQLite's own.

mod bed;
mod conformance;
mod durability;
mod figures;
mod group;
mod migrations;
mod plans;
mod postgres;
mod postgres_audit;
mod postgres_faults;
mod postgres_figures;
mod postgres_migrations;
mod postgres_plans;
mod postgres_races;
mod postgres_tls;
mod sqlite;
mod tampering;

pub use self::bed::chain;
