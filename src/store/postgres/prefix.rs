//! Timers by the start of their key, in order of `(key, type)`: a range of the unique index in each type, merged.

use std::collections::BTreeMap;

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{connect::Conn, error::Fault, read::all, row};
use crate::{
    domain::{
        id::{TimerKey, TypeId},
        time::Timestamp,
        timer::State,
    },
    store::{
        bounds::{MAX_LOOKED_AT_BY_PREFIX, MAX_PAGE, MAX_TYPES},
        read::{KeyPage, PrefixQuery, TimerQuery},
    },
};

/// A row that was looked at, without its contents.
struct Looked {
    place: (TimerKey, TypeId),
    id: Uuid,
    fits: bool,
}

pub(super) async fn timers(conn: &Conn, query: &PrefixQuery, now: Timestamp) -> Result<KeyPage, Fault> {
    let limit = query.filter.limit.clamp(1, MAX_PAGE);
    // One more tells whether there is more.
    let most = if query.filter.filters() { MAX_LOOKED_AT_BY_PREFIX.max(limit) } else { limit } + 1;
    let types: Vec<i64> = query.filter.types.iter().take(MAX_TYPES).map(|t| t.0).collect();
    let lows: Vec<String> = types.iter().map(|t| query.low(TypeId(*t))).collect();
    let (high, rows) = (query.high(), row::limit(most));
    let params: [&(dyn ToSql + Sync); 4] = [&types, &lows, &high, &rows];
    let looked_at = all(conn, "timers.keys", &params, |r| {
        let place = (row::parsed(r, 0)?, TypeId(row::int(r, 1)?));
        Ok(Looked { place, id: row::get(r, 2)?, fits: fits(r, &query.filter, now)? })
    });
    let looked_at = looked_at.await?;
    let (mut ids, mut next) = (Vec::new(), None);
    let mut through = true;
    for (nth, looked) in looked_at.iter().enumerate() {
        if ids.len() == limit || nth + 1 == most {
            through = false;
            break;
        }
        if looked.fits {
            ids.push(looked.id);
        }
        next = Some(looked.place.clone());
    }
    let mut items = all(conn, "timers.by_ids", &[&ids], row::timer).await?;
    items.sort_by(|a, b| (&a.key, a.type_id).cmp(&(&b.key, b.type_id)));
    Ok(KeyPage { items, next: next.filter(|_| !through) })
}

fn fits(r: &Row, filter: &TimerQuery, now: Timestamp) -> Result<bool, Fault> {
    let state = State::from_code(i64::from(row::get::<i16>(r, 3)?));
    let due_at = row::at(r, 4)?;
    let fits = state.is_some_and(|state| filter.takes(state, due_at, now));
    let Some((name, value)) = filter.label.as_ref().filter(|_| fits) else { return Ok(fits) };
    let labels: BTreeMap<String, String> = row::json_or_none(r, 5)?.unwrap_or_default();
    Ok(labels.get(name) == Some(value))
}
