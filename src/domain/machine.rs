//! The state machine: the only code that says which state follows which.
//!
//! ```text
//!             resolve ─────────► resolved
//!             cancel  ─────────► cancelled
//! scheduled ─┤ close, skip ────► closed, skipped
//!    ▲  ▲    │ retry ──────────► scheduled, later, attempt + 1
//!    │  │    └ fail ───────────► failed ─ resolve, cancel, or a person's retry ─► …
//!    │  └──────────────────────────┘
//!    └ firing (claim: leased, fenced by the version) ─► any of the above; a lapsed lease is claimed again;
//!      given up undecided (release) ─► scheduled, the same attempt
//! ```
//!
//! It is pure: a store reads the row, asks [`step`], and writes what comes back with a condition on the state and the
//! version that were read, in the same transaction as the event.

use serde_json::{Value, json};

use super::{
    audit::EventKind,
    decision::{Failure, FailureClass},
    time::{DurationMs, Timestamp},
    timer::{Due, State, Timer},
};

/// Leases that may lapse in a row before a timer is set aside as poison.
pub const MAX_LAPSES: u32 = 5;

/// What is asked of a timer.
#[derive(Clone, Debug)]
pub enum Command {
    /// The business got there first: paid, shipped.
    Resolve,
    /// Withdraw the timer.
    Cancel,
    Reschedule(Due),
    /// Let it expire now.
    Fire,
    /// A person lets a failed one try again.
    Retry,
    /// A node takes it, alone, until the lease ends.
    Claim {
        lease: DurationMs,
    },
    /// Carry out what a plugin, or the engine in its place, decided.
    Settle(Settle),
}

#[derive(Clone, Debug)]
pub enum Settle {
    Close {
        result: Option<String>,
    },
    Skip {
        reason: String,
        failure: Option<Failure>,
    },
    Retry {
        at: Timestamp,
        reason: String,
        failure: Option<Failure>,
    },
    Fail {
        failure: Failure,
    },
    /// A node gives up its claim undecided, and no attempt is burnt: it stops, or a downstream is away.
    Release {
        at: Timestamp,
        reason: String,
        /// The plugin came to its end, so the node outlived it.
        ran: bool,
    },
}

/// What a timer becomes. The event's kind and detail go with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub state: State,
    pub due_at: Timestamp,
    pub run_at: Option<Timestamp>,
    pub attempt: u32,
    pub lapses: u32,
    pub manual: bool,
    pub settled_at: Option<Timestamp>,
    /// JSON text.
    pub outcome: Option<String>,
    pub kind: EventKind,
    pub detail: Value,
}

/// Why a command changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is already so: the same action on its own result.
    Same,
    /// It has ended otherwise.
    TooLate,
    /// A node is deciding it at this moment.
    Firing,
    WrongState,
    /// It is not due by the store's clock.
    Early,
    /// The new due time is out of range.
    OutOfRange,
}

/// What `command` makes of `timer` at `now`, the store's time.
pub fn step(timer: &Timer, command: &Command, now: Timestamp) -> Result<Change, Refusal> {
    match command {
        Command::Resolve => by_hand(timer, State::Resolved)
            .map(|()| settled(timer, now, State::Resolved, EventKind::Resolved, None, Value::Null)),
        Command::Cancel => by_hand(timer, State::Cancelled)
            .map(|()| settled(timer, now, State::Cancelled, EventKind::Cancelled, None, Value::Null)),
        Command::Reschedule(due) => {
            only_from(timer, State::Scheduled)?;
            let due_at = due.resolve(now).map_err(|_| Refusal::OutOfRange)?;
            let detail = json!({ "due_at_before": timer.due_at, "due_at": due_at });
            Ok(Change {
                due_at,
                manual: false,
                lapses: 0,
                ..scheduled(timer, due_at.max(now), EventKind::Rescheduled, detail)
            })
        }
        Command::Fire => {
            only_from(timer, State::Scheduled)?;
            let detail = json!({ "due_at_before": timer.due_at });
            Ok(Change {
                due_at: now,
                manual: true,
                lapses: 0,
                ..scheduled(timer, now, EventKind::FireRequested, detail)
            })
        }
        Command::Retry => {
            only_from(timer, State::Failed)?;
            let run_at = now.max(timer.due_at);
            Ok(Change { attempt: 1, lapses: 0, ..scheduled(timer, run_at, EventKind::Retried, Value::Null) })
        }
        Command::Claim { lease } => claim(timer, *lease, now),
        Command::Settle(settle) => settle_step(timer, settle, now),
    }
}

/// Resolve and cancel: from `scheduled` and `failed`, and idempotent on their own result.
fn by_hand(timer: &Timer, target: State) -> Result<(), Refusal> {
    match timer.state {
        State::Scheduled | State::Failed => Ok(()),
        State::Firing => Err(Refusal::Firing),
        state if state == target => Err(Refusal::Same),
        _ => Err(Refusal::TooLate),
    }
}

