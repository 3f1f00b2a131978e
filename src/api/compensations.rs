//! Compensations: what was decided to be done elsewhere, and the repair of what could not be.

use std::collections::BTreeSet;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    domain::{
        compensation,
        id::{CompensationId, Name, TimerId},
        time::Timestamp,
    },
    store::{
        op::{Redrive, RedriveWhich, Redriven},
        read::CompensationQuery,
    },
};

use super::{
    Api, Inner,
    auth::Caller,
    cursor::{self, List},
    extract::{OptionalJson, Path, Query, check_note, given},
    model::{CompensationState, Failure, Raw, page},
    problem::{Code, Error, Result},
};

/// The most that one call redrives.
const MAX_REDRIVE: u32 = 500;

page!(
    /// Compensations, newest first.
    CompensationPage of Compensation
);

/// An effect on another service, carried out after the decision that asked for it.
#[derive(Serialize, ToSchema)]
pub struct Compensation {
    /// Also the `Idempotency-Key` that its plugin sends, the same over attempts and redrives.
    #[schema(value_type = String, format = Uuid)]
    id: String,
    #[schema(value_type = String, format = Uuid)]
    timer_id: String,
    r#type: String,
    timer_key: String,
    #[schema(example = "release_inventory")]
    kind: String,
    #[schema(value_type = Value)]
    payload: Raw,
    state: CompensationState,
    /// The number of the attempt that runs or runs next, from 1.
    attempt: u32,
    /// When it is tried next; left out when done or dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    run_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_error: Option<Failure>,
    /// The last downstream that the latest failed attempt turned to: `HOST:PORT`, or `sql:NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    host: Option<String>,
    /// What the plugin answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    result: Option<Raw>,
    /// The revision that decided it, and that carries it out.
    revision: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    settled_at: Option<Timestamp>,
}

/// Which compensations.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CompensationFilter {
    /// Of timers of this type.
    #[param(nullable = false)]
    r#type: Option<String>,
    /// Of this kind.
    #[param(nullable = false)]
    kind: Option<String>,
    /// In this state.
    #[param(inline, nullable = false)]
    state: Option<CompensationState>,
    /// Of this timer.
    #[param(value_type = Option<String>, format = Uuid, nullable = false)]
    timer_id: Option<Uuid>,
    /// Where to go on: the `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// Items in a page.
    #[param(minimum = 1, maximum = 500, default = 50, nullable = false)]
    limit: Option<u32>,
}

/// Which revision carries out what is redriven.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RedriveRevision {
    Decided,
    Active,
}

/// Why one is sent back to its lane.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"note": "the inventory service is back"}))]
pub struct RedriveRequest {
    /// For the audit; at most 1,000 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    note: Option<String>,
    /// Which revision carries it out: `decided`, that which decided it (the default), or `active`, the type's active one,
    /// for a plugin that was mended since.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    revision: Option<RedriveRevision>,
}

/// Which dead compensations are sent back to their lanes, and why: those named, or those that fit.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"type": "order-timeout", "kind": "release_inventory", "note": "the inventory service is back"}))]
pub struct RedriveManyRequest {
    /// These, and no others; at most 500, and without `type`, `kind` and `limit`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>, max_items = 500, nullable = false)]
    ids: Option<Vec<Uuid>>,
    /// Of timers of this type; of all types if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    r#type: Option<String>,
    /// Of this kind; of all kinds if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    kind: Option<String>,
    /// The most to redrive in this call.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 500, default = 500, nullable = false)]
    limit: Option<u32>,
    /// For the audit; at most 1,000 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    note: Option<String>,
    /// Which revision carries them out: `decided`, that which decided each (the default), or `active`, the type's active
    /// one, for a plugin that was mended since.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    revision: Option<RedriveRevision>,
}

