//! What is read, and in which pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::domain::{
    audit::{Event, Mac},
    compensation::CompensationState,
    id::{Name, NamespaceId, TimerId, TimerKey, TypeId},
    plugin::{Grant, PluginRow, Revision, TypeRow},
    time::{DurationMs, Timestamp},
    timer::{State, Timer},
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

/// The order of a page of timers, by `(due_at, id)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Newest due first.
    #[default]
    DueDescending,
    /// Oldest due first.
    DueAscending,
}

/// A page of timers.
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
    pub order: Order,
    /// Where a descending page goes on, exclusively.
    pub before: Option<(Timestamp, TimerId)>,
    /// Where an ascending page goes on, exclusively.
    pub after: Option<(Timestamp, TimerId)>,
    pub limit: usize,
}

impl TimerQuery {
    /// Whether it asks for more than types, a key and an order.
    pub(super) fn filters(&self) -> bool {
        !self.states.is_empty()
            || self.due_before.is_some()
            || self.due_after.is_some()
            || self.expired.is_some()
            || self.label.is_some()
    }

    /// Whether a timer of this state and due time is among what is asked for; its labels are another matter.
    pub(super) fn takes(&self, state: State, due_at: Timestamp, now: Timestamp) -> bool {
        let expired = !state.is_final() && due_at <= now;
        (self.states.is_empty() || self.states.contains(&state))
            && self.expired.is_none_or(|e| e == expired)
            && self.due_before.is_none_or(|at| due_at < at)
            && self.due_after.is_none_or(|at| due_at >= at)
    }
}

/// A page of the timers whose key starts with `prefix`, in order of `(key, type)`.
#[derive(Clone, Debug, Default)]
pub struct PrefixQuery {
    /// Which of them, and how many; its order and its places count for nothing.
    pub filter: TimerQuery,
    /// At least one character.
    pub prefix: String,
    /// Where the page goes on, exclusively.
    pub after: Option<(TimerKey, TypeId)>,
}

impl PrefixQuery {
    /// From where on the keys of a type are looked at, inclusively. U+0001 is in no key, so nothing lies between a key
    /// and the same with it appended.
    pub(super) fn low(&self, type_id: TypeId) -> String {
        match &self.after {
            Some((key, last)) if type_id <= *last => format!("{key}\u{1}"),
            Some((key, _)) => key.to_string(),
            None => self.prefix.clone(),
        }
    }

    /// Where they end, exclusively: the first text, in order of code points, behind all that have the prefix. `None`
    /// if there is none.
    pub(super) fn high(&self) -> Option<String> {
        let mut text = self.prefix.clone();
        while let Some(last) = text.pop() {
            // The surrogates lie between the two halves of what a character can be.
            let next = match last {
                '\u{d7ff}' => Some('\u{e000}'),
                _ => char::from_u32(last as u32 + 1),
            };
            if let Some(next) = next {
                text.push(next);
                return Some(text);
            }
        }
        None
    }
}

/// A page in order of key, and where the next one goes on.
#[derive(Clone, Debug)]
pub struct KeyPage {
    pub items: Vec<Timer>,
    pub next: Option<(TimerKey, TypeId)>,
}

/// What some types have to do and have left undone. Each count ends at `cap`.
#[derive(Clone, Debug)]
pub struct TallyQuery {
    pub types: Vec<TypeId>,
    /// What was due before this and is neither settled nor failed is overdue.
    pub overdue_before: Timestamp,
    pub cap: u64,
}

/// A count that has reached the query's cap stands for it or more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub overdue: u64,
    pub scheduled: u64,
    pub failed: u64,
    /// Compensations that wait or run.
    pub pending: u64,
    /// Compensations that wait for a person.
    pub dead: u64,
    /// The same by type, without those that have none. Once `dead` has reached the cap, types may be missing.
    pub dead_by_type: BTreeMap<TypeId, u64>,
    pub oldest_dead_at: Option<Timestamp>,
}

/// How many timers come to run in each of equal steps, by `run_at`.
#[derive(Clone, Debug)]
pub struct ForecastQuery {
    pub types: Vec<TypeId>,
    /// Inclusive.
    pub from: Timestamp,
    /// Exclusive.
    pub until: Timestamp,
    /// At least one millisecond.
    pub step: DurationMs,
    /// Timers of one type that are looked at, the next ones first.
    pub rows: usize,
}

/// The timers of one type in one step; a step without any has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    pub type_id: TypeId,
    /// From 0.
    pub step: usize,
    pub count: u64,
    /// The last `run_at` that was looked at in it.
    pub last: Timestamp,
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

/// The rights that were taken from each type, whatever the revision.
pub type Revoked = HashMap<TypeId, BTreeSet<Grant>>;

impl Catalogue {
    /// A revision that is not deleted.
    pub fn revision(&self, type_id: TypeId, number: i64) -> Option<&Revision> {
        let found = self.revisions.iter().find(|(id, r)| *id == type_id && r.number == number);
        found.map(|(_, revision)| revision).filter(|revision| revision.deleted_at.is_none())
    }

    pub fn namespace(&self, name: &str) -> Option<NamespaceId> {
        self.namespaces.iter().find(|n| n.name.as_str() == name).map(|n| n.id)
    }
}
