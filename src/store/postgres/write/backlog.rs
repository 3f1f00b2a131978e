//! Claims of what is overdue.

use std::collections::HashMap;

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    Batch,
    work::{Changes, Work},
};
use crate::{
    domain::{
        id::TypeId,
        time::Timestamp,
        timer::{State, Timer},
    },
    store::{
        op::{Backlog, ClaimBacklog},
        postgres::{
            error::Fault,
            marks::{Part, Scan},
            row,
        },
        transition::backlog_claim,
    },
};

/// Timers that one claim may take, whatever it asks for: a batch's transaction stays short.
const MAX_CLAIMED: usize = 2_000;

/// One state's scan over the types.
struct Scans {
    state: State,
    by_type: Vec<Scan>,
    limits: Vec<usize>,
    /// Exclusive, in milliseconds.
    until: i64,
}

impl Scans {
    fn new(batch: &Batch<'_>, state: State, limits: &[(TypeId, usize)], until: i64) -> Self {
        let started = std::time::Instant::now();
        let by_type = limits.iter().map(|(type_id, _)| batch.store.marks.begin((*type_id, state), started)).collect();
        Self { state, by_type, limits: limits.iter().map(|(_, limit)| *limit).collect(), until }
    }

    async fn run(&self, batch: &Batch<'_>, except: &[Uuid]) -> Result<Vec<Timer>, Fault> {
        let types = row::column(&self.by_type, |scan| scan.part.0.0);
        let lows = row::column(&self.by_type, |scan| scan.low);
        let limits = row::column(&self.limits, |limit| row::limit(*limit));
        let params: [&(dyn ToSql + Sync); 5] = [&types, &lows, &limits, &self.until, &except];
        let name = if self.state == State::Firing { "timers.claim_lapsed" } else { "timers.claim_overdue" };
        batch.conn.rows(name, &params).await?.iter().map(row::timer).collect()
    }

    /// How far each scan came: below it nothing is left but `left`, and what others had locked.
    fn frontiers(&self, found: &[(Part, i64)], left: &HashMap<Part, i64>) -> Vec<(Scan, i64)> {
        let frontier = |(scan, limit): (&Scan, &usize)| {
            let of_part = || found.iter().filter(|(part, _)| *part == scan.part).map(|(_, run_at)| *run_at);
            let seen = if of_part().count() < *limit { self.until } else { of_part().max().unwrap_or(0) };
            (*scan, left.get(&scan.part).copied().unwrap_or(i64::MAX).min(seen))
        };
        self.by_type.iter().zip(&self.limits).map(frontier).collect()
    }
}

impl Batch<'_> {
    pub(super) async fn claim_backlog(&mut self, claim: &ClaimBacklog) -> Result<Backlog, Fault> {
        // What it finds stays locked until it is written, so that others pass it by.
        self.locking = true;
        let ((), now) = tokio::try_join!(biased; self.conn.command("BEGIN"), self.clock())?;
        let limits = within(&claim.limits, MAX_CLAIMED);
        let except: Vec<Uuid> = claim.except.iter().map(|id| id.0).collect();
        // Nothing is ever due after now, whatever is asked for.
        let overdue = Scans::new(self, State::Scheduled, &limits, claim.before.as_millis().min(now.as_millis() + 1));
        let lapsed = Scans::new(self, State::Firing, &limits, now.as_millis() + 1);
        let (mut found, more) = tokio::try_join!(biased; overdue.run(self, &except), lapsed.run(self, &except))?;
        found.extend(more);
        let seen: Vec<(Part, i64)> = found.iter().map(|timer| (part(timer), run_at(timer))).collect();
        found.sort_by_key(|timer| (timer.run_at, timer.id));

        let mut left = self.in_hand(&except).await?;
        let mut leave = |timer: &Timer| {
            let lowest = left.entry(part(timer)).or_insert(i64::MAX);
            *lowest = (*lowest).min(run_at(timer));
        };
        let mut room: HashMap<TypeId, usize> = limits.iter().copied().collect();
        let mut taken = Vec::new();
        let mut work = Work::new(self.chain, now, found.clone());
        for timer in &found {
            let room = room.entry(timer.type_id).or_default();
            match backlog_claim(timer, claim.lease, &claim.node, now) {
                Some(transition) if *room > 0 => {
                    *room -= 1;
                    taken.extend(work.transition(timer.id, transition));
                }
                // No room; or what was selected is due, and the machine knows better all the same: it is left alone.
                _ => leave(timer),
            }
        }
        self.write(Changes { work: &work, new: Vec::new(), runs: Vec::new() }).await?;
        self.scans.extend(overdue.frontiers(&seen, &left));
        self.scans.extend(lapsed.frontiers(&seen, &left));
        let (claimed, poisoned) = taken.into_iter().partition(|timer| timer.state == State::Firing);
        Ok(Backlog { claimed, poisoned })
    }

    /// Where the earliest of these timers stands, by type and state: the mark must not pass what a node has in hand.
    async fn in_hand(&self, except: &[Uuid]) -> Result<HashMap<Part, i64>, Fault> {
        if except.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = self.conn.rows("timers.oldest_of", &[&except]).await?;
        let read = |row: &Row| {
            let run_at: i64 = row::get(row, 1)?;
            let type_id = TypeId(row::int(row, 0)?);
            Ok([((type_id, State::Scheduled), run_at), ((type_id, State::Firing), run_at)])
        };
        let both: Vec<[(Part, i64); 2]> = rows.iter().map(read).collect::<Result<_, Fault>>()?;
        Ok(both.into_iter().flatten().collect())
    }
}

fn part(timer: &Timer) -> Part {
    (timer.type_id, timer.state)
}

fn run_at(timer: &Timer) -> i64 {
    timer.run_at.map_or(i64::MAX, Timestamp::as_millis)
}

/// Each type once, and all together at most `most`.
fn within(limits: &[(TypeId, usize)], most: usize) -> Vec<(TypeId, usize)> {
    let mut left = most;
    let mut kept = Vec::<(TypeId, usize)>::new();
    for (type_id, limit) in limits {
        let limit = (*limit).min(left);
        if limit > 0 && !kept.iter().any(|(known, _)| known == type_id) {
            kept.push((*type_id, limit));
            left -= limit;
        }
    }
    kept
}
