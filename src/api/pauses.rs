//! Pausing and resuming: a type, a namespace, or all firing.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    domain::{
        id::NamespaceId,
        pause::{self, Scope},
        time::{DurationMs, Timestamp},
        timer,
    },
    store::{
        admin::{AdminAnswer, AdminOp, PutPause, Role},
        op::Target,
    },
};

use super::{
    Api, Inner,
    auth::Caller,
    cursor::{self, List},
    extract::{Json as JsonBody, PageQuery, Path, Query, check_note, given, instant},
    model::page,
    namespaces::Namespace,
    problem::{Code, Error, Result},
    types::Type,
};

page!(
    /// Pauses: of all firing, of the namespace, and of its types, by name.
    PausePage of Pause
);

/// Why, and until when.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "the payment provider is down", "until": "30m"}))]
pub struct PauseRequest {
    /// For everybody who meets the pause; 1 to 1,000 bytes.
    reason: String,
    /// When it ends by itself: RFC 3339, or a duration from the server's now. Left out: when somebody resumes.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    until: Option<String>,
}

/// What is paused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    All,
    Namespace,
    Type,
}

/// A pause that holds.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Pause {
    scope: PauseScope,
    /// The namespace; left out where all firing is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    namespace: Option<String>,
    /// The type, where it is one that is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    r#type: Option<String>,
    reason: String,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When it ends by itself; left out: when somebody resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    until: Option<Timestamp>,
    /// Who paused it, or changed the pause last.
    by: String,
}

/// All firing.
#[derive(Serialize, ToSchema)]
pub struct Firing {
    /// Left out while timers fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    paused: Option<Pause>,
}

/// Whoever pauses everything is named to administrators only: a key's name is nobody's business in other namespaces.
const SOMEBODY: &str = "an administrator";

/// Pauses a type: none of its timers fires until it is resumed.
///
/// They can be registered, resolved, cancelled and rescheduled all the same. What runs already comes to its end, and
/// compensations go on. Pausing what is paused changes the reason and the end.
#[utoipa::path(
    post, path = "/v1/types/{type}/pause", operation_id = "pause_type", tag = "types", request_body = PauseRequest,
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The type as it now is", body = Type))
)]
pub async fn pause_type(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<PauseRequest>,
) -> Result<Json<Type>> {
    let row = api.type_row(&caller, &name)?;
    api.pause(&caller, Scope::Type(row.id), request).await?;
    api.show_type(&row).map(Json)
}

/// Resumes a type: what is overdue is drained at the set rate, oldest first.
///
/// Resuming what is not paused changes nothing. A pause of its namespace, or of all firing, stays in force.
#[utoipa::path(
    post, path = "/v1/types/{type}/resume", operation_id = "resume_type", tag = "types",
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The type as it now is", body = Type))
)]
pub async fn resume_type(State(api): State<Api>, caller: Caller, Path(name): Path<String>) -> Result<Json<Type>> {
    let row = api.type_row(&caller, &name)?;
    api.resume(&caller, Scope::Type(row.id)).await?;
    api.show_type(&row).map(Json)
}

/// Pauses a namespace: no timer of any of its types fires until it is resumed.
#[utoipa::path(
    post, path = "/v1/namespaces/{namespace}/pause", operation_id = "pause_namespace", tag = "namespaces",
    request_body = PauseRequest,
    params(("namespace" = String, Path, description = "The namespace's name; an administrator's key may name any")),
    responses((status = 200, description = "The namespace as it now is", body = Namespace))
)]
pub async fn pause_namespace(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<PauseRequest>,
) -> Result<Json<Namespace>> {
    let id = api.namespace_to_pause(&caller, &name)?;
    api.pause(&caller, Scope::Namespace(id), request).await?;
    api.show_namespace(id).map(Json)
}

