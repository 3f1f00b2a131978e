//! Nodes as processes, on one PostgreSQL and one broker: what must hold whatever dies.
//!
//! A failing run prints its seed; `LAPSE_SEED=…` repeats it. `LAPSE_SOAK=1` makes the runs long.

mod broker;
mod clocks;
mod commits;
mod database;
mod doctor;
mod edges;
mod key;
mod kills;
mod messages;
mod overdue;
mod pauses;
mod register_only;
mod rig;
mod undisturbed;
mod verdict;
