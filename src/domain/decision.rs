//! What a plugin is asked and what it answers. Effects are data: nothing has happened when they are returned.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    id::{CompensationId, Name, TimerId, TimerKey},
    time::{DurationMs, Timestamp},
    timer::{Due, Trigger},
};

/// Bounds on one decision's effects.
pub const MAX_COMPENSATIONS: usize = 200;
pub const MAX_FOLLOW_UPS: usize = 16;
pub const MAX_EVENTS: usize = 16;
pub const MAX_COUNTERS: usize = 16;

/// What `on-expire` is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Expiry {
    pub timer_id: TimerId,
    pub namespace: String,
    pub timer_type: String,
    pub key: String,
    /// JSON text.
    pub payload: String,
    pub attempt: u32,
    pub trigger: Trigger,
    pub idempotency_key: String,
    pub due_at: Timestamp,
    /// The store's time at the fire: the only clock a plugin has.
    pub fired_at: Timestamp,
    /// The type's configuration, JSON text.
    pub config: String,
}

/// What `compensate` is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompensationTask {
    pub id: CompensationId,
    pub timer_id: TimerId,
    pub namespace: String,
    pub timer_type: String,
    pub key: String,
    pub kind: String,
    /// JSON text.
    pub payload: String,
    pub attempt: u32,
    pub idempotency_key: String,
    pub now: Timestamp,
    pub config: String,
}

#[derive(Clone, Debug)]
pub struct Decision {
    pub verdict: Verdict,
    pub effects: Effects,
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Close {
        /// JSON text for the timer's outcome.
        result: Option<String>,
    },
    Skip {
        reason: String,
    },
    Retry {
        /// The type's backoff where it is not said.
        after: Option<DurationMs>,
        reason: String,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Effects {
    pub compensations: Vec<CompensationSpec>,
    pub follow_ups: Vec<FollowUpSpec>,
    pub events: Vec<EventSpec>,
    pub counters: Vec<CounterSpec>,
}

#[derive(Clone, Debug)]
pub struct CompensationSpec {
    pub kind: Name,
    /// JSON text.
    pub payload: String,
}

/// Another timer, of a type in the same namespace, registered in the decision's own transaction.
#[derive(Clone, Debug)]
pub struct FollowUpSpec {
    pub timer_type: Name,
    pub key: TimerKey,
    /// JSON text.
    pub payload: String,
    /// The type's default delay where it is not said.
    pub due: Option<Due>,
}

/// An event of the plugin's own, kept in the audit.
#[derive(Clone, Debug, Serialize)]
pub struct EventSpec {
    pub name: Name,
    pub data: Box<RawValue>,
}

/// A step of one of the plugin's own counters: in the audit, and in `lapse_plugin_counter_total`.
#[derive(Clone, Debug, Serialize)]
pub struct CounterSpec {
    pub name: Name,
    pub value: u64,
}

/// What went wrong, in the terms that decide what happens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// A short stable word, such as `timeout` or `inventory_unreachable`.
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<DurationMs>,
    /// The last downstream that the failed call turned to: `HOST:PORT`, or `sql:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Failure {
    pub fn new(class: FailureClass, code: &str, message: impl Into<String>) -> Self {
        Self { class, code: code.to_owned(), message: message.into(), retry_after: None, host: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// A passing fault: try again soon.
    Transient,
    /// The business says otherwise: skip, and record it.
    Conflict,
    /// A service that is called is away: try again with the compensation's backoff.
    Downstream,
    /// It will not get better by itself: fail, and say so.
    Permanent,
    /// It took its node down too often: set aside.
    Poison,
}

impl FailureClass {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Conflict => "conflict",
            Self::Downstream => "downstream",
            Self::Permanent => "permanent",
            Self::Poison => "poison",
        }
    }

    /// Whether another attempt may help.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Transient | Self::Downstream)
    }
}
