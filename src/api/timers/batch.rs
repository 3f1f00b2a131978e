//! Registering many timers in one call, each with a result of its own.

use axum::extract::State;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    super::{
        Api,
        auth::Caller,
        extract::{BatchJson, MessageId, parse},
        layers::RequestId,
        problem::{Code, Error, Problem, Result},
    },
    RegisterTimer, Timer,
};

/// The most timers in one call.
const MAX_BATCH: usize = 1000;

/// Timers to register.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterTimers {
    #[schema(value_type = Vec<RegisterTimer>, max_items = 1000)]
    timers: Vec<Box<RawValue>>,
}

/// What became of each, in the order of the request.
#[derive(Serialize, ToSchema)]
pub struct RegisterResults {
    results: Vec<RegisterResult>,
}

/// What became of one: `timer` or `problem`.
#[derive(Serialize, ToSchema)]
pub struct RegisterResult {
    /// The status that the registration by itself would have had: 201 new, 200 registered already, or its problem's.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timer: Option<Timer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    problem: Option<Problem>,
}

/// Registers up to 1,000 timers.
///
/// Each is registered, or refused, by itself; one that is refused changes nothing for its neighbours. Idempotent, like
/// a single registration: a call that broke off can be sent again whole. At most 16 MiB in all.
#[utoipa::path(
    post, path = "/v1/timers/batch", operation_id = "register_timers", tag = "timers", request_body = RegisterTimers,
    responses((status = 200, description = "A result for each", body = RegisterResults))
)]
pub async fn register_timers(
    State(api): State<Api>,
    caller: Caller,
    MessageId(message_id): MessageId,
    RequestId(request_id): RequestId,
    BatchJson(request): BatchJson<RegisterTimers>,
) -> Result<axum::Json<RegisterResults>> {
    if request.timers.len() > MAX_BATCH {
        let detail = format!("{} timers; the limit is {MAX_BATCH} timers in one call", request.timers.len());
        return Err(Error::at(Code::TooLarge, "/timers", detail));
    }
    let mut checked = Vec::with_capacity(request.timers.len());
    for (i, item) in request.timers.iter().enumerate() {
        let read = parse::<RegisterTimer>(item.get().as_bytes(), "");
        let timer = match read {
            Ok(item) => api.checked(&caller, item, message_id.clone()).await,
            Err(error) => Err(error),
        };
        checked.push(timer.map_err(|e| e.below(&format!("/timers/{i}"))));
        // Checking a thousand large payloads takes a while: let others have their turn.
        tokio::task::yield_now().await;
    }
    // All at once, so that they share a commit.
    let answers = join_all(checked.into_iter().enumerate().map(|(i, timer)| {
        let api = &api;
        async move { api.insert(timer?).await.map_err(|e| e.below(&format!("/timers/{i}"))) }
    }));
    let results = answers.await.into_iter().map(|answer| match answer {
        Ok(done) => RegisterResult { status: done.status.as_u16(), timer: Some(done.timer), problem: None },
        Err(error) => RegisterResult {
            status: error.status().as_u16(),
            timer: None,
            problem: Some(error.into_problem(&request_id)),
        },
    });
    Ok(axum::Json(RegisterResults { results: results.collect() }))
}
