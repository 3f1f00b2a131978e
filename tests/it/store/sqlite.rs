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
    let bed = bed_in(folder.path()).await;
    Bed { _home: Box::new(folder), ..bed }
}

/// In a folder that the caller keeps.
pub async fn bed_in(folder: &Path) -> Bed {
    let clock = ManualClock::new(noon());
    let store = Store::new(open(folder, Arc::clone(&clock)), Limits::default());
    Bed::furnish(store, clock, Box::new(())).await
}

conformance!(crate::store::sqlite::bed);
