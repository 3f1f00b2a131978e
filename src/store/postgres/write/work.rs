//! What a batch makes of the timers that it has locked, in memory: the rows as they change, and what is written with
//! them. The one place that changes a timer's state.

use std::collections::HashMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Batch;
use crate::{
    domain::{
        audit::{Chain, Event, EventKind, Mac},
        decision::CompensationSpec,
        id::{CompensationId, Digest, Name, TimerId, TypeId},
        machine::Change,
        time::Timestamp,
        timer::{State, Timer, Trigger},
    },
    store::postgres::{
        error::Fault,
        row::{code, column, ms},
    },
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
    pub(super) const ENGINE: Cause<'static> = Cause { actor: "engine", trigger: None, digest: None, message_id: None };
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

struct EventRow {
    timer_id: Uuid,
    seq: i64,
    mac: Mac,
    body: String,
}

struct CompensationRow<'a> {
    id: Uuid,
    timer_id: Uuid,
    seq: i64,
    type_id: TypeId,
    kind: &'a Name,
    revision: i64,
    payload: &'a str,
}

struct Held {
    timer: Timer,
    /// As it was read: the condition of its update.
    state: State,
    version: i64,
}

/// Locked timers, and what is to be written.
pub(super) struct Work<'a> {
    pub now: Timestamp,
    chain: &'a Chain,
    held: HashMap<TimerId, Held>,
    events: Vec<EventRow>,
    compensations: Vec<CompensationRow<'a>>,
}

impl<'a> Work<'a> {
    pub(super) fn new(chain: &'a Chain, now: Timestamp, locked: Vec<Timer>) -> Self {
        let hold = |timer: Timer| (timer.id, Held { state: timer.state, version: timer.version, timer });
        let held = locked.into_iter().map(hold).collect();
        Self { now, chain, held, events: Vec::new(), compensations: Vec::new() }
    }

    pub(super) fn timer(&self, id: TimerId) -> Option<&Timer> {
        self.held.get(&id).map(|held| &held.timer)
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.held.values().map(|held| &held.timer)
    }

    pub(super) fn chain(&self) -> &Chain {
        self.chain
    }

    /// Takes in a timer that this transaction inserts as it is, with the one event that it has beside its registration.
    pub(super) fn add(&mut self, timer: Timer, event: &Event) {
        self.note(event, &self.chain.first(&timer));
        self.held.insert(timer.id, Held { state: timer.state, version: timer.version, timer });
    }

