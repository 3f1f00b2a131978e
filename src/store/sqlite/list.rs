//! Pages of the lists: spans of one index, one for each type and state, merged in order. Nothing is counted, and nothing
//! skipped by offset.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::{row, sql};
use crate::{
    domain::{
        compensation::{Compensation, CompensationState},
        id::TypeId,
        time::Timestamp,
        timer::{State, Timer},
    },
    store::{
        Result,
        bounds::{MAX_LOOKED_AT, MAX_OF_TIMER, MAX_PAGE, MAX_SPANS},
        read::{CompensationQuery, Order, Page, TimerQuery},
    },
};

/// A place in an index of `(time, id)`, in milliseconds; an empty id stands before all ids of its time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    at: i64,
    id: Option<Uuid>,
}

impl Place {
    const END: Self = Self { at: i64::MAX, id: None };

    fn before(time: Timestamp) -> Self {
        Self { at: time.as_millis(), id: None }
    }

    fn of((at, id): (Timestamp, Uuid)) -> Self {
        Self { at: at.as_millis(), id: Some(id) }
    }

    fn id_bytes(&self) -> &[u8] {
        self.id.as_ref().map_or(&[], |id| id.as_bytes())
    }

    fn next_page(&self) -> Option<(Timestamp, Uuid)> {
        self.id.map(|id| (Timestamp::from_millis_clamped(self.at), id))
    }
}

/// One range of the index, read in chunks: from its end, or from its start where the order is ascending.
struct Span {
    type_id: TypeId,
    state: i64,
    /// Exclusive; moves down as chunks are read from the end.
    high: Place,
    /// Inclusive without an id, else exclusive; moves up as chunks are read from the start.
    low: Place,
    order: Order,
    ready: VecDeque<(Place, i64)>,
    is_read: bool,
}

impl Span {
    fn new(type_id: TypeId, state: i64, high: Place, low: Place) -> Self {
        Self { type_id, state, high, low, order: Order::DueDescending, ready: VecDeque::new(), is_read: false }
    }

    /// A place's rank in the heap, whose highest comes first.
    fn rank(&self, place: Place) -> Rank {
        match self.order {
            Order::DueDescending => Rank::Newest(place),
            Order::DueAscending => Rank::Oldest(Reverse(place)),
        }
    }

    fn next(&mut self, read: &mut impl FnMut(&Self) -> Result<Vec<(Place, i64)>>) -> Result<Option<(Place, i64)>> {
        if self.ready.is_empty() && !self.is_read {
            let chunk = read(self)?;
            match chunk.last() {
                Some((place, _)) => match self.order {
                    Order::DueDescending => self.high = place.clone(),
                    Order::DueAscending => self.low = place.clone(),
                },
                None => self.is_read = true,
            }
            self.ready = chunk.into();
        }
        Ok(self.ready.pop_front())
    }
}

/// The spans of one page have one order, and so one variant.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Newest(Place),
    Oldest(Reverse<Place>),
}

impl Rank {
    fn into_place(self) -> Place {
        match self {
            Self::Newest(place) | Self::Oldest(Reverse(place)) => place,
        }
    }
}

/// Takes from the spans, in order, what `take` keeps.
fn merge<T>(
    mut spans: Vec<Span>,
    limit: usize,
    mut read: impl FnMut(&Span) -> Result<Vec<(Place, i64)>>,
    mut take: impl FnMut(i64) -> Result<Option<T>>,
) -> Result<Page<T>> {
    spans.truncate(MAX_SPANS);
    let mut heads = BinaryHeap::new();
    for (index, span) in spans.iter_mut().enumerate() {
        heads.extend(span.next(&mut read)?.map(|(place, n)| (span.rank(place), n, index)));
    }
    let mut items = Vec::new();
    let mut looked_at = 0;
    let mut last = None;
    while let Some((rank, n, index)) = heads.pop() {
        if items.len() == limit || looked_at == MAX_LOOKED_AT {
            return Ok(Page { items, next: last.as_ref().and_then(Place::next_page) });
        }
        looked_at += 1;
        items.extend(take(n)?);
        last = Some(rank.into_place());
        let span = &mut spans[index];
        heads.extend(span.next(&mut read)?.map(|(place, n)| (span.rank(place), n, index)));
    }
    Ok(Page { items, next: None })
}

/// Rows to read of a span at a time: few where many spans share a page.
fn chunk(limit: usize, spans: usize) -> usize {
    (limit / spans.max(1) + 2).max(8).min(limit + 1)
}

