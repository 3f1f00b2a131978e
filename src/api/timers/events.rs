//! A timer's audit.

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    domain::{audit, id::TimerId, time::Timestamp},
    store::read::StoredEvent,
};

use super::super::{
    Api,
    auth::Caller,
    cursor::{self, List},
    extract::{PageQuery, Path, Query},
    model::{EventKind, TimerState, Trigger, page},
    problem::Result,
};

page!(
    /// A timer's events, oldest first.
    EventPage of Event
);

/// One change of a timer. Its sequence number is the timer's version after it.
#[derive(Serialize, ToSchema)]
pub struct Event {
    seq: i64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    kind: EventKind,
    /// `key:NAME`, `plugin:NAME`, `engine` or `bootstrap`.
    actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    state_before: Option<TimerState>,
    state_after: TimerState,
    version: i64,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trigger: Option<Trigger>,
    /// The plugin that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    digest: Option<String>,
    /// The `Idempotency-Key` of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message_id: Option<String>,
    /// What else there is to say of it; by kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    detail: Option<Value>,
}

impl From<StoredEvent> for Event {
    fn from(stored: StoredEvent) -> Self {
        let audit::Event { seq, at, kind, actor, state_before, state_after, version, attempt, .. } = stored.event;
        Self {
            seq,
            at,
            kind: kind.into(),
            actor,
            state_before: state_before.map(Into::into),
            state_after: state_after.into(),
            version,
            attempt,
            trigger: stored.event.trigger.map(Into::into),
            digest: stored.event.digest.map(|d| d.to_string()),
            message_id: stored.event.message_id,
            detail: Some(stored.event.detail).filter(|d| !d.is_null()),
        }
    }
}

/// Lists a timer's events, oldest first.
#[utoipa::path(
    get, path = "/v1/timers/{id}/events", operation_id = "list_timer_events", tag = "timers",
    params(("id" = String, Path, format = Uuid, description = "The timer's id"), PageQuery),
    responses((status = 200, description = "A page", body = EventPage))
)]
pub async fn list_timer_events(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<uuid::Uuid>,
    Query(query): Query<PageQuery>,
) -> Result<Json<EventPage>> {
    let limit = cursor::limit(query.limit)?;
    let after = cursor::decode_number(List::Events, query.cursor.as_deref())?.unwrap_or(0);
    let timer = api.timer(&caller, TimerId(id)).await?;
    let mut events = api.store.read().events(timer.id, after, limit + 1).await?;
    let more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().filter(|_| more).map(|e| e.event.seq);
    Ok(Json(EventPage {
        items: events.into_iter().map(Into::into).collect(),
        next_cursor: next.map(|seq| cursor::encode(List::Events, &seq.to_be_bytes())),
    }))
}
