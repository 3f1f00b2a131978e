//! The lanes: claims, what runs report, and redrives.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Batch, work::Work};
use crate::{
    domain::{
        compensation::{Compensation, CompensationState},
        id::{CompensationId, Name, NamespaceId, TypeId},
        time::Timestamp,
    },
    store::{
        lane,
        op::{
            Answer, ClaimCompensations, FinishCompensation, Finished, Lane, Op, Redrive, RedriveWhich, Redriven,
            Redriving,
        },
        postgres::{
            error::Fault,
            row::{self, code, column, json_text, ms},
        },
    },
};

/// Dead compensations that one redrive looks at, in each type, for those of its kind.
const MAX_LOOKED_AT: usize = 10_000;

struct Held {
    compensation: Compensation,
    /// As it was read: the condition of its update.
    state: CompensationState,
    fence: i64,
    is_changed: bool,
}

impl Held {
    fn new(compensation: Compensation) -> Self {
        Self { state: compensation.state, fence: compensation.fence, is_changed: false, compensation }
    }
}

/// What a redrive by filter found: dead ones, and whether there are, or may be, more.
struct Found {
    ids: Vec<Uuid>,
    more: bool,
}

/// Locked compensations with their locked timers.
struct Lanes<'a> {
    held: HashMap<CompensationId, Held>,
    work: Work<'a>,
}

