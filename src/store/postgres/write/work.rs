//! What a batch makes of the timers that it has locked, in memory: the rows as they change, and what is written with
//! them.

use std::collections::HashMap;

use super::Batch;
use crate::{
    domain::{
        audit::Chain,
        id::{TimerId, TypeId},
        time::Timestamp,
        timer::{State, Timer},
    },
    store::{
        postgres::{
            error::Fault,
            row::{code, column, ms},
        },
        transition::{Created, Head, Link, Note, Transition},
    },
};

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
    events: Vec<(TimerId, Link)>,
    compensations: Vec<(TimerId, TypeId, Created<'a>)>,
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
    pub(super) fn add(&mut self, timer: Timer, event: Link) {
        self.events.push((timer.id, event));
        self.held.insert(timer.id, Held { state: timer.state, version: timer.version, timer });
    }

    /// The timer as it now is; `None` if it is not held.
    pub(super) fn transition(&mut self, id: TimerId, transition: Transition<'a>) -> Option<Timer> {
        let held = self.held.get_mut(&id)?;
        let outcome = transition.carry_out(self.chain, self.now, held.timer.clone());
        held.timer = outcome.timer;
        self.events.extend(outcome.events.into_iter().map(|event| (id, event)));
        let type_id = held.timer.type_id;
        self.compensations.extend(outcome.compensations.into_iter().map(|created| (id, type_id, created)));
        Some(held.timer.clone())
    }

    /// Notes what happened to one of a timer's compensations.
    pub(super) fn append(&mut self, id: TimerId, note: Note<'_>) {
        let Some(Held { timer, .. }) = self.held.get_mut(&id) else { return };
        let event = Head::of(timer).append(self.chain, self.now, note);
        timer.version = event.seq;
        timer.head = event.mac;
        self.events.push((id, event));
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
                &column(&work.events, |(timer, _)| timer.0),
                &column(&work.events, |(_, e)| e.seq),
                &column(&work.events, |(_, e)| &e.mac[..]),
                &column(&work.events, |(_, e)| e.body.as_str()),
            ];
            self.conn.change("events.insert", &params).await.map(drop)
        };
        let compensations = async {
            if work.compensations.is_empty() {
                return Ok(());
            }
            let made_at = work.now.as_millis();
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
                &column(&work.compensations, |(_, _, c)| c.id.0),
                &column(&work.compensations, |(timer, _, _)| timer.0),
                &column(&work.compensations, |(_, _, c)| c.seq),
                &column(&work.compensations, |(_, type_id, _)| type_id.0),
                &column(&work.compensations, |(_, _, c)| c.spec.kind.as_str()),
                &column(&work.compensations, |(_, _, c)| c.revision),
                &column(&work.compensations, |_| made_at),
                &column(&work.compensations, |(_, _, c)| c.spec.payload.as_str()),
            ];
            self.conn.change("compensations.insert", &params).await.map(drop)
        };
        tokio::try_join!(biased; update, events, compensations).map(drop)
    }
}
