//! From rows to the domain's types, and from those to columns of arrays.

use std::{collections::BTreeSet, str::FromStr};

use serde::{Serialize, de::DeserializeOwned};
use tokio_postgres::{Row, types::FromSql};

use super::error::Fault;
use crate::{
    domain::{
        backoff::RetryPolicy,
        compensation::{Compensation, CompensationState},
        id::{ApiKeyId, CompensationId, Digest, NamespaceId, TimerId, TypeId},
        pause::{Pause, Scope},
        plugin::{Grant, PluginRow, Revision, TypeRow},
        time::{DurationMs, Timestamp},
        timer::{Origin, State, Timer},
    },
    store::admin::{ApiKeyRow, Holder, NamespaceRow, SealedKind, SealedRow},
};

type Result<T> = std::result::Result<T, Fault>;

/// In the order of the fragment `columns` in `timers.sql`.
pub(super) fn timer(row: &Row) -> Result<Timer> {
    Ok(Timer {
        id: TimerId(get(row, 0)?),
        namespace_id: NamespaceId(int(row, 1)?),
        type_id: TypeId(int(row, 2)?),
        key: parsed(row, 3)?,
        state: State::from_code(small(row, 4)?).ok_or_else(|| unreadable(4, "no such state"))?,
        due_at: at(row, 5)?,
        run_at: at_or_none(row, 6)?,
        attempt: count(row, 7)?,
        lapses: count(row, 8)?,
        version: get(row, 9)?,
        revision: int(row, 10)?,
        pinned: get(row, 11)?,
        manual: get(row, 12)?,
        depth: count(row, 13)?,
        created_at: at(row, 14)?,
        settled_at: at_or_none(row, 15)?,
        origin: Origin {
            due_at: at(row, 16)?,
            actor: get(row, 17)?,
            fingerprint: get::<Option<&[u8]>>(row, 18)?.map(|f| hash(18, f)).transpose()?,
            message_id: get(row, 19)?,
        },
        head: hash(20, get(row, 20)?)?,
        // Most have none.
        labels: json_or_none(row, 21)?.unwrap_or_default(),
        outcome: get(row, 22)?,
        payload: get(row, 23)?,
    })
}

/// In the order of the fragment `columns` in `compensations.sql`.
pub(super) fn compensation(row: &Row) -> Result<Compensation> {
    Ok(Compensation {
        id: CompensationId(get(row, 0)?),
        timer_id: TimerId(get(row, 1)?),
        namespace_id: NamespaceId(int(row, 2)?),
        type_id: TypeId(int(row, 3)?),
        timer_key: parsed(row, 4)?,
        kind: parsed(row, 5)?,
        payload: get(row, 6)?,
        revision: int(row, 7)?,
        state: CompensationState::from_code(small(row, 8)?).ok_or_else(|| unreadable(8, "no such state"))?,
        attempt: count(row, 9)?,
        first_attempt: count(row, 10)?,
        run_at: at_or_none(row, 11)?,
        fence: get(row, 12)?,
        last_error: json_or_none(row, 13)?,
        result: get(row, 14)?,
        created_at: at(row, 15)?,
        settled_at: at_or_none(row, 16)?,
    })
}

pub(super) fn namespace(row: &Row) -> Result<NamespaceRow> {
    Ok(NamespaceRow { id: NamespaceId(int(row, 0)?), name: parsed(row, 1)?, created_at: at(row, 2)? })
}

pub(super) fn api_key(row: &Row) -> Result<ApiKeyRow> {
    Ok(ApiKeyRow {
        id: ApiKeyId(get(row, 0)?),
        namespace_id: NamespaceId(int(row, 1)?),
        name: get(row, 2)?,
        role: json(row, 3)?,
        created_at: at(row, 4)?,
        created_by: get(row, 5)?,
        revoked_at: at_or_none(row, 6)?,
    })
}

pub(super) fn sealed(row: &Row) -> Result<SealedRow> {
    Ok(SealedRow {
        namespace_id: NamespaceId(int(row, 0)?),
        kind: SealedKind::from_code(small(row, 1)?).ok_or_else(|| unreadable(1, "no such kind"))?,
        name: parsed(row, 2)?,
        open: get(row, 3)?,
        sealed: get(row, 4)?,
        created_at: at(row, 5)?,
        updated_at: at(row, 6)?,
        updated_by: get(row, 7)?,
    })
}

pub(super) fn plugin(row: &Row) -> Result<PluginRow> {
    Ok(PluginRow {
        namespace_id: NamespaceId(int(row, 0)?),
        digest: Digest(hash(1, get(row, 1)?)?),
        size: unsigned(row, 2)?,
        manifest: json(row, 3)?,
        imports: json(row, 4)?,
        created_at: at(row, 5)?,
        created_by: get(row, 6)?,
    })
}

