//! Reads of one row, or of a bounded number in the order of an index.

use std::time::Instant;

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    Postgres,
    connect::Conn,
    error::Fault,
    marks::Scan,
    row::{self, column},
};
use crate::{
    domain::{
        audit::{Chain, Event},
        compensation::CompensationState,
        id::{TimerId, TypeId},
        time::Timestamp,
        timer::{State, Timer},
    },
    store::{
        op::Lane,
        read::{Catalogue, DueQuery, StoredEvent},
    },
};

type Result<T> = std::result::Result<T, Fault>;

/// Rows of one answer, whatever is asked for.
const MAX_ROWS: usize = 10_000;

/// Lanes that a walk over them visits.
const MAX_LANES: usize = 100_000;

/// Several statements that see one moment.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

pub(super) async fn due(conn: &Conn, query: &DueQuery) -> Result<Vec<Timer>> {
    // The page goes on after the last one seen, but never before `from`.
    let after = query.after.filter(|(at, _)| *at >= query.from);
    let from = after.map_or(query.from, |(at, _)| at).as_millis();
    let (after_at, after_id) = after.map_or((from - 1, Uuid::nil()), |(at, id)| (at.as_millis(), id.0));
    let params: [&(dyn ToSql + Sync); 6] = [
        &i16::try_from(query.shard).unwrap_or(i16::MAX),
        &from,
        &query.until.as_millis(),
        &after_at,
        &after_id,
        &row::limit(query.limit.min(MAX_ROWS)),
    ];
    conn.rows("timers.due", &params).await?.iter().map(row::timer).collect()
}

pub(super) async fn one<T>(
    conn: &Conn,
    name: &str,
    params: &[&(dyn ToSql + Sync)],
    read: impl FnOnce(&Row) -> Result<T>,
) -> Result<Option<T>> {
    conn.row(name, params).await?.as_ref().map(read).transpose()
}

pub(super) async fn all<T>(
    conn: &Conn,
    name: &str,
    params: &[&(dyn ToSql + Sync)],
    read: impl FnMut(&Row) -> Result<T>,
) -> Result<Vec<T>> {
    conn.rows(name, params).await?.iter().map(read).collect()
}

/// A timer's events; its registration's is computed.
pub(super) async fn events(
    conn: &Conn,
    chain: &Chain,
    timer: TimerId,
    after: i64,
    limit: usize,
) -> Result<Vec<StoredEvent>> {
    let limit = limit.min(MAX_ROWS);
    // One snapshot, so that the row and its events belong together.
    let (id, seq, most) = (timer.0, after.max(1), row::limit(limit));
    let (by_id, params): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 3]) = ([&id], [&id, &seq, &most]);
    let ((), timer, rows, ()) = tokio::try_join!(
        biased;
        conn.command(SNAPSHOT),
        one(conn, "timers.by_id", &by_id, row::timer),
        conn.rows("events.after", &params),
        conn.command("COMMIT"),
    )?;
    let Some(timer) = timer else { return Ok(Vec::new()) };
    let mut events = Vec::new();
    if after < 1 && limit > 0 {
        let event = Event::registered(&timer);
        events.push(StoredEvent { body: event.body(), event, mac: chain.first(&timer) });
    }
    for stored in rows.iter().take(limit - events.len()) {
        let body: String = row::get(stored, 1)?;
        let event = serde_json::from_str(&body).map_err(|e| Fault::Data(format!("an event cannot be read: {e}")))?;
        events.push(StoredEvent { event, body, mac: row::hash(0, row::get(stored, 0)?)? });
    }
    Ok(events)
}

/// Looks into the indexes at each type's mark, and no further than to the first entry that is left.
pub(super) async fn overdue_types(
    store: &Postgres,
    conn: &Conn,
    before: Timestamp,
    now: Timestamp,
) -> Result<Vec<TypeId>> {
    let types = all(conn, "catalogue.all_type_ids", &[], |r| row::int(r, 0)).await?;
    let started = Instant::now();
    let scans =
        |state| -> Vec<Scan> { types.iter().map(|id| store.marks.begin((TypeId(*id), state), started)).collect() };
    let (scheduled, firing) = (scans(State::Scheduled), scans(State::Firing));
    // A lapsed lease may end after `before`.
    let (before, until) = (before.as_millis(), now.as_millis() + 1);
    let lows = |scans: &[Scan]| column(scans, |scan| scan.low);
    let (scheduled_lows, firing_lows) = (lows(&scheduled), lows(&firing));
    let overdue: [&(dyn ToSql + Sync); 3] = [&types, &scheduled_lows, &before];
    let lapsed: [&(dyn ToSql + Sync); 3] = [&types, &firing_lows, &until];
    let (overdue, lapsed) = tokio::try_join!(
        biased;
        all(conn, "timers.overdue_types", &overdue, |r| row::get::<i64>(r, 0)),
        all(conn, "timers.lapsed_types", &lapsed, |r| row::get::<i64>(r, 0)),
    )?;
    for (scans, found, frontier) in [(&scheduled, &overdue, before.min(until)), (&firing, &lapsed, until)] {
        for scan in scans.iter().filter(|scan| !found.contains(&scan.part.0.0)) {
            store.marks.reached(scan, frontier);
        }
    }
    let mut found: Vec<TypeId> = overdue.into_iter().chain(lapsed).map(TypeId).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Every lane that has something to do, with the first time at which it has.
pub(super) async fn lanes(conn: &Conn) -> Result<Vec<Lane>> {
    all(conn, "compensations.lanes", &[&row::limit(MAX_LANES)], |r| {
        Ok(Lane { type_id: TypeId(row::int(r, 0)?), kind: row::parsed(r, 1)?, run_at: row::at(r, 2)? })
    })
    .await
}

pub(super) async fn compensation_counts(conn: &Conn, cap: u64) -> Result<(u64, u64, u64)> {
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    let count = async |state: CompensationState| {
        let params: [&(dyn ToSql + Sync); 2] = [&row::code(state.code()), &cap];
        let counted = one(conn, "compensations.count", &params, |r| row::get::<i64>(r, 0)).await?;
        Ok::<_, Fault>(u64::try_from(counted.unwrap_or(0)).unwrap_or(0))
    };
    tokio::try_join!(
        count(CompensationState::Pending),
        count(CompensationState::Running),
        count(CompensationState::Dead)
    )
}

pub(super) async fn catalogue_version(conn: &Conn) -> Result<i64> {
    let version = one(conn, "catalogue.setting", &[&"catalogue_version"], |r| row::get(r, 0)).await?;
    version.ok_or_else(|| Fault::Data("the catalogue has no version".into()))
}

pub(super) async fn catalogue(conn: &Conn) -> Result<Catalogue> {
    let ((), version, namespaces, types, revisions, plugins, ()) = tokio::try_join!(
        biased;
        conn.command(SNAPSHOT),
        catalogue_version(conn),
        all(conn, "catalogue.namespaces", &[], row::namespace),
        all(conn, "catalogue.types", &[], row::timer_type),
        all(conn, "catalogue.revisions", &[], row::revision),
        all(conn, "catalogue.plugins", &[], row::plugin),
        conn.command("COMMIT"),
    )?;
    Ok(Catalogue { version, namespaces, types, revisions, plugins })
}