    /// The timer as it now is; `None` if it is not held.
    pub(super) fn transition(&mut self, id: TimerId, transition: Transition<'a>) -> Option<Timer> {
        let timer = &self.held.get(&id)?.timer;
        let Transition { change, cause, detail, compensations, revision } = transition;
        let mut event = Event {
            timer_id: id,
            seq: timer.version + 1,
            at: self.now,
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
        let (type_id, head) = (timer.type_id, timer.head);
        let mut head = self.note(&event, &head);
        for (compensation_id, spec) in compensations {
            event.seq += 1;
            event.version += 1;
            event.kind = EventKind::CompensationCreated;
            event.state_before = Some(change.state);
            event.detail = json!({ "compensation_id": compensation_id, "kind": spec.kind });
            head = self.note(&event, &head);
            self.compensations.push(CompensationRow {
                id: compensation_id.0,
                timer_id: id.0,
                seq: event.seq,
                type_id,
                kind: &spec.kind,
                revision,
                payload: &spec.payload,
            });
        }
        let timer = &mut self.held.get_mut(&id)?.timer;
        timer.state = change.state;
        timer.due_at = change.due_at;
        timer.run_at = change.run_at;
        timer.attempt = change.attempt;
        timer.lapses = change.lapses;
        timer.version = event.version;
        timer.manual = change.manual;
        timer.settled_at = change.settled_at;
        timer.outcome = change.outcome;
        timer.head = head;
        Some(timer.clone())
    }

    /// Notes what happened to one of a timer's compensations: an event, which changes nothing of the timer itself.
    pub(super) fn append(&mut self, id: TimerId, kind: EventKind, actor: &str, detail: Value) {
        let Some(Held { timer, .. }) = self.held.get(&id) else { return };
        let event = Event {
            timer_id: id,
            seq: timer.version + 1,
            at: self.now,
            kind,
            actor: actor.to_owned(),
            state_before: Some(timer.state),
            state_after: timer.state,
            version: timer.version + 1,
            attempt: timer.attempt,
            trigger: None,
            digest: None,
            message_id: None,
            detail,
        };
        let previous = timer.head;
        let head = self.note(&event, &previous);
        if let Some(Held { timer, .. }) = self.held.get_mut(&id) {
            timer.version = event.version;
            timer.head = head;
        }
    }

    /// Keeps an event for writing, chained to `previous`; says what is now the head.
    fn note(&mut self, event: &Event, previous: &Mac) -> Mac {
        let body = event.body();
        let mac = self.chain.link(previous, &body);
        self.events.push(EventRow { timer_id: event.timer_id.0, seq: event.seq, mac, body });
        mac
    }
}

impl Batch<'_> {
    /// Writes what the work came to. Everything in it hangs on the conditional updates: unless each of them found its
    /// row as it was read, nothing of the batch is committed.
    pub(super) async fn flush(&self, work: Work<'_>) -> Result<(), Fault> {
        let mut changed: Vec<&Held> = work.held.values().filter(|h| h.timer.version != h.version).collect();
        changed.sort_by_key(|held| held.timer.id);
        let update = async {
            if changed.is_empty() {
                return Ok(());
            }
            let rows = self
                .conn
                .rows(
                    "timers.update",
                    &[
                        &column(&changed, |h| h.timer.id.0),
                        &column(&changed, |h| code(h.state.code())),
                        &column(&changed, |h| h.version),
                        &column(&changed, |h| code(h.timer.state.code())),
                        &column(&changed, |h| h.timer.due_at.as_millis()),
                        &column(&changed, |h| ms(h.timer.run_at)),
                        &column(&changed, |h| i64::from(h.timer.attempt)),
                        &column(&changed, |h| i64::from(h.timer.lapses)),
                        &column(&changed, |h| h.timer.version),
                        &column(&changed, |h| h.timer.manual),
                        &column(&changed, |h| ms(h.timer.settled_at)),
                        &column(&changed, |h| h.timer.outcome.as_deref()),
                        &column(&changed, |h| &h.timer.head[..]),
                    ],
                )
                .await?;
            if rows.len() == changed.len() {
                Ok(())
            } else {
                Err(Fault::Conflict("a locked timer was changed by another".into()))
            }
        };
        let events = async {
            if work.events.is_empty() {
                return Ok(());
            }
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [
                &column(&work.events, |e| e.timer_id),
                &column(&work.events, |e| e.seq),
                &column(&work.events, |e| &e.mac[..]),
                &column(&work.events, |e| e.body.as_str()),
            ];
            self.conn.change("events.insert", &params).await.map(drop)
        };
        let compensations = async {
            if work.compensations.is_empty() {
                return Ok(());
            }
            let made_at = work.now.as_millis();
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
                &column(&work.compensations, |c| c.id),
                &column(&work.compensations, |c| c.timer_id),
                &column(&work.compensations, |c| c.seq),
                &column(&work.compensations, |c| c.type_id.0),
                &column(&work.compensations, |c| c.kind.as_str()),
                &column(&work.compensations, |c| c.revision),
                &column(&work.compensations, |_| made_at),
                &column(&work.compensations, |c| c.payload),
            ];
            self.conn.change("compensations.insert", &params).await.map(drop)
        };
        tokio::try_join!(biased; update, events, compensations).map(drop)
    }
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
