//! Counts and looks ahead, from the indexes alone, each up to a bound.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{row, sql};
use crate::{
    domain::{compensation::CompensationState, id::TypeId, time::Timestamp, timer::State},
    store::{
        Result,
        bounds::{MAX_TYPES, MAX_UPCOMING},
        read::{ForecastQuery, Tally, TallyQuery, Upcoming},
    },
};

pub(super) fn tally(conn: &mut Connection, query: &TallyQuery) -> Result<Tally> {
    let snapshot = conn.transaction()?;
    let types = &query.types[..query.types.len().min(MAX_TYPES)];
    let mut count_due = snapshot.prepare_cached(sql::text("timers.count_due"))?;
    let mut due = |states: &[State], before: i64| -> Result<u64> {
        let mut counted = 0;
        for (type_id, state) in types.iter().flat_map(|t| states.iter().map(move |s| (t, s))) {
            if counted >= query.cap {
                break;
            }
            let params = params![type_id.0, state.code(), before, query.cap - counted];
            counted += count_due.query_row(params, |r| r.get::<_, u64>(0))?;
        }
        Ok(counted)
    };
    let mut tally = Tally {
        overdue: due(&[State::Scheduled, State::Firing], query.overdue_before.as_millis())?,
        scheduled: due(&[State::Scheduled], i64::MAX)?,
        failed: due(&[State::Failed], i64::MAX)?,
        ..Tally::default()
    };
    let mut count = snapshot.prepare_cached(sql::text("compensations.count_of_type"))?;
    let mut of_type = |type_id: &TypeId, state: CompensationState, cap: u64| {
        count.query_row(params![state.code(), type_id.0, cap], |r| r.get::<_, u64>(0))
    };
    for type_id in types {
        for state in [CompensationState::Pending, CompensationState::Running] {
            tally.pending += of_type(type_id, state, query.cap - tally.pending)?;
        }
        let dead = of_type(type_id, CompensationState::Dead, query.cap - tally.dead)?;
        if dead > 0 {
            tally.dead += dead;
            tally.dead_by_type.insert(*type_id, dead);
        }
    }
    let mut oldest = snapshot.prepare_cached(sql::text("compensations.oldest_at"))?;
    for type_id in tally.dead_by_type.keys() {
        let at = oldest.query_row(params![CompensationState::Dead.code(), type_id.0], |r| row::at(r, 0)).optional()?;
        tally.oldest_dead_at = tally.oldest_dead_at.into_iter().chain(at).min();
    }
    Ok(tally)
}

pub(super) fn compensations(
    conn: &mut Connection,
    types: &[TypeId],
    state: CompensationState,
    cap: u64,
) -> Result<BTreeMap<TypeId, u64>> {
    let mut count = conn.prepare_cached(sql::text("compensations.count_of_type"))?;
    let (mut counted, mut left) = (BTreeMap::new(), cap);
    for type_id in types.iter().take(MAX_TYPES) {
        let n: u64 = count.query_row(params![state.code(), type_id.0, left], |r| r.get(0))?;
        if n > 0 {
            counted.insert(*type_id, n);
            left -= n;
        }
    }
    Ok(counted)
}

pub(super) fn forecast(conn: &mut Connection, query: &ForecastQuery) -> Result<Vec<Upcoming>> {
    let snapshot = conn.transaction()?;
    let mut upcoming = snapshot.prepare_cached(sql::text("timers.upcoming"))?;
    let (from, step) = (query.from.as_millis(), i64::try_from(query.step.as_millis()).unwrap_or(i64::MAX).max(1));
    let mut types = query.types.clone();
    types.sort_unstable();
    types.truncate(MAX_TYPES);
    let mut found: Vec<Upcoming> = Vec::new();
    for type_id in types {
        let params = params![type_id.0, from, query.until.as_millis(), query.rows.min(MAX_UPCOMING)];
        let mut rows = upcoming.query(params)?;
        while let Some(row) = rows.next()? {
            let run_at: i64 = row.get(0)?;
            let nth = usize::try_from((run_at - from) / step).unwrap_or(0);
            let last = Timestamp::from_millis_clamped(run_at);
            match found.last_mut().filter(|u| u.type_id == type_id && u.step == nth) {
                Some(entry) => {
                    entry.count += 1;
                    entry.last = last;
                }
                None => found.push(Upcoming { type_id, step: nth, count: 1, last }),
            }
        }
    }
    Ok(found)
}
