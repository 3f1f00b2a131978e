//! What changes while somebody watches: per namespace, the latest of each timer and compensation since it was last asked
//! for. Bounded, and without payloads.

use std::collections::{BTreeMap, HashMap};

use crate::domain::{
    compensation::{Compensation, CompensationState},
    id::{CompensationId, Name, NamespaceId, TimerId, TypeId},
    time::Timestamp,
    timer::{State, Timer},
};

/// The most timers, and the most compensations, that are kept of one namespace between two asks.
pub const MOST: usize = 100;

/// A timer without its payload, labels and outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerChange {
    pub id: TimerId,
    pub type_id: TypeId,
    pub key: String,
    pub state: State,
    pub due_at: Timestamp,
    pub run_at: Option<Timestamp>,
    pub attempt: u32,
    pub version: i64,
    pub revision: i64,
    pub created_at: Timestamp,
    pub settled_at: Option<Timestamp>,
}

impl TimerChange {
    fn of(timer: &Timer) -> Self {
        Self {
            id: timer.id,
            type_id: timer.type_id,
            key: timer.key.to_string(),
            state: timer.state,
            due_at: timer.due_at,
            run_at: timer.run_at,
            attempt: timer.attempt,
            version: timer.version,
            revision: timer.revision,
            created_at: timer.created_at,
            settled_at: timer.settled_at,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompensationChange {
    pub id: CompensationId,
    pub timer_id: TimerId,
    pub namespace_id: NamespaceId,
    pub type_id: TypeId,
    pub kind: Name,
    pub state: CompensationState,
    pub attempt: u32,
}

impl CompensationChange {
    pub fn of(compensation: &Compensation, state: CompensationState) -> Self {
        Self {
            id: compensation.id,
            timer_id: compensation.timer_id,
            namespace_id: compensation.namespace_id,
            type_id: compensation.type_id,
            kind: compensation.kind.clone(),
            state,
            attempt: compensation.attempt,
        }
    }
}

/// What changed of one kind of thing.
#[derive(Clone, Debug)]
pub struct Changed<K, T> {
    pub latest: BTreeMap<K, T>,
    /// Changes that found no room.
    pub dropped: u64,
}

impl<K, T> Default for Changed<K, T> {
    fn default() -> Self {
        Self { latest: BTreeMap::new(), dropped: 0 }
    }
}

impl<K: Ord, T> Changed<K, T> {
    fn put(&mut self, key: K, change: impl FnOnce() -> T) {
        if self.latest.len() < MOST || self.latest.contains_key(&key) {
            self.latest.insert(key, change());
        } else {
            self.dropped += 1;
        }
    }
}

/// What changed in a namespace.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub timers: Changed<TimerId, TimerChange>,
    pub compensations: Changed<CompensationId, CompensationChange>,
}

/// Of the namespaces that are watched; how many watch each is the watcher's to know.
#[derive(Default)]
pub(super) struct Watched(HashMap<NamespaceId, Changes>);

impl Watched {
    pub fn watch(&mut self, namespace: NamespaceId) {
        self.0.entry(namespace).or_default();
    }

    pub fn is_watched(&self, namespace: NamespaceId) -> bool {
        self.0.contains_key(&namespace)
    }

    pub fn forget(&mut self, namespace: NamespaceId) {
        self.0.remove(&namespace);
    }

    pub fn take(&mut self, namespace: NamespaceId) -> Changes {
        self.0.get_mut(&namespace).map(std::mem::take).unwrap_or_default()
    }

    pub fn timer(&mut self, timer: &Timer) {
        if let Some(changes) = self.0.get_mut(&timer.namespace_id) {
            changes.timers.put(timer.id, || TimerChange::of(timer));
        }
    }

    pub fn compensation(&mut self, change: CompensationChange) {
        if let Some(changes) = self.0.get_mut(&change.namespace_id) {
            changes.compensations.put(change.id, || change);
        }
    }
}
