//! From rows to the domain's types.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use rusqlite::{Row, types::Type};
use serde::de::DeserializeOwned;
use uuid::Uuid;

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

type Result<T> = rusqlite::Result<T>;

/// A timer and its row's number.
pub(super) struct Stored {
    pub n: i64,
    pub timer: Timer,
}

/// A compensation, and its row's and its timer's number.
pub(super) struct StoredCompensation {
    pub n: i64,
    pub timer: i64,
    pub compensation: Compensation,
}

/// In the order of the fragment `columns` in `timers.sql`.
pub(super) fn timer(row: &Row<'_>) -> Result<Stored> {
    let labels: &str = row.get_ref(21)?.as_str()?;
    let timer = Timer {
        id: TimerId(uuid(row, 0)?),
        namespace_id: NamespaceId(row.get(1)?),
        type_id: TypeId(row.get(2)?),
        key: parsed(row, 3)?,
        state: State::from_code(row.get(4)?).ok_or_else(|| unreadable(4, "no such state"))?,
        due_at: at(row, 5)?,
        run_at: at_or_none(row, 6)?,
        attempt: row.get(7)?,
        lapses: row.get(8)?,
        version: row.get(9)?,
        revision: row.get(10)?,
        pinned: row.get(11)?,
        manual: row.get(12)?,
        depth: row.get(13)?,
        created_at: at(row, 14)?,
        settled_at: at_or_none(row, 15)?,
        origin: Origin {
            due_at: at(row, 16)?,
            actor: row.get(17)?,
            fingerprint: row.get(18)?,
            message_id: row.get(19)?,
        },
        head: row.get(20)?,
        // Most have none, and then there is nothing to parse.
        labels: if labels == "{}" { BTreeMap::default() } else { json(row, 21)? },
        outcome: row.get(22)?,
        payload: row.get(23)?,
    };
    Ok(Stored { n: row.get(24)?, timer })
}

/// In the order of the fragment `columns` in `compensations.sql`.
pub(super) fn compensation(row: &Row<'_>) -> Result<StoredCompensation> {
    let compensation = Compensation {
        id: CompensationId(uuid(row, 0)?),
        timer_id: TimerId(uuid(row, 1)?),
        namespace_id: NamespaceId(row.get(2)?),
        type_id: TypeId(row.get(3)?),
        timer_key: parsed(row, 4)?,
        kind: parsed(row, 5)?,
        payload: row.get(6)?,
        revision: row.get(7)?,
        state: CompensationState::from_code(row.get(8)?).ok_or_else(|| unreadable(8, "no such state"))?,
        attempt: row.get(9)?,
        first_attempt: row.get(10)?,
        run_at: at_or_none(row, 11)?,
        fence: row.get(12)?,
        last_error: json_or_none(row, 13)?,
        result: row.get(14)?,
        created_at: at(row, 15)?,
        settled_at: at_or_none(row, 16)?,
    };
    Ok(StoredCompensation { n: row.get(17)?, timer: row.get(18)?, compensation })
}

pub(super) fn namespace(row: &Row<'_>) -> Result<NamespaceRow> {
    Ok(NamespaceRow { id: NamespaceId(row.get(0)?), name: parsed(row, 1)?, created_at: at(row, 2)? })
}

pub(super) fn api_key(row: &Row<'_>) -> Result<ApiKeyRow> {
    Ok(ApiKeyRow {
        id: ApiKeyId(uuid(row, 0)?),
        namespace_id: NamespaceId(row.get(1)?),
        name: row.get(2)?,
        role: json(row, 3)?,
        created_at: at(row, 4)?,
        created_by: row.get(5)?,
        revoked_at: at_or_none(row, 6)?,
    })
}

pub(super) fn sealed(row: &Row<'_>) -> rusqlite::Result<SealedRow> {
    Ok(SealedRow {
        namespace_id: NamespaceId(row.get(0)?),
        kind: SealedKind::from_code(row.get(1)?).ok_or_else(|| unreadable(1, "no such kind"))?,
        name: parsed(row, 2)?,
        open: row.get(3)?,
        sealed: row.get(4)?,
        created_at: at(row, 5)?,
        updated_at: at(row, 6)?,
        updated_by: row.get(7)?,
    })
}

pub(super) fn plugin(row: &Row<'_>) -> Result<PluginRow> {
    Ok(PluginRow {
        namespace_id: NamespaceId(row.get(0)?),
        digest: Digest(row.get(1)?),
        size: row.get(2)?,
        manifest: json(row, 3)?,
        imports: json(row, 4)?,
        created_at: at(row, 5)?,
        created_by: row.get(6)?,
    })
}

pub(super) fn timer_type(row: &Row<'_>) -> Result<TypeRow> {
    Ok(TypeRow {
        id: TypeId(row.get(0)?),
        namespace_id: NamespaceId(row.get(1)?),
        namespace: parsed(row, 2)?,
        name: parsed(row, 3)?,
        active: row.get(4)?,
        created_at: at(row, 5)?,
        updated_at: at(row, 6)?,
    })
}

pub(super) fn revision(row: &Row<'_>) -> Result<(TypeId, Revision)> {
    let revision = Revision {
        number: row.get(0)?,
        digest: Digest(row.get(1)?),
        config: row.get(2)?,
        grants: json(row, 3)?,
        default_delay: row.get::<_, Option<u64>>(4)?.map(DurationMs::from_millis),
        retry: RetryPolicy {
            attempts: row.get(5)?,
            initial: DurationMs::from_millis(row.get(6)?),
            max: DurationMs::from_millis(row.get(7)?),
        },
        concurrency: row.get(8)?,
        rate: row.get(9)?,
        created_at: at(row, 10)?,
        created_by: row.get(11)?,
        deleted_at: row.get::<_, Option<i64>>(13)?.map(Timestamp::from_millis_clamped),
    };
    Ok((TypeId(row.get(12)?), revision))
}

pub(super) fn pause(row: &Row<'_>) -> Result<Pause> {
    let scope = match (row.get(0)?, row.get(1)?) {
        (0, 0) => Scope::All,
        (namespace, 0) => Scope::Namespace(NamespaceId(namespace)),
        (_, type_id) => Scope::Type(TypeId(type_id)),
    };
    Ok(Pause { scope, reason: row.get(2)?, since: at(row, 3)?, until: at_or_none(row, 4)?, by: row.get(5)? })
}

pub(super) fn revoked(row: &Row<'_>) -> Result<(TypeId, BTreeSet<Grant>)> {
    Ok((TypeId(row.get(0)?), json(row, 1)?))
}

pub(super) fn holder(row: &Row<'_>) -> Result<(TypeId, Holder)> {
    let deleted_at = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis_clamped);
    let holder = Holder { timer_type: parsed(row, 0)?, number: row.get(1)?, deleted_at };
    Ok((TypeId(row.get(3)?), holder))
}

pub(super) fn uuid(row: &Row<'_>, column: usize) -> Result<Uuid> {
    Ok(Uuid::from_bytes(row.get(column)?))
}

pub(super) fn at(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis_clamped(row.get(column)?))
}

fn at_or_none(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis_clamped))
}

pub(super) fn parsed<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: usize,
) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}

fn json_or_none<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>> {
    if row.get_ref(column)? == rusqlite::types::ValueRef::Null { Ok(None) } else { json(row, column).map(Some) }
}

fn unreadable(column: usize, why: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, why.into())
}
