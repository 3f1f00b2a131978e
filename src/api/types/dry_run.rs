//! Running a decision on a made-up timer, with no effects.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::{
    domain::{
        decision::{Decision, Effects, Expiry, Verdict},
        id::TimerId,
        timer::{Due, Trigger},
    },
    plugin::{LogLine, Run},
};

use super::super::{
    Api,
    auth::Caller,
    extract::{Json as JsonBody, Path, given, instant},
    model::{Failure, Raw},
    problem::{Code, Error, Result},
    timers::{read_key, read_payload},
};

/// How long a dry run waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// The highest attempt that may be tried out.
const MAX_ATTEMPT: u32 = 1000;

/// A timer that is not there.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"key": "A17", "payload": {"order_id": "A17"}, "attempt": 1}))]
pub struct DryRunRequest {
    #[schema(min_length = 1, max_length = 256)]
    key: String,
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// RFC 3339; now if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(format = DateTime, nullable = false)]
    due_at: Option<String>,
    /// 1 if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(minimum = 1, maximum = 1000, nullable = false)]
    attempt: Option<u32>,
    /// The active one if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    revision: Option<i64>,
}

/// What a plugin would decide: `decision` or `failure`.
#[derive(Serialize, ToSchema)]
pub struct DryRun {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    decision: Option<DryDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    failure: Option<Failure>,
    digest: String,
    logs: Vec<DryLogLine>,
    /// Calls that a dry run does not make, or that were not granted.
    denied: Vec<String>,
    cpu_us: u64,
    /// The most memory that was in use.
    memory_bytes: u64,
}

/// A line that the plugin logged.
#[derive(Serialize, ToSchema)]
pub struct DryLogLine {
    level: String,
    message: String,
}

/// How a decision ends the timer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DryOutcome {
    Close,
    Skip,
    Retry,
}

/// A decision, with the effects that would be carried out.
#[derive(Serialize, ToSchema)]
pub struct DryDecision {
    outcome: DryOutcome,
    /// Of a close.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>, nullable = false)]
    result: Option<Raw>,
    /// Of a skip or a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// How long a retry waits, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    after: Option<String>,
    compensations: Vec<DryCompensation>,
    follow_ups: Vec<DryFollowUp>,
    events: Vec<DryEvent>,
    counters: Vec<DryCounter>,
}

#[derive(Serialize, ToSchema)]
pub struct DryCompensation {
    kind: String,
    #[schema(value_type = Value)]
    payload: Raw,
}

/// Another timer that would be registered.
#[derive(Serialize, ToSchema)]
pub struct DryFollowUp {
    r#type: String,
    key: String,
    #[schema(value_type = Value)]
    payload: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    due_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    delay: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub struct DryEvent {
    name: String,
    #[schema(value_type = Value)]
    data: Raw,
}

#[derive(Serialize, ToSchema)]
pub struct DryCounter {
    name: String,
    value: u64,
}

/// Runs a type's decision on a made-up timer; nothing comes of it.
///
/// The same request and plugin give the same decision. Calls with effects are denied, and listed.
#[utoipa::path(
    post, path = "/v1/types/{type}/dry-run", operation_id = "dry_run_type", tag = "types",
    request_body = DryRunRequest,
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "What it would decide", body = DryRun))
)]
pub async fn dry_run_type(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<DryRunRequest>,
) -> Result<Json<DryRun>> {
    let row = api.type_row(&caller, &name)?;
    let number = request.revision.unwrap_or(row.active);
    let ready = api.catalog.usable_revision(row.id, number).await?;
    let key = read_key(&request.key)?;
    let payload: String = Box::<str>::from(request.payload).into();
    read_payload(&ready, &payload)?;
    let now = api.clock.now();
    let due_at = request.due_at.map(|at| instant(&at, "/due_at")).transpose()?.unwrap_or(now);
    let attempt = match request.attempt.unwrap_or(1) {
        n @ 1..=MAX_ATTEMPT => n,
        n => return Err(Error::at(Code::PayloadInvalid, "/attempt", format!("1 to {MAX_ATTEMPT}, not {n}"))),
    };
    let timer_id = made_up_id(row.name.as_str(), key.as_str());
    let expiry = Expiry {
        timer_id,
        namespace: row.namespace.to_string(),
        timer_type: row.name.to_string(),
        key: key.to_string(),
        payload,
        attempt,
        trigger: Trigger::Manual,
        idempotency_key: timer_id.to_string(),
        due_at,
        // As if it fired on time: a function of the request alone, where that says when.
        fired_at: due_at,
        config: ready.revision.config.clone(),
    };
    let turn = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&api.dry_runs).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return Err(Error::unavailable("other dry runs are under way; try again in a moment"));
    };
    let digest = ready.revision.digest;
    let run = tokio::task::spawn_blocking(move || {
        // Held until the call ends, also if the caller goes away.
        let _turn = turn;
        ready.plugin.decide(&expiry)
    });
    let run = run.await.map_err(Error::internal)?;
    Ok(Json(shown(digest.to_string(), run)))
}

/// The same for the same type and key, so that a dry run can be repeated exactly.
fn made_up_id(name: &str, key: &str) -> TimerId {
    let hash = Sha256::digest(format!("dry run {name} {key}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    TimerId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

fn shown(digest: String, run: Run<Decision>) -> DryRun {
    let (decision, failure) = match run.result {
        Ok(decision) => (Some(decision.into()), None),
        Err(failure) => (None, Some(failure.into())),
    };
    DryRun {
        decision,
        failure,
        digest,
        logs: run.logs.into_iter().map(|LogLine { level, message }| DryLogLine { level, message }).collect(),
        denied: run.denied,
        cpu_us: run.cost.cpu_us,
        memory_bytes: run.cost.memory_bytes,
    }
}

impl From<Decision> for DryDecision {
    fn from(Decision { verdict, effects }: Decision) -> Self {
        let Effects { compensations, follow_ups, events, counters } = effects;
        let (outcome, result, reason, after) = match verdict {
            Verdict::Close { result } => (DryOutcome::Close, result, None, None),
            Verdict::Skip { reason } => (DryOutcome::Skip, None, Some(reason), None),
            Verdict::Retry { after, reason } => (DryOutcome::Retry, None, Some(reason), after),
        };
        let compensations = compensations.into_iter();
        let follow_ups = follow_ups.into_iter().map(|f| {
            let (due_at, delay) = match f.due {
                None => (None, None),
                Some(Due::At(at)) => (Some(at.to_string()), None),
                Some(Due::After(delay)) => (None, Some(delay.to_string())),
            };
            let (r#type, key) = (f.timer_type.to_string(), f.key.to_string());
            DryFollowUp { r#type, key, payload: Raw::of(f.payload), due_at, delay }
        });
        let events = events.into_iter();
        let counters = counters.into_iter();
        Self {
            outcome,
            result: result.map(Raw::of),
            reason,
            after: after.map(|d| d.to_string()),
            compensations: compensations
                .map(|c| DryCompensation { kind: c.kind.to_string(), payload: Raw::of(c.payload) })
                .collect(),
            follow_ups: follow_ups.collect(),
            events: events
                .map(|e| DryEvent { name: e.name.to_string(), data: Raw::of(Box::<str>::from(e.data).into()) })
                .collect(),
            counters: counters.map(|c| DryCounter { name: c.name.to_string(), value: c.value }).collect(),
        }
    }
}