/// Resumes a namespace. A pause of one of its types, or of all firing, stays in force.
#[utoipa::path(
    post, path = "/v1/namespaces/{namespace}/resume", operation_id = "resume_namespace", tag = "namespaces",
    params(("namespace" = String, Path, description = "The namespace's name; an administrator's key may name any")),
    responses((status = 200, description = "The namespace as it now is", body = Namespace))
)]
pub async fn resume_namespace(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Namespace>> {
    let id = api.namespace_to_pause(&caller, &name)?;
    api.resume(&caller, Scope::Namespace(id)).await?;
    api.show_namespace(id).map(Json)
}

/// Pauses all firing, in every namespace.
#[utoipa::path(
    post, path = "/v1/pause", operation_id = "pause_all", tag = "operations", request_body = PauseRequest,
    responses((status = 200, description = "The pause as it now is", body = Firing))
)]
pub async fn pause_all(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(request): JsonBody<PauseRequest>,
) -> Result<Json<Firing>> {
    api.pause(&caller, Scope::All, request).await?;
    Ok(Json(api.firing(&caller)))
}

/// Resumes firing. Pauses of namespaces and types stay in force.
#[utoipa::path(
    post, path = "/v1/resume", operation_id = "resume_all", tag = "operations",
    responses((status = 200, description = "That it is not paused", body = Firing))
)]
pub async fn resume_all(State(api): State<Api>, caller: Caller) -> Result<Json<Firing>> {
    api.resume(&caller, Scope::All).await?;
    Ok(Json(api.firing(&caller)))
}

