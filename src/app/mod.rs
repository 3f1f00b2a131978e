//! Wires the rooms together; knows the order of starting and of draining. The only place that knows all rooms.
//!
//! Starting: port, key, store (migrated), first key, plugins compiled, engine, API. Draining is the other way round,
//! except that the API answers to the end: what is asked of a node that stops is still right, and `/readyz` already says
//! that nothing new should be sent. In a cluster a node that drains first takes its heartbeat back, so that the others
//! share out what was its own while it finishes what it holds.

mod key;
mod near;
mod nodes;
mod place;
mod serve;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use crate::{
    api::{self, ApiParams, Health},
    breaker::Breakers,
    catalog::Catalog,
    clock::SharedClock,
    compensate::{Lanes, LanesParams},
    config::{self, Config},
    console,
    dispatch::{Dispatcher, DispatcherParams},
    domain::{
        id::{ApiKeyId, Name, TypeId},
        time::Timestamp,
        timer::Timer,
    },
    plugin::{Access, HostParams, WasmHost},
    sql::{self, Databases},
    stats::{Broker, Engine, Lane, Stats},
    store::{
        Observer, Store,
        admin::{AdminAnswer, AdminOp, Role},
    },
    telemetry,
    vault::Vault,
};

use self::{
    key::ServerKey,
    near::{Hearing, HearingParams, Telling},
    nodes::Nodes,
    place::Place,
};

/// How long a change that another process made to the catalogue may go unnoticed.
const CATALOGUE_POLL: Duration = Duration::from_millis(500);
/// How long open connections may take to finish once everything else has stopped.
const API_GRACE: Duration = Duration::from_secs(2);

/// A running node.
pub struct App {
    address: SocketAddr,
    store: Store,
    catalog: Catalog,
    /// `None` on a node that only registers; likewise the lanes.
    dispatcher: Option<Dispatcher>,
    lanes: Option<Lanes>,
    state: Arc<NodeState>,
    drain: crate::domain::time::DurationMs,
    api_stop: Arc<Notify>,
    api: JoinHandle<()>,
    refresher: JoinHandle<()>,
    pauser: JoinHandle<()>,
    sum_up: JoinHandle<()>,
    nodes: Option<Nodes>,
    hearing: Option<Hearing>,
    telling: Option<Telling>,
}

/// What the first start may need.
#[derive(Clone, Default)]
pub struct Bootstrap {
    /// Becomes the first admin key, only while there is no key at all.
    pub admin_token: Option<String>,
}

/// What readiness asks.
struct NodeState {
    draining: AtomicBool,
    dispatcher: Option<Dispatcher>,
    clock: SharedClock,
}

