//! Why a timer has not fired, or how it ended: `explain_timer`.
//!
//! The facts are gathered here; what follows from them is `reasons.rs`, which is pure.

mod reasons;
mod words;

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    breaker,
    catalog::{Runs, TypeEntry},
    domain::{
        id::TimerId,
        plugin::{Export, Grant, Right},
        time::Timestamp,
        timer::{State as RowState, Timer},
    },
};

use self::reasons::{Facts, Plugin};
use super::{Api, Inner, auth::Caller, extract::Path, model::TimerState, problem::Result};

/// A reason. `settled` also stands for a timer that has failed: the engine has nothing more to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    NotDue,
    Paused,
    LaneFull,
    RateLimited,
    BreakerOpen,
    WaitingToRetry,
    Claimed,
    AwaitingBacklog,
    BrokerAway,
    PluginUnavailable,
    Settled,
}

/// `unknown`: this node cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Pass,
    Blocking,
    Unknown,
}

/// Who can do something about it, and with which call. `wait`: nobody needs to; `operator`: whoever runs the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixAction {
    Wait,
    FireTimer,
    RetryTimer,
    Resume,
    Operator,
}

/// What helps.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Fix {
    action: FixAction,
    sentence: String,
}

/// One thing that could hold a timer back.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Check {
    code: ReasonCode,
    status: CheckStatus,
    /// One sentence, for people.
    sentence: String,
    /// Since when it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    since: Option<Timestamp>,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    until: Option<Timestamp>,
    /// The facts behind the sentence: numbers, ids and names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    evidence: BTreeMap<&'static str, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    fix: Option<Fix>,
}

/// Why a timer has not fired, or how it ended.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Explanation {
    /// The store's clock.
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
    /// The node that answered: lanes and breakers are its own.
    node_id: String,
    #[schema(value_type = String, format = Uuid)]
    timer_id: String,
    version: i64,
    state: TimerState,
    /// The reason that decides.
    code: ReasonCode,
    /// The same in one sentence.
    sentence: String,
    /// Every reason in order, whether it holds or not; of a settled timer, one.
    checks: Vec<Check>,
}

/// Explains why a timer has not fired, or how it ended.
#[utoipa::path(
    get, path = "/v1/timers/{id}/explain", operation_id = "explain_timer", tag = "timers",
    params(("id" = String, Path, format = Uuid, description = "The timer's id")),
    responses((status = 200, description = "The explanation", body = Explanation))
)]
pub async fn explain_timer(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<uuid::Uuid>,
) -> Result<Json<Explanation>> {
    let timer = api.timer(&caller, TimerId(id)).await?;
    let events = api.store.read().events(timer.id, timer.version - 1, 1).await?;
    let snapshot = api.catalog.snapshot();
    let now = api.clock.now();
    let pauses = api.catalog.pauses();
    let entry = snapshot.by_id(timer.type_id);
    let facts = Facts {
        now,
        type_name: snapshot.row(timer.type_id).map(|t| t.name.to_string()).unwrap_or_default(),
        last_event: events.into_iter().next().map(|e| e.event),
        pause: pauses.of(timer.namespace_id, timer.type_id, now).cloned(),
        lane: api.engine.lane(timer.type_id),
        rate: entry.and_then(|e| e.active.revision.rate),
        breakers: entry.map(|e| api.breakers_of(grants_of(e, &timer), &caller)).unwrap_or_default(),
        broker: api.engine.broker(),
        plugin: plugin(&snapshot, &timer),
        timer: &timer,
    };
    let checks = reasons::checks(&facts);
    let decisive = reasons::decisive(&checks);
    Ok(Json(Explanation {
        now,
        node_id: api.node.clone(),
        timer_id: timer.id.to_string(),
        version: timer.version,
        state: timer.state.into(),
        code: decisive.code,
        sentence: decisive.sentence.clone(),
        checks,
    }))
}

/// The rights of the revision that the timer runs, which need not be the active one.
fn grants_of<'a>(entry: &'a TypeEntry, timer: &Timer) -> &'a [Grant] {
    let active = &entry.active.revision;
    let runs = match entry.runs(timer.revision, timer.pinned, &timer.payload) {
        Runs::Active => active,
        Runs::Pinned | Runs::Behind => entry.revisions.get(&timer.revision).unwrap_or(active),
    };
    &runs.grants
}

fn plugin(snapshot: &crate::catalog::Snapshot, timer: &Timer) -> Plugin {
    let Some(entry) = snapshot.by_id(timer.type_id) else { return Plugin::NotLoaded };
    let serves = entry.active.revision.number;
    if timer.pinned && !entry.revisions.contains_key(&timer.revision) {
        return Plugin::NoRevision(timer.revision);
    }
    if serves == entry.row.active { Plugin::Ready } else { Plugin::Older { serves, wanted: entry.row.active } }
}

impl Inner {
    /// The breakers, not closed, of what a type's decision may call.
    fn breakers_of(&self, grants: &[Grant], caller: &Caller) -> Vec<breaker::Snapshot> {
        let decides: Vec<&Grant> = grants.iter().filter(|g| g.export == Export::OnExpire).collect();
        if decides.is_empty() {
            return Vec::new();
        }
        let is_called = |host: &str| {
            decides.iter().any(|grant| match &grant.right {
                Right::Http { host: granted, port } => {
                    let (name, at) = host.rsplit_once(':').unwrap_or((host, ""));
                    name.trim_matches(['[', ']']) == granted && port.is_none_or(|p| p.to_string() == at)
                }
                Right::Sql { source } => host.strip_prefix("sql:") == Some(source.as_str()),
                Right::Secret { .. } => false,
            })
        };
        let all = self.breakers.snapshot().into_iter();
        all.filter(|b| b.state != breaker::State::Closed && b.downstream.namespace == caller.namespace.as_str())
            .filter(|b| is_called(&b.downstream.host))
            .collect()
    }
}

/// Whether the engine has nothing more to do with it.
fn is_settled(state: RowState) -> bool {
    state.is_settled()
}
