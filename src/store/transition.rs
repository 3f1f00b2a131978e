//! What an operation makes of a timer, in memory: the row as it becomes, and the events and compensations that are
//! written with it. Pure; both databases write what comes back, with a condition on the state and version as read.

use serde_json::{Value, json};

use super::op::{Act, Acted, Claim, Claimed, Inserted, Settled, Settlement};
use crate::domain::{
    audit::{Chain, Event, EventKind, Mac},
    decision::CompensationSpec,
    id::{CompensationId, Digest, TimerId},
    machine::{self, Change, Command, Refusal},
    time::{DurationMs, Timestamp},
    timer::{NewTimer, State, Timer, Trigger},
};

/// Who or what caused a transition.
#[derive(Clone, Copy)]
pub(super) struct Cause<'a> {
    pub actor: &'a str,
    pub trigger: Option<Trigger>,
    pub digest: Option<Digest>,
    pub message_id: Option<&'a str>,
}

impl Cause<'_> {
    pub const ENGINE: Cause<'static> = Cause { actor: "engine", trigger: None, digest: None, message_id: None };
}

/// A transition with all that is written with it.
pub(super) struct Transition<'a> {
    pub change: Change,
    pub cause: Cause<'a>,
    /// Beside what the change itself says.
    pub detail: Value,
    pub compensations: &'a [(CompensationId, CompensationSpec)],
    /// The revision that carries the compensations out.
    pub revision: i64,
}

/// An event as it is stored.
pub(super) struct Link {
    pub seq: i64,
    pub mac: Mac,
    pub body: String,
}

/// A compensation that came into being, with the number of the event that says so.
pub(super) struct Created<'a> {
    pub id: CompensationId,
    pub seq: i64,
    pub spec: &'a CompensationSpec,
    pub revision: i64,
}

/// What is to be written.
pub(super) struct Outcome<'a> {
    /// The row as it now is.
    pub timer: Timer,
    pub events: Vec<Link>,
    pub compensations: Vec<Created<'a>>,
}

/// An event, chained to `previous`.
pub(super) fn link(chain: &Chain, previous: &Mac, event: &Event) -> Link {
    let body = event.body();
    Link { seq: event.seq, mac: chain.link(previous, &body), body }
}

impl<'a> Transition<'a> {
    pub fn carry_out(self, chain: &Chain, now: Timestamp, timer: Timer) -> Outcome<'a> {
        let Self { change, cause, detail, compensations, revision } = self;
        let mut event = Event {
            timer_id: timer.id,
            seq: timer.version + 1,
            at: now,
            kind: change.kind,
            actor: cause.actor.to_owned(),
            state_before: Some(timer.state),
            state_after: change.state,
            version: timer.version + 1,
            // A retry's event tells of the attempt that ended; every other of the one that runs, or ran.
            attempt: if change.kind == EventKind::RetryScheduled { timer.attempt } else { change.attempt },
            trigger: cause.trigger,
            digest: cause.digest,
            message_id: cause.message_id.map(str::to_owned),
            detail: merge(change.detail, detail),
        };
        let first = link(chain, &timer.head, &event);
        let mut head = first.mac;
        let mut events = Vec::with_capacity(1 + compensations.len());
        events.push(first);
        let mut created = Vec::with_capacity(compensations.len());
        for (id, spec) in compensations {
            event.seq += 1;
            event.version += 1;
            event.kind = EventKind::CompensationCreated;
            event.state_before = Some(change.state);
            event.detail = json!({ "compensation_id": id, "kind": spec.kind });
            let next = link(chain, &head, &event);
            head = next.mac;
            events.push(next);
            created.push(Created { id: *id, seq: event.seq, spec, revision });
        }
        let timer = Timer {
            state: change.state,
            due_at: change.due_at,
            run_at: change.run_at,
            attempt: change.attempt,
            lapses: change.lapses,
            version: event.version,
            manual: change.manual,
            settled_at: change.settled_at,
            outcome: change.outcome,
            head,
            ..timer
        };
        Outcome { timer, events, compensations: created }
    }
}

/// Where a timer's audit stands.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub timer_id: TimerId,
    pub state: State,
    pub version: i64,
    pub attempt: u32,
    pub mac: Mac,
}

impl Head {
    pub fn of(timer: &Timer) -> Self {
        Self { timer_id: timer.id, state: timer.state, version: timer.version, attempt: timer.attempt, mac: timer.head }
    }

    /// What happened to one of the timer's compensations: an event, which changes nothing of the timer itself.
    pub fn append(&self, chain: &Chain, now: Timestamp, note: Note<'_>) -> Link {
        let event = Event {
            timer_id: self.timer_id,
            seq: self.version + 1,
            at: now,
            kind: note.kind,
            actor: note.actor.to_owned(),
            state_before: Some(self.state),
            state_after: self.state,
            version: self.version + 1,
            attempt: self.attempt,
            trigger: None,
            digest: None,
            message_id: None,
            detail: note.detail,
        };
        link(chain, &self.mac, &event)
    }
}

/// What an event that leaves its timer as it is says.
pub(super) struct Note<'a> {
    pub kind: EventKind,
    pub actor: &'a str,
    pub detail: Value,
}

