//! Timer types: a plugin with its configuration and rights, in immutable revisions.

mod check;
mod costs;
mod dry_run;
mod grants;
mod revisions;
mod view;

pub(super) use self::costs::*;
pub(super) use self::dry_run::*;
pub(super) use self::grants::*;
pub(super) use self::revisions::*;
pub(super) use self::view::{RetryPolicy, Revision, RevisionPage, Type, TypePage};

use std::collections::BTreeSet;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    domain::{
        id::Name,
        plugin::{self, Grant, TypeRow},
    },
    store::admin::{AdminAnswer, AdminOp, Role},
};

use super::{
    Api, Inner,
    auth::Caller,
    cursor::{self, List},
    extract::{Json as JsonBody, PageQuery, Path, Query, given, given_object},
    problem::{Code, Error, Result},
};

/// What a type is to be: the content of its next revision.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "digest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "config": {"inventory_url": "https://inventory.example.com", "coupon_url": "https://coupons.example.com"},
    "grants": ["http:inventory.example.com", "http:coupons.example.com"],
    "default_delay": "30m"
}))]
pub struct PutTypeRequest {
    /// An uploaded plugin's digest.
    digest: String,
    /// What the plugin is given with each call; fits the plugin's `config_schema`. `{}` if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Value>, nullable = false)]
    config: Option<Box<RawValue>>,
    /// `[EXPORT:]http:HOST[:PORT]`, `[EXPORT:]sql:NAME` of a data source or `[EXPORT:]secret:NAME`, where EXPORT is
    /// `on-expire`, `on-remind` or `compensate` (the default). Only what
    /// the plugin asks for can be granted; what the active revision does not have needs an operator.
    #[serde(default)]
    #[schema(required = false)]
    grants: Vec<String>,
    /// The delay of a timer that says none; the plugin's own if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, example = "30m")]
    default_delay: Option<String>,
    /// How often an expiry is tried; the plugin's own if left out.
    #[serde(default, deserialize_with = "given_object")]
    #[schema(nullable = false)]
    retry: Option<RetryPolicy>,
    /// The most expiries of the type that run at once, on each node.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, minimum = 1, maximum = 10000)]
    concurrency: Option<u32>,
    /// The most expiries of the type that are started in a second, on each node.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, minimum = 1, maximum = 1_000_000)]
    rate: Option<u32>,
}

/// Which revision is to serve.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"revision": 1}))]
pub struct ActivateRequest {
    revision: i64,
}

/// Makes a type, or a new revision of it, and activates that.
///
/// It is live when the answer is given, without a restart. The same content as the active revision's changes nothing.
#[utoipa::path(
    put, path = "/v1/types/{type}", operation_id = "put_type", tag = "types", request_body = PutTypeRequest,
    params(("type" = String, Path, description = "The type's name: a-z, 0-9, - and _, at most 63, from a letter on")),
    responses(
        (status = 200, description = "The type has a new revision, or is so already", body = Type),
        (status = 201, description = "The type is new", body = Type),
    )
)]
pub async fn put_type(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<PutTypeRequest>,
) -> Result<(StatusCode, Json<Type>)> {
    let name: Name = name.parse().map_err(|e: crate::domain::id::NameError| {
        Error::at(Code::PayloadInvalid, "", format!("a type cannot have this name: {e}"))
    })?;
    let put = api.checked_type(&caller, name, request)?;
    api.check_new_grants(&caller, put.name.as_str(), &put.grants)?;
    match api.store.admin(AdminOp::PutType(put)).await? {
        AdminAnswer::Type { row, created, .. } => {
            let shown = api.live(&row).await?;
            Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(shown)))
        }
        AdminAnswer::NotFound => Err(check::no_such_plugin()),
        other => Err(Error::internal(format!("the store answered a type with {other:?}"))),
    }
}

/// Lists types, by name.
#[utoipa::path(
    get, path = "/v1/types", operation_id = "list_types", tag = "types", params(PageQuery),
    responses((status = 200, description = "A page", body = TypePage))
)]
pub async fn list_types(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<TypePage>> {
    let snapshot = api.catalog.snapshot();
    let mut rows: Vec<_> = snapshot.catalogue.types.iter().filter(|t| t.namespace_id == caller.namespace_id).collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let (rows, next_cursor) = cursor::page(List::Types, rows, &query, |t| t.name.as_str().as_bytes().to_vec())?;
    let items = rows.into_iter().map(|row| api.show_type(row)).collect::<Result<_>>()?;
    Ok(Json(TypePage { items, next_cursor }))
}

/// Shows a type with its active revision.
#[utoipa::path(
    get, path = "/v1/types/{type}", operation_id = "get_type", tag = "types",
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The type", body = Type))
)]
pub async fn get_type(State(api): State<Api>, caller: Caller, Path(name): Path<String>) -> Result<Json<Type>> {
    api.show_type(&api.type_row(&caller, &name)?).map(Json)
}

