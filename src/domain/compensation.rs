//! A compensation: an effect on another service, written with the decision and carried out after it.

use serde::{Deserialize, Serialize};

use super::{
    decision::Failure,
    id::{CompensationId, Name, NamespaceId, TimerId, TimerKey, TypeId},
    time::Timestamp,
};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompensationState {
    Pending,
    /// Claimed by a node under a lease.
    Running,
    Done,
    /// Out of attempts, or failed for good: a person must redrive it.
    Dead,
}

impl CompensationState {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Done, Self::Dead];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }

    /// The number that stands in the database. Fixed for ever.
    pub fn code(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::Running => 1,
            Self::Done => 2,
            Self::Dead => 3,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.code() == code)
    }
}

/// A compensation's row, with what its lane needs of its timer.
#[derive(Clone, Debug, PartialEq)]
pub struct Compensation {
    pub id: CompensationId,
    pub timer_id: TimerId,
    pub namespace_id: NamespaceId,
    pub type_id: TypeId,
    pub timer_key: TimerKey,
    pub kind: Name,
    /// JSON text.
    pub payload: String,
    /// The revision that decided it, and that carries it out.
    pub revision: i64,
    pub state: CompensationState,
    /// The number of the attempt that runs or runs next, from 1.
    pub attempt: u32,
    /// Attempts before this number belong to earlier lives: a redrive starts the count anew.
    pub first_attempt: u32,
    /// When it is next tried, or when its lease ends; `None` when done or dead.
    pub run_at: Option<Timestamp>,
    /// Rises with every claim; what a run reports is fenced by it.
    pub fence: i64,
    pub last_error: Option<Failure>,
    /// JSON text that the plugin answered with.
    pub result: Option<String>,
    pub created_at: Timestamp,
    pub settled_at: Option<Timestamp>,
}

/// How one run of a compensation ended.
#[derive(Clone, Debug)]
pub enum RunResult {
    Done {
        /// JSON text.
        result: Option<String>,
        /// Set where the business said that there is nothing to do (`conflict`).
        skipped: Option<Failure>,
    },
    Retry {
        failure: Failure,
        at: Timestamp,
        /// False for a wait that was nobody's fault and burns no attempt.
        counts: bool,
    },
    Dead {
        failure: Failure,
    },
}
