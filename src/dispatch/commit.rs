//! Settling: one conditional write, and what follows from each of its answers.

use std::sync::Arc;

use super::{
    Engine,
    lane::Job,
    meter::{Left, Meter},
    settle::Decided,
};
use crate::{
    clock::nap,
    domain::{
        compensation::CompensationState,
        id::TimerId,
        machine::Settle,
        time::{DurationMs, Timestamp},
        timer::{State, Timer, Trigger},
    },
    stats::CompensationChange,
    store::{
        Error,
        op::{Settled, Settlement},
    },
};

/// How long a timer that is early by the store's clock waits before it is tried again.
pub(super) const EARLY_WAIT: DurationMs = DurationMs::from_millis(10);
/// Waits between tries to write a decision: the first, doubled up to the last.
const FIRST_WAIT: DurationMs = DurationMs::from_millis(50);
const LAST_WAIT: DurationMs = DurationMs::from_millis(500);
/// Tries to write a decision. One without effects is tried until the backlog would take its timer, and ask the plugin
/// again; one whose effects have happened, as long as its lease runs.
const TRIES: u32 = 200;
/// Leases given up at once.
const RELEASES_AT_ONCE: usize = 200;

impl Engine {
    /// Writes what was decided. The job's slot stays open, and the timer in hand, until it is through.
    pub(super) async fn settle(self: &Arc<Self>, job: Job, mut decided: Decided) {
        let type_id = job.timer.type_id;
        let mut wait = FIRST_WAIT;
        for _ in 0..TRIES {
            let error = match self.store.settle(decided.settlement.clone()).await {
                Ok(answer) => return self.settled(job, &decided, answer),
                Err(error) => error,
            };
            match error {
                Error::Data(why) if !matches!(decided.settlement.settle, Settle::Fail { .. }) => {
                    decided = decided.into_refused(&why);
                    continue;
                }
                Error::Data(_) | Error::Stopped => break,
                Error::OutcomeUnknown(_) => match self.store.read().timer(job.timer.id).await {
                    Ok(Some(timer)) if timer.version != job.timer.version => {
                        return self.after_unknown(&job, &decided, &timer);
                    }
                    Ok(Some(_)) | Err(_) => {}
                    Ok(None) => break,
                },
                Error::Full | Error::Unavailable(_) => {}
            }
            let now = self.clock.now();
            if job.is_stale(now, DurationMs::ZERO) || self.break_off.is_cancelled() {
                break;
            }
            nap(&*self.clock, now.saturating_add(wait)).await;
            wait = DurationMs::from_millis(wait.as_millis() * 2).min(LAST_WAIT);
        }
        self.meter.left_to_backlog(type_id, Left::Store);
        if !self.break_off.is_cancelled() && self.meter.may_say(type_id, Left::Store, self.clock.now()) {
            tracing::warn!(
                timer_id = %job.timer.id, timer_key = %job.timer.key, timer_type = %job.entry.row.name,
                retry_count = job.timer.attempt - 1, state_before = job.timer.state.as_str(),
                "a decision cannot be written: the timer is left to the backlog"
            );
        }
    }

    fn settled(self: &Arc<Self>, job: Job, decided: &Decided, answer: Settled) {
        match answer {
            Settled::Done { timer, .. } => {
                // What it has become, and its follow-ups, were armed on the commit.
                job.in_hand.settled();
                self.committed(&job, &timer, decided);
            }
            Settled::Moved(timer) if timer.state == State::Scheduled => self.arm(&timer),
            Settled::Lost(timer) | Settled::Moved(timer) => {
                job.in_hand.settled();
                self.meter.duplicate(timer.type_id);
                tracing::debug!(
                    timer_id = %timer.id, timer_key = %timer.key, timer_type = %job.entry.row.name,
                    state_before = job.timer.state.as_str(), close_result = timer.state.as_str(),
                    "an expiry was lost to another outcome, and has changed nothing"
                );
            }
            Settled::Early(timer) => self.hold_again(job, timer),
            Settled::Gone => tracing::warn!(timer_id = %job.timer.id, "a timer is gone that was to be settled"),
        }
    }

    /// A decision is committed: `timer` is what it has become.
    fn committed(self: &Arc<Self>, job: &Job, timer: &Timer, decided: &Decided) {
        let now = self.clock.now();
        Meter::settled(job, timer, decided, now);
        self.judge(timer);
        let lateness = job.ready_at.map(|at| now.since(at));
        self.stats.fired(timer, lateness, timer.state == State::Scheduled);
        self.stats.compensations_changed(timer.namespace_id, || {
            decided.settlement.compensations.iter().map(|(id, spec)| CompensationChange {
                id: *id,
                timer_id: timer.id,
                namespace_id: timer.namespace_id,
                type_id: timer.type_id,
                kind: spec.kind.clone(),
                state: CompensationState::Pending,
                attempt: 1,
            })
        });
    }

    /// The row has moved on after a commit of unknown outcome: by this decision, or by another's.
    fn after_unknown(self: &Arc<Self>, job: &Job, decided: &Decided, timer: &Timer) {
        let wanted = match decided.settlement.settle {
            Settle::Close { .. } => State::Closed,
            Settle::Skip { .. } => State::Skipped,
            Settle::Fail { .. } => State::Failed,
            Settle::Retry { .. } | Settle::Release { .. } => State::Scheduled,
        };
        job.in_hand.settled();
        if timer.state == wanted {
            self.committed(job, timer, decided);
        } else {
            self.meter.duplicate(timer.type_id);
        }
        if timer.state == State::Scheduled {
            self.arm(timer);
        }
    }

    /// Not due yet by the store's clock: back to the holder, for a moment at least.
    pub(super) fn hold_again(&self, job: Job, timer: Timer) {
        let not_before = self.clock.now().saturating_add(EARLY_WAIT);
        let (trigger, ticket) = (job.trigger, job.ticket);
        // Out of hand first, or it would be its own duplicate.
        drop(job.in_hand);
        drop(job.weight);
        self.hold(super::holder::Held { timer, trigger, ticket }, not_before);
    }

    /// Gives up claims undecided: the timers are scheduled for `at`, in the same attempt.
    pub(super) async fn release(&self, leased: Vec<(TimerId, i64)>, at: Timestamp, reason: &str) {
        for some in leased.chunks(RELEASES_AT_ONCE) {
            let writes = some.iter().map(|(id, version)| {
                self.store.settle(Settlement {
                    id: *id,
                    version: *version,
                    settle: Settle::Release { at, reason: reason.to_owned(), ran: false },
                    trigger: Trigger::Backlog,
                    digest: None,
                    actor: "engine".to_owned(),
                    detail: serde_json::json!({ "node": self.node }),
                    revision: 0,
                    compensations: Vec::new(),
                    follow_ups: Vec::new(),
                    events: Vec::new(),
                    counters: Vec::new(),
                })
            });
            for result in futures_util::future::join_all(writes).await {
                if let Err(error) = result {
                    tracing::warn!(%error, "a lease could not be given up: it will lapse by itself");
                }
            }
        }
    }
}
