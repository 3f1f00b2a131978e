//! PostgreSQL: the conformance suite, and what is its own.

use lapse::{
    clock::ManualClock,
    store::{
        Limits, Store,
        postgres::{Postgres, PostgresParams},
    },
};

use super::{
    bed::{Bed, noon},
    conformance::conformance,
};
use crate::support::postgres::database;

pub async fn bed() -> Bed {
    let database = database().await;
    let clock = ManualClock::new(noon());
    let params = PostgresParams { clock: Some(clock.clone()), ..database.params() };
    let store = Store::new(Postgres::connect(params).await.unwrap(), Limits::default());
    Bed::furnish(store, clock, Box::new(database)).await
}

conformance!(crate::store::postgres::bed);
