//! Which revision a timer runs: its own if it is pinned, else the active one.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use crate::{
    catalog::{Catalog, Error, Ready, Snapshot, TypeEntry},
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
    /// To be loaded.
    Pinned(Arc<TypeEntry>),
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
        if !timer.pinned || entry.active.revision.number == timer.revision {
            let active = Arc::clone(&entry.active);
            return AtHand::Ready(entry, active);
        }
        match self.kept.read().get(&(timer.type_id, timer.revision)) {
            Some(ready) => AtHand::Ready(entry, Arc::clone(ready)),
            None => AtHand::Pinned(entry),
        }
    }

    pub async fn load(&self, type_id: TypeId, number: i64) -> Result<Arc<Ready>, Error> {
        let ready = self.catalog.revision(type_id, number).await?;
        let mut kept = self.kept.write();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert((type_id, number), Arc::clone(&ready));
        Ok(ready)
    }
}