impl Health for NodeState {
    fn dispatch_tick_age(&self) -> Duration {
        // A node that fires nothing is never late with it.
        let age = |dispatcher: &Dispatcher| self.clock.now().since(dispatcher.last_tick()).as_std();
        self.dispatcher.as_ref().map_or(Duration::ZERO, age)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

impl Engine for NodeState {
    fn lane(&self, type_id: TypeId) -> Option<Lane> {
        self.dispatcher.as_ref()?.lane(type_id)
    }

    fn broker(&self) -> Broker {
        self.dispatcher.as_ref().map_or(Broker::None, Dispatcher::broker)
    }
}

/// Wakes the refresher when the catalogue was written here.
struct CatalogueBell(Arc<Notify>);

impl Observer for CatalogueBell {
    fn timer_written(&self, _: &Timer) {}
    fn compensation_written(&self, _: TypeId, _: &Name, _: Timestamp) {}
    fn catalogue_written(&self) {
        self.0.notify_one();
    }
}

impl App {
    /// Opens the store, compiles the active plugins, starts the engine and then the API.
    pub async fn start(config: Config, bootstrap: Bootstrap) -> anyhow::Result<Self> {
        let metrics = telemetry::init_metrics();
        let listener = TcpListener::bind(config.server.listen).await.with_context(|| {
            format!(
                "cannot listen on {}; is another server there? Choose another address with --listen",
                config.server.listen
            )
        })?;
        let address = listener.local_addr()?;
        let key = open_data_folder(&config.store)?;
        let place = Place::open(&config, &key).await?;
        let (store, clock) = (place.store.clone(), Arc::clone(&place.clock));
        if let Some(token) = bootstrap.admin_token {
            first_key(&store, &token).await?;
        }

        let breakers = Breakers::new(config.breaker.clone(), Arc::clone(&clock));
        let host_params = HostParams {
            breakers: breakers.clone(),
            cache: Some(config.store.data.join("cache")),
            check_schema: |schema| crate::schema::Schema::compile(schema).map(drop),
        };
        let vault = Vault::new(store.clone(), key.derive("vault"));
        let settings = sql::Settings { config: config.sql.clone(), own_folder: config.store.data.clone() };
        let databases = Databases::new(settings);
        let access = Access { keeper: Arc::new(vault.clone()), databases: databases.clone() };
        let host =
            WasmHost::with_access(&config.plugin, host_params, access).context("the plugin host cannot start")?;
        let catalog = Catalog::load(store.clone(), host).await.context("the catalogue of types cannot be loaded")?;
        let refresher = refresh(catalog.clone(), &store);
        let pauser = refresh_at_once(catalog.clone(), &store);
        let sum_up = tokio::spawn(telemetry::sum_up_metrics(metrics.clone()));

        let stats = Stats::start(store.clone(), Arc::clone(&clock));
        let fires = config.dispatch.fire;
        let lanes = fires.then(|| {
            Lanes::start(LanesParams {
                store: store.clone(),
                catalog: catalog.clone(),
                clock: Arc::clone(&clock),
                config: config.compensation.clone(),
                stats: stats.clone(),
            })
        });
        let mut dispatcher = None;
        if fires {
            // Slots come only now that the types are known and compiled.
            let delivery = place.delivery(&config).await?;
            dispatcher = Some(Dispatcher::start(DispatcherParams {
                store: store.clone(),
                catalog: catalog.clone(),
                clock: Arc::clone(&clock),
                delivery,
                config: config.dispatch.clone(),
                stats: stats.clone(),
                node: place.node.clone(),
            }));
        }

        let (mut hearing, mut telling) = (None, None);
        match (&place.nodes, &dispatcher) {
            (Some(nodes), Some(dispatcher)) => {
                hearing = Some(Hearing::start(HearingParams {
                    postgres: nodes.postgres(),
                    store: store.clone(),
                    clock: Arc::clone(&clock),
                    dispatcher: dispatcher.clone(),
                    heard: nodes.heard(),
                    node: place.node.clone(),
                }));
            }
            (Some(nodes), None) => telling = Some(Telling::start(&store, nodes.postgres(), Arc::clone(&clock))),
            (None, _) => {}
        }

        let state = Arc::new(NodeState {
            draining: AtomicBool::new(false),
            dispatcher: dispatcher.clone(),
            clock: Arc::clone(&clock),
        });
        let api_params = ApiParams {
            store: store.clone(),
            catalog: catalog.clone(),
            breakers,
            clock,
            vault,
            databases,
            config: config.server.clone(),
            max_component_bytes: config.plugin.max_component_bytes,
            health: Arc::<NodeState>::clone(&state),
            engine: Arc::<NodeState>::clone(&state),
            stats,
            node: place.node.clone(),
            metrics,
        };
        let api_stop = Arc::new(Notify::new());
        let router = console::before(api::router(api_params));
        let head_within = config.server.header_timeout.as_std();
        let api = serve::serve(listener, router, head_within, Arc::clone(&api_stop));
        tracing::info!(
            server.address = %address,
            store.database = place.name,
            store.data = %config.store.data.display(),
            nats.used = !config.nats.url.is_empty(),
            node.name = place.node,
            node.fires = fires,
            "the node has started"
        );
        Ok(Self {
            address,
            store,
            catalog,
            dispatcher,
            lanes,
            state,
            drain: config.server.drain,
            api_stop,
            api,
            refresher,
            pauser,
            sum_up,
            nodes: place.nodes,
            hearing,
            telling,
        })
    }

    /// The address that the API listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Drains: unready, nothing new taken, what runs finished within the bound, leases released.
    pub async fn stop(self) {
        tracing::info!(server.drain = %self.drain, "the node drains");
        self.state.draining.store(true, Ordering::Relaxed);
        drop(self.hearing);
        let leave = async {
            if let Some(nodes) = self.nodes {
                nodes.leave().await;
            }
        };
        let decide = async {
            if let Some(dispatcher) = &self.dispatcher {
                dispatcher.drain(self.drain).await;
            }
        };
        let compensate = async {
            if let Some(lanes) = &self.lanes {
                lanes.drain(self.drain).await;
            }
        };
        tokio::join!(leave, decide, compensate);
        self.api_stop.notify_one();
        let api = self.api.abort_handle();
        if tokio::time::timeout(API_GRACE, self.api).await.is_err() {
            api.abort();
        }
        if let Some(telling) = self.telling {
            telling.stop().await;
        }
        self.refresher.abort();
        self.pauser.abort();
        self.sum_up.abort();
        self.store.close().await;
        tracing::info!("the node has stopped");
    }
}

/// Makes the folder, for its owner only, and reads or makes the server's key.
fn open_data_folder(config: &config::Store) -> anyhow::Result<ServerKey> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.data)
        .with_context(|| format!("cannot make the data folder {}", config.data.display()))?;
    ServerKey::find(config)
}

/// The first start's key. Once there is a key, the token given here means nothing.
async fn first_key(store: &Store, token: &str) -> anyhow::Result<()> {
    let namespace_id =
        store.read().catalogue().await?.namespace("default").context("there is no namespace `default`")?;
    let op = AdminOp::CreateApiKey {
        id: ApiKeyId::new(),
        namespace_id,
        name: "bootstrap".to_owned(),
        role: Role::Admin,
        hash: api::hash_token(token),
        created_by: "bootstrap".to_owned(),
        only_first: true,
    };
    if let AdminAnswer::ApiKey(row) = store.admin(op).await? {
        tracing::info!(key.id = %row.id, "the first admin key was made from the bootstrap token");
    }
    Ok(())
}

/// Takes in changes of the catalogue: at once those written here, soon those written by another process.
fn refresh(catalog: Catalog, store: &Store) -> JoinHandle<()> {
    let bell = Arc::new(Notify::new());
    store.observe(Arc::new(CatalogueBell(Arc::clone(&bell))));
    tokio::spawn(async move {
        loop {
            let _ = tokio::time::timeout(CATALOGUE_POLL, bell.notified()).await;
            if let Err(error) = catalog.refresh_meanwhile().await {
                tracing::warn!(%error, "the catalogue could not be read; the one before serves on");
            }
        }
    })
}

/// Takes in pauses and revoked rights, as soon: by itself, since a change of the catalogue waits for its plugins to compile.
fn refresh_at_once(catalog: Catalog, store: &Store) -> JoinHandle<()> {
    let bell = Arc::new(Notify::new());
    store.observe(Arc::new(CatalogueBell(Arc::clone(&bell))));
    tokio::spawn(async move {
        loop {
            let _ = tokio::time::timeout(CATALOGUE_POLL, bell.notified()).await;
            if let Err(error) = catalog.refresh_at_once().await {
                tracing::warn!(%error, "pauses and revoked rights could not be read; those before stay in force");
            }
        }
    })
}
