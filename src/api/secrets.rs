//! Secrets: named, sealed, and never answered again.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    config,
    domain::{
        id::{Name, NameError, NamespaceId},
        time::Timestamp,
    },
    store::admin::{SealedKind, SealedRow},
    vault::{self, Keep},
};

use super::{
    Api, Inner,
    auth::Caller,
    cursor::{self, List},
    extract::{Json as JsonBody, PageQuery, Path, Query},
    model::page,
    problem::{Code, Error, Result},
};

/// The longest secret, in bytes.
const MAX_VALUE_BYTES: usize = 8 * 1024;
/// Secrets, and data sources, of one namespace.
const MAX_SEALED: usize = 1_000;

page!(
    /// Secrets, by name.
    SecretPage of Secret
);

/// A secret, without its value: no call answers that.
#[derive(Serialize, ToSchema)]
pub struct Secret {
    name: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    updated_by: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"value": "s3cr3t"}))]
pub struct PutSecretRequest {
    /// 1 to 8,192 bytes of text.
    #[schema(min_length = 1, max_length = 8192)]
    value: String,
}

impl From<SealedRow> for Secret {
    fn from(row: SealedRow) -> Self {
        let SealedRow { name, created_at, updated_at, updated_by, .. } = row;
        Self { name: name.to_string(), created_at, updated_at, updated_by }
    }
}

/// Sets a secret, in the place of the one of its name.
///
/// Plugins name it in a header or a parameter and never see it; it needs a grant (`secret:NAME`) to the export that names
/// it. The next call that uses it has the new value, on every node.
#[utoipa::path(
    put, path = "/v1/secrets/{name}", operation_id = "put_secret", tag = "secrets", request_body = PutSecretRequest,
    params(("name" = String, Path, description = "a-z, 0-9, - and _, at most 63, from a letter on")),
    responses(
        (status = 200, description = "It has a new value", body = Secret),
        (status = 201, description = "It is new", body = Secret),
    )
)]
pub async fn put_secret(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<PutSecretRequest>,
) -> Result<(StatusCode, Json<Secret>)> {
    let name = new_name(&name)?;
    let value = request.value;
    if value.is_empty() || value.len() > MAX_VALUE_BYTES || value.contains('\0') {
        let detail = format!("a secret is 1 to {MAX_VALUE_BYTES} bytes without U+0000");
        return Err(Error::at(Code::PayloadInvalid, "/value", detail));
    }
    api.check_room(caller.namespace_id, SealedKind::Secret, &name).await?;
    let keep = Keep { namespace_id: caller.namespace_id, name, by: caller.actor.clone() };
    let (row, created) = api.vault.put_secret(keep, &config::Secret::new(value)).await?;
    tracing::info!(namespace = %caller.namespace, secret.name = %row.name, actor = caller.actor, "a secret was set");
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(row.into())))
}

/// Lists secrets, by name, without their values.
#[utoipa::path(
    get, path = "/v1/secrets", operation_id = "list_secrets", tag = "secrets", params(PageQuery),
    responses((status = 200, description = "A page", body = SecretPage))
)]
pub async fn list_secrets(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<SecretPage>> {
    let rows = api.vault.list(caller.namespace_id, SealedKind::Secret).await?;
    let (rows, next_cursor) = cursor::page(List::Secrets, rows, &query, |r| r.name.as_str().as_bytes().to_vec())?;
    Ok(Json(SecretPage { items: rows.into_iter().map(Into::into).collect(), next_cursor }))
}

/// Deletes a secret. The next call that names it is refused, on every node.
#[utoipa::path(
    delete, path = "/v1/secrets/{name}", operation_id = "delete_secret", tag = "secrets",
    params(("name" = String, Path, description = "The secret's name")),
    responses((status = 200, description = "What it was", body = Secret))
)]
pub async fn delete_secret(State(api): State<Api>, caller: Caller, Path(name): Path<String>) -> Result<Json<Secret>> {
    let row = api.delete_sealed(&caller, SealedKind::Secret, &name).await?;
    tracing::info!(namespace = %caller.namespace, secret.name = %row.name, actor = caller.actor, "a secret was deleted");
    Ok(Json(row.into()))
}

/// The name that something new is to have.
pub(super) fn new_name(name: &str) -> Result<Name> {
    name.parse().map_err(|e: NameError| Error::at(Code::PayloadInvalid, "", format!("it cannot have this name: {e}")))
}

/// The name of something that may be there.
pub(super) fn known_name(kind: SealedKind, name: &str) -> Result<Name> {
    name.parse().map_err(|_| not_found(kind))
}

pub(super) fn not_found(kind: SealedKind) -> Error {
    Error::not_found(match kind {
        SealedKind::Secret => "secret",
        SealedKind::DataSource => "data source",
    })
}

impl Inner {
    pub(super) async fn delete_sealed(&self, caller: &Caller, kind: SealedKind, name: &str) -> Result<SealedRow> {
        let deleted = self.vault.delete(caller.namespace_id, kind, known_name(kind, name)?).await?;
        deleted.ok_or_else(|| not_found(kind))
    }

    /// That the namespace may have one more, unless it has this one already.
    pub(super) async fn check_room(&self, namespace: NamespaceId, kind: SealedKind, name: &Name) -> Result<()> {
        let rows = self.vault.list(namespace, kind).await?;
        if rows.len() >= MAX_SEALED && !rows.iter().any(|row| row.name == *name) {
            let detail = format!("a namespace has at most {MAX_SEALED} of them; delete one first");
            return Err(Error::new(Code::PayloadInvalid, detail));
        }
        Ok(())
    }
}

impl From<vault::Error> for Error {
    fn from(error: vault::Error) -> Self {
        match error {
            vault::Error::Store(error) => error.into(),
            other => {
                tracing::error!(error = %other, "what is sealed cannot be opened");
                Self::unavailable("what is sealed cannot be opened; the server's log says why")
            }
        }
    }
}
