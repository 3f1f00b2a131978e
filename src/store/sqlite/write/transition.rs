//! The one place that writes a timer's state: the row under its condition, and its events.

use rusqlite::{OptionalExtension as _, params};

use super::{Writer, interfered};
use crate::{
    domain::{id::TimerId, time::Timestamp, timer::State},
    store::{
        Result,
        sqlite::row::{self, Stored},
        transition::{Head, Link, Note, Transition},
    },
};

impl Writer<'_> {
    pub(super) fn transition(&mut self, stored: Stored, transition: Transition<'_>) -> Result<Stored> {
        let Stored { n, timer } = stored;
        let (state, version) = (timer.state, timer.version);
        let outcome = transition.carry_out(&self.chain, self.now, timer);
        for event in &outcome.events {
            self.insert_event(n, event)?;
        }
        let timer = outcome.timer;
        for created in outcome.compensations {
            self.sql.insert_compensation.execute(params![
                created.id.0.as_bytes(),
                n,
                created.seq,
                timer.type_id.0,
                created.spec.kind.as_str(),
                created.revision,
                self.now.as_millis(),
                created.spec.payload,
            ])?;
        }
        let changed = self.sql.update_timer.execute(params![
            n,
            state.code(),
            version,
            timer.state.code(),
            timer.due_at.as_millis(),
            timer.run_at.map(Timestamp::as_millis),
            timer.attempt,
            timer.lapses,
            timer.version,
            timer.manual,
            timer.settled_at.map(Timestamp::as_millis),
            timer.outcome,
            timer.head,
        ])?;
        if changed != 1 {
            return Err(interfered("the timer"));
        }
        Ok(Stored { n, timer })
    }

    /// Writes what happened to one of a timer's compensations.
    pub(super) fn append(&mut self, n: i64, note: Note<'_>) -> Result<()> {
        let found = self.sql.head_by_n.query_row([n], |row| {
            let state: i64 = row.get(1)?;
            let head = |state| {
                Ok::<_, rusqlite::Error>(Head {
                    timer_id: TimerId(row::uuid(row, 0)?),
                    state,
                    version: row.get(2)?,
                    attempt: row.get(3)?,
                    mac: row.get(4)?,
                })
            };
            State::from_code(state).map(head).transpose()
        });
        let head = found.optional()?.flatten().ok_or_else(|| interfered("the timer"))?;
        let event = head.append(&self.chain, self.now, note);
        self.insert_event(n, &event)?;
        if self.sql.append.execute(params![n, head.version, event.seq, event.mac])? != 1 {
            return Err(interfered("the timer"));
        }
        Ok(())
    }

    pub(super) fn insert_event(&mut self, n: i64, event: &Link) -> Result<()> {
        Ok(self.sql.insert_event.execute(params![n, event.seq, event.mac, event.body]).map(drop)?)
    }
}
