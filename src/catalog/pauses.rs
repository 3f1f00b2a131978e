//! The pauses as a node knows them. They are asked for at every start of an expiry: where there is none, as mostly, that is
//! one look at a flag.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::Catalog;
use crate::{
    domain::{pause::Pauses, time::Timestamp, timer::Timer},
    store,
};

#[derive(Default)]
pub(super) struct Held {
    any: AtomicBool,
    pauses: RwLock<Arc<Pauses>>,
    /// The catalogue's version that they are of; none before the first reading.
    read_at: Mutex<Option<i64>>,
}

impl Catalog {
    /// Every pause, as far as this node knows.
    pub fn pauses(&self) -> Arc<Pauses> {
        Arc::clone(&self.inner.pauses.pauses.read())
    }

    /// Whether a timer must not be started at `now`.
    pub fn is_paused(&self, timer: &Timer, now: Timestamp) -> bool {
        let held = &self.inner.pauses;
        held.any.load(Ordering::Acquire) && held.pauses.read().of(timer.namespace_id, timer.type_id, now).is_some()
    }

    /// Takes in what has been paused and resumed.
    ///
    /// # Errors
    /// The store cannot be read; what was known before stays in force.
    pub async fn refresh_pauses(&self) -> store::Result<()> {
        let held = &self.inner.pauses;
        let mut read_at = held.read_at.lock().await;
        let store = self.inner.store.read();
        // Asked for first: what is read is then at least as new.
        let version = store.catalogue_version().await?;
        if *read_at == Some(version) {
            return Ok(());
        }
        let pauses = store.pauses().await?;
        let any = !pauses.is_empty();
        *held.pauses.write() = Arc::new(pauses);
        held.any.store(any, Ordering::Release);
        *read_at = Some(version);
        Ok(())
    }
}
