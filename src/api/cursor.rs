//! Where a list goes on: opaque to callers, checked when it comes back.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::domain::time::Timestamp;

use super::problem::{Code, Error, Result};

pub(super) const DEFAULT_LIMIT: u32 = 50;
pub(super) const MAX_LIMIT: u32 = 500;

/// The list that a cursor belongs to; its first byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Timers = 1,
    Events,
    Plugins,
    Types,
    Revisions,
    Compensations,
    Keys,
    Namespaces,
    Pauses,
    TimersAscending,
    TimersByKey,
    Secrets,
    DataSources,
}

pub(super) fn bad() -> Error {
    Error::at(Code::Malformed, "?cursor", "the cursor is not one that this list gave; start again without it")
}

/// A page's size, as asked for.
pub(super) fn limit(asked: Option<u32>) -> Result<usize> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        n @ 1..=MAX_LIMIT => Ok(n as usize),
        n => Err(Error::at(Code::Malformed, "?limit", format!("a limit is 1 to {MAX_LIMIT}, not {n}"))),
    }
}

pub(super) fn encode(list: List, place: &[u8]) -> String {
    let mut bytes = vec![list as u8];
    bytes.extend_from_slice(place);
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn decode(list: List, cursor: &str) -> Result<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| bad())?;
    match bytes.split_first() {
        Some((kind, place)) if *kind == list as u8 => Ok(place.to_vec()),
        _ => Err(bad()),
    }
}

pub(super) fn encode_row(list: List, (at, id): (Timestamp, Uuid)) -> String {
    encode(list, &[&at.as_millis().to_be_bytes()[..], id.as_bytes()].concat())
}

pub(super) fn decode_row(list: List, cursor: Option<&str>) -> Result<Option<(Timestamp, Uuid)>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let place = decode(list, cursor)?;
    let (at, id) = place.split_at_checked(8).ok_or_else(bad)?;
    let at = i64::from_be_bytes(at.try_into().map_err(|_| bad())?);
    let at = Timestamp::from_millis(at).map_err(|_| bad())?;
    Ok(Some((at, Uuid::from_slice(id).map_err(|_| bad())?)))
}

pub(super) fn decode_number(list: List, cursor: Option<&str>) -> Result<Option<i64>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let place: [u8; 8] = decode(list, cursor)?.try_into().map_err(|_| bad())?;
    Ok(Some(i64::from_be_bytes(place)))
}

/// A page of what is all in memory, in order of `place`: what comes behind the cursor's.
pub(super) fn page<T>(
    list: List,
    items: impl IntoIterator<Item = T>,
    query: &super::extract::PageQuery,
    place: impl Fn(&T) -> Vec<u8>,
) -> Result<(Vec<T>, Option<String>)> {
    let limit = limit(query.limit)?;
    let after = query.cursor.as_deref().map(|c| decode(list, c)).transpose()?;
    let mut rest = items.into_iter().filter(|i| after.as_ref().is_none_or(|a| place(i) > *a));
    let page: Vec<T> = rest.by_ref().take(limit).collect();
    let next = rest.next().and(page.last()).map(|last| encode(list, &place(last)));
    Ok((page, next))
}