/// Lists a type's revisions, newest first.
#[utoipa::path(
    get, path = "/v1/types/{type}/revisions", operation_id = "list_revisions", tag = "types",
    params(("type" = String, Path, description = "The type's name"), PageQuery),
    responses((status = 200, description = "A page", body = RevisionPage))
)]
pub async fn list_revisions(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<RevisionPage>> {
    let row = api.type_row(&caller, &name)?;
    let snapshot = api.catalog.snapshot();
    let revisions = snapshot.catalogue.revisions.iter().filter(|(id, _)| *id == row.id).map(|(_, r)| r);
    let mut revisions: Vec<_> = revisions.filter(|r| r.deleted_at.is_none()).collect();
    revisions.sort_by_key(|r| std::cmp::Reverse(r.number));
    let place = |r: &&plugin::Revision| (i64::MAX - r.number).to_be_bytes().to_vec();
    let (page, next_cursor) = cursor::page(List::Revisions, revisions, &query, place)?;
    let items = page.into_iter().map(|r| Revision::of(r, row.active)).collect();
    Ok(Json(RevisionPage { items, next_cursor }))
}

/// Makes an existing revision of a type the active one.
///
/// Timers that are not pinned run it from now on, those whose payload its schema does not take excepted: they go on with
/// the revision that they were registered under. A roll back is the activation of an older revision. A revision with
/// rights that the active one does not have needs an operator.
#[utoipa::path(
    post, path = "/v1/types/{type}/activate", operation_id = "activate_revision", tag = "types",
    request_body = ActivateRequest,
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The type as it now is", body = Type))
)]
pub async fn activate_revision(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<ActivateRequest>,
) -> Result<Json<Type>> {
    let row = api.type_row(&caller, &name)?;
    let number = request.revision;
    let missing = || Error::at(Code::NotFound, "/revision", format!("the type has no revision {number}"));
    let snapshot = api.catalog.snapshot();
    let revision = snapshot.catalogue.revision(row.id, number).ok_or_else(missing)?;
    api.check_new_grants(&caller, &name, &revision.grants)?;
    let activate = AdminOp::Activate { namespace_id: caller.namespace_id, name: row.name, number };
    match api.store.admin(activate).await? {
        AdminAnswer::Type { row, .. } => api.live(&row).await.map(Json),
        AdminAnswer::NotFound => Err(missing()),
        other => Err(Error::internal(format!("the store answered an activation with {other:?}"))),
    }
}

impl Inner {
    pub(super) fn type_row(&self, caller: &Caller, name: &str) -> Result<TypeRow> {
        let snapshot = self.catalog.snapshot();
        snapshot.row_named(caller.namespace_id, name).cloned().ok_or_else(|| Error::not_found("timer type"))
    }

    /// Takes a change of a type in, and makes sure that this node runs it.
    async fn live(&self, row: &TypeRow) -> Result<Type> {
        self.catalog.refresh_type(row.id).await?;
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.by_id(row.id);
        // Somebody else's later change may be the active one by now.
        if entry.is_some_and(|e| e.active.revision.number == e.row.active) {
            let mut shown = self.show_type(row)?;
            shown.left_behind = self.left_behind(row).await?;
            return Ok(shown);
        }
        Err(Error::unavailable("the revision is stored, but cannot be loaded on this node; the one before serves on"))
    }

    /// Rights that the active revision does not have are an operator's to give.
    fn check_new_grants(&self, caller: &Caller, name: &str, grants: &[Grant]) -> Result<()> {
        if matches!(caller.role, Role::Operator | Role::Admin) {
            return Ok(());
        }
        let snapshot = self.catalog.snapshot();
        let active = snapshot.row_named(caller.namespace_id, name).and_then(|row| {
            let revisions = &snapshot.catalogue.revisions;
            revisions.iter().find(|(id, r)| *id == row.id && r.number == row.active).map(|(_, r)| r)
        });
        let held: BTreeSet<&Grant> = active.iter().flat_map(|r| &r.grants).collect();
        let new: Vec<String> = grants.iter().filter(|g| !held.contains(g)).map(ToString::to_string).collect();
        if new.is_empty() {
            return Ok(());
        }
        let detail = format!("the active revision does not have {}; only an operator can grant it", new.join(", "));
        Err(Error::new(Code::Forbidden, detail))
    }
}
