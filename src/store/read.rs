//! What is read, and in which pages.

use crate::domain::{
    audit::{Event, Mac},
    compensation::CompensationState,
    id::{Name, NamespaceId, TimerId, TypeId},
    plugin::{PluginRow, Revision, TypeRow},
    time::Timestamp,
    timer::State,
};

use super::admin::NamespaceRow;

/// Scheduled timers of a shard in a span of `run_at`; pages go on after the last one seen.
#[derive(Clone, Debug)]
pub struct DueQuery {
    pub shard: u16,
    pub from: Timestamp,
    pub until: Timestamp,
    pub after: Option<(Timestamp, TimerId)>,
    pub limit: usize,
}

/// A page of timers, newest due first: ordered by `(due_at, id)`, descending.
#[derive(Clone, Debug, Default)]
pub struct TimerQuery {
    /// The types to look in; all of one namespace.
    pub types: Vec<TypeId>,
    /// Empty: any.
    pub states: Vec<State>,
    pub key: Option<String>,
    /// Exclusive.
    pub due_before: Option<Timestamp>,
    /// Inclusive: pages of time that meet leave nothing out and nothing twice.
    pub due_after: Option<Timestamp>,
    /// `Some(true)`: unsettled or failed, and due by now; `Some(false)`: the others.
    pub expired: Option<bool>,
    /// A label that must have this value.
    pub label: Option<(String, String)>,
    pub before: Option<(Timestamp, TimerId)>,
    pub limit: usize,
}

/// A page, and where the next one goes on. A filter that no index serves looks at a bounded number of rows: such a page
/// may be short, or empty, and still have a next one.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<(Timestamp, uuid::Uuid)>,
}

/// A page of compensations, newest first: ordered by `(created_at, id)`, descending.
#[derive(Clone, Debug, Default)]
pub struct CompensationQuery {
    pub types: Vec<TypeId>,
    pub states: Vec<CompensationState>,
    pub kind: Option<Name>,
    pub timer_id: Option<TimerId>,
    pub before: Option<(Timestamp, uuid::Uuid)>,
    pub limit: usize,
}

/// An event with the exact bytes that the chain covers.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    pub event: Event,
    pub body: String,
    pub mac: Mac,
}

/// Everything that the rooms keep in memory of the database's small tables.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    pub version: i64,
    pub namespaces: Vec<NamespaceRow>,
    pub types: Vec<TypeRow>,
    /// By type, in order of number.
    pub revisions: Vec<(TypeId, Revision)>,
    pub plugins: Vec<PluginRow>,
}

impl Catalogue {
    pub fn namespace(&self, name: &str) -> Option<NamespaceId> {
        self.namespaces.iter().find(|n| n.name.as_str() == name).map(|n| n.id)
    }
}
