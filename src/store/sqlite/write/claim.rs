//! Claims: one timer for a run with effects, and the backlog.

use std::collections::HashSet;

use rusqlite::params;

use super::Writer;
use crate::{
    domain::{
        id::{TimerId, TypeId},
        time::DurationMs,
        timer::State,
    },
    store::{
        Result,
        op::{Backlog, Claim, ClaimBacklog, Claimed},
        sqlite::row::{self, Stored},
        transition::backlog_claim,
    },
};

/// Timers that one claim may take, whatever it asks for: a batch's transaction stays short.
const MAX_CLAIMED: usize = 2_000;

impl Writer<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        let Some(stored) = self.by_id(claim.id)? else { return Ok(Claimed::Gone) };
        match claim.step(&stored.timer, self.now) {
            Ok(transition) => Ok(Claim::answer(self.transition(stored, transition)?.timer)),
            Err(answer) => Ok(answer),
        }
    }

    pub(super) fn claim_backlog(&mut self, claim: &ClaimBacklog) -> Result<Backlog> {
        let except: HashSet<TimerId> = claim.except.iter().copied().collect();
        let mut backlog = Backlog::default();
        let mut left = MAX_CLAIMED;
        for (type_id, limit) in &claim.limits {
            let limit = (*limit).min(left);
            let mut found = self.overdue(*type_id, claim, &except, limit)?;
            found.extend(self.lapsed(*type_id, &except, limit)?);
            found.sort_by_key(|stored| (stored.timer.run_at, stored.n));
            found.truncate(limit);
            left -= found.len();
            for stored in found {
                self.take(stored, claim.lease, &claim.node, &mut backlog)?;
            }
        }
        Ok(backlog)
    }

    fn take(&mut self, stored: Stored, lease: DurationMs, node: &str, backlog: &mut Backlog) -> Result<()> {
        let Some(transition) = backlog_claim(&stored.timer, lease, node, self.now) else { return Ok(()) };
        let timer = self.transition(stored, transition)?.timer;
        if timer.state == State::Firing {
            backlog.claimed.push(timer);
        } else {
            backlog.poisoned.push(timer);
        }
        Ok(())
    }

    fn overdue(
        &mut self,
        type_id: TypeId,
        claim: &ClaimBacklog,
        except: &HashSet<TimerId>,
        limit: usize,
    ) -> Result<Vec<Stored>> {
        // Nothing is ever due after now, whatever is asked for.
        let before = claim.before.as_millis().min(self.now.as_millis() + 1);
        let rows = self
            .sql
            .overdue
            .query_map(params![type_id.0, before, self.now.as_millis(), limit + except.len()], row::timer)?;
        collect(rows, except, limit)
    }

    fn lapsed(&mut self, type_id: TypeId, except: &HashSet<TimerId>, limit: usize) -> Result<Vec<Stored>> {
        let rows =
            self.sql.lapsed.query_map(params![type_id.0, self.now.as_millis(), limit + except.len()], row::timer)?;
        collect(rows, except, limit)
    }
}

/// All rows are read before the first is written: a cursor must not walk over what its loop changes.
fn collect(
    rows: impl Iterator<Item = rusqlite::Result<Stored>>,
    except: &HashSet<TimerId>,
    limit: usize,
) -> Result<Vec<Stored>> {
    let wanted = rows.filter(|row| row.as_ref().map_or(true, |stored| !except.contains(&stored.timer.id)));
    Ok(wanted.take(limit).collect::<rusqlite::Result<_>>()?)
}