fn only_from(timer: &Timer, from: State) -> Result<(), Refusal> {
    match timer.state {
        state if state == from => Ok(()),
        State::Firing => Err(Refusal::Firing),
        state if state.is_final() => Err(Refusal::TooLate),
        _ => Err(Refusal::WrongState),
    }
}

/// Leaving `scheduled` by expiry: never before both times have come.
fn expired(timer: &Timer, now: Timestamp) -> Result<(), Refusal> {
    let come = timer.due_at <= now && timer.run_at.is_some_and(|at| at <= now);
    if come { Ok(()) } else { Err(Refusal::Early) }
}

fn claim(timer: &Timer, lease: DurationMs, now: Timestamp) -> Result<Change, Refusal> {
    let run_at = now.saturating_add(lease);
    let claimed = |attempt, lapses, kind, detail| Change {
        state: State::Firing,
        attempt,
        lapses,
        ..scheduled(timer, run_at, kind, detail)
    };
    match timer.state {
        State::Scheduled => {
            expired(timer, now)?;
            Ok(claimed(timer.attempt, timer.lapses, EventKind::Claimed, json!({ "lease_until": run_at })))
        }
        State::Firing => {
            if timer.run_at.is_none_or(|until| until > now) {
                return Err(Refusal::Firing);
            }
            let lapses = timer.lapses.saturating_add(1);
            if lapses >= MAX_LAPSES {
                let message = format!(
                    "its lease lapsed {lapses} times in a row: each attempt took its node down or outlasted its lease"
                );
                let failure = Failure::new(FailureClass::Poison, "lease_lapsed", message);
                return Ok(failed(timer, now, &failure));
            }
            let detail = json!({ "lease_until": run_at, "lapses": lapses });
            Ok(claimed(timer.attempt.saturating_add(1), lapses, EventKind::LeaseLapsed, detail))
        }
        state if state.is_final() => Err(Refusal::TooLate),
        _ => Err(Refusal::WrongState),
    }
}

fn settle_step(timer: &Timer, settle: &Settle, now: Timestamp) -> Result<Change, Refusal> {
    match timer.state {
        State::Scheduled => expired(timer, now)?,
        State::Firing => {}
        state if state.is_final() => return Err(Refusal::TooLate),
        _ => return Err(Refusal::WrongState),
    }
    Ok(match settle {
        Settle::Close { result } => {
            let outcome = outcome_json(result.as_deref(), None, None);
            settled(timer, now, State::Closed, EventKind::Closed, Some(outcome), Value::Null)
        }
        Settle::Skip { reason, failure } => {
            let outcome = outcome_json(None, Some(reason), failure.as_ref());
            settled(timer, now, State::Skipped, EventKind::Skipped, Some(outcome), json!({ "reason": reason }))
        }
        Settle::Retry { at, reason, failure } => {
            let detail = match failure {
                Some(failure) => json!({ "reason": reason, "failure": failure, "run_at": at }),
                None => json!({ "reason": reason, "run_at": at }),
            };
            let attempt = timer.attempt.saturating_add(1);
            Change { attempt, lapses: 0, ..scheduled(timer, (*at).max(now), EventKind::RetryScheduled, detail) }
        }
        Settle::Fail { failure } => failed(timer, now, failure),
        Settle::Release { at, reason, ran } => {
            let detail = json!({ "reason": reason, "run_at": at, "released": true });
            let lapses = if *ran { 0 } else { timer.lapses };
            Change { lapses, ..scheduled(timer, (*at).max(now), EventKind::RetryScheduled, detail) }
        }
    })
}

fn failed(timer: &Timer, now: Timestamp, failure: &Failure) -> Change {
    let outcome = outcome_json(None, None, Some(failure));
    settled(timer, now, State::Failed, EventKind::Failed, Some(outcome), json!({ "failure": failure }))
}

fn settled(
    timer: &Timer,
    now: Timestamp,
    state: State,
    kind: EventKind,
    outcome: Option<String>,
    detail: Value,
) -> Change {
    Change {
        state,
        due_at: timer.due_at,
        run_at: None,
        attempt: timer.attempt,
        lapses: 0,
        manual: timer.manual,
        settled_at: Some(now),
        outcome,
        kind,
        detail,
    }
}

fn scheduled(timer: &Timer, run_at: Timestamp, kind: EventKind, detail: Value) -> Change {
    Change {
        state: State::Scheduled,
        due_at: timer.due_at,
        run_at: Some(run_at),
        attempt: timer.attempt,
        lapses: timer.lapses,
        manual: timer.manual,
        settled_at: None,
        outcome: None,
        kind,
        detail,
    }
}

/// How a timer ended, as the API shows it: `{result?, reason?, failure?}`.
pub fn outcome_json(result: Option<&str>, reason: Option<&str>, failure: Option<&Failure>) -> String {
    #[derive(serde::Serialize)]
    struct Outcome<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a serde_json::value::RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<&'a Failure>,
    }
    let result = result.and_then(|r| serde_json::from_str(r).ok());
    serde_json::to_string(&Outcome { result, reason, failure }).unwrap_or_else(|e| unreachable!("plain data: {e}"))
}
