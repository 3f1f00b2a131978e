//! PostgreSQL: the database of a cluster. Any number of nodes may use one.
//!
//! Writes go through lanes, each with a connection of its own, so that a slow one does not hold the others; reads through
//! two small pools, so that lists do not hold the engine. The server's clock is the store's.

mod connect;
mod error;
mod list;
mod look;
mod marks;
mod migrate;
mod near;
mod prefix;
mod read;
mod row;
mod sql;
mod tally;
mod write;

use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::RwLock;

use self::{
    connect::{Conn, Connector, Pool},
    error::Fault,
    marks::Marks,
};
pub use self::{
    error::OpenError,
    look::{Look, SeenNode, ServerSetting, inspect},
    marks::MarkLimits,
    migrate::{NEWEST, migrate_down, migrate_status, migrate_up},
    near::NearTimers,
    sql::statements,
};
use crate::{
    clock::{SharedClock, StoreClock},
    domain::{
        audit::Chain,
        compensation::{Compensation, CompensationState},
        id::{CompensationId, Digest, Name, NamespaceId, SHARDS, TimerId, TimerKey, TypeId},
        pause::Pauses,
        time::{DurationMs, Timestamp},
        timer::Timer,
    },
    store::{
        Driver, Result,
        admin::{ApiKeyRow, SealedKind, SealedRow},
        op::{Answer, Class, Op},
        read::{
            Catalogue, CompensationQuery, DueQuery, ForecastQuery, KeyPage, Page, PrefixQuery, Revoked, StoredEvent,
            Tally, TallyQuery, TimerQuery, Upcoming,
        },
    },
};

/// Connections for what the engine looks at over and over.
const ENGINE_READERS: usize = 2;

/// Connections for the timers of slots: these must not wait behind other reads, least of all where each takes a long way.
const SLOT_READERS: usize = 4;

/// What is written side by side, each over a connection of its own. Steps and inserts have two writers: while the server
/// carries one's batch out, the other makes its next.
const LANES: [&[Class]; 6] = [STEPS, STEPS, INSERTS, INSERTS, &[Class::Compensation], &[Class::Admin]];
const STEPS: &[Class] = &[Class::Act, Class::Settle];
const INSERTS: &[Class] = &[Class::Insert];

/// How a database is opened.
#[derive(Clone)]
pub struct PostgresParams {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Several hosts, separated by commas: the one that can be written to
    /// is used. With `sslmode=require` (or `verify-full`), or an `sslrootcert`, the connection is encrypted and the
    /// server's certificate verified; otherwise it is plain.
    pub url: String,
    /// Chains the audit.
    pub chain: Chain,
    /// Connections that read for the API; at least one.
    pub readers: usize,
    pub connect_timeout: DurationMs,
    /// The longest that one statement may take on the server. A read is given up after one and a half times this, a
    /// transaction after twice.
    pub statement_timeout: DurationMs,
    /// The longest that one may wait for another's lock.
    pub lock_timeout: DurationMs,
    /// What the connections are called in `pg_stat_activity`.
    pub application_name: String,
    /// Whether missing migrations are applied; otherwise their absence is an error.
    pub migrate: bool,
    pub marks: MarkLimits,
    /// The store's clock. `None`: the server's. A test gives one that it moves.
    pub clock: Option<SharedClock>,
    /// Is told what the server's clock says, whenever it was asked.
    pub observer: Option<Arc<StoreClock>>,
}

impl PostgresParams {
    pub fn new(url: impl Into<String>, chain: Chain) -> Self {
        Self {
            url: url.into(),
            chain,
            readers: 4,
            connect_timeout: DurationMs::from_secs(5),
            statement_timeout: DurationMs::from_secs(10),
            lock_timeout: DurationMs::from_secs(1),
            application_name: "lapse".into(),
            migrate: true,
            marks: MarkLimits::default(),
            clock: None,
            observer: None,
        }
    }
}

/// A node whose heartbeat is fresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    pub id: String,
    /// Or it only registers.
    pub fires: bool,
}

pub struct Postgres {
    /// By class; those of one lane share the first one's.
    lanes: [Pool; Class::ALL.len()],
    engine: Pool,
    slots: Pool,
    api: Pool,
    connector: Arc<Connector>,
    chain: Chain,
    clock: Option<SharedClock>,
    observer: Option<Arc<StoreClock>>,
    marks: Marks,
    /// Types that are known to exist; none is ever removed.
    known_types: RwLock<HashSet<i64>>,
    read_timeout: Duration,
    /// A batch's whole transaction, as this side sees it.
    transaction_timeout: Duration,
}

