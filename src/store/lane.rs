//! What claims, reports and redrives make of a compensation, in memory. Pure, for both databases.

use serde_json::{Value, json};

use super::{
    op::{FinishCompensation, Lane, Redrive},
    transition::{Note, merge},
};
use crate::domain::{
    audit::EventKind,
    compensation::{Compensation, CompensationState, RunResult},
    time::{DurationMs, Timestamp},
};

/// Compensations that one claim may take, and one redrive may send back, whatever they ask for.
pub(super) const MAX_CLAIMED: usize = 1_000;
pub(super) const MAX_REDRIVEN: usize = 1_000;

/// Takes it for a run. No event tells of a claim: what the run comes to does.
pub(super) fn claim(compensation: &mut Compensation, lease: DurationMs, now: Timestamp) {
    // A lease that lapsed has used its attempt up.
    let lapsed = compensation.state == CompensationState::Running;
    compensation.attempt = compensation.attempt.saturating_add(u32::from(lapsed));
    compensation.state = CompensationState::Running;
    compensation.fence += 1;
    compensation.run_at = Some(now.saturating_add(lease));
}

/// The lane in which it waits, if it does.
pub(super) fn waits_in(compensation: &Compensation) -> Option<Lane> {
    let lane = |run_at| Lane { type_id: compensation.type_id, kind: compensation.kind.clone(), run_at };
    compensation.run_at.map(lane)
}

/// What a run came to, and what the timer's audit says of it. Only for the run whose fence holds.
pub(super) fn finish(
    compensation: &mut Compensation,
    finish: &FinishCompensation,
    now: Timestamp,
) -> Option<Note<'static>> {
    let about = json!({
        "compensation_id": compensation.id,
        "kind": compensation.kind,
        "attempt": compensation.attempt,
    });
    compensation.run_at = None;
    compensation.result = None;
    compensation.settled_at = Some(now);
    let (kind, more) = match &finish.result {
        RunResult::Done { result, skipped } => {
            compensation.state = CompensationState::Done;
            compensation.result.clone_from(result);
            compensation.last_error.clone_from(skipped);
            let more = skipped.as_ref().map_or(Value::Null, |failure| json!({ "skipped": failure }));
            (Some(EventKind::CompensationDone), more)
        }
        RunResult::Retry { failure, at, counts } => {
            let at = (*at).max(now);
            compensation.state = CompensationState::Pending;
            compensation.run_at = Some(at);
            compensation.settled_at = None;
            compensation.last_error = Some(failure.clone());
            compensation.attempt = compensation.attempt.saturating_add(u32::from(*counts));
            (counts.then_some(EventKind::CompensationRetried), json!({ "failure": failure, "run_at": at }))
        }
        RunResult::Dead { failure } => {
            compensation.state = CompensationState::Dead;
            compensation.last_error = Some(failure.clone());
            (Some(EventKind::CompensationDead), json!({ "failure": failure }))
        }
    };
    let detail = || merge(merge(about, more), finish.detail.clone());
    kind.map(|kind| Note { kind, actor: "engine", detail: detail() })
}

/// Whether a run's report is still about the run that is under way.
pub(super) fn is_current(compensation: &Compensation, finish: &FinishCompensation) -> bool {
    compensation.state == CompensationState::Running && compensation.fence == finish.fence
}

/// A dead one goes back to its lane, with new tries; by `revision` if there is one, else by that which decided it.
pub(super) fn send_back<'a>(
    compensation: &mut Compensation,
    redrive: &'a Redrive,
    revision: Option<i64>,
    now: Timestamp,
) -> Note<'a> {
    compensation.revision = revision.unwrap_or(compensation.revision);
    compensation.state = CompensationState::Pending;
    compensation.attempt = compensation.attempt.saturating_add(1);
    compensation.first_attempt = compensation.attempt;
    compensation.run_at = Some(now);
    compensation.settled_at = None;
    let detail = json!({
        "compensation_id": compensation.id,
        "kind": compensation.kind,
        "attempt": compensation.attempt,
        "revision": compensation.revision,
        "note": redrive.note,
    });
    Note { kind: EventKind::CompensationRedriven, actor: &redrive.actor, detail }
}