impl Batch<'_> {
    /// Reports and redrives first, in order, then claims: this way timers are locked before compensations, and each in
    /// one go.
    pub(super) async fn compensations(&mut self, begin: Option<&str>, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
        let mut begin = begin;
        let mut answers = if ops.iter().all(|op| matches!(op, Op::ClaimCompensations(_))) {
            vec![None; ops.len()]
        } else {
            self.reports(begin.take(), ops).await?
        };
        let claims: Vec<(usize, &ClaimCompensations)> = ops
            .iter()
            .enumerate()
            .filter_map(|(index, op)| match op {
                Op::ClaimCompensations(claim) => Some((index, claim)),
                _ => None,
            })
            .collect();
        if !claims.is_empty() {
            let now = self.now(begin).await?;
            for (index, claimed) in self.claim(now, claims).await? {
                answers[index] = Some(Answer::Compensations(claimed));
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.ok_or_else(|| Fault::Data("an operation without an answer".into())))
            .collect()
    }

    async fn reports(&mut self, begin: Option<&str>, ops: &[Op]) -> Result<Vec<Option<Answer>>, Fault> {
        self.begin(begin).await?;
        let mut by_filter = HashMap::<usize, Found>::new();
        let mut wanted = HashSet::<Uuid>::new();
        for (index, op) in ops.iter().enumerate() {
            match op {
                Op::FinishCompensation(finish) => drop(wanted.insert(finish.id.0)),
                Op::Redrive(Redrive { which: RedriveWhich::One(id), .. }) => drop(wanted.insert(id.0)),
                Op::Redrive(Redrive { namespace_id, which: RedriveWhich::Filter { type_id, kind, limit }, .. }) => {
                    let limit = (*limit).min(lane::MAX_REDRIVEN);
                    let found = self.dead(*namespace_id, *type_id, kind.as_ref(), limit).await?;
                    wanted.extend(&found.ids);
                    by_filter.insert(index, found);
                }
                _ => {}
            }
        }
        let mut lanes = self.lock_lanes(wanted.into_iter().collect()).await?;
        let answers = ops
            .iter()
            .enumerate()
            .map(|(index, op)| match op {
                Op::FinishCompensation(finish) => Some(Answer::Finished(lanes.finish(finish))),
                Op::Redrive(redrive) => Some(Answer::Redriven(lanes.redrive(redrive, by_filter.get(&index)))),
                _ => None,
            })
            .collect();
        self.update_compensations(lanes.held.values().filter(|held| held.is_changed)).await?;
        self.flush(lanes.work).await?;
        Ok(answers)
    }

    /// Locks the timers of these compensations in order of id, and then the compensations in theirs.
    async fn lock_lanes(&self, ids: Vec<Uuid>) -> Result<Lanes<'_>, Fault> {
        let timers = self.conn.rows("compensations.timers_of", &[&ids]).await?;
        let timers: HashSet<Uuid> = timers.iter().map(|row| row::get(row, 0)).collect::<Result<_, _>>()?;
        let (timers, now) = self.lock(None, timers.into_iter().collect()).await?;
        let rows = self.conn.rows("compensations.lock", &[&ids]).await?;
        let held = rows.iter().map(|row| row::compensation(row).map(|c| (c.id, Held::new(c))));
        Ok(Lanes { held: held.collect::<Result<_, _>>()?, work: Work::new(self.chain, now, timers) })
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

    /// Claims of one lane see each other's, so those of
    /// different lanes go together.
    async fn claim(
        &self,
        now: Timestamp,
        mut claims: Vec<(usize, &ClaimCompensations)>,
    ) -> Result<Vec<(usize, Vec<Compensation>)>, Fault> {
        let mut claimed = Vec::with_capacity(claims.len());
        while !claims.is_empty() {
            let mut lanes = HashSet::new();
            let (together, later) = claims.into_iter().partition(|(_, c)| lanes.insert((c.type_id, c.kind.clone())));
            claims = later;
            claimed.extend(self.claim_lanes(now, together).await?);
        }
        Ok(claimed)
    }

    async fn claim_lanes(
        &self,
        now: Timestamp,
        claims: Vec<(usize, &ClaimCompensations)>,
    ) -> Result<Vec<(usize, Vec<Compensation>)>, Fault> {
        let found = claims.iter().map(async |(index, claim)| {
            let limit = row::limit(claim.limit.min(lane::MAX_CLAIMED));
            let params: [&(dyn ToSql + Sync); 4] = [&claim.type_id.0, &claim.kind.as_str(), &now.as_millis(), &limit];
            let rows = self.conn.rows("compensations.due", &params).await?;
            let held = rows.iter().map(|row| {
                let mut held = Held::new(row::compensation(row)?);
                lane::claim(&mut held.compensation, claim.lease, now);
                Ok(held)
            });
            Ok::<_, Fault>((*index, held.collect::<Result<Vec<Held>, Fault>>()?))
        });
        let found = futures_util::future::try_join_all(found).await?;
        self.update_compensations(found.iter().flat_map(|(_, held)| held)).await?;
        let bare = |held: Vec<Held>| held.into_iter().map(|held| held.compensation).collect();
        Ok(found.into_iter().map(|(index, held)| (index, bare(held))).collect())
    }

    async fn update_compensations(&self, held: impl Iterator<Item = &Held>) -> Result<(), Fault> {
        let mut held: Vec<&Held> = held.collect();
        if held.is_empty() {
            return Ok(());
        }
        held.sort_by_key(|h| h.compensation.id);
        let rows = self
            .conn
            .rows(
                "compensations.update",
                &[
                    &column(&held, |h| h.compensation.id.0),
                    &column(&held, |h| code(h.state.code())),
                    &column(&held, |h| h.fence),
                    &column(&held, |h| code(h.compensation.state.code())),
                    &column(&held, |h| i64::from(h.compensation.attempt)),
                    &column(&held, |h| i64::from(h.compensation.first_attempt)),
                    &column(&held, |h| ms(h.compensation.run_at)),
                    &column(&held, |h| h.compensation.fence),
                    &column(&held, |h| h.compensation.last_error.as_ref().map(json_text)),
                    &column(&held, |h| h.compensation.result.as_deref()),
                    &column(&held, |h| ms(h.compensation.settled_at)),
                ],
            )
            .await?;
        if rows.len() == held.len() {
            Ok(())
        } else {
            Err(Fault::Conflict("a locked compensation was changed by another".into()))
        }
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
        let note = lane::send_back(&mut held.compensation, redrive, self.work.now);
        self.work.append(held.compensation.timer_id, note);
        Some((held.compensation.clone(), lane::waits_in(&held.compensation)?))
    }
}
