//! From due to compensated: delivery, dispatch and the lanes of compensations, over a real database.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get ends it")]

mod backlog;
mod breakers;
mod compensations;
mod decisions;
mod drain;
mod fires;
mod isolation;
mod local;
mod model;
mod outages;
mod pauses;
mod rig;
mod shaky;
mod triggers;
