//! Pages of the lists: spans of one index, one for each type and state, merged newest first by the server. Nothing is
//! counted, and nothing skipped by offset.

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{connect::Conn, error::Fault, read::all, row};
use crate::{
    domain::{
        compensation::{Compensation, CompensationState},
        time::Timestamp,
        timer::{State, Timer},
    },
    store::{
        bounds::{MAX_LOOKED_AT, MAX_OF_TIMER, MAX_PAGE, MAX_SPANS},
        read::{CompensationQuery, Order, Page, TimerQuery},
    },
};

type Params<'a> = [&'a (dyn ToSql + Sync)];

/// The spans of the timers' index, as columns. Times are in milliseconds, `from` inclusive and `until` exclusive.
#[derive(Default)]
struct Spans {
    types: Vec<i64>,
    states: Vec<i16>,
    from: Vec<i64>,
    until: Vec<i64>,
}

impl Spans {
    /// `expired` is computed: by state where it decides, by the due time where that does.
    fn new(query: &TimerQuery, now: Timestamp) -> Self {
        let until = query.due_before.map_or(i64::MAX, Timestamp::as_millis);
        let from = query.due_after.map_or(0, Timestamp::as_millis);
        let after_now = now.as_millis() + 1;
        let states = if query.states.is_empty() { &State::ALL[..] } else { &query.states };
        let mut spans = Self::default();
        for (type_id, state) in query.types.iter().flat_map(|t| states.iter().map(move |s| (t, s))).take(MAX_SPANS) {
            let (from, until) = match (query.expired, state.is_final()) {
                (Some(true), true) => continue,
                (Some(true), false) => (from, until.min(after_now)),
                (Some(false), false) => (from.max(after_now), until),
                (Some(false), true) | (None, _) => (from, until),
            };
            spans.types.push(type_id.0);
            spans.states.push(row::code(state.code()));
            spans.from.push(from);
            spans.until.push(until);
        }
        spans
    }
}

pub(super) async fn timers(conn: &Conn, query: &TimerQuery, now: Timestamp) -> Result<Page<Timer>, Fault> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    if let Some(key) = &query.key {
        return by_key(conn, query, key, limit, now).await;
    }
    let spans = Spans::new(query, now);
    let ascending = query.order == Order::DueAscending;
    let (before_at, before_id) = if ascending {
        query.after.map_or((-1, Uuid::nil()), |(at, id)| (at.as_millis(), id.0))
    } else {
        place(query.before.map(|(at, id)| (at, id.0)))
    };
    let Some((name, value)) = &query.label else {
        let most = row::limit(limit + 1);
        let params: [&(dyn ToSql + Sync); 7] =
            [&spans.types, &spans.states, &spans.from, &spans.until, &before_at, &before_id, &most];
        let text = if ascending { "timers.page_ascending" } else { "timers.page" };
        let found = all(conn, text, &params, row::timer).await?;
        return Ok(cut(found, limit, |timer| (timer.due_at, timer.id.0)));
    };
    let most = row::limit(MAX_LOOKED_AT + 1);
    let params: [&(dyn ToSql + Sync); 9] =
        [&spans.types, &spans.states, &spans.from, &spans.until, &before_at, &before_id, &most, name, value];
    let text = if ascending { "timers.page_keys_ascending" } else { "timers.page_keys" };
    let looked_at =
        all(conn, text, &params, |r| Ok(Looked { at: row::at(r, 0)?, id: row::get(r, 1)?, fits: row::get(r, 2)? }));
    let (ids, next) = pick(&looked_at.await?, limit);
    let mut items = all(conn, "timers.by_ids", &[&ids], row::timer).await?;
    if ascending {
        items.reverse();
    }
    Ok(Page { items, next })
}

/// At most one timer a type has the key.
async fn by_key(
    conn: &Conn,
    query: &TimerQuery,
    key: &str,
    limit: usize,
    now: Timestamp,
) -> Result<Page<Timer>, Fault> {
    let types: Vec<i64> = query.types.iter().take(MAX_SPANS).map(|t| t.0).collect();
    let keys = vec![key; types.len()];
    let mut found = all(conn, "timers.by_keys", &[&types, &keys], row::timer).await?;
    found.retain(|timer| fits(timer, query, now));
    found.sort_by_key(|timer| (timer.due_at, timer.id));
    if query.order == Order::DueDescending {
        found.reverse();
    }
    Ok(cut(found, limit, |timer| (timer.due_at, timer.id.0)))
}

