//! The lanes: claims, what runs report, and redrives.

use rusqlite::{OptionalExtension as _, params};
use serde_json::json;

use super::{Writer, interfered, timers::json_text, transition::merge};
use crate::{
    domain::{
        audit::EventKind,
        compensation::{Compensation, CompensationState, RunResult},
        id::{CompensationId, Name, NamespaceId, TypeId},
    },
    store::{
        Result,
        op::{ClaimCompensations, FinishCompensation, Finished, Lane, Redrive, RedriveWhich, Redriven, Redriving},
        sqlite::row::{self, StoredCompensation},
        sqlite::sql,
    },
};

/// Compensations that one claim may take, and one redrive may send back, whatever they ask for.
const MAX_CLAIMED: usize = 1_000;
const MAX_REDRIVEN: usize = 1_000;

/// Dead compensations that one redrive looks at, in each type, for those of its kind; in the index alone.
const MAX_LOOKED_AT: usize = 200_000;

impl Writer<'_> {
    /// No event tells of a claim: what the run comes to does.
    pub(super) fn claim_compensations(&mut self, claim: &ClaimCompensations) -> Result<Vec<Compensation>> {
        let limit = claim.limit.min(MAX_CLAIMED);
        let params = params![claim.type_id.0, claim.kind.as_str(), self.now.as_millis(), limit];
        let found: Vec<StoredCompensation> =
            self.sql.due_compensations.query_map(params, row::compensation)?.collect::<rusqlite::Result<_>>()?;
        let lease_until = self.now.saturating_add(claim.lease);
        let mut claimed = Vec::with_capacity(found.len());
        for StoredCompensation { n, mut compensation, .. } in found {
            // A lease that lapsed has used its attempt up.
            let lapsed = compensation.state == CompensationState::Running;
            let attempt = compensation.attempt.saturating_add(u32::from(lapsed));
            let changed = self.sql.claim_compensation.execute(params![
                n,
                compensation.fence,
                compensation.state.code(),
                attempt,
                lease_until.as_millis(),
            ])?;
            if changed != 1 {
                return Err(interfered("the compensation"));
            }
            compensation.state = CompensationState::Running;
            compensation.attempt = attempt;
            compensation.fence += 1;
            compensation.run_at = Some(lease_until);
            claimed.push(compensation);
        }
        Ok(claimed)
    }

    pub(super) fn finish_compensation(&mut self, finish: &FinishCompensation) -> Result<Finished> {
        let stale = Finished { written: false, again: None };
        let Some(stored) = self.compensation(finish.id)? else { return Ok(stale) };
        let StoredCompensation { n, timer, compensation } = stored;
        if compensation.state != CompensationState::Running || compensation.fence != finish.fence {
            return Ok(stale);
        }
        let about = json!({
            "compensation_id": compensation.id,
            "kind": compensation.kind,
            "attempt": compensation.attempt,
        });
        let (state, event, failure, result, next, about) = match &finish.result {
            RunResult::Done { result, skipped } => {
                let about = match skipped {
                    Some(failure) => merge(about, json!({ "skipped": failure })),
                    None => about,
                };
                (CompensationState::Done, EventKind::CompensationDone, skipped.as_ref(), result.as_ref(), None, about)
            }
            RunResult::Retry { failure, at, counts } => {
                let at = (*at).max(self.now);
                let about = merge(about, json!({ "failure": failure, "run_at": at }));
                let next = Some((at, *counts));
                (CompensationState::Pending, EventKind::CompensationRetried, Some(failure), None, next, about)
            }
            RunResult::Dead { failure } => {
                let about = merge(about, json!({ "failure": failure }));
                (CompensationState::Dead, EventKind::CompensationDead, Some(failure), None, None, about)
            }
        };
        let counts = next.is_none_or(|(_, counts)| counts);
        let attempt = compensation.attempt.saturating_add(u32::from(next.is_some() && counts));
        let settled_at = next.is_none().then_some(self.now.as_millis());
        let changed = self.sql.finish_compensation.execute(params![
            n,
            finish.fence,
            state.code(),
            attempt,
            next.map(|(at, _)| at.as_millis()),
            failure.map(json_text),
            result,
            settled_at,
        ])?;
        if changed != 1 {
            return Err(interfered("the compensation"));
        }
        if counts {
            self.append(timer, event, "engine", merge(about, finish.detail.clone()))?;
        }
        let again =
            next.map(|(run_at, _)| Lane { type_id: compensation.type_id, kind: compensation.kind.clone(), run_at });
        Ok(Finished { written: true, again })
    }

    pub(super) fn redrive(&mut self, redrive: &Redrive) -> Result<Redriving> {
        match &redrive.which {
            RedriveWhich::One(id) => self.redrive_one(redrive, *id),
            RedriveWhich::Filter { type_id, kind, limit } => {
                self.redrive_many(redrive, *type_id, kind.as_ref(), (*limit).min(MAX_REDRIVEN))
            }
        }
    }

    fn redrive_one(&mut self, redrive: &Redrive, id: CompensationId) -> Result<Redriving> {
        let found = self.compensation(id)?.filter(|s| s.compensation.namespace_id == redrive.namespace_id);
        let Some(stored) = found else {
            return Ok(Redriving { redriven: Redriven::NotFound, lanes: Vec::new() });
        };
        if stored.compensation.state != CompensationState::Dead {
            return Ok(Redriving { redriven: Redriven::WrongState(stored.compensation.state), lanes: Vec::new() });
        }
        let compensation = self.send_back(stored, redrive)?;
        let lanes = vec![self.lane(&compensation)];
        Ok(Redriving { redriven: Redriven::One(compensation), lanes })
    }

    fn redrive_many(
        &mut self,
        redrive: &Redrive,
        type_id: Option<TypeId>,
        kind: Option<&Name>,
        limit: usize,
    ) -> Result<Redriving> {
        let mut types = self.type_ids(redrive.namespace_id)?;
        types.retain(|t| type_id.is_none_or(|wanted| *t == wanted));
        let mut lanes = Vec::<Lane>::new();
        let (mut count, mut more) = (0, false);
        for type_id in types {
            let (found, left) = self.dead(type_id, kind, limit - count)?;
            more |= left;
            for n in found {
                let stored = self.sql.compensation_by_n.query_row([n], row::compensation)?;
                let compensation = self.send_back(stored, redrive)?;
                let lane = self.lane(&compensation);
                if !lanes.contains(&lane) {
                    lanes.push(lane);
                }
                count += 1;
            }
        }
        Ok(Redriving { redriven: Redriven::Many { count, more }, lanes })
    }

    /// The oldest dead ones of a type and kind, at most `limit`, and whether there are, or may be, more.
    fn dead(&mut self, type_id: TypeId, kind: Option<&Name>, limit: usize) -> Result<(Vec<i64>, bool)> {
        let look_at = if kind.is_some() { MAX_LOOKED_AT } else { limit + 1 };
        let params = params![CompensationState::Dead.code(), type_id.0, look_at];
        let mut rows = self.sql.oldest_compensations.query(params)?;
        let (mut found, mut looked_at) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            looked_at += 1;
            if kind.is_none_or(|kind| row.get_ref(1).is_ok_and(|k| k.as_str() == Ok(kind.as_str()))) {
                if found.len() == limit {
                    return Ok((found, true));
                }
                found.push(row.get(0)?);
            }
        }
        Ok((found, kind.is_some() && looked_at == MAX_LOOKED_AT))
    }

    fn send_back(&mut self, stored: StoredCompensation, redrive: &Redrive) -> Result<Compensation> {
        let StoredCompensation { n, timer, mut compensation } = stored;
        let attempt = compensation.attempt.saturating_add(1);
        if self.sql.redrive_compensation.execute(params![n, attempt, self.now.as_millis()])? != 1 {
            return Err(interfered("the compensation"));
        }
        let detail = json!({
            "compensation_id": compensation.id,
            "kind": compensation.kind,
            "attempt": attempt,
            "note": redrive.note,
        });
        self.append(timer, EventKind::CompensationRedriven, &redrive.actor, detail)?;
        compensation.state = CompensationState::Pending;
        compensation.attempt = attempt;
        compensation.first_attempt = attempt;
        compensation.run_at = Some(self.now);
        compensation.settled_at = None;
        Ok(compensation)
    }

    fn lane(&self, compensation: &Compensation) -> Lane {
        Lane { type_id: compensation.type_id, kind: compensation.kind.clone(), run_at: self.now }
    }

    fn compensation(&mut self, id: CompensationId) -> Result<Option<StoredCompensation>> {
        Ok(self.sql.compensation_by_id.query_row([id.0.as_bytes()], row::compensation).optional()?)
    }

    fn type_ids(&self, namespace: NamespaceId) -> Result<Vec<TypeId>> {
        let mut statement = self.conn.prepare_cached(sql::text("catalogue.type_ids"))?;
        let ids = statement.query_map([namespace.0], |row| row.get(0).map(TypeId))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }
}