impl Postgres {
    /// Connects, migrates if that is asked for, and checks that the database is one of ours.
    pub async fn connect(params: PostgresParams) -> std::result::Result<Arc<Self>, OpenError> {
        let connector = Arc::new(Connector::new(&params)?);
        if params.migrate {
            let conn = migrate::alone(&connector).await?;
            migrate::up(&connector, &conn).await?;
        }
        let database = |why| OpenError::database(&connector, why);
        let conn = connector.connect().await.map_err(database)?;
        connector.check_server(&conn).await?;
        migrate::check(&connector, &conn).await?;
        check_settings(&connector, &connector.connect_prepared().await.map_err(database)?, &params.chain).await?;
        let wait = params.statement_timeout.as_std();
        let pool = |size| Pool::new(Arc::clone(&connector), size, wait);
        Ok(Arc::new(Self {
            lanes: Class::ALL.map(|class| pool(LANES.iter().filter(|lane| lane.contains(&class)).count())),
            engine: pool(ENGINE_READERS),
            slots: pool(SLOT_READERS),
            api: pool(params.readers),
            connector: Arc::clone(&connector),
            chain: params.chain,
            clock: params.clock,
            observer: params.observer,
            marks: Marks::new(params.marks),
            known_types: RwLock::default(),
            read_timeout: wait + wait / 2,
            transaction_timeout: 2 * wait,
        }))
    }

    fn lane(&self, class: Class) -> &Pool {
        let first = LANES.iter().find(|lane| lane.contains(&class)).and_then(|lane| lane.first()).unwrap_or(&class);
        &self.lanes[*first as usize]
    }

    /// Says that this node lives, and whether it fires; and which nodes do: those that said so within `within`.
    pub async fn beat(&self, node: &str, fires: bool, within: DurationMs) -> Result<Vec<LiveNode>> {
        let within = &i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        let (node, fires) = (&node, &fires);
        let read = |row: &tokio_postgres::Row| Ok(LiveNode { id: row::get(row, 0)?, fires: row::get(row, 1)? });
        let beat = |conn: Arc<Conn>| async move {
            conn.change("catalogue.beat", &[node, fires]).await?;
            read::all(&conn, "catalogue.live_nodes", &[within], read).await
        };
        self.read(&self.engine, beat).await
    }

    /// Takes this node's word back, and that of nodes not heard of for `forgotten`.
    pub async fn leave(&self, node: &str, forgotten: DurationMs) -> Result<()> {
        let forgotten = &i64::try_from(forgotten.as_millis()).unwrap_or(i64::MAX);
        let node = &node;
        let leave =
            |conn: Arc<Conn>| async move { conn.change("catalogue.forget_nodes", &[node, forgotten]).await.map(drop) };
        self.read(&self.engine, leave).await
    }

    /// Runs one read. A connection that was dead already is replaced once.
    async fn read<T, F>(&self, pool: &Pool, read: impl Fn(Arc<Conn>) -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Fault>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let conn = pool.get().await?;
            let result = match tokio::time::timeout(self.read_timeout, read(conn.share())).await {
                Ok(result) => result,
                Err(_) => Err(Fault::Timeout("the database did not answer in time")),
            };
            match result {
                Ok(value) => {
                    conn.give_back();
                    return Ok(value);
                }
                Err(fault) => {
                    if fault.spares_connection() {
                        conn.give_back();
                    } else {
                        conn.give_up(&fault);
                    }
                    if tries > 1 || !matches!(fault, Fault::Broken(_) | Fault::ReadOnly) {
                        return Err(fault.into());
                    }
                }
            }
        }
    }

    async fn store_now(&self, conn: &Conn) -> std::result::Result<Timestamp, Fault> {
        if let Some(clock) = &self.clock {
            return Ok(clock.now());
        }
        let asked = std::time::Instant::now();
        let now = read::one(conn, "catalogue.now", &[], |r| row::at(r, 0)).await?;
        let now = now.ok_or_else(|| Fault::Data("the server has no clock".into()))?;
        if let Some(observer) = &self.observer {
            observer.observe(now, asked.elapsed());
        }
        Ok(now)
    }
}

