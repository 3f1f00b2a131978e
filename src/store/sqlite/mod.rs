//! SQLite: one file, one process, one writer.
//!
//! ```text
//!  write(batch) ─► writer thread: BEGIN IMMEDIATE … COMMIT (WAL, synchronous=FULL) ─► answers
//!  reads        ─► two pools of threads, the engine's and the API's, a connection each; no snapshot beyond a call
//!                  checkpointer: a connection of its own, woken when the log has grown
//! ```

mod checkpoint;
mod connect;
mod error;
mod list;
mod lock;
mod migrate;
mod pool;
mod prefix;
mod read;
mod row;
mod sql;
mod tally;
mod write;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::oneshot;

use self::{checkpoint::Wal, lock::Lock, pool::Pool, write::Writer};
use super::{
    Driver, Error, Result,
    admin::{ApiKeyRow, SealedKind, SealedRow},
    op::{Answer, Op},
    read::{
        Catalogue, CompensationQuery, DueQuery, ForecastQuery, KeyPage, Page, PrefixQuery, Revoked, StoredEvent, Tally,
        TallyQuery, TimerQuery, Upcoming,
    },
};
use crate::{
    clock::SharedClock,
    domain::{
        audit::Chain,
        compensation::{Compensation, CompensationState},
        id::{CompensationId, Digest, Name, NamespaceId, SHARDS, TimerId, TimerKey, TypeId},
        pause::Pauses,
        time::Timestamp,
        timer::Timer,
    },
};

pub use self::{
    error::OpenError,
    migrate::{NEWEST, migrate_down, migrate_status, migrate_up},
    sql::statements,
};

/// Threads that read for the engine: a list that somebody asks for must not delay a fire.
const ENGINE_READERS: usize = 2;

/// Batches that may wait for the writer. The store hands over one at a time.
const MAX_BATCHES: usize = 8;

/// How to open a database.
#[derive(Clone, Debug)]
pub struct SqliteParams {
    /// The database's file; made, with its folder, if there is none. Beside it stand `-wal`, `-shm` and `.lock`.
    pub path: PathBuf,
    /// Threads, with a connection each, that read for the API; at least one.
    pub readers: usize,
    /// The store's clock.
    pub clock: SharedClock,
    /// Chains the audit.
    pub chain: Chain,
    /// Whether missing migrations are applied; otherwise their absence is an error.
    pub migrate: bool,
}

pub struct Sqlite {
    writer: Mutex<Option<SyncSender<Batch>>>,
    engine: Pool,
    api: Pool,
    wal: Arc<Wal>,
    threads: Mutex<Threads>,
    clock: SharedClock,
    chain: Chain,
}

/// What a close waits for, in this order.
#[derive(Default)]
struct Threads {
    workers: Vec<JoinHandle<()>>,
    checkpointer: Option<JoinHandle<()>>,
    lock: Option<Lock>,
}

struct Batch {
    ops: Arc<Vec<Op>>,
    answer: oneshot::Sender<Result<Vec<Answer>>>,
}

impl Sqlite {
    /// Opens the database and starts its threads. Blocks for some milliseconds.
    pub fn open(params: SqliteParams) -> std::result::Result<Arc<Self>, OpenError> {
        let SqliteParams { path, readers, clock, chain, migrate } = params;
        let database = |why| OpenError::Database { path: path.clone(), why };
        let file = |why| OpenError::File { path: path.clone(), why };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(file)?;
        }
        let lock = Lock::take(&path)?;
        let mut conn = connect::create(&path).map_err(database)?;
        if migrate {
            migrate::up(&path, &mut conn)?;
        } else {
            migrate::check(&path, &conn)?;
        }
        check_shards(&path, &conn)?;
        if setting(&conn, "key", chain.fingerprint()).map_err(database)? != chain.fingerprint() {
            return Err(OpenError::Key { path: path.clone() });
        }
        end_leases(&conn, clock.now()).map_err(database)?;