fn entries(
    statement: &mut rusqlite::Statement<'_>,
    params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<(Place, i64)>> {
    let entry = |r: &rusqlite::Row<'_>| Ok((Place { at: r.get(0)?, id: Some(row::uuid(r, 1)?) }, r.get(2)?));
    statement.query_map(params, entry)?.collect()
}

pub(super) fn timers(conn: &mut Connection, query: &TimerQuery, now: Timestamp) -> Result<Page<Timer>> {
    let snapshot = conn.transaction()?;
    let limit = query.limit.clamp(1, MAX_PAGE);
    if let Some(key) = &query.key {
        return by_key(&snapshot, query, key, limit, now);
    }
    let spans = timer_spans(query, now);
    let chunk = chunk(limit, spans.len());
    let ascending = query.order == Order::DueAscending;
    let text = if ascending { "timers.page_ascending" } else { "timers.page" };
    let mut page = snapshot.prepare_cached(sql::text(text))?;
    let mut labels = snapshot.prepare_cached(sql::text("timers.labels_by_n"))?;
    let mut by_n = snapshot.prepare_cached(sql::text("timers.by_n"))?;
    let read = |span: &Span| {
        let (from, bound) = if ascending { (&span.low, span.high.at) } else { (&span.high, span.low.at) };
        let params = params![span.type_id.0, span.state, from.at, from.id_bytes(), bound, chunk];
        Ok(entries(&mut page, params)?)
    };
    let take = |n| {
        if let Some((name, value)) = &query.label {
            let labels: std::collections::BTreeMap<String, String> = labels.query_row([n], |r| row::json(r, 0))?;
            if labels.get(name) != Some(value) {
                return Ok(None);
            }
        }
        Ok(Some(by_n.query_row([n], row::timer)?.timer))
    };
    merge(spans, limit, read, take)
}

/// `expired` is computed: by state where it decides, by the due time where that does.
fn timer_spans(query: &TimerQuery, now: Timestamp) -> Vec<Span> {
    let on = |place: Option<(Timestamp, crate::domain::id::TimerId)>| place.map(|(at, id)| Place::of((at, id.0)));
    let (before, after) = match query.order {
        Order::DueDescending => (on(query.before), None),
        Order::DueAscending => (None, on(query.after)),
    };
    let mut high = before.unwrap_or(Place::END);
    if let Some(due_before) = query.due_before {
        high = high.min(Place::before(due_before));
    }
    let low = Place { at: query.due_after.map_or(0, Timestamp::as_millis), id: None };
    let low = after.map_or(low.clone(), |after| after.max(low));
    let after_now = now.as_millis() + 1;
    let states = if query.states.is_empty() { &State::ALL[..] } else { &query.states };
    let mut spans = Vec::new();
    for type_id in &query.types {
        for state in states {
            let (high, low) = match (query.expired, state.is_final()) {
                (Some(true), true) => continue,
                (Some(true), false) => (high.clone().min(Place { at: after_now, id: None }), low.clone()),
                (Some(false), false) => (high.clone(), low.clone().max(Place { at: after_now, id: None })),
                (Some(false), true) | (None, _) => (high.clone(), low.clone()),
            };
            spans.push(Span { order: query.order, ..Span::new(*type_id, state.code(), high, low) });
        }
    }
    spans
}

/// At most one timer a type has the key.
fn by_key(conn: &Connection, query: &TimerQuery, key: &str, limit: usize, now: Timestamp) -> Result<Page<Timer>> {
    let mut statement = conn.prepare_cached(sql::text("timers.by_key"))?;
    let mut items = Vec::new();
    for type_id in query.types.iter().take(MAX_SPANS) {
        let found = statement.query_row(params![type_id.0, key], row::timer).optional()?;
        items.extend(found.map(|stored| stored.timer).filter(|timer| fits(timer, query, now)));
    }
    items.sort_by_key(|timer| (timer.due_at, timer.id));
    if query.order == Order::DueDescending {
        items.reverse();
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|timer| (timer.due_at, timer.id.0));
    Ok(Page { items, next })
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

pub(super) fn compensations(conn: &mut Connection, query: &CompensationQuery) -> Result<Page<Compensation>> {
    let snapshot = conn.transaction()?;
    let limit = query.limit.clamp(1, MAX_PAGE);
    if query.timer_id.is_some() {
        return of_timer(&snapshot, query, limit);
    }
    let high = query.before.map_or(Place::END, Place::of);
    let states = if query.states.is_empty() { &CompensationState::ALL[..] } else { &query.states };
    let span = |type_id: &TypeId, state: &CompensationState| {
        Span::new(*type_id, state.code(), high.clone(), Place { at: 0, id: None })
    };
    let spans: Vec<_> =
        query.types.iter().flat_map(|t| states.iter().map(move |s| (t, s))).map(|(t, s)| span(t, s)).collect();
    let chunk = chunk(limit, spans.len());
    let mut page = snapshot.prepare_cached(sql::text("compensations.page"))?;
    let mut by_n = snapshot.prepare_cached(sql::text("compensations.by_n"))?;
    let read = |span: &Span| {
        let params = params![span.state, span.type_id.0, span.high.at, span.high.id_bytes(), chunk];
        Ok(entries(&mut page, params)?)
    };
    let take = |n| {
        let found = by_n.query_row([n], row::compensation)?.compensation;
        Ok(query.kind.as_ref().is_none_or(|kind| found.kind == *kind).then_some(found))
    };
    merge(spans, limit, read, take)
}

fn of_timer(conn: &Connection, query: &CompensationQuery, limit: usize) -> Result<Page<Compensation>> {
    let Some(timer) = query.timer_id else { return Ok(Page { items: Vec::new(), next: None }) };
    let mut statement = conn.prepare_cached(sql::text("compensations.by_timer"))?;
    let rows = statement.query_map(params![timer.0.as_bytes(), MAX_OF_TIMER], row::compensation)?;
    let mut items = Vec::new();
    for found in rows {
        let found = found?.compensation;
        let fits = query.types.contains(&found.type_id)
            && (query.states.is_empty() || query.states.contains(&found.state))
            && query.kind.as_ref().is_none_or(|kind| found.kind == *kind)
            && query.before.is_none_or(|before| (found.created_at, found.id.0) < before);
        if fits {
            items.push(found);
        }
    }
    items.sort_by_key(|c| std::cmp::Reverse((c.created_at, c.id)));
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|c| (c.created_at, c.id.0));
    Ok(Page { items, next })
}