/// Records in a new database what must be the same for all its nodes, and refuses one that was made otherwise.
async fn check_settings(connector: &Connector, conn: &Conn, chain: &Chain) -> std::result::Result<(), OpenError> {
    let recorded = async |name: &str, first: i64| {
        conn.change("catalogue.put_setting", &[&name, &first]).await?;
        read::one(conn, "catalogue.setting", &[&name], |r| row::get::<i64>(r, 0)).await
    };
    let database = |why| OpenError::database(connector, why);
    let found = recorded("shards", i64::from(SHARDS)).await.map_err(database)?.unwrap_or(0);
    if found != i64::from(SHARDS) {
        return Err(OpenError::Shards { found, known: SHARDS });
    }
    if recorded("key", chain.fingerprint()).await.map_err(database)? != Some(chain.fingerprint()) {
        return Err(OpenError::Key { place: connector.place() });
    }
    Ok(())
}

#[async_trait]
impl Driver for Postgres {
    async fn write(&self, ops: Arc<Vec<Op>>) -> Result<Vec<Answer>> {
        Ok(write::write(self, &ops).await?)
    }

    fn lanes(&self) -> &'static [&'static [Class]] {
        &LANES
    }

    async fn now(&self) -> Result<Timestamp> {
        self.read(&self.engine, |conn| async move { self.store_now(&conn).await }).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<Timer>> {
        let query = &query;
        self.read(&self.slots, |conn| async move { read::due(&conn, query).await }).await
    }

    async fn timer(&self, id: TimerId) -> Result<Option<Timer>> {
        let by_id = |conn: Arc<Conn>| async move { read::one(&conn, "timers.by_id", &[&id.0], row::timer).await };
        self.read(&self.api, by_id).await
    }

    async fn timer_by_key(&self, type_id: TypeId, key: TimerKey) -> Result<Option<Timer>> {
        let key = &key.as_str();
        let by_key =
            |conn: Arc<Conn>| async move { read::one(&conn, "timers.by_key", &[&type_id.0, key], row::timer).await };
        self.read(&self.api, by_key).await
    }

    async fn timers(&self, query: TimerQuery) -> Result<Page<Timer>> {
        let query = &query;
        let page = |conn: Arc<Conn>| async move {
            // Only what is expired depends on the time.
            let now = if query.expired.is_some() { self.store_now(&conn).await? } else { Timestamp::MIN };
            list::timers(&conn, query, now).await
        };
        self.read(&self.api, page).await
    }

    async fn timers_by_prefix(&self, query: PrefixQuery) -> Result<KeyPage> {
        let query = &query;
        let page = |conn: Arc<Conn>| async move {
            let now = if query.filter.expired.is_some() { self.store_now(&conn).await? } else { Timestamp::MIN };
            prefix::timers(&conn, query, now).await
        };
        self.read(&self.api, page).await
    }

    async fn tally(&self, query: TallyQuery) -> Result<Tally> {
        let query = &query;
        self.read(&self.api, |conn| async move { tally::tally(&conn, query).await }).await
    }

    async fn forecast(&self, query: ForecastQuery) -> Result<Vec<Upcoming>> {
        let query = &query;
        self.read(&self.api, |conn| async move { tally::forecast(&conn, query).await }).await
    }

    async fn events(&self, timer: TimerId, after: i64, limit: usize) -> Result<Vec<StoredEvent>> {
        let events = |conn: Arc<Conn>| async move { read::events(&conn, &self.chain, timer, after, limit).await };
        self.read(&self.api, events).await
    }

    async fn overdue_types(&self, before: Timestamp) -> Result<Vec<TypeId>> {
        let overdue = |conn: Arc<Conn>| async move {
            let now = self.store_now(&conn).await?;
            read::overdue_types(self, &conn, before, now).await
        };
        self.read(&self.engine, overdue).await
    }

    async fn compensation_lanes(&self, now: Timestamp) -> Result<Vec<(TypeId, Name)>> {
        let lanes = self.read(&self.engine, |conn| async move { read::lanes(&conn).await }).await?;
        Ok(lanes.into_iter().filter(|lane| lane.run_at <= now).map(|lane| (lane.type_id, lane.kind)).collect())
    }

    async fn next_compensation_at(&self) -> Result<Option<Timestamp>> {
        let lanes = self.read(&self.engine, |conn| async move { read::lanes(&conn).await }).await?;
        Ok(lanes.into_iter().map(|lane| lane.run_at).min())
    }

    async fn compensation(&self, id: CompensationId) -> Result<Option<Compensation>> {
        let by_id =
            |conn: Arc<Conn>| async move { read::one(&conn, "compensations.by_id", &[&id.0], row::compensation).await };
        self.read(&self.api, by_id).await
    }

    async fn compensations(&self, query: CompensationQuery) -> Result<Page<Compensation>> {
        let query = &query;
        self.read(&self.api, |conn| async move { list::compensations(&conn, query).await }).await
    }

    async fn compensation_counts(&self, cap: u64) -> Result<(u64, u64, u64)> {
        self.read(&self.api, |conn| async move { read::compensation_counts(&conn, cap).await }).await
    }

    async fn compensations_by_type(
        &self,
        types: Vec<TypeId>,
        state: CompensationState,
        cap: u64,
    ) -> Result<BTreeMap<TypeId, u64>> {
        let types = &types;
        self.read(&self.api, |conn| async move { tally::compensations(&conn, types, state, cap).await }).await
    }

    async fn payloads_under(&self, type_id: TypeId, revision: i64, limit: usize) -> Result<Vec<Option<String>>> {
        self.read(&self.api, |conn| async move {
            let rows = conn.rows("timers.payloads_under", &[&type_id.0, &revision, &row::limit(limit)]).await?;
            rows.iter().map(|r| row::get(r, 0)).collect()
        })
        .await
    }

    async fn catalogue(&self) -> Result<Catalogue> {
        self.read(&self.engine, |conn| async move { read::catalogue(&conn).await }).await
    }

    async fn pauses(&self) -> Result<Pauses> {
        let pauses =
            self.read(&self.engine, |conn| async move { read::all(&conn, "catalogue.pauses", &[], row::pause).await });
        Ok(pauses.await?.into_iter().collect())
    }

    async fn revoked(&self) -> Result<Revoked> {
        let revoked = self
            .read(&self.engine, |conn| async move { read::all(&conn, "catalogue.revoked", &[], row::revoked).await });
        Ok(revoked.await?.into_iter().collect())
    }

    fn look_from_the_start(&self, types: &[TypeId]) {
        self.marks.forget(types);
    }

    async fn catalogue_version(&self) -> Result<i64> {
        self.read(&self.engine, |conn| async move { read::catalogue_version(&conn).await }).await
    }

    async fn plugin_bytes(&self, namespace: NamespaceId, digest: Digest) -> Result<Option<Vec<u8>>> {
        let bytes = |conn: Arc<Conn>| async move {
            let digest = &digest.0[..];
            read::one(&conn, "catalogue.plugin_bytes", &[&namespace.0, &digest], |r| row::get(r, 0)).await
        };
        self.read(&self.engine, bytes).await
    }

    async fn api_key_by_hash(&self, hash: [u8; 32]) -> Result<Option<ApiKeyRow>> {
        let by_hash = |conn: Arc<Conn>| async move {
            read::one(&conn, "catalogue.key_by_hash", &[&&hash[..]], row::api_key).await
        };
        self.read(&self.api, by_hash).await
    }

    async fn api_keys(&self, namespace: Option<NamespaceId>) -> Result<Vec<ApiKeyRow>> {
        let namespace = namespace.map(|n| n.0);
        let keys =
            |conn: Arc<Conn>| async move { read::all(&conn, "catalogue.keys", &[&namespace], row::api_key).await };
        self.read(&self.api, keys).await
    }

    async fn sealed(&self, namespace: NamespaceId, kind: SealedKind) -> Result<Vec<SealedRow>> {
        let kind = row::code(kind.code());
        let list =
            |conn: Arc<Conn>| async move { read::all(&conn, "sealed.list", &[&namespace.0, &kind], row::sealed).await };
        self.read(&self.api, list).await
    }

    async fn sealed_by_name(&self, namespace: String, kind: SealedKind, name: Name) -> Result<Option<SealedRow>> {
        let (kind, namespace, name) = (row::code(kind.code()), &namespace, &name.as_str());
        let by_name = |conn: Arc<Conn>| async move {
            read::one(&conn, "sealed.by_name", &[namespace, &kind, name], row::sealed).await
        };
        self.read(&self.engine, by_name).await
    }

    async fn close(&self) {
        for pool in self.lanes.iter().chain([&self.engine, &self.slots, &self.api]) {
            pool.close();
        }
    }
}
