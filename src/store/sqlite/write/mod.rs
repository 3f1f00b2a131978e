//! The writer: carries a batch out, row by row, in one transaction.
//!
//! Each transition reads its row, asks the domain's state machine, and writes with a condition on the state and the
//! version that were read; its event, its compensations and its follow-ups stand in the same transaction. A condition
//! that fails here means that something else writes to the file: the whole batch is rolled back.

mod catalogue;
mod claim;
mod compensations;
mod timers;
mod transition;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::{Connection, Statement};

use super::sql;
use crate::{
    clock::SharedClock,
    domain::{audit::Chain, time::Timestamp},
    store::{
        Error, Result,
        op::{Answer, Op},
    },
};

macro_rules! statements {
    ($($field:ident: $name:literal,)*) => {
        /// Prepared once, for the writer's life.
        struct Statements<'c> { $($field: Statement<'c>,)* }

        impl<'c> Statements<'c> {
            fn prepare(conn: &'c Connection) -> rusqlite::Result<Self> {
                Ok(Self { $($field: conn.prepare(sql::text($name))?,)* })
            }
        }
    };
}

statements! {
    insert_timer: "timers.insert",
    timer_by_id: "timers.by_id",
    timer_by_key: "timers.by_key",
    head_by_n: "timers.head_by_n",
    update_timer: "timers.update",
    append: "timers.append",
    overdue: "timers.overdue",
    lapsed: "timers.lapsed",
    insert_event: "events.insert",
    insert_compensation: "compensations.insert",
    compensation_by_id: "compensations.by_id",
    compensation_by_n: "compensations.by_n",
    due_compensations: "compensations.due",
    claim_compensation: "compensations.claim",
    finish_compensation: "compensations.finish",
    redrive_compensation: "compensations.redrive",
    oldest_compensations: "compensations.oldest",
    ping: "catalogue.ping",
}

pub(super) struct Writer<'c> {
    conn: &'c Connection,
    sql: Statements<'c>,
    chain: Chain,
    clock: SharedClock,
    /// The store's time for the whole batch, taken once it has the database to itself.
    now: Timestamp,
}

impl<'c> Writer<'c> {
    pub(super) fn new(conn: &'c Connection, chain: Chain, clock: SharedClock) -> Result<Self> {
        Ok(Self { conn, sql: Statements::prepare(conn)?, chain, now: clock.now(), clock })
    }

    pub(super) fn write(&mut self, ops: &[Op]) -> Result<Vec<Answer>> {
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        self.now = self.clock.now();
        let carried_out =
            catch_unwind(AssertUnwindSafe(|| ops.iter().map(|op| self.carry_out(op)).collect::<Result<Vec<_>>>()));
        let answers = match carried_out {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => {
                self.roll_back();
                return Err(error);
            }
            Err(_) => {
                // The panic's own message was logged by its hook. Halved, only the operation that causes it fails.
                self.roll_back();
                return Err(Error::Data("it made the writer panic".into()));
            }
        };
        match self.conn.execute_batch("COMMIT") {
            Ok(()) => Ok(answers),
            Err(error) => {
                self.roll_back();
                // All was written to the log, and only its way to the disk failed: a crash now may find it there.
                let synced = |e: &rusqlite::ffi::Error| e.extended_code != rusqlite::ffi::SQLITE_IOERR_FSYNC;
                if error.sqlite_error().is_none_or(synced) {
                    Err(error.into())
                } else {
                    Err(Error::OutcomeUnknown(error.to_string()))
                }
            }
        }
    }

    /// SQLite has already rolled back by itself after some errors.
    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    fn carry_out(&mut self, op: &Op) -> Result<Answer> {
        Ok(match op {
            Op::Insert(new) => Answer::Inserted(self.insert(new)?),
            Op::Act(act) => Answer::Acted(self.act(act)?),
            Op::Settle(settlement) => Answer::Settled(self.settle(settlement)?),
            Op::Claim(claim) => Answer::Claimed(self.claim(claim)?),
            Op::ClaimBacklog(claim) => Answer::Backlog(self.claim_backlog(claim)?),
            Op::ClaimCompensations(claim) => Answer::Compensations(self.claim_compensations(claim)?),
            Op::FinishCompensation(finish) => Answer::Finished(self.finish_compensation(finish)?),
            Op::Redrive(redrive) => Answer::Redriven(self.redrive(redrive)?),
            Op::Admin(op) => Answer::Admin(self.admin(op)?),
            Op::Ping => {
                self.sql.ping.execute([self.now.as_millis()])?;
                Answer::Pong(())
            }
        })
    }
}

/// A condition on the row failed although this process alone writes to the file.
fn interfered(what: &str) -> Error {
    Error::Data(format!("{what} was changed by something outside of this process"))
}
