//! The lanes: claims, what runs report, and redrives.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    Batch,
    work::{Changes, Work},
};
use crate::{
    domain::{
        compensation::{Compensation, CompensationState},
        id::{CompensationId, Name, NamespaceId, TypeId},
    },
    store::{
        lane,
        op::{Answer, FinishCompensation, Finished, Lane, Op, Redrive, RedriveWhich, Redriven, Redriving},
        postgres::{error::Fault, row},
    },
};

/// Dead compensations that one redrive looks at, in each type, for those of its kind.
const MAX_LOOKED_AT: usize = 10_000;

/// A compensation, and what it was read as: the condition of its update.
pub(super) struct Run {
    pub compensation: Compensation,
    pub state: CompensationState,
    pub fence: i64,
    is_changed: bool,
}

impl Run {
    fn new(compensation: Compensation) -> Self {
        Self { state: compensation.state, fence: compensation.fence, is_changed: false, compensation }
    }
}

/// What a redrive by filter found: dead ones, and whether there are, or may be, more.
struct Found {
    ids: Vec<Uuid>,
    more: bool,
}

/// Compensations with their timers.
struct Lanes<'a> {
    held: HashMap<CompensationId, Run>,
    /// The active revisions, where a redrive wants them.
    active: HashMap<TypeId, i64>,
    work: Work<'a>,
}

impl Batch<'_> {
    /// Reports and redrives, in order.
    pub(super) async fn reports(&self, ops: &[&Op]) -> Result<Vec<Answer>, Fault> {
        if self.locking {
            self.conn.command("BEGIN").await?;
        }
        let mut by_filter = HashMap::<usize, Found>::new();
        let mut wanted = HashSet::<Uuid>::new();
        for (place, op) in ops.iter().enumerate() {
            match op {
                Op::FinishCompensation(finish) => drop(wanted.insert(finish.id.0)),
                Op::Redrive(Redrive { which: RedriveWhich::One(id), .. }) => drop(wanted.insert(id.0)),
                Op::Redrive(Redrive { namespace_id, which: RedriveWhich::Filter { type_id, kind, limit }, .. }) => {
                    let limit = (*limit).min(lane::MAX_REDRIVEN);
                    let found = self.dead(*namespace_id, *type_id, kind.as_ref(), limit).await?;
                    wanted.extend(&found.ids);
                    by_filter.insert(place, found);
                }
                _ => {}
            }
        }
        let mut lanes = self.read_lanes(wanted.into_iter().collect()).await?;
        if ops.iter().any(|op| matches!(op, Op::Redrive(Redrive { to_active: true, .. }))) {
            let rows = self.conn.rows("catalogue.active_revisions", &[]).await?;
            let active = rows.iter().map(|r| Ok::<_, Fault>((TypeId(row::int(r, 0)?), row::int(r, 1)?)));
            lanes.active = active.collect::<Result<_, _>>()?;
        }
        let answers = ops
            .iter()
            .enumerate()
            .map(|(place, op)| match op {
                Op::FinishCompensation(finish) => Answer::Finished(lanes.finish(finish)),
                Op::Redrive(redrive) => Answer::Redriven(lanes.redrive(redrive, by_filter.get(&place))),
                _ => unreachable!("asked for with another operation"),
            })
            .collect();
        let runs = lanes.held.values().filter(|run| run.is_changed).collect();
        self.write(Changes { work: &lanes.work, new: Vec::new(), runs }).await?;
        Ok(answers)
    }

    /// The compensations with their timers; if they are to be locked, the timers first, each in order of id.
    async fn read_lanes(&self, ids: Vec<Uuid>) -> Result<Lanes<'_>, Fault> {
        let params: [&(dyn ToSql + Sync); 1] = [&ids];
        let (now, timers, rows) = if self.locking {
            let timers = self.conn.rows("compensations.timers_of", &params).await?;
            let timers: HashSet<Uuid> = timers.iter().map(|row| row::get(row, 0)).collect::<Result<_, _>>()?;
            let (now, timers) = self.lock(&timers.into_iter().collect::<Vec<_>>()).await?;
            (now, timers, self.conn.rows("compensations.lock", &params).await?)
        } else {
            let (timers, rows, now) = tokio::try_join!(
                biased;
                self.conn.rows("timers.of_compensations", &params),
                self.conn.rows("compensations.look", &params),
                self.clock(),
            )?;
            (now, timers.iter().map(row::timer).collect::<Result<_, _>>()?, rows)
        };
        let held = rows.iter().map(|row| row::compensation(row).map(|c| (c.id, Run::new(c))));
        let active = HashMap::new();
        Ok(Lanes { held: held.collect::<Result<_, _>>()?, active, work: Work::new(self.chain, now, timers) })
    }

    /// Claims, each a statement of its own: what one has taken the next does not see. No event tells of a claim: what
    /// the run comes to does, and what a claim has taken whose answer is lost runs once its lease has lapsed.
    pub(super) async fn claim_compensations(&self, ops: &[&Op]) -> Result<Vec<Answer>, Fault> {
        // Only a test's clock is not the server's, which the statement reads itself.
        let now = self.store.clock.as_ref().map(|clock| clock.now().as_millis());
        let claims = ops.iter().map(async |op| {
            let Op::ClaimCompensations(claim) = op else { unreachable!("asked for with another operation") };
            let limit = row::limit(claim.limit.min(lane::MAX_CLAIMED));
            let lease = i64::try_from(claim.lease.as_millis()).unwrap_or(i64::MAX);
            let params: [&(dyn ToSql + Sync); 5] = [&claim.type_id.0, &claim.kind.as_str(), &now, &limit, &lease];
            let rows = self.conn.rows("compensations.claim", &params).await?;
            let mut claimed: Vec<(i64, Compensation)> = rows
                .iter()
                .map(|row| Ok((row::get(row, 17)?, row::compensation(row)?)))
                .collect::<Result<_, Fault>>()?;
            claimed.sort_by_key(|(run_at, compensation)| (*run_at, compensation.id));
            Ok(Answer::Compensations(claimed.into_iter().map(|(_, compensation)| compensation).collect()))
        });
        let answers = futures_util::future::join_all(claims).await;
        if answers.iter().all(Result::is_err) {
            return answers.into_iter().collect();
        }
        // What one has taken stands, whatever became of another.
        Ok(answers
            .into_iter()
            .map(|answer| answer.unwrap_or_else(|fault: Fault| Answer::Refused(fault.into())))
            .collect())
    }

    /// The oldest dead ones of the types and kind, at most `limit`.
    async fn dead(
        &self,
        namespace: NamespaceId,
        type_id: Option<TypeId>,
        kind: Option<&Name>,
        limit: usize,
    ) -> Result<Found, Fault> {
        let types = self.conn.rows("catalogue.type_ids", &[&namespace.0]).await?;
        let mut types: Vec<i64> = types.iter().map(|row| row::int(row, 0)).collect::<Result<_, _>>()?;
        types.retain(|id| type_id.is_none_or(|wanted| wanted.0 == *id));
        let look_at = if kind.is_some() { MAX_LOOKED_AT } else { limit + 1 };
        let rows = self.conn.rows("compensations.dead", &[&types, &row::limit(look_at)]).await?;
        let mut ids = Vec::new();
        for row in &rows {
            if kind.is_none_or(|kind| row::get::<&str>(row, 1).is_ok_and(|k| k == kind.as_str())) {
                if ids.len() == limit {
                    return Ok(Found { ids, more: true });
                }
                ids.push(row::get(row, 0)?);
            }
        }
        Ok(Found { ids, more: kind.is_some() && rows.len() == MAX_LOOKED_AT })
    }
}

