//! What a batch makes of the timers that it has read, in memory, and the one statement that writes all of it.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::ToSql;

use super::{Batch, compensations::Run, insert::NewRows};
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
            row::{code, column, json_text, ms},
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

/// Timers, and what is to be written of them.
pub(super) struct Work<'a> {
    pub now: Timestamp,
    chain: &'a Chain,
    held: HashMap<TimerId, Held>,
    events: Vec<(TimerId, Link)>,
    compensations: Vec<(TimerId, TypeId, Created<'a>)>,
    /// Timers that came into being with an event beside their registration.
    new: HashSet<TimerId>,
}

impl<'a> Work<'a> {
    pub(super) fn new(chain: &'a Chain, now: Timestamp, read: Vec<Timer>) -> Self {
        let hold = |timer: Timer| (timer.id, Held { state: timer.state, version: timer.version, timer });
        let held = read.into_iter().map(hold).collect();
        Self { now, chain, held, events: Vec::new(), compensations: Vec::new(), new: HashSet::new() }
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

    /// Takes in a timer that is to be inserted as it is, with the one event that it has beside its registration.
    pub(super) fn add(&mut self, timer: Timer, event: Link) {
        self.events.push((timer.id, event));
        self.new.insert(timer.id);
        self.held.insert(timer.id, Held { state: timer.state, version: timer.version, timer });
    }

    pub(super) fn added(&self) -> impl Iterator<Item = &Timer> {
        self.new.iter().filter_map(|id| self.timer(*id))
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

/// All that a batch writes.
pub(super) struct Changes<'a> {
    pub work: &'a Work<'a>,
    /// Beside those that the work has added.
    pub new: Vec<&'a Timer>,
    /// Compensations that a claim, a report or a redrive has changed.
    pub runs: Vec<&'a Run>,
}

impl Batch<'_> {
    /// Writes the changes in one statement, and ends the transaction, if one was begun. Unless each row was found as it
    /// was read, nothing of it is written.
    pub(super) async fn write(&self, changes: Changes<'_>) -> Result<(), Fault> {
        let Changes { work, mut new, mut runs } = changes;
        let mut changed: Vec<&Held> = work.held.values().filter(|h| h.timer.version != h.version).collect();
        changed.sort_by_key(|held| held.timer.id);
        runs.sort_by_key(|run| run.compensation.id);
        new.extend(work.added());
        if changed.is_empty() && new.is_empty() && runs.is_empty() {
            return if self.locking { self.commit().await } else { Ok(()) };
        }
        let new = NewRows::new(new);
        let (made_at, events, created) = (work.now.as_millis(), &work.events, &work.compensations);
        let mut params = new.params();
        let changes: [Box<dyn ToSql + Sync + Send + '_>; 37] = [
            Box::new(column(&changed, |h| h.timer.id.0)),
            Box::new(column(&changed, |h| code(h.state.code()))),
            Box::new(column(&changed, |h| h.version)),
            Box::new(column(&changed, |h| code(h.timer.state.code()))),
            Box::new(column(&changed, |h| h.timer.due_at.as_millis())),
            Box::new(column(&changed, |h| ms(h.timer.run_at))),
            Box::new(column(&changed, |h| i64::from(h.timer.attempt))),
            Box::new(column(&changed, |h| i64::from(h.timer.lapses))),
            Box::new(column(&changed, |h| h.timer.version)),
            Box::new(column(&changed, |h| h.timer.manual)),
            Box::new(column(&changed, |h| ms(h.timer.settled_at))),
            Box::new(column(&changed, |h| h.timer.outcome.as_deref())),
            Box::new(column(&changed, |h| &h.timer.head[..])),
            Box::new(column(events, |(timer, _)| timer.0)),
            Box::new(column(events, |(_, e)| e.seq)),
            Box::new(column(events, |(_, e)| &e.mac[..])),
            Box::new(column(events, |(_, e)| e.body.as_str())),
            Box::new(column(created, |(_, _, c)| c.id.0)),
            Box::new(column(created, |(timer, _, _)| timer.0)),
            Box::new(column(created, |(_, _, c)| c.seq)),
            Box::new(column(created, |(_, type_id, _)| type_id.0)),
            Box::new(column(created, |(_, _, c)| c.spec.kind.as_str())),
            Box::new(column(created, |(_, _, c)| c.revision)),
            Box::new(column(created, |_| made_at)),
            Box::new(column(created, |(_, _, c)| c.spec.payload.as_str())),
            Box::new(column(&runs, |r| r.compensation.id.0)),
            Box::new(column(&runs, |r| code(r.state.code()))),
            Box::new(column(&runs, |r| r.fence)),
            Box::new(column(&runs, |r| code(r.compensation.state.code()))),
            Box::new(column(&runs, |r| i64::from(r.compensation.attempt))),
            Box::new(column(&runs, |r| i64::from(r.compensation.first_attempt))),
            Box::new(column(&runs, |r| ms(r.compensation.run_at))),
            Box::new(column(&runs, |r| r.compensation.fence)),
            Box::new(column(&runs, |r| r.compensation.last_error.as_ref().map(json_text))),
            Box::new(column(&runs, |r| r.compensation.result.as_deref())),
            Box::new(column(&runs, |r| ms(r.compensation.settled_at))),
            Box::new(column(&runs, |r| r.compensation.revision)),
        ];
        params.extend(changes.iter().map(|param| &**param as &(dyn ToSql + Sync)));
        if self.locking {
            // Sent together: the transaction does not wait for this side between the two.
            let statement = async { self.conn.rows("timers.write", &params).await.map_err(Fault::in_flight) };
            self.sent(async { tokio::try_join!(biased; statement, self.commit()).map(drop) }).await
        } else {
            self.sent(self.conn.write("timers.write", &params)).await.map(drop)
        }
    }
}
