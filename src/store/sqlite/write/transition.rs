//! The one place that writes a timer's state: the row under its condition, and its events, chained.

use rusqlite::{OptionalExtension as _, params};
use serde_json::{Value, json};

use super::{Writer, interfered};
use crate::{
    domain::{
        audit::{Event, EventKind, Mac},
        decision::CompensationSpec,
        id::{CompensationId, Digest, TimerId},
        machine::Change,
        time::Timestamp,
        timer::{State, Timer, Trigger},
    },
    store::{Result, sqlite::row::Stored},
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

impl Writer<'_> {
    pub(super) fn transition(&mut self, stored: Stored, transition: Transition<'_>) -> Result<Stored> {
        let Stored { n, timer } = stored;
        let Transition { change, cause, detail, compensations, revision } = transition;
        let mut event = Event {
            timer_id: timer.id,
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
        let mut head = self.insert_event(n, &event, &timer.head)?;
        for (id, spec) in compensations {
            event.seq += 1;
            event.version += 1;
            event.kind = EventKind::CompensationCreated;
            event.state_before = Some(change.state);
            event.detail = json!({ "compensation_id": id, "kind": spec.kind });
            head = self.insert_event(n, &event, &head)?;
            self.sql.insert_compensation.execute(params![
                id.0.as_bytes(),
                n,
                event.seq,
                timer.type_id.0,
                spec.kind.as_str(),
                revision,
                self.now.as_millis(),
                spec.payload,
            ])?;
        }
        let changed = self.sql.update_timer.execute(params![
            n,
            timer.state.code(),
            timer.version,
            change.state.code(),
            change.due_at.as_millis(),
            change.run_at.map(Timestamp::as_millis),
            change.attempt,
            change.lapses,
            event.version,
            change.manual,
            change.settled_at.map(Timestamp::as_millis),
            change.outcome,
            head,
        ])?;
        if changed != 1 {
            return Err(interfered("the timer"));
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
        Ok(Stored { n, timer })
    }

    /// Writes what happened to one of a timer's compensations: an event, which changes nothing of the timer itself.
    pub(super) fn append(&mut self, n: i64, kind: EventKind, actor: &str, detail: Value) -> Result<()> {
        let found = self.sql.head_by_n.query_row([n], |row| {
            let id = TimerId(super::super::row::uuid(row, 0)?);
            let state: i64 = row.get(1)?;
            let (version, attempt): (i64, u32) = (row.get(2)?, row.get(3)?);
            let head: Mac = row.get(4)?;
            Ok((id, state, version, attempt, head))
        });
        let (timer_id, state, version, attempt, head) = found.optional()?.ok_or_else(|| interfered("the timer"))?;
        let state = State::from_code(state).ok_or_else(|| interfered("the timer"))?;
        let event = Event {
            timer_id,
            seq: version + 1,
            at: self.now,
            kind,
            actor: actor.to_owned(),
            state_before: Some(state),
            state_after: state,
            version: version + 1,
            attempt,
            trigger: None,
            digest: None,
            message_id: None,
            detail,
        };
        let head = self.insert_event(n, &event, &head)?;
        if self.sql.append.execute(params![n, version, event.version, head])? != 1 {
            return Err(interfered("the timer"));
        }
        Ok(())
    }

    /// Stores an event, chained to `previous`; says what is now the head.
    pub(super) fn insert_event(&mut self, n: i64, event: &Event, previous: &Mac) -> Result<Mac> {
        let body = event.body();
        let mac = self.chain.link(previous, &body);
        self.sql.insert_event.execute(params![n, event.seq, mac, body])?;
        Ok(mac)
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