/// Lists the pauses that hold for the namespace: of all firing, of itself, and of its types.
#[utoipa::path(
    get, path = "/v1/pauses", operation_id = "list_pauses", tag = "operations", params(PageQuery),
    responses((status = 200, description = "A page", body = PausePage))
)]
pub async fn list_pauses(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<PausePage>> {
    let (now, pauses) = (api.clock.now(), api.catalog.pauses());
    let shown = pauses.holding(now).map(|pause| api.show_pause(pause, caller.role == Role::Admin));
    let mine = |pause: &Pause| pause.namespace.as_ref().is_none_or(|name| *name == caller.namespace.as_str());
    let mut shown: Vec<(Vec<u8>, Pause)> = shown.filter(mine).map(|pause| (place(&pause), pause)).collect();
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    let (page, next_cursor) = cursor::page(List::Pauses, shown, &query, |(place, _)| place.clone())?;
    Ok(Json(PausePage { items: page.into_iter().map(|(_, pause)| pause).collect(), next_cursor }))
}

/// All, then the namespace, then its types by name.
fn place(pause: &Pause) -> Vec<u8> {
    let mut place = vec![pause.scope as u8];
    place.extend_from_slice(pause.r#type.as_deref().unwrap_or_default().as_bytes());
    place
}

/// A time, or a duration from now.
fn read_until(text: &str, now: Timestamp) -> Result<Timestamp> {
    let until = match text.parse::<DurationMs>() {
        Ok(length) => now
            .checked_add(length)
            .map_err(|_| Error::at(Code::TimeInvalid, "/until", "it leads beyond the year 9999"))?,
        Err(_) => instant(text, "/until").map_err(|_| {
            let detail = "a time like 2026-03-01T12:30:00Z, or a duration like 30m";
            Error::at(Code::TimeInvalid, "/until", detail)
        })?,
    };
    if until <= now {
        return Err(Error::at(
            Code::TimeInvalid,
            "/until",
            "it has passed already; leave it out to pause without an end",
        ));
    }
    Ok(until)
}

impl Inner {
    async fn pause(&self, caller: &Caller, scope: Scope, request: PauseRequest) -> Result<()> {
        if request.reason.trim().is_empty() {
            return Err(Error::at(Code::PayloadInvalid, "/reason", "say why; everybody who meets the pause reads it"));
        }
        check_note(&request.reason, "/reason")?;
        let until = request.until.as_deref().map(|text| read_until(text, self.clock.now())).transpose()?;
        let put = PutPause { scope, reason: request.reason, until, by: caller.actor.clone(), only_first: false };
        match self.store.admin(AdminOp::Pause(put)).await? {
            AdminAnswer::Paused { .. } => Ok(self.catalog.refresh_at_once().await?),
            other => Err(Error::internal(format!("the store answered a pause with {other:?}"))),
        }
    }

    async fn resume(&self, caller: &Caller, scope: Scope) -> Result<()> {
        match self.store.admin(AdminOp::Resume(scope)).await? {
            AdminAnswer::Resumed(before) => {
                if let Some(before) = before {
                    tracing::info!(
                        pause.scope = scope.as_str(), pause.reason = before.reason, pause.since = %before.since,
                        actor = caller.actor, "a pause is ended"
                    );
                }
                Ok(self.catalog.refresh_at_once().await?)
            }
            other => Err(Error::internal(format!("the store answered a resume with {other:?}"))),
        }
    }

    /// The caller's own namespace, or for an administrator any.
    fn namespace_to_pause(&self, caller: &Caller, name: &str) -> Result<NamespaceId> {
        let own = (caller.namespace.as_str() == name).then_some(caller.namespace_id);
        let any = || self.catalog.snapshot().catalogue.namespace(name).filter(|_| caller.role == Role::Admin);
        own.or_else(any).ok_or_else(|| Error::new(Code::NotFound, "there is no such namespace"))
    }

    fn firing(&self, caller: &Caller) -> Firing {
        let (now, pauses) = (self.clock.now(), self.catalog.pauses());
        let shown = |pause| self.show_pause(pause, caller.role == Role::Admin);
        Firing { paused: pauses.at(Scope::All, now).map(shown) }
    }

    /// What keeps a type's timers from firing.
    pub(super) fn paused(&self, namespace: NamespaceId, type_id: crate::domain::id::TypeId) -> Option<Pause> {
        let (now, pauses) = (self.clock.now(), self.catalog.pauses());
        pauses.of(namespace, type_id, now).map(|pause| self.show_pause(pause, false))
    }

    /// What keeps a whole namespace's timers from firing.
    pub(super) fn namespace_paused(&self, namespace: NamespaceId) -> Option<Pause> {
        let (now, pauses) = (self.clock.now(), self.catalog.pauses());
        let pause = pauses.at(Scope::Namespace(namespace), now).or_else(|| pauses.at(Scope::All, now));
        pause.map(|pause| self.show_pause(pause, false))
    }

    fn show_pause(&self, pause: &pause::Pause, to_admin: bool) -> Pause {
        let snapshot = self.catalog.snapshot();
        let (scope, namespace, name) = match pause.scope {
            Scope::All => (PauseScope::All, None, None),
            Scope::Namespace(id) => {
                let row = snapshot.catalogue.namespaces.iter().find(|n| n.id == id);
                (PauseScope::Namespace, Some(row.map(|n| n.name.to_string()).unwrap_or_default()), None)
            }
            Scope::Type(id) => {
                let row = snapshot.row(id);
                let namespace = row.map(|t| t.namespace.to_string()).unwrap_or_default();
                (PauseScope::Type, Some(namespace), row.map(|t| t.name.to_string()))
            }
        };
        let by = if scope == PauseScope::All && !to_admin { SOMEBODY.to_owned() } else { pause.by.clone() };
        Pause {
            scope,
            namespace,
            r#type: name,
            reason: pause.reason.clone(),
            since: pause.since,
            until: pause.until,
            by,
        }
    }

    /// Refuses to fire a timer that would not start. One that cannot be fired for another reason is left to the store.
    pub(super) async fn check_may_fire(&self, target: &Target) -> Result<()> {
        let (now, pauses) = (self.clock.now(), self.catalog.pauses());
        if pauses.holding(now).next().is_none() {
            return Ok(());
        }
        let store = self.store.read();
        let found = match target {
            Target::Id { namespace_id, id } => {
                store.timer(*id).await?.filter(|timer| timer.namespace_id == *namespace_id)
            }
            Target::Key { type_id, key } => store.timer_by_key(*type_id, key.clone()).await?,
        };
        let Some(timer) = found.filter(|timer| timer.state == timer::State::Scheduled) else { return Ok(()) };
        let Some(pause) = pauses.of(timer.namespace_id, timer.type_id, now) else { return Ok(()) };
        let what = match pause.scope {
            Scope::All => "all firing is paused",
            Scope::Namespace(_) => "the namespace is paused",
            Scope::Type(_) => "the type is paused",
        };
        let end = pause.until.map_or_else(String::new, |until| format!(" until {until}"));
        let detail = format!("{what}{end}: {}; resume it first", pause.reason);
        Err(Error::new(Code::Paused, detail).with_timer(self.show(timer)))
    }
}
