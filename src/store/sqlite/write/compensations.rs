//! The lanes: claims, what runs report, and redrives.

use rusqlite::{OptionalExtension as _, params};

use super::{Writer, interfered, timers::json_text};
use crate::{
    domain::{
        compensation::{Compensation, CompensationState},
        id::{CompensationId, Name, NamespaceId, TypeId},
        time::Timestamp,
    },
    store::{
        Result, lane,
        op::{ClaimCompensations, FinishCompensation, Finished, Lane, Redrive, RedriveWhich, Redriven, Redriving},
        sqlite::row::{self, StoredCompensation},
        sqlite::sql,
    },
};

/// Dead compensations that one redrive looks at, in each type, for those of its kind; in the index alone.
const MAX_LOOKED_AT: usize = 200_000;

impl Writer<'_> {
    pub(super) fn claim_compensations(&mut self, claim: &ClaimCompensations) -> Result<Vec<Compensation>> {
        let limit = claim.limit.min(lane::MAX_CLAIMED);
        let params = params![claim.type_id.0, claim.kind.as_str(), self.now.as_millis(), limit];
        let found: Vec<StoredCompensation> =
            self.sql.due_compensations.query_map(params, row::compensation)?.collect::<rusqlite::Result<_>>()?;
        let mut claimed = Vec::with_capacity(found.len());
        for StoredCompensation { n, mut compensation, .. } in found {
            let (fence, state) = (compensation.fence, compensation.state);
            lane::claim(&mut compensation, claim.lease, self.now);
            let changed = self.sql.claim_compensation.execute(params![
                n,
                fence,
                state.code(),
                compensation.attempt,
                compensation.run_at.map(Timestamp::as_millis),
            ])?;
            if changed != 1 {
                return Err(interfered("the compensation"));
            }
            claimed.push(compensation);
        }
        Ok(claimed)
    }

    pub(super) fn finish_compensation(&mut self, finish: &FinishCompensation) -> Result<Finished> {
        let current = self.compensation(finish.id)?.filter(|stored| lane::is_current(&stored.compensation, finish));
        let Some(StoredCompensation { n, timer, mut compensation }) = current else {
            return Ok(Finished { written: false, again: None });
        };
        let note = lane::finish(&mut compensation, finish, self.now);
        let changed = self.sql.finish_compensation.execute(params![
            n,
            finish.fence,
            compensation.state.code(),
            compensation.attempt,
            compensation.run_at.map(Timestamp::as_millis),
            compensation.last_error.as_ref().map(json_text),
            compensation.result,
            compensation.settled_at.map(Timestamp::as_millis),
        ])?;
        if changed != 1 {
            return Err(interfered("the compensation"));
        }
        if let Some(note) = note {
            self.append(timer, note)?;
        }
        Ok(Finished { written: true, again: lane::waits_in(&compensation) })
    }

    pub(super) fn redrive(&mut self, redrive: &Redrive) -> Result<Redriving> {
        match &redrive.which {
            RedriveWhich::One(id) => self.redrive_one(redrive, *id),
            RedriveWhich::Filter { type_id, kind, limit } => {
                self.redrive_many(redrive, *type_id, kind.as_ref(), (*limit).min(lane::MAX_REDRIVEN))
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
        let lanes = lane::waits_in(&compensation).into_iter().collect();
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
                lanes.extend(lane::waits_in(&compensation).filter(|lane| !lanes.contains(lane)));
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
        let active = if redrive.to_active { self.active_revision(compensation.type_id)? } else { None };
        let note = lane::send_back(&mut compensation, redrive, active, self.now);
        let params = params![n, compensation.attempt, self.now.as_millis(), compensation.revision];
        if self.sql.redrive_compensation.execute(params)? != 1 {
            return Err(interfered("the compensation"));
        }
        self.append(timer, note)?;
        Ok(compensation)
    }

    fn compensation(&mut self, id: CompensationId) -> Result<Option<StoredCompensation>> {
        Ok(self.sql.compensation_by_id.query_row([id.0.as_bytes()], row::compensation).optional()?)
    }

    fn active_revision(&self, type_id: TypeId) -> Result<Option<i64>> {
        let mut statement = self.conn.prepare_cached(sql::text("catalogue.active_revision"))?;
        Ok(statement.query_row([type_id.0], |row| row.get(0)).optional()?)
    }

    fn type_ids(&self, namespace: NamespaceId) -> Result<Vec<TypeId>> {
        let mut statement = self.conn.prepare_cached(sql::text("catalogue.type_ids"))?;
        let ids = statement.query_map([namespace.0], |row| row.get(0).map(TypeId))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }
}