impl Lanes<'_> {
    fn finish(&mut self, finish: &FinishCompensation) -> Finished {
        let stale = Finished { written: false, again: None };
        let Some(held) = self.held.get_mut(&finish.id) else { return stale };
        if !lane::is_current(&held.compensation, finish) {
            return stale;
        }
        held.is_changed = true;
        let note = lane::finish(&mut held.compensation, finish, self.work.now);
        if let Some(note) = note {
            self.work.append(held.compensation.timer_id, note);
        }
        Finished { written: true, again: lane::waits_in(&held.compensation) }
    }

    fn redrive(&mut self, redrive: &Redrive, found: Option<&Found>) -> Redriving {
        match (&redrive.which, found) {
            (RedriveWhich::One(id), _) => self.redrive_one(redrive, *id),
            (RedriveWhich::Filter { .. }, Some(found)) => self.redrive_many(redrive, found),
            (RedriveWhich::Filter { .. }, None) => {
                Redriving { redriven: Redriven::Many { count: 0, more: false }, lanes: Vec::new() }
            }
        }
    }

    fn redrive_one(&mut self, redrive: &Redrive, id: CompensationId) -> Redriving {
        let found = self.held.get(&id).filter(|held| held.compensation.namespace_id == redrive.namespace_id);
        let redriven = match found.map(|held| held.compensation.state) {
            None => Redriven::NotFound,
            Some(CompensationState::Dead) => {
                return match self.send_back(id, redrive) {
                    Some((compensation, lane)) => {
                        Redriving { redriven: Redriven::One(compensation), lanes: vec![lane] }
                    }
                    None => Redriving { redriven: Redriven::NotFound, lanes: Vec::new() },
                };
            }
            Some(state) => Redriven::WrongState(state),
        };
        Redriving { redriven, lanes: Vec::new() }
    }

    fn redrive_many(&mut self, redrive: &Redrive, found: &Found) -> Redriving {
        let mut lanes = Vec::<Lane>::new();
        let mut count = 0;
        for id in &found.ids {
            // Redriven by another since it was found: nothing is left to do.
            let id = CompensationId(*id);
            if self.held.get(&id).is_none_or(|held| held.compensation.state != CompensationState::Dead) {
                continue;
            }
            let Some((_, lane)) = self.send_back(id, redrive) else { continue };
            count += 1;
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        Redriving { redriven: Redriven::Many { count, more: found.more }, lanes }
    }

    fn send_back(&mut self, id: CompensationId, redrive: &Redrive) -> Option<(Compensation, Lane)> {
        let held = self.held.get_mut(&id)?;
        held.is_changed = true;
        let active = self.active.get(&held.compensation.type_id).copied().filter(|_| redrive.to_active);
        let note = lane::send_back(&mut held.compensation, redrive, active, self.work.now);
        self.work.append(held.compensation.timer_id, note);
        Some((held.compensation.clone(), lane::waits_in(&held.compensation)?))
    }
}
