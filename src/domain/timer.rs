//! A timer as it is stored, and what one is made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    audit::Mac,
    id::{NamespaceId, TimerId, TimerKey, TypeId},
    time::Timestamp,
};

/// The largest payload of a timer or of a compensation, in bytes of JSON.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;
/// The most labels on one timer, and the most bytes in a label's name or value.
pub const MAX_LABELS: usize = 32;
pub const MAX_LABEL_BYTES: usize = 128;
/// How many timers a chain of follow-ups may have before the next one is refused.
pub const MAX_FOLLOW_UP_DEPTH: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Scheduled,
    /// Claimed by a node under a lease; what it decides is fenced by the version.
    Firing,
    Closed,
    Skipped,
    Resolved,
    Cancelled,
    /// Out of tries, or failed for good; a person, or the business, can still act.
    Failed,
}

impl State {
    pub const ALL: [Self; 7] =
        [Self::Scheduled, Self::Firing, Self::Closed, Self::Skipped, Self::Resolved, Self::Cancelled, Self::Failed];

    /// Nothing leaves a final state. (`failed` is settled but not final.)
    pub fn is_final(self) -> bool {
        matches!(self, Self::Closed | Self::Skipped | Self::Resolved | Self::Cancelled)
    }

    /// The engine has nothing more to do by itself: no `run_at`.
    pub fn is_settled(self) -> bool {
        self.is_final() || self == Self::Failed
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Firing => "firing",
            Self::Closed => "closed",
            Self::Skipped => "skipped",
            Self::Resolved => "resolved",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// The number that stands in the database. Fixed for ever.
    pub fn code(self) -> i64 {
        match self {
            Self::Scheduled => 0,
            Self::Firing => 1,
            Self::Closed => 2,
            Self::Skipped => 3,
            Self::Resolved => 4,
            Self::Cancelled => 5,
            Self::Failed => 6,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.code() == code)
    }
}

/// What made a timer fire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Its slot's wake-up.
    Slot,
    /// Written less than two seconds before it was due, and held by the node that wrote it.
    Near,
    /// Found overdue.
    Backlog,
    /// A person's `fire`.
    Manual,
}

impl Trigger {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Near => "near",
            Self::Backlog => "backlog",
            Self::Manual => "manual",
        }
    }
}

/// A timer's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    pub id: TimerId,
    pub namespace_id: NamespaceId,
    pub type_id: TypeId,
    pub key: TimerKey,
    /// JSON text as it was given.
    pub payload: String,
    pub labels: BTreeMap<String, String>,
    pub state: State,
    /// The business's deadline.
    pub due_at: Timestamp,
    /// The next instant at which the engine acts; `None` when settled.
    pub run_at: Option<Timestamp>,
    /// The number of the attempt that runs or runs next, from 1.
    pub attempt: u32,
    /// Leases that lapsed in a row.
    pub lapses: u32,
    /// The sequence number of the timer's latest audit event.
    pub version: i64,
    /// The revision it was registered under.
    pub revision: i64,
    /// Whether it runs that revision whatever is active.
    pub pinned: bool,
    /// Whether `fire` set its due time.
    pub manual: bool,
    /// How many follow-ups led to it; 0 for a timer registered from outside.
    pub depth: u32,
    pub created_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    /// How it ended: JSON text, see [`super::machine::outcome_json`].
    pub outcome: Option<String>,
    /// What registration's audit event is computed from.
    pub origin: Origin,
    /// The audit chain's head: the code over the latest event.
    pub head: Mac,
}

impl Timer {
    pub fn shard(&self) -> u16 {
        self.key.shard(self.type_id)
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        !self.state.is_final() && self.due_at <= now
    }
}

/// The facts of a timer's registration, which no later change touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub actor: String,
    /// The first due time, before any reschedule.
    pub due_at: Timestamp,
    /// Over the request as given; `None` where no registration was seen (`remember`).
    pub fingerprint: Option<[u8; 32]>,
    pub message_id: Option<String>,
}

/// A registration that passed every check but the store's own.
#[derive(Clone, Debug)]
pub struct NewTimer {
    pub id: TimerId,
    pub namespace_id: NamespaceId,
    pub type_id: TypeId,
    pub key: TimerKey,
    pub payload: String,
    pub labels: BTreeMap<String, String>,
    pub due: Due,
    pub revision: i64,
    pub pinned: bool,
    pub depth: u32,
    pub actor: String,
    pub message_id: Option<String>,
    pub fingerprint: [u8; 32],
}

/// When a registration is due: a delay counts from the store's clock, at the insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    At(Timestamp),
    After(super::time::DurationMs),
}

impl Due {
    /// The instant it stands for at `now`; a sum beyond the year 9999 is an error.
    pub fn resolve(self, now: Timestamp) -> Result<Timestamp, super::time::TimeError> {
        match self {
            Self::At(at) => Ok(at),
            Self::After(delay) => now.checked_add(delay),
        }
    }
}
