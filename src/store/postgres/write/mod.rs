//! Carries a batch out, in one transaction of a few large statements.
//!
//! ```text
//!  BEGIN; lock the rows in order of id; the server's clock       (one go)
//!    │ domain::machine::step, in memory, operation by operation
//!    ▼
//!  UPDATE … WHERE id AND state AND version RETURNING; events; compensations     (one go)
//!    │ every row that was to change has changed?
//!    ▼
//!  COMMIT
//! ```
//!
//! Rows are locked timers first and then compensations, each in order of id, and keys are inserted in their own order, so
//! two nodes do not wait for each other in a ring; what claims skips locked rows. Where two do all the same (a follow-up
//! that takes a key of the other's, say), the server ends one of them, and it is repeated.

mod backlog;
mod catalogue;
mod compensations;
mod insert;
mod steps;
mod work;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{Postgres, connect::Conn, error::Fault, marks::Scan, row::get};
use crate::{
    domain::{audit::Chain, time::Timestamp},
    store::op::{Answer, Op},
};

/// How often a batch is begun anew: when the server ended it in favour of another, when its connection turned out to be
/// a dead one, or when the server that it led to no longer writes.
const MAX_TRIES: u32 = 6;

/// The wait before a batch is repeated, doubled each time; a random part of it is taken.
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Taking back what was begun.
const MAX_ROLLBACK: Duration = Duration::from_secs(2);

/// A batch under way on its connection.
struct Batch<'a> {
    store: &'a Postgres,
    conn: &'a Conn,
    chain: &'a Chain,
    /// What the backlog's scans came to, to be noted once it is committed.
    scans: Vec<(Scan, i64)>,
}

/// Carries the operations out; repeats what may be repeated.
pub(super) async fn write(store: &Postgres, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
    let Some(first) = ops.first() else { return Ok(Vec::new()) };
    let pool = store.lane(first.class());
    let mut tries = 0;
    loop {
        tries += 1;
        let conn = pool.get().await?;
        let fault = match go(store, &conn, ops).await {
            Ok(answers) => {
                conn.give_back();
                return Ok(answers);
            }
            Err(fault) => fault,
        };
        let rolled_back = fault.spares_connection() && {
            let rollback = tokio::time::timeout(MAX_ROLLBACK, conn.command("ROLLBACK")).await;
            matches!(rollback, Ok(Ok(())))
        };
        if rolled_back {
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

/// One go at it. An error before the commit was sent means that nothing has happened.
async fn go(store: &Postgres, conn: &Conn, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
    let committing = AtomicBool::new(false);
    let transaction = async {
        let mut batch = Batch { store, conn, chain: &store.chain, scans: Vec::new() };
        let answers = batch.carry_out(ops).await?;
        committing.store(true, Ordering::Relaxed);
        conn.command("COMMIT").await.map_err(Fault::at_commit)?;
        Ok::<_, Fault>((answers, batch.scans))
    };
    let (answers, scans) = match tokio::time::timeout(store.transaction_timeout, transaction).await {
        Ok(done) => done?,
        Err(_) if committing.load(Ordering::Relaxed) => {
            return Err(Fault::Unknown("the database did not answer the commit in time".into()));
        }
        Err(_) => return Err(Fault::Timeout("the database did not answer in time")),
    };
    for (scan, frontier) in scans {
        store.marks.reached(&scan, frontier);
    }
    Ok(answers)
}

/// What is carried out together, whatever its order in a batch: what waits in one queue waits side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Timers,
    Inserts,
    Compensations,
    Single,
}

impl Part {
    fn of(op: &Op) -> Self {
        match op {
            Op::Act(_) | Op::Settle(_) | Op::Claim(_) | Op::ClaimBacklog(_) => Self::Timers,
            Op::Insert(_) => Self::Inserts,
            Op::ClaimCompensations(_) | Op::FinishCompensation(_) | Op::Redrive(_) => Self::Compensations,
            Op::Admin(_) | Op::Ping => Self::Single,
        }
    }
}

impl Batch<'_> {
    async fn carry_out(&mut self, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
        let mut answers = Vec::with_capacity(ops.len());
        let mut begun = Some("BEGIN");
        for part in ops.chunk_by(|a, b| Part::of(a) == Part::of(b)) {
            // Sent with the part's first statement, without waiting for it.
            let begin = begun.take();
            match Part::of(&part[0]) {
                Part::Timers => answers.extend(self.timers(begin, part).await?),
                Part::Inserts => answers.extend(self.inserts(begin, part).await?),
                Part::Compensations => answers.extend(self.compensations(begin, part).await?),
                Part::Single => {
                    let now = self.now(begin).await?;
                    for op in part {
                        answers.push(self.single(now, op).await?);
                    }
                }
            }
        }
        Ok(answers)
    }

    async fn single(&self, now: Timestamp, op: &Op) -> Result<Answer, Fault> {
        if let Op::Admin(op) = op {
            return Ok(Answer::Admin(self.admin(now, op).await?));
        }
        self.conn.change("catalogue.ping", &[]).await?;
        Ok(Answer::Pong(()))
    }

    /// Begins the transaction, if it is not begun.
    async fn begin(&self, begin: Option<&str>) -> Result<(), Fault> {
        match begin {
            Some(text) => self.conn.command(text).await,
            None => Ok(()),
        }
    }

    /// The server's clock, and the beginning of the transaction, in one go.
    async fn now(&self, begin: Option<&str>) -> Result<Timestamp, Fault> {
        let ((), now) = tokio::try_join!(biased; self.begin(begin), self.clock())?;
        Ok(now)
    }

    async fn clock(&self) -> Result<Timestamp, Fault> {
        self.store.store_now(self.conn).await
    }

    /// A batch is refused for a type that does not exist, since there is no foreign key that would. What exists stays.
    async fn know_types(&self, types: impl Iterator<Item = i64> + Clone) -> Result<(), Fault> {
        let unknown = |known: &std::collections::HashSet<i64>| types.clone().find(|t| !known.contains(t));
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
