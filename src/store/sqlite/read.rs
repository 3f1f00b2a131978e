//! Reads of one row, or of a bounded number in the order of an index.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    row,
    sql::{self},
};
use crate::{
    domain::{
        audit::{Chain, Event},
        compensation::{Compensation, CompensationState},
        id::{CompensationId, TimerId, TypeId},
        pause::Pauses,
        time::Timestamp,
        timer::Timer,
    },
    store::{
        Result,
        op::Lane,
        read::{Catalogue, DueQuery, Revoked, StoredEvent},
    },
};

/// Rows of one answer, whatever is asked for.
pub(super) const MAX_ROWS: usize = 10_000;
/// Lanes, and types, that a walk over them visits.
const MAX_STEPS: usize = 100_000;

/// What stands before every id in an index.
const BEFORE_ALL: &[u8] = &[];

pub(super) fn due(conn: &Connection, query: &DueQuery) -> Result<Vec<Timer>> {
    // The page goes on after the last one seen, but never before `from`.
    let after = query.after.filter(|(at, _)| *at >= query.from);
    let at = after.map_or(query.from, |(at, _)| at);
    let id = after.as_ref().map_or(BEFORE_ALL, |(_, id)| id.0.as_bytes());
    let params = params![query.shard, at.as_millis(), id, query.until.as_millis(), query.limit.min(MAX_ROWS)];
    let mut statement = conn.prepare_cached(sql::text("timers.due"))?;
    let rows = statement.query_map(params, |r| row::timer(r).map(|stored| stored.timer))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn timer(conn: &Connection, id: TimerId) -> Result<Option<Timer>> {
    Ok(stored(conn, id)?.map(|stored| stored.timer))
}

fn stored(conn: &Connection, id: TimerId) -> Result<Option<row::Stored>> {
    let mut statement = conn.prepare_cached(sql::text("timers.by_id"))?;
    Ok(statement.query_row([id.0.as_bytes()], row::timer).optional()?)
}

pub(super) fn timer_by_key(conn: &Connection, type_id: TypeId, key: &str) -> Result<Option<Timer>> {
    let mut statement = conn.prepare_cached(sql::text("timers.by_key"))?;
    Ok(statement.query_row(params![type_id.0, key], row::timer).optional()?.map(|stored| stored.timer))
}

/// A timer's events; its registration's is computed.
pub(super) fn events(
    conn: &mut Connection,
    chain: &Chain,
    timer: TimerId,
    after: i64,
    limit: usize,
) -> Result<Vec<StoredEvent>> {
    // One snapshot, so that the row and its events belong together.
    let snapshot = conn.transaction()?;
    let limit = limit.min(MAX_ROWS);
    let Some(row::Stored { n, timer }) = stored(&snapshot, timer)? else { return Ok(Vec::new()) };
    let mut events = Vec::new();
    if after < 1 && limit > 0 {
        let event = Event::registered(&timer);
        events.push(StoredEvent { body: event.body(), event, mac: chain.first(&timer) });
    }
    let mut statement = snapshot.prepare_cached(sql::text("events.after"))?;
    let rows = statement.query_map(params![n, after.max(1), limit - events.len()], |r| {
        Ok(StoredEvent { mac: r.get(0)?, event: row::json(r, 1)?, body: r.get(1)? })
    })?;
    for event in rows {
        events.push(event?);
    }
    Ok(events)
}

/// Steps from type to type through the indexes, looking only at the first entry of each.
pub(super) fn overdue_types(conn: &Connection, before: Timestamp, now: Timestamp) -> Result<Vec<TypeId>> {
    let mut overdue = first_of_each(conn, "timers.next_type", before)?;
    // Lapsed leases, whose end may lie after `before`.
    overdue.extend(first_of_each(conn, "timers.next_firing_type", now.saturating_add(ONE_MS))?);
    overdue.sort_unstable();
    overdue.dedup();
    Ok(overdue)
}

const ONE_MS: crate::domain::time::DurationMs = crate::domain::time::DurationMs::from_millis(1);

fn first_of_each(conn: &Connection, name: &str, before: Timestamp) -> Result<Vec<TypeId>> {
    let mut next = conn.prepare_cached(sql::text(name))?;
    let mut found = Vec::new();
    let mut last = i64::MIN;
    for _ in 0..MAX_STEPS {
        let step = next.query_row([last], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?))).optional()?;
        let Some((type_id, run_at)) = step else { break };
        if run_at < before.as_millis() {
            found.push(TypeId(type_id));
        }
        last = type_id;
    }
    Ok(found)
}

