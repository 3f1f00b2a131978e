//! Whether the process lives, and whether it should be given work.

use std::time::{Duration, Instant};

use axum::{Json, extract::State};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::{
    Api, Inner,
    problem::{Error, Result},
};

/// How long the store's write may take.
const WRITE_LIMIT: Duration = Duration::from_secs(1);
/// How long ago the dispatcher may last have gone round.
const TICK_LIMIT: Duration = Duration::from_secs(2);
/// How long one write answers for: probes of many callers share it.
const WRITE_FRESH: Duration = Duration::from_millis(500);

/// The latest write made for a probe, when it ended, and how long it took (`None`: it failed or took too long). One
/// probe writes at a time.
#[derive(Default)]
pub(super) struct LastWrite(Mutex<Option<(Instant, Option<Duration>)>>);

/// That it lives.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
}

/// That it should be given work.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    #[schema(example = "ready")]
    status: &'static str,
    /// How long a write to the store took.
    store_write_ms: u64,
    /// How long ago the dispatcher last went round.
    dispatch_tick_age_ms: u64,
}

/// Says that the process lives.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_health", tag = "operations",
    responses((status = 200, description = "It lives", body = Health))
)]
pub async fn get_health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Says whether the node should be given work: the store can be written to within a second, the dispatcher went round
/// in the last two, and it is not draining.
#[utoipa::path(
    get, path = "/readyz", operation_id = "get_readiness", tag = "operations",
    responses((status = 200, description = "It is ready", body = Readiness))
)]
pub async fn get_readiness(State(api): State<Api>) -> Result<Json<Readiness>> {
    if api.health.is_draining() {
        return Err(Error::unavailable("the node is draining"));
    }
    let tick = api.health.dispatch_tick_age();
    if tick > TICK_LIMIT {
        return Err(Error::unavailable(format!("the dispatcher last went round {} ms ago", tick.as_millis())));
    }
    let Some(write) = api.written().await else {
        return Err(Error::unavailable("the store could not be written to within a second"));
    };
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    Ok(Json(Readiness { status: "ready", store_write_ms: ms(write), dispatch_tick_age_ms: ms(tick) }))
}

impl Inner {
    async fn written(&self) -> Option<Duration> {
        let mut last = self.written.0.lock().await;
        if let Some((at, took)) = *last
            && at.elapsed() < WRITE_FRESH
        {
            return took;
        }
        let started = Instant::now();
        let took = match tokio::time::timeout(WRITE_LIMIT, self.store.ping()).await {
            Ok(Ok(())) => Some(started.elapsed()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a probe's write to the store failed");
                None
            }
            Err(_) => {
                tracing::warn!("a probe's write to the store took over a second");
                None
            }
        };
        *last = Some((Instant::now(), took));
        took
    }
}
