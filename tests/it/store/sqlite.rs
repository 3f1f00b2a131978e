//! SQLite: the conformance suite, and what is its own.

use std::{path::Path, sync::Arc};

use lapse::{
    clock::ManualClock,
    store::{
        Limits, Store,
        sqlite::{Sqlite, SqliteParams},
    },
};

use super::{
    bed::{Bed, chain, noon},
    conformance::conformance,
};

pub fn open(folder: &Path, clock: Arc<ManualClock>) -> Arc<Sqlite> {
    let path = folder.join("lapse.db");
    Sqlite::open(SqliteParams { path, readers: 2, clock, chain: chain(), migrate: true }).unwrap()
}

pub async fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(noon());
    let store = Store::new(open(folder.path(), Arc::clone(&clock)), Limits::default());
    Bed::furnish(store, clock, Box::new(folder)).await
}

conformance!(bed);
