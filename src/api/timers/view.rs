//! A timer as callers see it.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    catalog::{Runs, TypeEntry},
    domain::{time::Timestamp, timer},
};

use super::super::{
    Inner,
    model::{Raw, TimerState},
};

/// A timer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "id": "0198c0de-0000-7000-8000-000000000001",
    "namespace": "default",
    "type": "order-timeout",
    "key": "A17",
    "state": "scheduled",
    "payload": {"order_id": "A17"},
    "due_at": "2026-03-01T12:30:00.000Z",
    "run_at": "2026-03-01T12:30:00.000Z",
    "expired": false,
    "attempt": 1,
    "version": 1,
    "revision": 1,
    "runs": {"revision": 1, "why": "active"},
    "labels": {"shop": "main"},
    "created_at": "2026-03-01T12:00:00.000Z"
}))]
pub struct Timer {
    #[schema(value_type = String, format = Uuid)]
    id: String,
    pub(super) namespace: String,
    pub(super) r#type: String,
    /// The business's own key, as it was given.
    key: String,
    state: TimerState,
    /// As it was given; left out where it was asked to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    payload: Option<Raw>,
    /// The business's deadline.
    #[schema(value_type = String, format = DateTime)]
    due_at: Timestamp,
    /// When the engine acts next; left out when it has nothing more to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    run_at: Option<Timestamp>,
    /// Not final, and due.
    expired: bool,
    /// The number of the attempt that runs or runs next, from 1.
    attempt: u32,
    /// Rises with every change; the same as the ETag.
    version: i64,
    /// The revision of the type that it was registered under.
    revision: i64,
    /// Which revision it runs, while it is not final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    runs: Option<TimerRevision>,
    labels: BTreeMap<String, String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    settled_at: Option<Timestamp>,
    /// How it ended: `result` of a close, `reason` of a skip, `failure` of one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    outcome: Option<Raw>,
}

impl Timer {
    pub(super) fn without_payload(self) -> Self {
        Self { payload: None, ..self }
    }
}

/// The revision that a timer runs, as things stand.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TimerRevision {
    revision: i64,
    why: RevisionReason,
}

/// Why it is that one. `active`: timers run the active revision. `pinned`: this one is pinned to it. `payload_not_taken`:
/// the active one's payload schema does not take its payload, so that it goes on with the one it was registered under.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RevisionReason {
    Active,
    Pinned,
    PayloadNotTaken,
}

impl TimerRevision {
    fn of(entry: &TypeEntry, row: &timer::Timer) -> Self {
        let (revision, why) = match entry.runs(row.revision, row.pinned, &row.payload) {
            Runs::Active => (entry.active.revision.number, RevisionReason::Active),
            Runs::Pinned => (row.revision, RevisionReason::Pinned),
            Runs::Behind => (row.revision, RevisionReason::PayloadNotTaken),
        };
        Self { revision, why }
    }
}

impl Inner {
    /// A row as callers see it at this moment.
    pub fn show(&self, row: timer::Timer) -> Timer {
        let snapshot = self.catalog.snapshot();
        let named = snapshot.row(row.type_id);
        let entry = snapshot.by_id(row.type_id).filter(|_| !row.state.is_final());
        let runs = entry.map(|entry| TimerRevision::of(entry, &row));
        Timer {
            id: row.id.to_string(),
            namespace: named.map(|t| t.namespace.to_string()).unwrap_or_default(),
            r#type: named.map(|t| t.name.to_string()).unwrap_or_default(),
            key: row.key.to_string(),
            state: row.state.into(),
            expired: row.is_expired(self.clock.now()),
            payload: Some(Raw::of(row.payload)),
            due_at: row.due_at,
            run_at: row.run_at,
            attempt: row.attempt,
            version: row.version,
            revision: row.revision,
            runs,
            labels: row.labels,
            created_at: row.created_at,
            settled_at: row.settled_at,
            outcome: row.outcome.map(Raw::of),
        }
    }
}

/// A timer with its ETag, and its place where it is new.
pub struct TimerAnswer {
    pub status: StatusCode,
    pub timer: Timer,
}

impl TimerAnswer {
    pub fn ok(timer: Timer) -> Self {
        Self { status: StatusCode::OK, timer }
    }
}

impl IntoResponse for TimerAnswer {
    fn into_response(self) -> Response {
        let tag = HeaderValue::from_str(&format!("\"{}\"", self.timer.version));
        let place = HeaderValue::from_str(&format!("/v1/timers/{}", self.timer.id));
        let mut response = (self.status, axum::Json(self.timer)).into_response();
        if let Ok(tag) = tag {
            response.headers_mut().insert(header::ETAG, tag);
        }
        if let (StatusCode::CREATED, Ok(place)) = (self.status, place) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        response
    }
}
