//! Who calls, and whom.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::time::Timestamp;

use super::{Api, auth::Caller, model::Role};

/// Who calls, and the node that answers.
#[derive(Serialize, ToSchema)]
pub struct CallerSelf {
    /// The name of the API key.
    key_name: String,
    role: Role,
    /// The namespace that the call is about.
    namespace: String,
    /// The server's version.
    version: &'static str,
    /// The node that answered; another call may meet another.
    node_id: String,
    /// The store's clock.
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
}

/// Says whose key this is, and what it may do.
#[utoipa::path(
    get, path = "/v1/self", operation_id = "get_self", tag = "keys",
    responses((status = 200, description = "The caller", body = CallerSelf))
)]
pub async fn get_self(State(api): State<Api>, caller: Caller) -> Json<CallerSelf> {
    Json(CallerSelf {
        key_name: caller.key_name,
        role: caller.role.into(),
        namespace: caller.namespace.to_string(),
        version: env!("CARGO_PKG_VERSION"),
        node_id: api.node.clone(),
        now: api.clock.now(),
    })
}
