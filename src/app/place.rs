//! Where a node keeps its truth and gets its slots from: alone on SQLite, or in a cluster on PostgreSQL.

use std::sync::Arc;

use anyhow::Context as _;

use super::{key::ServerKey, nodes::Nodes};
use crate::{
    clock::{SharedClock, StoreClock, SystemClock},
    config::Config,
    delivery::{
        Delivery,
        jetstream::{Jetstream, JetstreamParams},
        live::{Alone, LiveNodes},
        local::Local,
        sharded::{Sharded, ShardedParams},
    },
    domain::{audit::Chain, id::SHARDS},
    store::{
        Driver, Limits, Store,
        postgres::{Postgres, PostgresParams},
        sqlite::{Sqlite, SqliteParams},
    },
};

/// The store with its clock, and with the other nodes that use it.
pub(super) struct Place {
    pub store: Store,
    pub clock: SharedClock,
    /// This node's name, in leases, logs and the list of nodes.
    pub node: String,
    /// `None` on SQLite: there is no other node.
    pub nodes: Option<Nodes>,
    /// For a person: which database it is.
    pub name: &'static str,
}

impl Place {
    /// Opens the database, migrated.
    pub async fn open(config: &Config, key: &ServerKey) -> anyhow::Result<Self> {
        let chain = Chain::new(key.derive("audit"));
        let node = node_name();
        let limits = Limits { queue: config.store.queue, batch: config.store.batch, ..Limits::default() };
        let Some(url) = config.store.postgres() else {
            let clock: SharedClock = Arc::new(SystemClock);
            let params = SqliteParams {
                path: config.store.sqlite(),
                readers: config.store.readers,
                clock: Arc::clone(&clock),
                chain,
                migrate: true,
            };
            let driver = tokio::task::spawn_blocking(move || Sqlite::open(params)).await??;
            return Ok(Self { store: Store::new(driver, limits), clock, node, nodes: None, name: "SQLite" });
        };
        let clock = StoreClock::new();
        let params = PostgresParams {
            readers: config.store.readers,
            application_name: format!("lapse {node}"),
            observer: Some(Arc::clone(&clock)),
            ..PostgresParams::new(url, chain)
        };
        let postgres = Postgres::connect(params).await?;
        let store = Store::new(Arc::<Postgres>::clone(&postgres), limits);
        postgres.now().await.context("the database's clock cannot be read")?;
        let nodes = Nodes::start(postgres, node.clone(), config.dispatch.fire)
            .await
            .context("this node cannot say that it lives")?;
        Ok(Self { store, clock, node, nodes: Some(nodes), name: "PostgreSQL" })
    }

    /// Where this node's slots come from. A broker that is away is no error: it is waited for, and done without.
    pub async fn delivery(&self, config: &Config) -> anyhow::Result<Arc<dyn Delivery>> {
        let clock = Arc::clone(&self.clock);
        let live: Option<Arc<dyn LiveNodes>> = self.nodes.as_ref().map(Nodes::live);
        let node = self.node.clone();
        if !config.nats.url.is_empty() {
            let live = live.unwrap_or_else(|| Arc::new(Alone));
            let params = JetstreamParams { config: config.nats.clone(), clock, shards: SHARDS, node, live };
            let delivery = Jetstream::start(params).await.context("the broker's settings cannot be used")?;
            return Ok(Arc::new(delivery));
        }
        Ok(match live {
            Some(live) => Arc::new(Sharded::new(ShardedParams { clock, shards: SHARDS, node, live })),
            None => Arc::new(Local::new(clock, SHARDS)),
        })
    }
}

/// Tells nodes apart, also two lives of one.
fn node_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}-{}-{:08x}", if host.is_empty() { "node" } else { host }, std::process::id(), rand::random::<u32>())
}