impl Act {
    /// What it makes of its timer, or the answer if it makes nothing of it.
    #[expect(clippy::result_large_err, reason = "it is the answer, which holds the timer whichever way it goes")]
    pub(super) fn step(&self, timer: &Timer, now: Timestamp) -> Result<Transition<'_>, Acted> {
        if self.expected_version.is_some_and(|expected| expected != timer.version) {
            return Err(Acted::VersionConflict(timer.clone()));
        }
        let change = machine::step(timer, &self.command, now).map_err(|refusal| match refusal {
            Refusal::Same => Acted::Same(timer.clone()),
            Refusal::TooLate => Acted::TooLate(timer.clone()),
            Refusal::Firing => Acted::Firing(timer.clone()),
            Refusal::WrongState | Refusal::Early => Acted::WrongState(timer.clone()),
            Refusal::OutOfRange => Acted::OutOfRange,
        })?;
        let cause = Cause { actor: &self.actor, trigger: None, digest: None, message_id: self.message_id.as_deref() };
        Ok(Transition { change, cause, detail: reason(self), compensations: &[], revision: 0 })
    }
}

impl Settlement {
    /// Whether it may take place, or the answer if not.
    #[expect(clippy::result_large_err, reason = "it is the answer, which holds the timer whichever way it goes")]
    pub(super) fn step(&self, timer: &Timer, now: Timestamp) -> Result<Change, Settled> {
        if timer.version != self.version {
            let timer = timer.clone();
            return Err(if timer.state.is_settled() { Settled::Lost(timer) } else { Settled::Moved(timer) });
        }
        machine::step(timer, &Command::Settle(self.settle.clone()), now).map_err(|refusal| match refusal {
            Refusal::Early => Settled::Early(timer.clone()),
            _ => Settled::Lost(timer.clone()),
        })
    }

    /// The transition, once it is known what became of its follow-ups, which are `made` in their order.
    pub(super) fn transition(&self, change: Change, made: &[Inserted]) -> Transition<'_> {
        Transition {
            change,
            cause: Cause { actor: &self.actor, trigger: Some(self.trigger), digest: self.digest, message_id: None },
            detail: settle_detail(self, made),
            compensations: &self.compensations,
            revision: self.revision,
        }
    }
}

/// The follow-ups that came into being.
pub(super) fn created(made: &[Inserted]) -> Vec<Timer> {
    let created = made.iter().filter_map(|inserted| match inserted {
        Inserted::Created(timer) => Some(timer.clone()),
        _ => None,
    });
    created.collect()
}

impl Claim {
    /// What it makes of its timer, or the answer if it makes nothing of it.
    #[expect(clippy::result_large_err, reason = "it is the answer, which holds the timer whichever way it goes")]
    pub(super) fn step(&self, timer: &Timer, now: Timestamp) -> Result<Transition<'static>, Claimed> {
        if timer.version != self.version {
            let timer = timer.clone();
            return Err(if timer.state.is_settled() { Claimed::Lost(timer) } else { Claimed::Moved(timer) });
        }
        let change = machine::step(timer, &Command::Claim { lease: self.lease }, now);
        change.map(|change| claimed(change, self.trigger, &self.node)).map_err(|refusal| match refusal {
            Refusal::Early => Claimed::Early(timer.clone()),
            Refusal::Firing => Claimed::Moved(timer.clone()),
            _ => Claimed::Lost(timer.clone()),
        })
    }

    /// The answer, once it is done: a lease that lapsed too often ends with a poisoned timer instead.
    pub(super) fn answer(timer: Timer) -> Claimed {
        if timer.state == State::Firing { Claimed::Done(timer) } else { Claimed::Lost(timer) }
    }
}

/// A claim of what is overdue; `None` if the machine knows better, and it is left alone.
pub(super) fn backlog_claim(
    timer: &Timer,
    lease: DurationMs,
    node: &str,
    now: Timestamp,
) -> Option<Transition<'static>> {
    let change = machine::step(timer, &Command::Claim { lease }, now).ok()?;
    Some(claimed(change, Trigger::Backlog, node))
}

fn claimed(change: Change, trigger: Trigger, node: &str) -> Transition<'static> {
    Transition {
        change,
        cause: Cause { trigger: Some(trigger), ..Cause::ENGINE },
        detail: json!({ "node": node }),
        compensations: &[],
        revision: 0,
    }
}

pub(super) fn reason(act: &Act) -> Value {
    act.reason.as_ref().map_or(Value::Null, |reason| json!({ "reason": reason }))
}

fn settle_detail(settlement: &Settlement, made: &[Inserted]) -> Value {
    let mut more = serde_json::Map::new();
    if !settlement.follow_ups.is_empty() {
        let notes: Vec<Value> = settlement.follow_ups.iter().zip(made).map(|(new, made)| note(new, made)).collect();
        more.insert("follow_ups".into(), notes.into());
    }
    if !settlement.events.is_empty() {
        more.insert("events".into(), json!(settlement.events));
    }
    if !settlement.counters.is_empty() {
        more.insert("counters".into(), json!(settlement.counters));
    }
    if more.is_empty() { settlement.detail.clone() } else { merge(settlement.detail.clone(), Value::Object(more)) }
}

fn note(new: &NewTimer, made: &Inserted) -> Value {
    let (id, result) = match made {
        Inserted::Created(timer) => (Some(timer.id), "created"),
        Inserted::Same(timer) => (Some(timer.id), "exists"),
        Inserted::Conflict(timer) => (Some(timer.id), "conflict"),
        Inserted::OutOfRange => (None, "out_of_range"),
    };
    json!({ "type_id": new.type_id, "key": new.key, "timer_id": id, "result": result })
}

/// The fields of both; what is no object stands under `more`.
pub(super) fn merge(into: Value, more: Value) -> Value {
    match (into, more) {
        (into, Value::Null) => into,
        (Value::Null, more) => more,
        (Value::Object(mut into), Value::Object(more)) => {
            into.extend(more);
            Value::Object(into)
        }
        (Value::Object(mut into), more) => {
            into.insert("more".into(), more);
            Value::Object(into)
        }
        (into, _) => into,
    }
}
