//! Which revision a timer runs: its own if it is pinned, else the active one, unless that one's payload schema does not
//! take its payload. Where the two schemas are the same, which is nearly always, that is known at sight; else the payload
//! is checked off the clock's task, once each time that the timer is handed over.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use crate::{
    catalog::{Catalog, Error, Ready, Runs, Snapshot, TypeEntry},
    domain::{id::TypeId, timer::Timer},
};

/// Revisions, other than active ones, that are kept at hand; beyond it all are let go, and loaded again when asked for.
const MAX_KEPT: usize = 1_000;

pub(super) struct Revisions {
    catalog: Catalog,
    kept: RwLock<HashMap<(TypeId, i64), Arc<Ready>>>,
}

/// What is at hand without a wait.
pub(super) enum AtHand {
    Ready(Arc<TypeEntry>, Arc<Ready>),
    /// To be loaded, or to be chosen first.
    Later(Arc<TypeEntry>),
    /// There is no such type, or its active revision could not be loaded.
    NoType,
}

impl Revisions {
    pub fn new(catalog: Catalog) -> Self {
        Self { catalog, kept: RwLock::default() }
    }

    pub fn at_hand(&self, snapshot: &Snapshot, timer: &Timer) -> AtHand {
        let Some(entry) = snapshot.by_id(timer.type_id) else { return AtHand::NoType };
        let entry = Arc::clone(entry);
        if entry.active.revision.number == timer.revision {
            let active = Arc::clone(&entry.active);
            return AtHand::Ready(entry, active);
        }
        match entry.runs_at_sight(timer.revision, timer.pinned) {
            Some(Runs::Active) => {
                let active = Arc::clone(&entry.active);
                AtHand::Ready(entry, active)
            }
            Some(Runs::Pinned | Runs::Behind) => match self.kept(timer) {
                Some(ready) => AtHand::Ready(entry, ready),
                None => AtHand::Later(entry),
            },
            None => AtHand::Later(entry),
        }
    }

    /// Takes as long as it takes to check a payload, or to load a plugin.
    pub async fn choose(&self, entry: &TypeEntry, timer: &Timer) -> Result<Arc<Ready>, Error> {
        if entry.runs(timer.revision, timer.pinned, &timer.payload) == Runs::Active {
            return Ok(Arc::clone(&entry.active));
        }
        match self.kept(timer) {
            Some(ready) => Ok(ready),
            None => self.load(timer.type_id, timer.revision).await,
        }
    }

    fn kept(&self, timer: &Timer) -> Option<Arc<Ready>> {
        self.kept.read().get(&(timer.type_id, timer.revision)).cloned()
    }

    async fn load(&self, type_id: TypeId, number: i64) -> Result<Arc<Ready>, Error> {
        let ready = self.catalog.revision(type_id, number).await?;
        let mut kept = self.kept.write();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert((type_id, number), Arc::clone(&ready));
        Ok(ready)
    }
}
