//! From a plugin's answer to what is to be written: all of a decision, or a failure that says why not.

use std::{collections::BTreeMap, time::Instant};

use serde_json::{Map, Value, json};

use super::lane::Job;
use crate::{
    catalog::{MAX_KINDS, Snapshot, check_payload},
    domain::{
        backoff::RetryPolicy,
        decision::{
            Decision, Effects, Expiry, Failure, FailureClass, FollowUpSpec, MAX_COMPENSATIONS, MAX_COUNTERS,
            MAX_EVENTS, MAX_FOLLOW_UPS, Verdict,
        },
        fingerprint::Registration,
        id::{CompensationId, Digest, TimerId},
        machine::Settle,
        time::{DurationMs, Timestamp},
        timer::{Due, MAX_FOLLOW_UP_DEPTH, MAX_PAYLOAD_BYTES, NewTimer, State},
    },
    plugin::{LogLine, Run},
    store::op::Settlement,
};

/// Lines and bytes of a plugin's log that are kept with the audit event.
const MAX_LOG_LINES: usize = 50;
const MAX_LOG_BYTES: usize = 8 * 1024;
/// Refused host calls that are kept with the audit event.
const MAX_DENIED: usize = 20;
/// The code of a call that ran into one of its time limits.
pub(super) const TIMEOUT: &str = "timeout";

/// What a call has come to.
pub(super) struct Decided {
    pub settlement: Settlement,
    /// The failure in it, whatever it leads to.
    pub failure: Option<Failure>,
    /// When the plugin was asked.
    pub started: Instant,
}

impl Decided {
    pub fn new(job: &Job, expiry: &Expiry, run: Run<Decision>, snapshot: &Snapshot, now: Timestamp) -> Self {
        let detail = detail(job, expiry, &run);
        let counted = run.counters;
        let policy = job.ready.revision.retry;
        let deferred = run.deferred.filter(|_| job.timer.state == State::Firing);
        let outcome = run.result.and_then(|decision| {
            let follow_ups = check(job, &decision.effects, snapshot, now)?;
            Ok((decision, follow_ups))
        });
        let (settle, effects, follow_ups, failure) = match outcome {
            Ok((decision, follow_ups)) => match verdict(decision.verdict, job.timer.attempt, &policy, now) {
                Ok(settle) => (settle, decision.effects, follow_ups, None),
                // Its tries are used up: the decision is not carried out, and so nothing of it.
                Err(failure) => {
                    (Settle::Fail { failure: failure.clone() }, Effects::default(), Vec::new(), Some(failure))
                }
            },
            Err(failure) => {
                let settle = match deferred {
                    Some(deferred) => Settle::Release { at: deferred.until, reason: failure.code.clone(), ran: true },
                    None => after_failure(failure.clone(), job.timer.attempt, &policy, now),
                };
                (settle, Effects::default(), Vec::new(), Some(failure))
            }
        };
        let settlement = Settlement {
            id: job.timer.id,
            version: job.timer.version,
            settle,
            trigger: job.trigger,
            digest: Some(job.ready.revision.digest),
            actor: actor(job),
            detail,
            revision: job.ready.revision.number,
            compensations: effects.compensations.into_iter().map(|c| (CompensationId::new(), c)).collect(),
            follow_ups,
            events: effects.events,
            counters: counted.into_iter().chain(effects.counters).take(MAX_COUNTERS).collect(),
        };
        Self { settlement, failure, started: Instant::now() }
    }

    pub fn started_at(self, started: Instant) -> Self {
        Self { started, ..self }
    }

    pub fn timed_out(&self) -> bool {
        self.failure.as_ref().is_some_and(|f| f.code == TIMEOUT)
    }

    /// In the place of a decision that the store cannot hold.
    pub fn into_refused(self, why: &str) -> Self {
        let failure = permanent("decision_refused", format!("the decision cannot be stored: {why}"));
        let settlement = Settlement {
            settle: Settle::Fail { failure: failure.clone() },
            detail: json!({ "revision": self.settlement.revision }),
            compensations: Vec::new(),
            follow_ups: Vec::new(),
            events: Vec::new(),
            counters: Vec::new(),
            ..self.settlement
        };
        Self { settlement, failure: Some(failure), started: self.started }
    }
}