fn fits(timer: &Timer, query: &TimerQuery, now: Timestamp) -> bool {
    (query.states.is_empty() || query.states.contains(&timer.state))
        && query.due_before.is_none_or(|at| timer.due_at < at)
        && query.due_after.is_none_or(|at| timer.due_at >= at)
        && query.expired.is_none_or(|expired| timer.is_expired(now) == expired)
        && query.label.as_ref().is_none_or(|(name, value)| timer.labels.get(name) == Some(value))
        && match query.order {
            Order::DueDescending => query.before.is_none_or(|before| (timer.due_at, timer.id) < before),
            Order::DueAscending => query.after.is_none_or(|after| (timer.due_at, timer.id) > after),
        }
}

pub(super) async fn compensations(conn: &Conn, query: &CompensationQuery) -> Result<Page<Compensation>, Fault> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    if query.timer_id.is_some() {
        return of_timer(conn, query, limit).await;
    }
    let states = if query.states.is_empty() { &CompensationState::ALL[..] } else { &query.states };
    let types: Vec<i64> = query.types.iter().take(MAX_SPANS / states.len().max(1)).map(|t| t.0).collect();
    let states: Vec<i16> = states.iter().map(|s| row::code(s.code())).collect();
    let (before_at, before_id) = place(query.before);
    let most = row::limit(if query.kind.is_some() { MAX_LOOKED_AT + 1 } else { limit + 1 });
    let params: [&(dyn ToSql + Sync); 5] = [&types, &states, &before_at, &before_id, &most];
    let Some(kind) = &query.kind else {
        let found = all(conn, "compensations.page", &params, row::compensation).await?;
        return Ok(cut(found, limit, |c| (c.created_at, c.id.0)));
    };
    let looked_at = all(conn, "compensations.page_keys", &params, |r: &Row| {
        Ok(Looked { at: row::at(r, 0)?, id: row::get(r, 1)?, fits: row::get::<&str>(r, 2)? == kind.as_str() })
    });
    let (ids, next) = pick(&looked_at.await?, limit);
    Ok(Page { items: all(conn, "compensations.by_ids", &[&ids], row::compensation).await?, next })
}

async fn of_timer(conn: &Conn, query: &CompensationQuery, limit: usize) -> Result<Page<Compensation>, Fault> {
    let Some(timer) = query.timer_id else { return Ok(Page { items: Vec::new(), next: None }) };
    let params: &Params<'_> = &[&timer.0, &row::limit(MAX_OF_TIMER)];
    let mut found = all(conn, "compensations.by_timer", params, row::compensation).await?;
    found.retain(|found| {
        query.types.contains(&found.type_id)
            && (query.states.is_empty() || query.states.contains(&found.state))
            && query.kind.as_ref().is_none_or(|kind| found.kind == *kind)
            && query.before.is_none_or(|before| (found.created_at, found.id.0) < before)
    });
    found.sort_by_key(|c| std::cmp::Reverse((c.created_at, c.id)));
    Ok(cut(found, limit, |c| (c.created_at, c.id.0)))
}

/// A row that was looked at, without its contents.
struct Looked {
    at: Timestamp,
    id: Uuid,
    fits: bool,
}

/// Those that fit, and where the next page goes on: behind the last one looked at, if there is anything behind it.
fn pick(looked_at: &[Looked], limit: usize) -> (Vec<Uuid>, Option<(Timestamp, Uuid)>) {
    let mut ids = Vec::new();
    let mut last = None;
    for (count, row) in looked_at.iter().enumerate() {
        if ids.len() == limit || count == MAX_LOOKED_AT {
            return (ids, last);
        }
        if row.fits {
            ids.push(row.id);
        }
        last = Some((row.at, row.id));
    }
    (ids, None)
}

/// A page out of what may be more than one.
fn cut<T>(mut items: Vec<T>, limit: usize, place: impl Fn(&T) -> (Timestamp, Uuid)) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(place);
    Page { items, next }
}

/// What the page lies before, exclusively.
fn place(before: Option<(Timestamp, Uuid)>) -> (i64, Uuid) {
    before.map_or((i64::MAX, Uuid::max()), |(at, id)| (at.as_millis(), id))
}
