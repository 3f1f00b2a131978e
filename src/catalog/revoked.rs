//! The rights that were taken from types. What a revision can do hangs on its type's handle, whenever it was made ready.

use std::collections::{BTreeSet, HashMap};

use parking_lot::RwLock;

use super::Catalog;
use crate::{
    domain::{id::TypeId, plugin::Grant},
    plugin::Revoked,
    store::read,
};

/// A handle for each type that was asked for, so for no more than there are.
#[derive(Default)]
pub(super) struct Taken {
    by_type: RwLock<HashMap<TypeId, Revoked>>,
}

impl Taken {
    pub fn of(&self, type_id: TypeId) -> Revoked {
        self.by_type.write().entry(type_id).or_default().clone()
    }

    pub fn set(&self, mut all: read::Revoked) {
        let mut by_type = self.by_type.write();
        for (type_id, revoked) in &*by_type {
            revoked.set(all.remove(type_id).unwrap_or_default());
        }
        for (type_id, grants) in all {
            by_type.entry(type_id).or_default().set(grants);
        }
    }
}

impl Catalog {
    /// What was taken from a type, as far as this node knows.
    pub fn revoked(&self, type_id: TypeId) -> BTreeSet<Grant> {
        self.inner.revoked.by_type.read().get(&type_id).map(Revoked::get).unwrap_or_default()
    }
}