fn actor(job: &Job) -> String {
    format!("plugin:{}", job.ready.manifest.name)
}

fn permanent(code: &str, message: impl Into<String>) -> Failure {
    Failure::new(FailureClass::Permanent, code, message)
}

/// What the audit event holds beside the transition.
fn detail(job: &Job, expiry: &Expiry, run: &Run<Decision>) -> Value {
    let mut detail = Map::new();
    let input = serde_json::to_vec(expiry).unwrap_or_else(|e| unreachable!("an expiry is plain data: {e}"));
    detail.insert("input".into(), json!(Digest::of(&input)));
    detail.insert("fired_at".into(), json!(expiry.fired_at));
    detail.insert("revision".into(), json!(job.ready.revision.number));
    detail.insert("cost".into(), json!(run.cost));
    if !run.denied.is_empty() {
        detail.insert("denied".into(), json!(run.denied.iter().take(MAX_DENIED).collect::<Vec<_>>()));
    }
    if !run.logs.is_empty() {
        let kept = kept_logs(&run.logs);
        let cut = run.logs.len() - kept.len();
        detail.insert("logs".into(), json!(kept));
        if cut > 0 {
            detail.insert("logs_cut".into(), json!(cut));
        }
    }
    Value::Object(detail)
}

/// The first lines, within their bounds.
fn kept_logs(logs: &[LogLine]) -> &[LogLine] {
    let mut bytes = 0;
    let fits = |line: &&LogLine| {
        bytes += line.message.len();
        bytes <= MAX_LOG_BYTES
    };
    let kept = logs.iter().take(MAX_LOG_LINES).take_while(fits).count();
    &logs[..kept]
}

fn verdict(verdict: Verdict, attempt: u32, policy: &RetryPolicy, now: Timestamp) -> Result<Settle, Failure> {
    match verdict {
        Verdict::Close { result } => Ok(Settle::Close { result }),
        Verdict::Skip { reason } => Ok(Settle::Skip { reason, failure: None }),
        Verdict::Retry { reason, .. } if policy.is_exhausted(attempt) => {
            let message = format!("the plugin asked for another attempt after the last, {attempt}: {reason}");
            Err(Failure::new(FailureClass::Transient, "tries_used_up", message))
        }
        Verdict::Retry { after, reason } => {
            let wait = after.map_or_else(|| policy.wait(attempt, rand::random()), |a| a.max(RetryPolicy::MIN_WAIT));
            Ok(Settle::Retry { at: now.saturating_add(wait), reason, failure: None })
        }
    }
}

fn after_failure(failure: Failure, attempt: u32, policy: &RetryPolicy, now: Timestamp) -> Settle {
    match failure.class {
        FailureClass::Conflict => Settle::Skip { reason: failure.message.clone(), failure: Some(failure) },
        class if class.is_retryable() && !policy.is_exhausted(attempt) => {
            let wait = retry_wait(&failure, attempt, policy);
            let reason = failure.code.clone();
            Settle::Retry { at: now.saturating_add(wait), reason, failure: Some(failure) }
        }
        _ => Settle::Fail { failure },
    }
}

/// The backoff, or what the failure asks for if that is longer, up to the policy's cap.
fn retry_wait(failure: &Failure, attempt: u32, policy: &RetryPolicy) -> DurationMs {
    let asked = failure.retry_after.unwrap_or_default().min(policy.max);
    policy.wait(attempt, rand::random()).max(asked)
}

