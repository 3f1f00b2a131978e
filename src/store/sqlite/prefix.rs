//! Timers by the start of their key, in order of `(key, type)`: a range of the unique index in each type, merged.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::{row, sql};
use crate::{
    domain::{
        id::{TimerKey, TypeId},
        time::Timestamp,
        timer::State,
    },
    store::{
        Result,
        bounds::{MAX_LOOKED_AT_BY_PREFIX, MAX_PAGE, MAX_TYPES},
        read::{KeyPage, PrefixQuery, TimerQuery},
    },
};

struct Looked {
    n: i64,
    fits: bool,
}

pub(super) fn timers(conn: &mut Connection, query: &PrefixQuery, now: Timestamp) -> Result<KeyPage> {
    let snapshot = conn.transaction()?;
    let limit = query.filter.limit.clamp(1, MAX_PAGE);
    // One more tells whether there is more.
    let most = if query.filter.filters() { MAX_LOOKED_AT_BY_PREFIX.max(limit) } else { limit } + 1;
    let high = query.high();
    let mut keys = snapshot.prepare_cached(sql::text("timers.keys"))?;
    // The first keys of all types, at most so many: what stands behind the last of them is not needed.
    let mut looked_at: BTreeMap<(TimerKey, TypeId), Looked> = BTreeMap::new();
    for type_id in query.filter.types.iter().take(MAX_TYPES) {
        let mut rows = keys.query(params![type_id.0, query.low(*type_id), high, most])?;
        while let Some(row) = rows.next()? {
            let place = (row::parsed::<TimerKey>(row, 0)?, *type_id);
            if looked_at.len() == most {
                if looked_at.last_key_value().is_some_and(|(last, _)| place > *last) {
                    break;
                }
                looked_at.pop_last();
            }
            looked_at.insert(place, Looked { n: row.get(1)?, fits: fits(row, &query.filter, now)? });
        }
    }
    let mut by_n = snapshot.prepare_cached(sql::text("timers.by_n"))?;
    let (mut items, mut next) = (Vec::new(), None);
    let count = looked_at.len();
    for (nth, (place, Looked { n, fits })) in looked_at.into_iter().enumerate() {
        if items.len() == limit || nth + 1 == most {
            return Ok(KeyPage { items, next });
        }
        if fits {
            items.push(by_n.query_row([n], row::timer)?.timer);
        }
        next = Some(place).filter(|_| nth + 1 < count);
    }
    Ok(KeyPage { items, next: None })
}

fn fits(row: &rusqlite::Row<'_>, filter: &TimerQuery, now: Timestamp) -> Result<bool> {
    let state = State::from_code(row.get(2)?);
    let due_at = row::at(row, 3)?;
    let fits = state.is_some_and(|state| filter.takes(state, due_at, now));
    let Some((name, value)) = filter.label.as_ref().filter(|_| fits) else { return Ok(fits) };
    let labels: BTreeMap<String, String> = row::json(row, 4)?;
    Ok(labels.get(name) == Some(value))
}