        let open_readers = |n: usize| (0..n).map(|_| connect::reader(&path)).collect::<Result<Vec<_>>>();
        let (engine, mut workers) =
            Pool::start("lapse-read", open_readers(ENGINE_READERS).map_err(database)?).map_err(file)?;
        let (api, api_threads) =
            Pool::start("lapse-list", open_readers(readers.max(1)).map_err(database)?).map_err(file)?;
        workers.extend(api_threads);
        let wal = Arc::new(Wal::default());
        let checkpointer =
            checkpoint::start(Arc::clone(&wal), connect::checkpointer(&path).map_err(database)?).map_err(file)?;
        let (batches, waiting) = sync_channel(MAX_BATCHES);
        watch_log(&mut conn, &wal).map_err(database)?;
        let writing = {
            let (wal, chain, clock) = (Arc::clone(&wal), chain.clone(), Arc::clone(&clock));
            std::thread::Builder::new()
                .name("lapse-write".into())
                .spawn(move || write_all(&conn, &waiting, &wal, chain, clock))
                .map_err(file)?
        };
        workers.push(writing);
        Ok(Arc::new(Self {
            writer: Mutex::new(Some(batches)),
            engine,
            api,
            wal,
            threads: Mutex::new(Threads { workers, checkpointer: Some(checkpointer), lock: Some(lock) }),
            clock,
            chain,
        }))
    }

    /// Takes nothing more. What it returns waits for the end, and blocks meanwhile: what was handed over is written and
    /// read, then the log is copied, then the lock is let go. The second time there is nothing to wait for.
    fn shut_down(&self) -> impl FnOnce() + Send + 'static {
        self.writer.lock().take();
        self.engine.close();
        self.api.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        let wal = Arc::clone(&self.wal);
        move || {
            for worker in threads.workers {
                // A panic was logged by its hook.
                let _ = worker.join();
            }
            wal.close();
            if let Some(checkpointer) = threads.checkpointer {
                let _ = checkpointer.join();
            }
            drop(threads.lock);
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.shut_down()();
    }
}

/// Records the number of shards in a new database, and refuses one that was made with another.
fn check_shards(path: &Path, conn: &Connection) -> std::result::Result<(), OpenError> {
    let found =
        setting(conn, "shards", i64::from(SHARDS)).map_err(|why| OpenError::Database { path: path.into(), why })?;
    if found == i64::from(SHARDS) { Ok(()) } else { Err(OpenError::Shards { path: path.into(), found, known: SHARDS }) }
}

/// What the database says under a name; a new one is told `first`.
fn setting(conn: &Connection, name: &str, first: i64) -> Result<i64> {
    conn.execute(sql::text("catalogue.put_setting"), params![name, first])?;
    Ok(conn.query_row(sql::text("catalogue.setting"), [name], |row| row.get(0))?)
}

/// The lock says that no other process has the database: whoever held a lease is gone. Its attempt counts as one whose
/// lease has lapsed, and what was claimed need not wait for the time that it was given.
fn end_leases(conn: &Connection, now: Timestamp) -> Result<()> {
    let mut ended = 0;
    for name in ["timers.end_leases", "compensations.end_leases"] {
        ended += conn.execute(sql::text(name), params![now.as_millis()])?;
    }
    if ended > 0 {
        tracing::info!(leases = ended, "leases of the process that ended before were taken back");
    }
    Ok(())
}

fn watch_log(conn: &mut Connection, wal: &Arc<Wal>) -> Result<()> {
    let wal = Arc::clone(wal);
    conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
        wal.grown(u32::try_from(pages).unwrap_or(0));
        Ok(())
    }))?;
    Ok(())
}

/// The writer thread's life.
fn write_all(conn: &Connection, batches: &Receiver<Batch>, wal: &Wal, chain: Chain, clock: SharedClock) {
    let mut writer = match Writer::new(conn, chain, clock) {
        Ok(writer) => writer,
        Err(error) => {
            tracing::error!(%error, "the writer's statements cannot be prepared: the database's tables are not as expected");
            for batch in batches {
                let _ = batch.answer.send(Err(error.clone()));
            }
            return;
        }
    };
    for Batch { ops, answer } in batches {
        let result = wal.with_gate(|| writer.write(&ops));
        drop(ops);
        let _ = answer.send(result);
    }
}

#[async_trait]
impl Driver for Sqlite {
    async fn write(&self, ops: Arc<Vec<Op>>) -> Result<Vec<Answer>> {
        let (answer, answered) = oneshot::channel();
        match self.writer.lock().as_ref().map(|writer| writer.try_send(Batch { ops, answer })) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => return Err(Error::Full),
            Some(Err(TrySendError::Disconnected(_))) => return Err(Error::Unavailable("the writer has ended".into())),
            None => return Err(Error::Stopped),
        }
        answered.await.unwrap_or_else(|_| Err(Error::OutcomeUnknown("the writer broke off".into())))
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<Timer>> {
        self.engine.run(move |conn| read::due(conn, &query)).await
    }

    async fn timer(&self, id: TimerId) -> Result<Option<Timer>> {
        self.api.run(move |conn| read::timer(conn, id)).await
    }

    async fn timer_by_key(&self, type_id: TypeId, key: TimerKey) -> Result<Option<Timer>> {
        self.api.run(move |conn| read::timer_by_key(conn, type_id, key.as_str())).await
    }

    async fn timers(&self, query: TimerQuery) -> Result<Page<Timer>> {
        let now = self.clock.now();
        self.api.run(move |conn| list::timers(conn, &query, now)).await
    }

    async fn timers_by_prefix(&self, query: PrefixQuery) -> Result<KeyPage> {
        let now = self.clock.now();
        self.api.run(move |conn| prefix::timers(conn, &query, now)).await
    }

    async fn tally(&self, query: TallyQuery) -> Result<Tally> {
        self.api.run(move |conn| tally::tally(conn, &query)).await
    }