/// What came of redriving many.
#[derive(Serialize, ToSchema)]
pub struct RedriveResult {
    /// How many were sent back.
    count: usize,
    /// How many of those named were not dead any more, or are not there.
    skipped: usize,
    /// Those of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    skipped_ids: Vec<String>,
    /// Whether others that fit are left: call again.
    more: bool,
}

impl Inner {
    fn show_compensation(&self, row: compensation::Compensation) -> Compensation {
        let snapshot = self.catalog.snapshot();
        Compensation {
            id: row.id.to_string(),
            timer_id: row.timer_id.to_string(),
            r#type: snapshot.row(row.type_id).map(|t| t.name.to_string()).unwrap_or_default(),
            timer_key: row.timer_key.to_string(),
            kind: row.kind.to_string(),
            payload: Raw::of(row.payload),
            state: row.state.into(),
            attempt: row.attempt,
            run_at: row.run_at,
            host: row.last_error.as_ref().and_then(|f| f.host.clone()),
            last_error: row.last_error.map(Into::into),
            result: row.result.map(Raw::of),
            revision: row.revision,
            created_at: row.created_at,
            settled_at: row.settled_at,
        }
    }
}

/// Lists compensations, newest first.
#[utoipa::path(
    get, path = "/v1/compensations", operation_id = "list_compensations", tag = "compensations",
    params(CompensationFilter),
    responses((status = 200, description = "A page", body = CompensationPage))
)]
pub async fn list_compensations(
    State(api): State<Api>,
    caller: Caller,
    Query(filter): Query<CompensationFilter>,
) -> Result<Json<CompensationPage>> {
    let limit = cursor::limit(filter.limit)?;
    let before = cursor::decode_row(List::Compensations, filter.cursor.as_deref())?;
    let types = api.type_ids(caller.namespace_id, filter.r#type.as_deref());
    let kind = filter.kind.map(|k| k.parse::<Name>());
    if types.is_empty() || matches!(kind, Some(Err(_))) {
        return Ok(Json(CompensationPage { items: Vec::new(), next_cursor: None }));
    }
    let query = CompensationQuery {
        types,
        states: filter.state.into_iter().map(Into::into).collect(),
        kind: kind.and_then(std::result::Result::ok),
        timer_id: filter.timer_id.map(TimerId),
        before,
        limit,
    };
    let page = api.store.read().compensations(query).await?;
    Ok(Json(CompensationPage {
        items: page.items.into_iter().map(|c| api.show_compensation(c)).collect(),
        next_cursor: page.next.map(|next| cursor::encode_row(List::Compensations, next)),
    }))
}

/// Shows a compensation.
#[utoipa::path(
    get, path = "/v1/compensations/{id}", operation_id = "get_compensation", tag = "compensations",
    params(("id" = String, Path, format = Uuid, description = "The compensation's id")),
    responses((status = 200, description = "The compensation", body = Compensation))
)]
pub async fn get_compensation(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Result<Json<Compensation>> {
    let found = api.store.read().compensation(CompensationId(id)).await?;
    found
        .filter(|c| c.namespace_id == caller.namespace_id)
        .map(|c| Json(api.show_compensation(c)))
        .ok_or_else(|| Error::not_found("compensation"))
}

/// Sends a dead compensation back to its lane, with all its attempts anew.
#[utoipa::path(
    post, path = "/v1/compensations/{id}/redrive", operation_id = "redrive_compensation", tag = "compensations",
    request_body = RedriveRequest,
    params(("id" = String, Path, format = Uuid, description = "The compensation's id")),
    responses((status = 200, description = "The compensation as it now is", body = Compensation))
)]
pub async fn redrive_compensation(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<Uuid>,
    OptionalJson(request): OptionalJson<RedriveRequest>,
) -> Result<Json<Compensation>> {
    let which = RedriveWhich::One(CompensationId(id));
    match api.redrive(caller, which, request.note, request.revision).await? {
        Redriven::One(row) => Ok(Json(api.show_compensation(row))),
        Redriven::NotFound => Err(Error::not_found("compensation")),
        Redriven::WrongState(state) => {
            let detail = format!("the compensation is {}; only a dead one can be redriven", state.as_str());
            Err(Error::new(Code::WrongState, detail))
        }
        other @ Redriven::Many { .. } => Err(Error::internal(format!("the store answered a redrive with {other:?}"))),
    }
}

