//! The breakers of downstreams.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{breaker, domain::time::Timestamp};

use super::{Api, auth::Caller, problem::Result};

/// The most breakers of one answer.
const MAX_ITEMS: usize = 500;

/// The breakers of a namespace's downstreams, on the node that answers.
#[derive(Serialize, ToSchema)]
pub struct Breakers {
    /// By host; at most 500. A downstream that is not named is closed and has not failed of late.
    items: Vec<Breaker>,
}

/// What a breaker does. `closed`: calls are made. `open`: none is, until `until`. `half_open`: a few try whether it is
/// back. `ramping`: it is, and calls are made at a bounded rate that rises.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    Ramping,
    HalfOpen,
    Open,
}

/// One downstream's breaker.
#[derive(Serialize, ToSchema)]
pub struct Breaker {
    /// `HOST:PORT`, or `sql:NAME`.
    host: String,
    state: BreakerState,
    /// Failures in a row.
    failures: u32,
    last_error: String,
    /// When it first opened; left out while it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    opened_at: Option<Timestamp>,
    /// When the downstream is tried again, while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    until: Option<Timestamp>,
    /// When the last of what waits for it gets its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    next_turn_at: Option<Timestamp>,
}

impl From<breaker::State> for BreakerState {
    fn from(state: breaker::State) -> Self {
        match state {
            breaker::State::Closed => Self::Closed,
            breaker::State::Ramping => Self::Ramping,
            breaker::State::HalfOpen => Self::HalfOpen,
            breaker::State::Open => Self::Open,
        }
    }
}

impl From<breaker::Snapshot> for Breaker {
    fn from(s: breaker::Snapshot) -> Self {
        Self {
            host: s.downstream.host,
            state: s.state.into(),
            failures: s.failures,
            last_error: s.last_error,
            opened_at: s.opened_at,
            until: s.until,
            next_turn_at: s.next_turn_at,
        }
    }
}

/// Lists the breakers of downstreams that fail, or have failed of late.
///
/// Each node judges for itself: this is what the node that answers holds.
#[utoipa::path(
    get, path = "/v1/breakers", operation_id = "list_breakers", tag = "operations",
    responses((status = 200, description = "The breakers", body = Breakers))
)]
pub async fn list_breakers(State(api): State<Api>, caller: Caller) -> Result<Json<Breakers>> {
    let snapshot = api.catalog.snapshot();
    let namespaces = &snapshot.catalogue.namespaces;
    let own = namespaces.iter().find(|n| n.id == caller.namespace_id).map(|n| n.name.as_str());
    let all = api.breakers.snapshot().into_iter();
    let items = all.filter(|s| Some(s.downstream.namespace.as_str()) == own).take(MAX_ITEMS).map(Into::into).collect();
    Ok(Json(Breakers { items }))
}