    async fn forecast(&self, query: ForecastQuery) -> Result<Vec<Upcoming>> {
        self.api.run(move |conn| tally::forecast(conn, &query)).await
    }

    async fn events(&self, timer: TimerId, after: i64, limit: usize) -> Result<Vec<StoredEvent>> {
        let chain = self.chain.clone();
        self.api.run(move |conn| read::events(conn, &chain, timer, after, limit)).await
    }

    async fn overdue_types(&self, before: Timestamp) -> Result<Vec<TypeId>> {
        let now = self.clock.now();
        self.engine.run(move |conn| read::overdue_types(conn, before, now)).await
    }

    async fn compensation_lanes(&self, now: Timestamp) -> Result<Vec<(TypeId, Name)>> {
        let lanes = self.engine.run(|conn| read::lanes(conn)).await?;
        Ok(lanes.into_iter().filter(|lane| lane.run_at <= now).map(|lane| (lane.type_id, lane.kind)).collect())
    }

    async fn next_compensation_at(&self) -> Result<Option<Timestamp>> {
        let lanes = self.engine.run(|conn| read::lanes(conn)).await?;
        Ok(lanes.into_iter().map(|lane| lane.run_at).min())
    }

    async fn compensation(&self, id: CompensationId) -> Result<Option<Compensation>> {
        self.api.run(move |conn| read::compensation(conn, id)).await
    }

    async fn compensations(&self, query: CompensationQuery) -> Result<Page<Compensation>> {
        self.api.run(move |conn| list::compensations(conn, &query)).await
    }

    async fn compensation_counts(&self, cap: u64) -> Result<(u64, u64, u64)> {
        self.api.run(move |conn| read::compensation_counts(conn, cap)).await
    }

    async fn compensations_by_type(
        &self,
        types: Vec<TypeId>,
        state: CompensationState,
        cap: u64,
    ) -> Result<BTreeMap<TypeId, u64>> {
        self.api.run(move |conn| tally::compensations(conn, &types, state, cap)).await
    }

    async fn payloads_under(&self, type_id: TypeId, revision: i64, limit: usize) -> Result<Vec<Option<String>>> {
        self.api.run(move |conn| read::payloads_under(conn, type_id, revision, limit)).await
    }

    async fn catalogue(&self) -> Result<Catalogue> {
        self.engine.run(read::catalogue).await
    }

    async fn pauses(&self) -> Result<Pauses> {
        self.engine.run(|conn| read::pauses(conn)).await
    }

    async fn revoked(&self) -> Result<Revoked> {
        self.engine.run(|conn| read::revoked(conn)).await
    }

    async fn catalogue_version(&self) -> Result<i64> {
        self.engine.run(|conn| read::catalogue_version(conn)).await
    }

    async fn plugin_bytes(&self, namespace: NamespaceId, digest: Digest) -> Result<Option<Vec<u8>>> {
        let bytes = move |conn: &mut Connection| {
            let mut statement = conn.prepare_cached(sql::text("catalogue.plugin_bytes"))?;
            Ok(statement.query_row(params![namespace.0, digest.0], |row| row.get(0)).optional()?)
        };
        self.engine.run(bytes).await
    }

    async fn api_key_by_hash(&self, hash: [u8; 32]) -> Result<Option<ApiKeyRow>> {
        let by_hash = move |conn: &mut Connection| {
            let mut statement = conn.prepare_cached(sql::text("catalogue.key_by_hash"))?;
            Ok(statement.query_row([hash], row::api_key).optional()?)
        };
        self.api.run(by_hash).await
    }

    async fn api_keys(&self, namespace: Option<NamespaceId>) -> Result<Vec<ApiKeyRow>> {
        let keys = move |conn: &mut Connection| {
            let mut statement = conn.prepare_cached(sql::text("catalogue.keys"))?;
            let rows = statement.query_map([namespace.map(|n| n.0)], row::api_key)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.api.run(keys).await
    }

    async fn sealed(&self, namespace: NamespaceId, kind: SealedKind) -> Result<Vec<SealedRow>> {
        let list = move |conn: &mut Connection| {
            let mut statement = conn.prepare_cached(sql::text("sealed.list"))?;
            let rows = statement.query_map(params![namespace.0, kind.code()], row::sealed)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.api.run(list).await
    }

    async fn sealed_by_name(&self, namespace: String, kind: SealedKind, name: Name) -> Result<Option<SealedRow>> {
        let by_name = move |conn: &mut Connection| {
            let mut statement = conn.prepare_cached(sql::text("sealed.by_name"))?;
            Ok(statement.query_row(params![namespace, kind.code(), name.as_str()], row::sealed).optional()?)
        };
        self.engine.run(by_name).await
    }

    async fn close(&self) {
        let _ = tokio::task::spawn_blocking(self.shut_down()).await;
    }
}
