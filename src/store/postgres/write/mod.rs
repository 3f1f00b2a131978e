//! Carries a batch out. No transaction waits for this side of it:
//!
//! ```text
//!  read the rows and the server's clock, without locks             (one go)
//!    │ domain::machine::step, in memory, operation by operation
//!    ▼
//!  one statement: UPDATE … WHERE id AND state AND version; events; compensations; new rows; and unless every row was
//!  found as it was read, an error that undoes all of it            (one go, and its own transaction)
//! ```
//!
//! So a node that stands still, however long, holds no lock that others would wait for. A batch that lost a row to
//! another is begun anew, with its rows locked from the reading on if it lost twice. Claims of the backlog lock what they
//! read, since others skip it then; the server ends a transaction that stands idle within half a second.
//!
//! Rows are changed timers first, then compensations, each in order of id, and then keys are inserted in their own order,
//! so two nodes do not wait for each other in a ring; what claims skips locked rows. Where two do all the same, the
//! server ends one of them, and it is repeated.

mod backlog;
mod catalogue;
mod compensations;
mod insert;
mod steps;
mod work;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{Postgres, connect::Conn, error::Fault, marks::Scan, row::get};
use crate::{
    domain::{audit::Chain, time::Timestamp},
    store::{
        Error,
        op::{Answer, Op},
    },
};

/// How often a part is begun anew: when a row was lost to another, when its connection turned out to be a dead one, or
/// when the server that it led to no longer writes.
const MAX_TRIES: u32 = 6;

/// From this try on the rows are locked before they are looked at: nothing can be lost then.
const LOCKING_FROM: u32 = 3;

/// The wait before a part is repeated, doubled each time; a random part of it is taken.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Taking back what was begun.
const MAX_ROLLBACK: Duration = Duration::from_secs(2);

/// What is carried out together, in one transaction. What waits in one queue waits side by side, so it has no order
/// among itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Steps,
    Inserts,
    Reports,
    Admin,
    /// By itself.
    Backlog,
    Claims,
    Ping,
}

impl Kind {
    /// In the order in which they are carried out.
    const ALL: [Self; 7] =
        [Self::Steps, Self::Inserts, Self::Reports, Self::Admin, Self::Backlog, Self::Claims, Self::Ping];

    fn of(op: &Op) -> Self {
        match op {
            Op::Act(_) | Op::Settle(_) | Op::Claim(_) => Self::Steps,
            Op::ClaimBacklog(_) => Self::Backlog,
            Op::Insert(_) => Self::Inserts,
            Op::FinishCompensation(_) | Op::Redrive(_) => Self::Reports,
            Op::ClaimCompensations(_) => Self::Claims,
            Op::Admin(_) => Self::Admin,
            Op::Ping => Self::Ping,
        }
    }
}

/// A part under way on its connection.
struct Batch<'a> {
    store: &'a Postgres,
    conn: &'a Conn,
    chain: &'a Chain,
    /// Whether the rows are locked from the reading on, in a transaction over several goes.
    locking: bool,
    /// Set once something is sent that the server may have committed although no answer comes.
    writing: &'a AtomicBool,
    /// What the backlog's scans came to, to be noted once it is committed.
    scans: Vec<(Scan, i64)>,
}

/// Carries the operations out, and answers each. An error means that nothing has happened to any of them.
pub(super) async fn write(store: &Postgres, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
    let mut answers: Vec<Option<Answer>> = vec![None; ops.len()];
    let mut is_first = true;
    for kind in Kind::ALL {
        let mut part: Vec<(usize, &Op)> = ops.iter().enumerate().filter(|(_, op)| Kind::of(op) == kind).collect();
        let size = if kind == Kind::Backlog { 1 } else { part.len() };
        while !part.is_empty() {
            let rest = part.split_off(size.min(part.len()));
            match repeat(store, kind, &part, &mut answers).await {
                Ok(()) => {}
                Err(fault) if is_first => return Err(fault),
                // What came before it is done.
                Err(fault) => {
                    let error = Error::from(fault);
                    for (place, _) in &part {
                        answers[*place] = Some(Answer::Refused(error.clone()));
                    }
                }
            }
            is_first = false;
            part = rest;
        }
    }
    let answered = answers.into_iter().map(|answer| {
        answer.unwrap_or_else(|| Answer::Refused(Error::Unavailable("an operation was left without an answer".into())))
    });
    Ok(answered.collect())
}

