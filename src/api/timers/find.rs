//! Finding timers: one by id or key, many by filter.

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    domain::{
        id::{NamespaceId, TimerId, TypeId},
        time::Timestamp,
        timer,
    },
    store::read::TimerQuery,
};

use super::{
    super::{
        Api, Inner,
        auth::Caller,
        cursor::{self, List},
        extract::{Path, Query},
        model::{TimerState, page},
        problem::{Code, Error, Result},
    },
    Timer, TimerAnswer,
    view::type_named,
};

page!(
    /// Timers, newest due first.
    TimerPage of Timer
);

/// Which timers.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimerFilter {
    /// Of this type.
    #[param(nullable = false)]
    r#type: Option<String>,
    /// In this state.
    #[param(inline, nullable = false)]
    state: Option<TimerState>,
    /// With exactly this key: the way to reach one that a path would mangle.
    #[param(nullable = false)]
    key: Option<String>,
    /// Due before this time.
    #[param(value_type = Option<String>, format = DateTime, nullable = false)]
    due_before: Option<Timestamp>,
    /// Due at or after this time.
    #[param(value_type = Option<String>, format = DateTime, nullable = false)]
    due_after: Option<Timestamp>,
    /// `true`: not final, and due; `false`: the others.
    #[param(nullable = false)]
    expired: Option<bool>,
    /// With this label: `name=value`.
    #[param(nullable = false, example = "shop=main")]
    label: Option<String>,
    /// Where to go on: the `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// Items in a page.
    #[param(minimum = 1, maximum = 500, default = 50, nullable = false)]
    limit: Option<u32>,
}

/// Lists timers, newest due first.
///
/// A page may be short, or empty, and still have a `next_cursor`: a filter looks at a bounded number of timers a call.
#[utoipa::path(
    get, path = "/v1/timers", operation_id = "list_timers", tag = "timers", params(TimerFilter),
    responses((status = 200, description = "A page", body = TimerPage))
)]
pub async fn list_timers(
    State(api): State<Api>,
    caller: Caller,
    Query(filter): Query<TimerFilter>,
) -> Result<Json<TimerPage>> {
    let limit = cursor::limit(filter.limit)?;
    let before = cursor::decode_row(List::Timers, filter.cursor.as_deref())?;
    let label = match filter.label.as_deref().map(|l| l.split_once('=')) {
        None => None,
        Some(Some((name, value))) => Some((name.to_owned(), value.to_owned())),
        Some(None) => return Err(Error::at(Code::Malformed, "?label", "a label is given as name=value")),
    };
    let types = api.type_ids(caller.namespace_id, filter.r#type.as_deref());
    if types.is_empty() {
        return Ok(Json(TimerPage { items: Vec::new(), next_cursor: None }));
    }
    let query = TimerQuery {
        types,
        states: filter.state.into_iter().map(Into::into).collect(),
        key: filter.key,
        due_before: filter.due_before,
        due_after: filter.due_after,
        expired: filter.expired,
        label,
        before: before.map(|(at, id)| (at, TimerId(id))),
        limit,
    };
    let page = api.store.read().timers(query).await?;
    Ok(Json(TimerPage {
        items: page.items.into_iter().map(|t| api.show(t)).collect(),
        next_cursor: page.next.map(|next| cursor::encode_row(List::Timers, next)),
    }))
}

/// Shows a timer.
#[utoipa::path(
    get, path = "/v1/timers/{id}", operation_id = "get_timer", tag = "timers",
    params(("id" = String, Path, format = Uuid, description = "The timer's id")),
    responses((status = 200, description = "The timer", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn get_timer(State(api): State<Api>, caller: Caller, Path(id): Path<uuid::Uuid>) -> Result<TimerAnswer> {
    let timer = api.timer(&caller, TimerId(id)).await?;
    Ok(TimerAnswer::ok(api.show(timer)))
}

/// Shows a timer, by type and key.
#[utoipa::path(
    get, path = "/v1/types/{type}/timers/{key}", operation_id = "get_timer_by_key", tag = "timers",
    params(("type" = String, Path, description = "The type's name"), ("key" = String, Path, description = "The timer's key, percent-encoded")),
    responses((status = 200, description = "The timer", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn get_timer_by_key(
    State(api): State<Api>,
    caller: Caller,
    Path((name, key)): Path<(String, String)>,
) -> Result<TimerAnswer> {
    let type_id = api.type_id(&caller, &name)?;
    let key = key.parse().map_err(|_| Error::not_found("timer"))?;
    let timer = api.store.read().timer_by_key(type_id, key).await?.ok_or_else(|| Error::not_found("timer"))?;
    Ok(TimerAnswer::ok(api.show(timer)))
}

impl Inner {
    /// A timer of the caller's namespace; another's is not there.
    pub async fn timer(&self, caller: &Caller, id: TimerId) -> Result<timer::Timer> {
        let timer = self.store.read().timer(id).await?;
        timer.filter(|t| t.namespace_id == caller.namespace_id).ok_or_else(|| Error::not_found("timer"))
    }

    /// A type that a path names.
    pub fn type_id(&self, caller: &Caller, name: &str) -> Result<TypeId> {
        let snapshot = self.catalog.snapshot();
        type_named(&snapshot, caller.namespace_id, name).map(|t| t.id).ok_or_else(|| Error::not_found("timer type"))
    }

    /// The types of a namespace, or the one of them that has this name.
    pub fn type_ids(&self, namespace: NamespaceId, name: Option<&str>) -> Vec<TypeId> {
        let snapshot = self.catalog.snapshot();
        let types = snapshot.catalogue.types.iter().filter(|t| t.namespace_id == namespace);
        types.filter(|t| name.is_none_or(|n| t.name.as_str() == n)).map(|t| t.id).collect()
    }
}