/// Every lane that has something to do, with the first time at which it has.
pub(super) fn lanes(conn: &Connection) -> Result<Vec<Lane>> {
    let mut next = conn.prepare_cached(sql::text("compensations.next_lane"))?;
    let mut lanes: Vec<Lane> = Vec::new();
    while lanes.len() < MAX_STEPS {
        let (last_type, last_kind) = lanes.last().map_or((i64::MIN, ""), |l| (l.type_id.0, l.kind.as_str()));
        let step = next.query_row(params![last_type, last_kind], |r| {
            Ok(Lane { type_id: TypeId(r.get(0)?), kind: row::parsed(r, 1)?, run_at: row::at(r, 2)? })
        });
        let Some(lane) = step.optional()? else { break };
        lanes.push(lane);
    }
    Ok(lanes)
}

pub(super) fn compensation(conn: &Connection, id: CompensationId) -> Result<Option<Compensation>> {
    let mut statement = conn.prepare_cached(sql::text("compensations.by_id"))?;
    Ok(statement.query_row([id.0.as_bytes()], row::compensation).optional()?.map(|stored| stored.compensation))
}

pub(super) fn compensation_counts(conn: &Connection, cap: u64) -> Result<(u64, u64, u64)> {
    let mut statement = conn.prepare_cached(sql::text("compensations.count"))?;
    let mut count = |state: CompensationState| statement.query_row(params![state.code(), cap], |r| r.get(0));
    let counts =
        (count(CompensationState::Pending)?, count(CompensationState::Running)?, count(CompensationState::Dead)?);
    Ok(counts)
}

pub(super) fn payloads_under(
    conn: &Connection,
    type_id: TypeId,
    revision: i64,
    limit: usize,
) -> Result<Vec<Option<String>>> {
    let mut statement = conn.prepare_cached(sql::text("timers.payloads_under"))?;
    let rows = statement.query_map(params![type_id.0, revision, limit], |r| r.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn catalogue_version(conn: &Connection) -> Result<i64> {
    let mut statement = conn.prepare_cached(sql::text("catalogue.setting"))?;
    Ok(statement.query_row(["catalogue_version"], |r| r.get(0))?)
}

pub(super) fn catalogue(conn: &mut Connection) -> Result<Catalogue> {
    let snapshot = conn.transaction()?;
    Ok(Catalogue {
        version: catalogue_version(&snapshot)?,
        namespaces: all(&snapshot, "catalogue.namespaces", row::namespace)?,
        types: all(&snapshot, "catalogue.types", row::timer_type)?,
        revisions: all(&snapshot, "catalogue.revisions", row::revision)?,
        plugins: all(&snapshot, "catalogue.plugins", row::plugin)?,
    })
}

pub(super) fn pauses(conn: &Connection) -> Result<Pauses> {
    Ok(all(conn, "catalogue.pauses", row::pause)?.into_iter().collect())
}

pub(super) fn revoked(conn: &Connection) -> Result<Revoked> {
    Ok(all(conn, "catalogue.revoked", row::revoked)?.into_iter().collect())
}

fn all<T>(
    conn: &Connection,
    name: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql::text(name))?;
    let rows = statement.query_map([], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
