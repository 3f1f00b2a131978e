//! Registering, acting and settling.

use rusqlite::{OptionalExtension as _, params};

use super::{Writer, interfered};
use crate::{
    domain::{
        id::{TimerId, TimerKey, TypeId},
        machine::Command,
        time::Timestamp,
        timer::{NewTimer, Timer},
    },
    store::{
        Result,
        op::{Act, Acted, Inserted, Remember, Settled, Settlement, Target},
        register::{against, registered, remembered},
        sqlite::row::{self, Stored},
        transition::created,
    },
};

impl Writer<'_> {
    /// Registers a timer. A duplicate within the batch finds the first one's row.
    pub(super) fn insert(&mut self, new: &NewTimer) -> Result<Inserted> {
        let timer = registered(new, &self.chain, self.now);
        if let Some(timer) = &timer
            && self.insert_row(timer)?
        {
            return Ok(Inserted::Created(timer.clone()));
        }
        match self.by_key(new.type_id, &new.key)? {
            Some(existing) => Ok(against(existing.timer, &new.fingerprint)),
            None if timer.is_some() => Err(interfered("the timer")),
            None => Ok(Inserted::OutOfRange),
        }
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
                    Ok(Acted::Done(self.remember(act, (*type_id, key.clone()), remember)?))
                }
                _ => Ok(Acted::NotFound),
            };
        };
        match act.step(&stored.timer, self.now) {
            Ok(transition) => Ok(Acted::Done(self.transition(stored, transition)?.timer)),
            Err(answer) => Ok(answer),
        }
    }

    fn remember(&mut self, act: &Act, key: (TypeId, TimerKey), remember: &Remember) -> Result<Timer> {
        let (timer, event) = remembered(act, key, remember, &self.chain, self.now);
        if !self.insert_row(&timer)? {
            return Err(interfered("the timer"));
        }
        let n = self.conn.last_insert_rowid();
        self.insert_event(n, &event)?;
        Ok(timer)
    }

    pub(super) fn settle(&mut self, settlement: &Settlement) -> Result<Settled> {
        let Some(stored) = self.by_id(settlement.id)? else { return Ok(Settled::Gone) };
        let change = match settlement.step(&stored.timer, self.now) {
            Ok(change) => change,
            Err(answer) => return Ok(answer),
        };
        let made = settlement.follow_ups.iter().map(|new| self.insert(new)).collect::<Result<Vec<_>>>()?;
        let timer = self.transition(stored, settlement.transition(change, &made))?.timer;
        Ok(Settled::Done { timer, follow_ups: created(&made) })
    }
}

pub(super) fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| unreachable!("plain data: {e}"))
}
