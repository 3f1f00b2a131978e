//! Registering, acting and settling.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, params};
use serde_json::{Value, json};

use super::{
    Writer, interfered,
    transition::{Cause, Transition, merge},
};
use crate::{
    domain::{
        audit::{Event, EventKind},
        id::{TimerId, TimerKey, TypeId},
        machine::{self, Command, Refusal},
        time::Timestamp,
        timer::{NewTimer, Origin, State, Timer},
    },
    store::{
        Result,
        op::{Act, Acted, Inserted, Remember, Settled, Settlement, Target},
        sqlite::row::{self, Stored},
    },
};

impl Writer<'_> {
    /// Registers a timer. A duplicate within the batch finds the first one's row.
    pub(super) fn insert(&mut self, new: &NewTimer) -> Result<(Inserted, &'static str)> {
        let Ok(due_at) = new.due.resolve(self.now) else { return Ok((Inserted::OutOfRange, "out_of_range")) };
        let mut timer = Timer {
            id: new.id,
            namespace_id: new.namespace_id,
            type_id: new.type_id,
            key: new.key.clone(),
            payload: new.payload.clone(),
            labels: new.labels.clone(),
            state: State::Scheduled,
            due_at,
            run_at: Some(due_at.max(self.now)),
            attempt: 1,
            lapses: 0,
            version: 1,
            revision: new.revision,
            pinned: new.pinned,
            manual: false,
            depth: new.depth,
            created_at: self.now,
            settled_at: None,
            outcome: None,
            origin: Origin {
                actor: new.actor.clone(),
                due_at,
                fingerprint: Some(new.fingerprint),
                message_id: new.message_id.clone(),
            },
            head: [0; 32],
        };
        timer.head = self.chain.first(&timer);
        if self.insert_row(&timer)? {
            return Ok((Inserted::Created(timer), "created"));
        }
        let existing = self.by_key(new.type_id, &new.key)?.ok_or_else(|| interfered("the timer"))?.timer;
        // A row that `remember` left has seen no registration: this one is its own.
        let same = existing.origin.fingerprint.is_none_or(|f| f == new.fingerprint);
        Ok(if same { (Inserted::Same(existing), "exists") } else { (Inserted::Conflict(existing), "conflict") })
    }

    /// False if the key is taken.
    fn insert_row(&mut self, timer: &Timer) -> Result<bool> {
        let labels = if timer.labels.is_empty() { "{}".into() } else { json_text(&timer.labels) };
        let inserted = self.sql.insert_timer.execute(params![
            timer.id.0.as_bytes(),
            timer.namespace_id.0,
            timer.type_id.0,
            timer.key.as_str(),
            timer.state.code(),
            timer.due_at.as_millis(),
            timer.run_at.map(Timestamp::as_millis),
            timer.attempt,
            timer.lapses,
            timer.version,
            timer.revision,
            timer.pinned,
            timer.manual,
            timer.depth,
            timer.created_at.as_millis(),
            timer.settled_at.map(Timestamp::as_millis),
            timer.origin.due_at.as_millis(),
            timer.origin.actor,
            timer.origin.fingerprint,
            timer.origin.message_id,
            timer.head,
            labels,
            timer.outcome,
            timer.payload,
            timer.shard(),
        ])?;
        Ok(inserted == 1)
    }

    pub(super) fn by_id(&mut self, id: TimerId) -> Result<Option<Stored>> {
        Ok(self.sql.timer_by_id.query_row([id.0.as_bytes()], row::timer).optional()?)
    }

    fn by_key(&mut self, type_id: TypeId, key: &TimerKey) -> Result<Option<Stored>> {
        Ok(self.sql.timer_by_key.query_row(params![type_id.0, key.as_str()], row::timer).optional()?)
    }

    pub(super) fn act(&mut self, act: &Act) -> Result<Acted> {
        let found = match &act.target {
            Target::Id { namespace_id, id } => self.by_id(*id)?.filter(|s| s.timer.namespace_id == *namespace_id),
            Target::Key { type_id, key } => self.by_key(*type_id, key)?,
        };
        let Some(stored) = found else {
            return match (&act.target, &act.remember, &act.command, act.expected_version) {
                (Target::Key { type_id, key }, Some(remember), Command::Resolve, None) => {
                    Ok(Acted::Done(self.remember(act, *type_id, key, remember)?))
                }
                _ => Ok(Acted::NotFound),
            };
        };
        if act.expected_version.is_some_and(|expected| expected != stored.timer.version) {
            return Ok(Acted::VersionConflict(stored.timer));
        }
        let change = match machine::step(&stored.timer, &act.command, self.now) {
            Ok(change) => change,
            Err(refusal) => {
                return Ok(match refusal {
                    Refusal::Same => Acted::Same(stored.timer),
                    Refusal::TooLate => Acted::TooLate(stored.timer),
                    Refusal::Firing => Acted::Firing(stored.timer),
                    Refusal::WrongState | Refusal::Early => Acted::WrongState(stored.timer),
                    Refusal::OutOfRange => Acted::OutOfRange,
                });
            }
        };
        let transition =
            Transition { change, cause: act_cause(act), detail: reason(act), compensations: &[], revision: 0 };
        Ok(Acted::Done(self.transition(stored, transition)?.timer))
    }

    /// Leaves a resolved timer behind for a key that was never seen: what is registered after its payment finds it.
    fn remember(&mut self, act: &Act, type_id: TypeId, key: &TimerKey, remember: &Remember) -> Result<Timer> {
        let mut timer = Timer {
            id: remember.id,
            namespace_id: remember.namespace_id,
            type_id,
            key: key.clone(),
            payload: "null".into(),
            labels: BTreeMap::default(),
            state: State::Resolved,
            due_at: self.now,
            run_at: None,
            attempt: 1,
            lapses: 0,
            version: 2,
            revision: remember.revision,
            pinned: false,
            manual: false,
            depth: 0,
            created_at: self.now,
            settled_at: Some(self.now),
            outcome: None,
            origin: Origin {
                actor: act.actor.clone(),
                due_at: self.now,
                fingerprint: None,
                message_id: act.message_id.clone(),
            },
            head: [0; 32],
        };
        let event = Event {
            timer_id: timer.id,
            seq: 2,
            at: self.now,
            kind: EventKind::Resolved,
            actor: act.actor.clone(),
            state_before: Some(State::Scheduled),
            state_after: State::Resolved,
            version: 2,
            attempt: 1,
            trigger: None,
            digest: None,
            message_id: act.message_id.clone(),
            detail: merge(json!({ "remembered": true }), reason(act)),
        };
        let first = self.chain.first(&timer);
        timer.head = self.chain.link(&first, &event.body());
        if !self.insert_row(&timer)? {
            return Err(interfered("the timer"));
        }
        let n = self.conn.last_insert_rowid();
        self.insert_event(n, &event, &first)?;
        Ok(timer)
    }

    pub(super) fn settle(&mut self, settlement: &Settlement) -> Result<Settled> {
        let Some(stored) = self.by_id(settlement.id)? else { return Ok(Settled::Gone) };
        if stored.timer.version != settlement.version {
            return Ok(if stored.timer.state.is_settled() {
                Settled::Lost(stored.timer)
            } else {
                Settled::Moved(stored.timer)
            });
        }
        let command = Command::Settle(settlement.settle.clone());
        let change = match machine::step(&stored.timer, &command, self.now) {
            Ok(change) => change,
            Err(Refusal::Early) => return Ok(Settled::Early(stored.timer)),
            Err(_) => return Ok(Settled::Lost(stored.timer)),
        };
        let mut follow_ups = Vec::new();
        let mut notes = Vec::new();
        for new in &settlement.follow_ups {
            let (inserted, note) = self.insert(new)?;
            let id = match inserted {
                Inserted::Created(timer) => {
                    let id = timer.id;
                    follow_ups.push(timer);
                    Some(id)
                }
                Inserted::Same(timer) | Inserted::Conflict(timer) => Some(timer.id),
                Inserted::OutOfRange => None,
            };
            notes.push(json!({ "type_id": new.type_id, "key": new.key, "timer_id": id, "result": note }));
        }
        let transition = Transition {
            change,
            cause: Cause {
                actor: &settlement.actor,
                trigger: Some(settlement.trigger),
                digest: settlement.digest,
                message_id: None,
            },
            detail: settle_detail(settlement, notes),
            compensations: &settlement.compensations,
            revision: settlement.revision,
        };
        let timer = self.transition(stored, transition)?.timer;
        Ok(Settled::Done { timer, follow_ups })
    }
}

fn act_cause(act: &Act) -> Cause<'_> {
    Cause { actor: &act.actor, trigger: None, digest: None, message_id: act.message_id.as_deref() }
}

fn reason(act: &Act) -> Value {
    act.reason.as_ref().map_or(Value::Null, |reason| json!({ "reason": reason }))
}

fn settle_detail(settlement: &Settlement, follow_ups: Vec<Value>) -> Value {
    let mut more = serde_json::Map::new();
    if !follow_ups.is_empty() {
        more.insert("follow_ups".into(), follow_ups.into());
    }
    if !settlement.events.is_empty() {
        more.insert("events".into(), json!(settlement.events));
    }
    if !settlement.counters.is_empty() {
        more.insert("counters".into(), json!(settlement.counters));
    }
    if more.is_empty() { settlement.detail.clone() } else { merge(settlement.detail.clone(), Value::Object(more)) }
}

pub(super) fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| unreachable!("plain data: {e}"))
}