/// Sends dead compensations back to their lanes.
#[utoipa::path(
    post, path = "/v1/compensations/redrive", operation_id = "redrive_compensations", tag = "compensations",
    request_body = RedriveManyRequest,
    responses((status = 200, description = "How many", body = RedriveResult))
)]
pub async fn redrive_compensations(
    State(api): State<Api>,
    caller: Caller,
    OptionalJson(request): OptionalJson<RedriveManyRequest>,
) -> Result<Json<RedriveResult>> {
    if let Some(ids) = &request.ids {
        if request.r#type.is_some() || request.kind.is_some() || request.limit.is_some() {
            return Err(Error::at(Code::Malformed, "/ids", "give ids, or type, kind and limit, not both"));
        }
        let ids: BTreeSet<CompensationId> = ids.iter().copied().map(CompensationId).collect();
        return api.redrive_named(caller, ids, request.note, request.revision).await.map(Json);
    }
    let limit = match request.limit.unwrap_or(MAX_REDRIVE) {
        n @ 1..=MAX_REDRIVE => n as usize,
        n => return Err(Error::at(Code::PayloadInvalid, "/limit", format!("1 to {MAX_REDRIVE}, not {n}"))),
    };
    let type_id = match &request.r#type {
        None => None,
        Some(name) => {
            let found = api.type_ids(caller.namespace_id, Some(name)).first().copied();
            let unknown = || Error::at(Code::UnknownType, "/type", "there is no timer type of this name");
            Some(found.ok_or_else(unknown)?)
        }
    };
    let kind = request.kind.as_deref().map(str::parse::<Name>).transpose();
    let kind = kind.map_err(|e| Error::at(Code::PayloadInvalid, "/kind", e.to_string()))?;
    match api.redrive(caller, RedriveWhich::Filter { type_id, kind, limit }, request.note, request.revision).await? {
        Redriven::Many { count, more } => Ok(Json(RedriveResult { count, skipped: 0, skipped_ids: Vec::new(), more })),
        other => Err(Error::internal(format!("the store answered a redrive of many with {other:?}"))),
    }
}

impl Inner {
    /// Each by itself; the store writes them together.
    async fn redrive_named(
        &self,
        caller: Caller,
        ids: BTreeSet<CompensationId>,
        note: Option<String>,
        revision: Option<RedriveRevision>,
    ) -> Result<RedriveResult> {
        if ids.is_empty() || ids.len() > MAX_REDRIVE as usize {
            let detail = format!("1 to {MAX_REDRIVE} ids, not {}", ids.len());
            return Err(Error::at(Code::PayloadInvalid, "/ids", detail));
        }
        let each = ids.iter().map(|id| self.redrive(caller.clone(), RedriveWhich::One(*id), note.clone(), revision));
        let mut skipped_ids = Vec::new();
        for (id, redriven) in ids.iter().zip(futures_util::future::join_all(each).await) {
            if !matches!(redriven?, Redriven::One(_)) {
                skipped_ids.push(id.to_string());
            }
        }
        let skipped = skipped_ids.len();
        Ok(RedriveResult { count: ids.len() - skipped, skipped, skipped_ids, more: false })
    }

    async fn redrive(
        &self,
        caller: Caller,
        which: RedriveWhich,
        note: Option<String>,
        revision: Option<RedriveRevision>,
    ) -> Result<Redriven> {
        let note = note.unwrap_or_default();
        check_note(&note, "/note")?;
        let to_active = revision == Some(RedriveRevision::Active);
        let (namespace_id, actor) = (caller.namespace_id, caller.actor);
        Ok(self.store.redrive(Redrive { namespace_id, which, to_active, note, actor }).await?)
    }
}
