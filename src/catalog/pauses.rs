//! The pauses as a node knows them. They are asked for at every start of an expiry: where there is none, as mostly, that is
//! one look at a flag.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;

use super::Catalog;
use crate::domain::{pause::Pauses, time::Timestamp, timer::Timer};

#[derive(Default)]
pub(super) struct Held {
    any: AtomicBool,
    pauses: RwLock<Arc<Pauses>>,
}

impl Held {
    pub fn set(&self, pauses: Pauses) {
        let any = !pauses.is_empty();
        *self.pauses.write() = Arc::new(pauses);
        self.any.store(any, Ordering::Release);
    }
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
}