pub(super) fn timer_type(row: &Row) -> Result<TypeRow> {
    Ok(TypeRow {
        id: TypeId(int(row, 0)?),
        namespace_id: NamespaceId(int(row, 1)?),
        namespace: parsed(row, 2)?,
        name: parsed(row, 3)?,
        active: int(row, 4)?,
        created_at: at(row, 5)?,
        updated_at: at(row, 6)?,
    })
}

pub(super) fn revision(row: &Row) -> Result<(TypeId, Revision)> {
    let number_or_none = |column| {
        let number = get::<Option<i64>>(row, column)?.map(u32::try_from).transpose();
        number.map_err(|_| unreadable(column, "not a count"))
    };
    let revision = Revision {
        number: int(row, 0)?,
        digest: Digest(hash(1, get(row, 1)?)?),
        config: get(row, 2)?,
        grants: json(row, 3)?,
        default_delay: get::<Option<i64>>(row, 4)?.map(|_| unsigned(row, 4)).transpose()?.map(DurationMs::from_millis),
        retry: RetryPolicy {
            attempts: number_or_none(5)?.unwrap_or_default(),
            initial: DurationMs::from_millis(unsigned(row, 6)?),
            max: DurationMs::from_millis(unsigned(row, 7)?),
        },
        concurrency: number_or_none(8)?,
        rate: number_or_none(9)?,
        created_at: at(row, 10)?,
        created_by: get(row, 11)?,
        deleted_at: get::<Option<i64>>(row, 13)?.map(Timestamp::from_millis_clamped),
    };
    Ok((TypeId(int(row, 12)?), revision))
}

pub(super) fn pause(row: &Row) -> Result<Pause> {
    let scope = match (int(row, 0)?, int(row, 1)?) {
        (0, 0) => Scope::All,
        (namespace, 0) => Scope::Namespace(NamespaceId(namespace)),
        (_, type_id) => Scope::Type(TypeId(type_id)),
    };
    Ok(Pause { scope, reason: get(row, 2)?, since: at(row, 3)?, until: at_or_none(row, 4)?, by: get(row, 5)? })
}

pub(super) fn revoked(row: &Row) -> Result<(TypeId, BTreeSet<Grant>)> {
    Ok((TypeId(int(row, 0)?), json(row, 1)?))
}

pub(super) fn holder(row: &Row) -> Result<(TypeId, Holder)> {
    let deleted_at = get::<Option<i64>>(row, 2)?.map(Timestamp::from_millis_clamped);
    let holder = Holder { timer_type: parsed(row, 0)?, number: int(row, 1)?, deleted_at };
    Ok((TypeId(int(row, 3)?), holder))
}

pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    Ok(row.try_get(column)?)
}

pub(super) fn int(row: &Row, column: usize) -> Result<i64> {
    get::<i32>(row, column).map(i64::from)
}

pub(super) fn at(row: &Row, column: usize) -> Result<Timestamp> {
    get(row, column).map(Timestamp::from_millis_clamped)
}

pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(row: &Row, column: usize) -> Result<T> {
    get::<&str>(row, column)?.parse().map_err(|e: T::Err| unreadable(column, &e.to_string()))
}

fn small(row: &Row, column: usize) -> Result<i64> {
    get::<i16>(row, column).map(i64::from)
}

fn count(row: &Row, column: usize) -> Result<u32> {
    u32::try_from(get::<i32>(row, column)?).map_err(|_| unreadable(column, "not a count"))
}

pub(super) fn unsigned(row: &Row, column: usize) -> Result<u64> {
    u64::try_from(get::<i64>(row, column)?).map_err(|_| unreadable(column, "below zero"))
}

pub(super) fn at_or_none(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_millis_clamped))
}

pub(super) fn hash(column: usize, bytes: &[u8]) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| unreadable(column, "not 32 bytes"))
}

fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<T> {
    serde_json::from_str(get(row, column)?).map_err(|e| unreadable(column, &e.to_string()))
}

pub(super) fn json_or_none<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Option<T>> {
    let text: Option<&str> = get(row, column)?;
    text.map(serde_json::from_str).transpose().map_err(|e| unreadable(column, &e.to_string()))
}

fn unreadable(column: usize, why: &str) -> Fault {
    Fault::Data(format!("column {column} of a row cannot be read: {why}"))
}

pub(super) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| unreachable!("plain data: {e}"))
}

/// One column of many rows.
pub(super) fn column<'a, R, T>(rows: &'a [R], of: impl FnMut(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}

/// A state's code, as its column has it.
pub(super) fn code(code: i64) -> i16 {
    i16::try_from(code).unwrap_or_else(|_| unreachable!("states are few"))
}

/// For counts that their columns hold in 31 bits.
pub(super) fn ms(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// A limit, as `LIMIT` takes it.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
