//! API keys.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    domain::{id::ApiKeyId, time::Timestamp},
    store::admin::{AdminAnswer, AdminOp, ApiKeyRow},
};

use super::{
    Api,
    auth::{Caller, hash_token, new_token},
    cursor::{self, List},
    extract::{Json as JsonBody, PageQuery, Path, Query, word},
    model::{Role, page},
    problem::{Code, Error, Result},
};

/// The longest name of a key, in bytes.
const MAX_NAME_BYTES: usize = 100;

page!(
    /// API keys, newest first.
    ApiKeyPage of ApiKey
);

/// An API key, without its secret.
#[derive(Serialize, ToSchema)]
pub struct ApiKey {
    #[schema(value_type = String, format = Uuid)]
    id: String,
    namespace: String,
    name: String,
    role: Role,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    revoked_at: Option<Timestamp>,
}

/// A new API key, with its secret: shown this once, and stored nowhere.
#[derive(Serialize, ToSchema)]
pub struct NewApiKey {
    #[schema(value_type = String, format = Uuid)]
    id: String,
    namespace: String,
    name: String,
    role: Role,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    created_by: String,
    /// What to send as `Authorization: Bearer SECRET`.
    #[schema(example = "lapse_3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
    secret: String,
}

/// A key to make, for the namespace of the call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "checkout", "role": "producer"}))]
pub struct CreateKeyRequest {
    /// What the audit calls its holder.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    #[serde(deserialize_with = "word")]
    role: Role,
}

fn shown(caller: &Caller, row: ApiKeyRow) -> ApiKey {
    ApiKey {
        id: row.id.to_string(),
        namespace: caller.namespace.to_string(),
        name: row.name,
        role: row.role.into(),
        created_at: row.created_at,
        created_by: row.created_by,
        revoked_at: row.revoked_at,
    }
}

/// Makes an API key. Its secret is in this answer and nowhere else.
///
/// Not idempotent: the same request again makes another key.
#[utoipa::path(
    post, path = "/v1/keys", operation_id = "create_key", tag = "keys", request_body = CreateKeyRequest,
    responses((status = 201, description = "The key", body = NewApiKey))
)]
pub async fn create_key(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<CreateKeyRequest>,
) -> Result<(StatusCode, Json<NewApiKey>)> {
    let name = request.name;
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        let detail = format!("a key's name is 1 to {MAX_NAME_BYTES} bytes without control characters");
        return Err(Error::at(Code::PayloadInvalid, "/name", detail));
    }
    let secret = new_token();
    let create = AdminOp::CreateApiKey {
        id: ApiKeyId::new(),
        namespace_id: caller.namespace_id,
        name,
        role: request.role.into(),
        hash: hash_token(&secret),
        created_by: caller.actor.clone(),
        only_first: false,
    };
    match api.store.admin(create).await? {
        AdminAnswer::ApiKey(row) => {
            let ApiKey { id, namespace, name, role, created_at, created_by, .. } = shown(&caller, row);
            let key = NewApiKey { id, namespace, name, role, created_at, created_by, secret };
            Ok((StatusCode::CREATED, Json(key)))
        }
        other => Err(Error::internal(format!("the store answered a new key with {other:?}"))),
    }
}

/// Lists the namespace's API keys, newest first, those revoked among them.
#[utoipa::path(
    get, path = "/v1/keys", operation_id = "list_keys", tag = "keys", params(PageQuery),
    responses((status = 200, description = "A page", body = ApiKeyPage))
)]
pub async fn list_keys(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<ApiKeyPage>> {
    let mut rows = api.store.read().api_keys(Some(caller.namespace_id)).await?;
    let place =
        |row: &ApiKeyRow| [&(i64::MAX - row.created_at.as_millis()).to_be_bytes()[..], row.id.0.as_bytes()].concat();
    rows.sort_by_key(place);
    let (rows, next_cursor) = cursor::page(List::Keys, rows, &query, place)?;
    Ok(Json(ApiKeyPage { items: rows.into_iter().map(|row| shown(&caller, row)).collect(), next_cursor }))
}

/// Revokes an API key, at once and for good.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", operation_id = "delete_key", tag = "keys",
    params(("id" = String, Path, format = Uuid, description = "The key's id")),
    responses((status = 200, description = "The key, revoked", body = ApiKey))
)]
pub async fn delete_key(State(api): State<Api>, caller: Caller, Path(id): Path<Uuid>) -> Result<Json<ApiKey>> {
    let revoke = AdminOp::RevokeApiKey { namespace_id: Some(caller.namespace_id), id: ApiKeyId(id) };
    match api.store.admin(revoke).await? {
        AdminAnswer::ApiKey(row) => Ok(Json(shown(&caller, row))),
        AdminAnswer::NotFound => Err(Error::not_found("API key")),
        other => Err(Error::internal(format!("the store answered a revocation with {other:?}"))),
    }
}
