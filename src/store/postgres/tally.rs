//! Counts and looks ahead, from the indexes, each up to a bound.

use std::collections::BTreeMap;

use tokio_postgres::types::ToSql;

use super::{
    connect::Conn,
    error::Fault,
    read::{all, one},
    row,
};
use crate::{
    domain::{compensation::CompensationState, id::TypeId, timer::State},
    store::{
        bounds::{MAX_TYPES, MAX_UPCOMING},
        read::{ForecastQuery, Tally, TallyQuery, Upcoming},
    },
};

pub(super) async fn tally(conn: &Conn, query: &TallyQuery) -> Result<Tally, Fault> {
    let types: Vec<i64> = query.types.iter().take(MAX_TYPES).map(|t| t.0).collect();
    let cap = i64::try_from(query.cap).unwrap_or(i64::MAX);
    let whole = |n: Option<i64>| u64::try_from(n.unwrap_or(0)).unwrap_or(0);
    let due = async |states: &[State], before: i64| {
        let states: Vec<i16> = states.iter().map(|s| row::code(s.code())).collect();
        let params: [&(dyn ToSql + Sync); 4] = [&types, &states, &before, &cap];
        Ok::<_, Fault>(whole(one(conn, "timers.count_due", &params, |r| row::get::<i64>(r, 0)).await?))
    };
    let by_type = async |states: &[CompensationState]| {
        let states: Vec<i16> = states.iter().map(|s| row::code(s.code())).collect();
        let params: [&(dyn ToSql + Sync); 3] = [&types, &states, &cap];
        all(conn, "compensations.count_by_type", &params, |r| {
            Ok((TypeId(row::get(r, 0)?), whole(Some(row::get(r, 1)?))))
        })
        .await
    };
    let dead_code = row::code(CompensationState::Dead.code());
    let of_dead: [&(dyn ToSql + Sync); 2] = [&types, &dead_code];
    let (overdue, scheduled, failed, pending, dead, oldest_dead_at) = tokio::try_join!(
        biased;
        due(&[State::Scheduled, State::Firing], query.overdue_before.as_millis()),
        due(&[State::Scheduled], i64::MAX),
        due(&[State::Failed], i64::MAX),
        by_type(&[CompensationState::Pending, CompensationState::Running]),
        by_type(&[CompensationState::Dead]),
        one(conn, "compensations.oldest_at", &of_dead, |r| row::at_or_none(r, 0)),
    )?;
    Ok(Tally {
        overdue,
        scheduled,
        failed,
        pending: pending.iter().map(|(_, n)| n).sum(),
        dead: dead.iter().map(|(_, n)| n).sum(),
        dead_by_type: dead.into_iter().collect(),
        oldest_dead_at: oldest_dead_at.flatten(),
    })
}

pub(super) async fn compensations(
    conn: &Conn,
    types: &[TypeId],
    state: CompensationState,
    cap: u64,
) -> Result<BTreeMap<TypeId, u64>, Fault> {
    let types: Vec<i64> = types.iter().take(MAX_TYPES).map(|t| t.0).collect();
    let states = vec![row::code(state.code())];
    let cap = i64::try_from(cap).unwrap_or(i64::MAX);
    let params: [&(dyn ToSql + Sync); 3] = [&types, &states, &cap];
    let counted = all(conn, "compensations.count_by_type", &params, |r| {
        Ok((TypeId(row::get(r, 0)?), u64::try_from(row::get::<i64>(r, 1)?).unwrap_or(0)))
    });
    Ok(counted.await?.into_iter().collect())
}

pub(super) async fn forecast(conn: &Conn, query: &ForecastQuery) -> Result<Vec<Upcoming>, Fault> {
    let types: Vec<i64> = query.types.iter().take(MAX_TYPES).map(|t| t.0).collect();
    let (from, until) = (query.from.as_millis(), query.until.as_millis());
    let step = i64::try_from(query.step.as_millis()).unwrap_or(i64::MAX).max(1);
    let rows = row::limit(query.rows.min(MAX_UPCOMING));
    let params: [&(dyn ToSql + Sync); 5] = [&types, &from, &until, &step, &rows];
    all(conn, "timers.upcoming", &params, |r| {
        Ok(Upcoming {
            type_id: TypeId(row::get(r, 0)?),
            step: usize::try_from(row::get::<i64>(r, 1)?).unwrap_or(0),
            count: u64::try_from(row::get::<i64>(r, 2)?).unwrap_or(0),
            last: row::at(r, 3)?,
        })
    })
    .await
}
