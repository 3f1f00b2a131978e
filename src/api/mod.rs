//! The HTTP API: routes, one file a resource, errors, rights, pages.
//!
//! ```text
//!  request ─► observe (request id, log line, metrics, problems written out)
//!              ─► catch panics ─► route ─► guard (key, rate, role, namespace) ─► handler ─► store, catalog
//! ```
//!
//! A handler extracts, calls one function and maps the answer. Who may call it stands in `rights`; the guard looks a
//! call up there by the operation's id in the document, so that a route without an entry is refused.

mod auth;
mod compensations;
mod cursor;
mod datasources;
mod document;
mod explain;
mod extract;
mod forecast;
mod health;
mod keys;
mod layers;
mod me;
mod model;
mod namespaces;
mod pages;
mod pauses;
mod plugins;
mod problem;
mod rate;
mod rights;
mod routes;
mod secrets;
mod stats;
mod stream;
mod timers;
mod types;

use std::{sync::Arc, time::Duration};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;

use crate::{
    breaker::Breakers,
    catalog::Catalog,
    clock::SharedClock,
    config,
    sql::Databases,
    stats::{Engine, Stats},
    store::Store,
    vault::Vault,
};

pub use self::{
    auth::{hash_token, new_token},
    document::{document, document_3_0, to_3_0},
    rights::{Access, access},
};

/// What the API is made of.
pub struct ApiParams {
    pub store: Store,
    pub catalog: Catalog,
    pub breakers: Breakers,
    pub clock: SharedClock,
    /// Secrets and data sources, and the way to the latter.
    pub vault: Vault,
    pub databases: Databases,
    pub config: config::Server,
    /// The largest component that may be uploaded, in bytes.
    pub max_component_bytes: u64,
    pub health: Arc<dyn Health>,
    pub engine: Arc<dyn Engine>,
    pub stats: Stats,
    /// This node's name.
    pub node: String,
    /// What `/metrics` shows.
    pub metrics: PrometheusHandle,
}

/// What readiness asks of the engine; the store is asked by the API itself.
pub trait Health: Send + Sync + 'static {
    /// How long ago the dispatcher last went round.
    fn dispatch_tick_age(&self) -> Duration;
    /// Whether the node is on its way out and should be given nothing new.
    fn is_draining(&self) -> bool;
}

/// Uploads that are read and compiled at once: each may hold a whole component in memory.
const UPLOADS: usize = 2;
/// Dry runs at once.
const DRY_RUNS: usize = 4;
/// Data sources that are checked at once.
const CHECKS: usize = 4;

struct Inner {
    store: Store,
    catalog: Catalog,
    breakers: Breakers,
    clock: SharedClock,
    config: config::Server,
    max_component_bytes: u64,
    health: Arc<dyn Health>,
    engine: Arc<dyn Engine>,
    stats: Stats,
    node: String,
    metrics: PrometheusHandle,
    keys: Arc<auth::KeyCache>,
    limiter: rate::Limiter,
    uploads: Semaphore,
    dry_runs: Arc<Semaphore>,
    vault: Vault,
    databases: Databases,
    checks: Semaphore,
    written: health::LastWrite,
    streams: stream::Streams,
    operations: rights::Operations,
    pages: pages::Pages,
}

type Api = Arc<Inner>;

/// The whole API as one service.
pub fn router(params: ApiParams) -> axum::Router {
    let (routes, document) = routes::all().split_for_parts();
    let document = document::finish(document);
    let keys = Arc::new(auth::KeyCache::default());
    params.store.observe(Arc::clone(&keys) as Arc<dyn crate::store::Observer>);
    let api = Arc::new(Inner {
        store: params.store,
        catalog: params.catalog,
        breakers: params.breakers,
        clock: params.clock,
        limiter: rate::Limiter::new(params.config.rate_limit),
        config: params.config,
        max_component_bytes: params.max_component_bytes,
        health: params.health,
        engine: params.engine,
        stats: params.stats,
        node: params.node,
        metrics: params.metrics,
        keys,
        uploads: Semaphore::new(UPLOADS),
        dry_runs: Arc::new(Semaphore::new(DRY_RUNS)),
        vault: params.vault,
        databases: params.databases,
        checks: Semaphore::new(CHECKS),
        written: health::LastWrite::default(),
        streams: stream::Streams::default(),
        operations: rights::Operations::of(&document),
        pages: pages::Pages::of(&document),
    });
    layers::around(routes, &api).with_state(api)
}