/// Carries a part out; repeats what may be repeated.
async fn repeat(
    store: &Postgres,
    kind: Kind,
    part: &[(usize, &Op)],
    answers: &mut [Option<Answer>],
) -> Result<(), Fault> {
    let Some((_, first)) = part.first() else { return Ok(()) };
    let pool = store.lane(first.class());
    let mut part = part.to_vec();
    let (mut tries, mut has_waited) = (0, false);
    loop {
        tries += 1;
        let conn = pool.get().await?;
        let ops: Vec<&Op> = part.iter().map(|(_, op)| *op).collect();
        let fault = match go(store, &conn, kind, &ops, tries >= LOCKING_FROM).await {
            Ok(done) => {
                conn.give_back();
                part.iter().zip(done).for_each(|((place, _), answer)| answers[*place] = Some(answer));
                return Ok(());
            }
            Err(fault) => fault,
        };
        let is_whole = fault.spares_connection() && {
            let rollback = tokio::time::timeout(MAX_ROLLBACK, conn.command("ROLLBACK")).await;
            matches!(rollback, Ok(Ok(())))
        };
        if is_whole && kind == Kind::Steps && !has_waited && matches!(fault, Fault::Locked(_)) {
            // One row that somebody sits on must not hold the others up.
            has_waited = true;
            let held = steps::held_by_others(&conn, &ops).await?;
            conn.give_back();
            if held.is_empty() {
                continue;
            }
            let (waiting, free) = part.into_iter().enumerate().partition::<Vec<_>, _>(|(nth, _)| held.contains(nth));
            for (_, (place, _)) in waiting {
                answers[place] = Some(Answer::Refused(Error::Unavailable(fault.to_string())));
            }
            part = free.into_iter().map(|(_, op)| op).collect();
            if part.is_empty() {
                return Ok(());
            }
            continue;
        }
        if is_whole {
            conn.give_back();
        } else {
            conn.give_up(&fault);
        }
        let why = match &fault {
            Fault::Conflict(_) => "conflict",
            Fault::ReadOnly => "read_only",
            Fault::Broken(_) => "broken",
            _ => return Err(fault),
        };
        if tries >= MAX_TRIES || (tries > 1 && !matches!(fault, Fault::Conflict(_))) {
            return Err(fault);
        }
        metrics::counter!("lapse_store_repeated_total", "why" => why).increment(1);
        tracing::debug!(error = %fault, tries, "a batch is begun anew");
        tokio::time::sleep(FIRST_WAIT.mul_f64(f64::from(1 << tries) * rand::random::<f64>())).await;
    }
}

/// One go at it. An error means that nothing has happened, but for [`Fault::Unknown`].
async fn go(store: &Postgres, conn: &Conn, kind: Kind, ops: &[&Op], locking: bool) -> Result<Vec<Answer>, Fault> {
    let writing = AtomicBool::new(false);
    let carried_out = async {
        let mut batch = Batch { store, conn, chain: &store.chain, locking, writing: &writing, scans: Vec::new() };
        let answers = batch.carry_out(kind, ops).await?;
        Ok::<_, Fault>((answers, batch.scans))
    };
    let (answers, scans) = match tokio::time::timeout(store.transaction_timeout, carried_out).await {
        Ok(done) => done?,
        Err(_) if writing.load(Ordering::Relaxed) => {
            return Err(Fault::Unknown("the database did not answer a write in time".into()));
        }
        Err(_) => return Err(Fault::Timeout("the database did not answer in time")),
    };
    for (scan, frontier) in scans {
        store.marks.reached(&scan, frontier);
    }
    Ok(answers)
}

impl Batch<'_> {
    async fn carry_out(&mut self, kind: Kind, ops: &[&Op]) -> Result<Vec<Answer>, Fault> {
        match kind {
            Kind::Steps => self.steps(ops).await,
            Kind::Inserts => self.inserts(ops).await,
            Kind::Reports => self.reports(ops).await,
            Kind::Claims => self.claim_compensations(ops).await,
            Kind::Backlog => match ops {
                [Op::ClaimBacklog(claim)] => Ok(vec![Answer::Backlog(self.claim_backlog(claim).await?)]),
                _ => unreachable!("a claim of the backlog is a part by itself"),
            },
            Kind::Admin => self.administer(ops).await,
            Kind::Ping => {
                self.conn.change("catalogue.ping", &[]).await?;
                Ok(vec![Answer::Pong(()); ops.len()])
            }
        }
    }

    async fn administer(&self, ops: &[&Op]) -> Result<Vec<Answer>, Fault> {
        let ((), now) = tokio::try_join!(biased; self.conn.command("BEGIN"), self.clock())?;
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops {
            if let Op::Admin(op) = op {
                answers.push(Answer::Admin(self.admin(now, op).await?));
            }
        }
        self.commit().await?;
        Ok(answers)
    }

    /// Sends what is its own transaction, or ends one.
    async fn sent<T>(&self, statement: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.writing.store(true, Ordering::Relaxed);
        statement.await
    }

    async fn commit(&self) -> Result<(), Fault> {
        self.sent(async { self.conn.command("COMMIT").await.map_err(Fault::at_commit) }).await
    }

    async fn clock(&self) -> Result<Timestamp, Fault> {
        self.store.store_now(self.conn).await
    }

    /// A batch is refused for a type that does not exist, since there is no foreign key that would. What exists stays.
    async fn know_types(&self, types: impl Iterator<Item = i64> + Clone) -> Result<(), Fault> {
        let unknown = |known: &HashSet<i64>| types.clone().find(|t| !known.contains(t));
        if unknown(&self.store.known_types.read()).is_none() {
            return Ok(());
        }
        let rows = self.conn.rows("catalogue.all_type_ids", &[]).await?;
        let known = rows.iter().map(|row| get::<i32>(row, 0).map(i64::from)).collect::<Result<_, _>>()?;
        *self.store.known_types.write() = known;
        match unknown(&self.store.known_types.read()) {
            None => Ok(()),
            Some(id) => Err(Fault::Data(format!("there is no type {id}"))),
        }
    }
}