/// Checks the bounds of a decision's effects, and makes its follow-up timers. What does not fit fails the decision: an
/// effect is never dropped.
fn check(job: &Job, effects: &Effects, snapshot: &Snapshot, now: Timestamp) -> Result<Vec<NewTimer>, Failure> {
    let counts = [
        ("compensations", effects.compensations.len(), MAX_COMPENSATIONS),
        ("follow_ups", effects.follow_ups.len(), MAX_FOLLOW_UPS),
        ("events", effects.events.len(), MAX_EVENTS),
        ("counters", effects.counters.len(), MAX_COUNTERS),
    ];
    for (what, count, most) in counts {
        if count > most {
            let message = format!("a decision has at most {most} {what}; this one has {count}");
            return Err(permanent(&format!("too_many_{what}"), message));
        }
    }
    if let Some(large) = effects.compensations.iter().find(|c| c.payload.len() > MAX_PAYLOAD_BYTES) {
        let message = format!(
            "a compensation's payload has at most {MAX_PAYLOAD_BYTES} bytes; one of kind {} has {}",
            large.kind,
            large.payload.len()
        );
        return Err(permanent("compensation_too_large", message));
    }
    if let Some(new) = effects.compensations.iter().find(|c| !job.entry.names.admit_kind(&c.kind)) {
        let message = format!(
            "a type has at most {MAX_KINDS} kinds of compensations, and {} would be one more: a kind names what is done; \
             ids belong into the payload",
            new.kind
        );
        return Err(permanent("too_many_kinds", message));
    }
    effects.follow_ups.iter().map(|spec| follow_up(job, spec, snapshot, now)).collect()
}

fn follow_up(job: &Job, spec: &FollowUpSpec, snapshot: &Snapshot, now: Timestamp) -> Result<NewTimer, Failure> {
    let depth = job.timer.depth.saturating_add(1);
    if depth > MAX_FOLLOW_UP_DEPTH {
        let message = format!("a chain of follow-ups has at most {MAX_FOLLOW_UP_DEPTH} timers");
        return Err(permanent("follow_up_too_deep", message));
    }
    let name = &spec.timer_type;
    let namespace_id = job.entry.row.namespace_id;
    let Some(entry) = snapshot.by_name(namespace_id, name.as_str()) else {
        if snapshot.row_named(namespace_id, name.as_str()).is_some() {
            let message = format!("the plugin of the type {name} is not loaded on this node yet");
            return Err(Failure::new(FailureClass::Transient, "follow_up_type_not_loaded", message));
        }
        return Err(permanent("follow_up_unknown_type", format!("there is no type {name} in this namespace")));
    };
    if spec.payload.len() > MAX_PAYLOAD_BYTES {
        let message = format!(
            "a timer's payload has at most {MAX_PAYLOAD_BYTES} bytes; this follow-up's has {}",
            spec.payload.len()
        );
        return Err(permanent("follow_up_too_large", message));
    }
    let active = &entry.active;
    let invalid = |why: String| {
        permanent("follow_up_payload_invalid", format!("the payload does not fit the type {name}: {why}"))
    };
    let payload: Value = serde_json::from_str(&spec.payload).map_err(|e| invalid(e.to_string()))?;
    check_payload(active, &payload).map_err(|faults| {
        invalid(faults.first().map(|f| format!("{}: {}", f.pointer, f.detail)).unwrap_or_default())
    })?;
    let default = active.revision.default_delay.or(active.manifest.default_delay).map(Due::After);
    let Some(due) = spec.due.or(default) else {
        let message = format!("the follow-up does not say when it is due, and the type {name} has no default delay");
        return Err(permanent("follow_up_time_missing", message));
    };
    if due.resolve(now).is_err() {
        return Err(permanent("follow_up_time_invalid", "the follow-up would be due beyond the year 9999"));
    }
    let labels = BTreeMap::new();
    let type_id = entry.row.id;
    let registration = Registration {
        type_id,
        key: &spec.key,
        payload: &spec.payload,
        due: spec.due,
        labels: &labels,
        revision: None,
    };
    Ok(NewTimer {
        id: TimerId::new(),
        namespace_id: job.entry.row.namespace_id,
        type_id,
        key: spec.key.clone(),
        payload: spec.payload.clone(),
        due,
        revision: active.revision.number,
        pinned: false,
        depth,
        actor: actor(job),
        message_id: None,
        fingerprint: registration.fingerprint(),
        labels,
    })
}
