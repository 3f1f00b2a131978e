//! Namespaces: everything belongs to one.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    domain::{
        id::{Name, NamespaceId},
        time::Timestamp,
    },
    store::admin::{AdminAnswer, AdminOp, NamespaceRow, Role},
};

use super::{
    Api, Inner,
    auth::Caller,
    cursor::{self, List},
    extract::{Json as JsonBody, PageQuery, Query},
    model::page,
    pauses::Pause,
    problem::{Code, Error, Result},
};

page!(
    /// Namespaces, by name.
    NamespacePage of Namespace
);

#[derive(Serialize, ToSchema)]
pub struct Namespace {
    name: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// What keeps all its timers from firing; left out while nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    paused: Option<Pause>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "shop-two"}))]
pub struct CreateNamespaceRequest {
    /// a-z, 0-9, - and _, at most 63, from a letter on.
    name: String,
}

impl Inner {
    fn namespace_view(&self, row: &NamespaceRow) -> Namespace {
        Namespace { name: row.name.to_string(), created_at: row.created_at, paused: self.namespace_paused(row.id) }
    }

    pub(super) fn show_namespace(&self, id: NamespaceId) -> Result<Namespace> {
        let snapshot = self.catalog.snapshot();
        let row = snapshot.catalogue.namespaces.iter().find(|row| row.id == id);
        row.map(|row| self.namespace_view(row)).ok_or_else(|| Error::not_found("namespace"))
    }
}

/// Makes a namespace. The same name again answers 200.
#[utoipa::path(
    post, path = "/v1/namespaces", operation_id = "create_namespace", tag = "namespaces",
    request_body = CreateNamespaceRequest,
    responses(
        (status = 200, description = "It is there already", body = Namespace),
        (status = 201, description = "It is made", body = Namespace),
    )
)]
pub async fn create_namespace(
    State(api): State<Api>,
    _caller: Caller,
    JsonBody(request): JsonBody<CreateNamespaceRequest>,
) -> Result<(StatusCode, Json<Namespace>)> {
    let name: Name = request
        .name
        .parse()
        .map_err(|e: crate::domain::id::NameError| Error::at(Code::PayloadInvalid, "/name", e.to_string()))?;
    match api.store.admin(AdminOp::CreateNamespace { name }).await? {
        AdminAnswer::Namespace { row, created } => {
            api.catalog.refresh_meanwhile().await?;
            Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(api.namespace_view(&row))))
        }
        other => Err(Error::internal(format!("the store answered a namespace with {other:?}"))),
    }
}

/// Lists namespaces, by name. Keys other than an administrator's see only their own.
#[utoipa::path(
    get, path = "/v1/namespaces", operation_id = "list_namespaces", tag = "namespaces", params(PageQuery),
    responses((status = 200, description = "A page", body = NamespacePage))
)]
pub async fn list_namespaces(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<NamespacePage>> {
    let snapshot = api.catalog.snapshot();
    let all = caller.role == Role::Admin;
    let rows = snapshot.catalogue.namespaces.iter().filter(|n| all || n.id == caller.namespace_id);
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let (rows, next_cursor) = cursor::page(List::Namespaces, rows, &query, |n| n.name.as_str().as_bytes().to_vec())?;
    Ok(Json(NamespacePage { items: rows.into_iter().map(|row| api.namespace_view(row)).collect(), next_cursor }))
}
