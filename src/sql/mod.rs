//! The business's own databases: guarded batches of statements on data sources that an operator has set.
//!
//! [`Databases`] is the seam. It keeps a small pool of connections for each data source, and runs a batch in one
//! transaction: all of it or nothing. A statement cannot end that transaction, whatever it says: what may stand first in
//! it is a short list (`text`), each is sent as one prepared statement, and before the commit the transaction is asked
//! whether it is still the one that was begun.

mod endpoint;
mod error;
mod mysql;
mod pool;
mod postgres;
mod sqlite;
mod text;
mod tls;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    config::{self, Secret},
    domain::{id::Name, time::DurationMs},
};

use self::{
    endpoint::Endpoint,
    error::Fail,
    pool::{Maker, Pool},
};
pub use self::{
    endpoint::{BadUrl, Dialect, Kept, keep},
    error::{Error, Fault},
};

/// Statements in one batch, bytes in the text of one, parameters of one.
pub const MAX_STATEMENTS: usize = 64;
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
pub const MAX_PARAMETERS: usize = 1_000;
/// Tries of a batch that the database says may succeed another time, and the first wait between them, doubled each time
/// and jittered.
const TRIES: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// Pools at once; one that nobody uses is let go.
const MAX_POOLS: usize = 1_000;
/// How often pools are looked over, how long a connection may be idle, and how long a pool may.
const SWEEP: Duration = Duration::from_secs(10);
const IDLE_CONNECTION: Duration = Duration::from_mins(1);
const IDLE_POOL: Duration = Duration::from_mins(10);

/// A data source as an operator has set it; the password stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Without a password.
    pub url: String,
    /// The time of one statement.
    pub statement_timeout: DurationMs,
    /// Rows, and bytes in them, that one batch may return.
    pub max_rows: u32,
    pub max_bytes: u64,
    /// Connections that each node may have open.
    pub connections: u32,
}

/// A data source with all that a connection needs.
#[derive(Clone, Debug)]
pub struct Source {
    pub namespace: String,
    pub name: Name,
    pub definition: Definition,
    pub password: Secret,
    /// Another one whenever the data source was set anew: what was opened under the old one is closed.
    pub stamp: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    /// Decimal digits with a sign and a point.
    Decimal(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Microseconds since 1970, UTC.
    Timestamp(i64),
    Json(String),
}

impl Value {
    /// The bytes that it stands for, roughly.
    fn size(&self) -> usize {
        match self {
            Self::Null | Self::Boolean(_) => 1,
            Self::Integer(_) | Self::Real(_) | Self::Timestamp(_) => 8,
            Self::Decimal(text) | Self::Text(text) | Self::Json(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// One statement; its parameters are `$1`, `$2` and so on, whatever the database.
    pub text: String,
    pub parameters: Vec<Value>,
    /// How many rows it must change or return.
    pub expect_rows: Option<u64>,
}

/// What a statement came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Changed, or returned.
    pub rows_affected: u64,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

/// Whether a batch may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Write,
    Read,
}

/// What is found at a data source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The product and its version.
    pub server: String,
    pub took: Duration,
}

/// What a session is given to run.
struct Batch {
    statements: Vec<Statement>,
    mode: Mode,
    statement_time: Duration,
    max_rows: usize,
    max_bytes: usize,
    /// From here on, a broken connection says nothing of what happened.
    committing: AtomicBool,
}

impl Batch {
    fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Relaxed)
    }
}

/// Counts what a batch returns against its bounds.
struct Room {
    max_rows: usize,
    max_bytes: usize,
    rows: usize,
    bytes: usize,
}

impl Room {
    fn of(batch: &Batch) -> Self {
        Self { max_rows: batch.max_rows, max_bytes: batch.max_bytes, rows: 0, bytes: 0 }
    }

    fn take(&mut self, row: &[Value]) -> Result<(), Error> {
        self.rows += 1;
        self.bytes += row.iter().map(Value::size).sum::<usize>();
        if self.rows > self.max_rows {
            return Err(Error::TooLarge(format!("the batch returns more than {} rows", self.max_rows)));
        }
        if self.bytes > self.max_bytes {
            return Err(too_many_bytes(self.max_bytes));
        }
        Ok(())
    }
}

fn too_many_bytes(limit: usize) -> Error {
    Error::TooLarge(format!("the batch returns more than {limit} bytes"))
}

/// That a statement had as many rows as it must have.
fn guard(at: usize, statement: &Statement, outcome: &Outcome) -> Result<(), Error> {
    let actual =
        if outcome.columns.is_empty() { outcome.rows_affected } else { u64::try_from(outcome.rows.len()).unwrap_or(0) };
    match statement.expect_rows {
        Some(expected) if expected != actual => Err(Error::Guard { statement: at, expected, actual }),
        _ => Ok(()),
    }
}

/// The connections to all data sources. Cheap to clone.
#[derive(Clone)]
pub struct Databases {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    pools: Mutex<HashMap<(String, Name), Arc<Pool>>>,
    sweeping: AtomicBool,
}

/// What holds for all data sources.
#[derive(Clone, Debug)]
pub struct Settings {
    pub config: config::Sql,
    /// Where Lapse's own files stand: no data source is there.
    pub own_folder: PathBuf,
}

impl Databases {
    pub fn new(settings: Settings) -> Self {
        Self { inner: Arc::new(Inner { settings, pools: Mutex::default(), sweeping: AtomicBool::new(false) }) }
    }

    /// Runs the statements in order, in one transaction: all of them or none.
    ///
    /// # Errors
    /// Nothing was done, but for [`Error::OutcomeUnknown`].
    pub async fn run(
        &self,
        source: &Source,
        statements: Vec<Statement>,
        mode: Mode,
        time: Duration,
    ) -> Result<Vec<Outcome>, Error> {
        let deadline = Instant::now() + time;
        let definition = &source.definition;
        let endpoint = Endpoint::of(source, &self.inner.settings)?;
        let statements = text::check(endpoint.dialect(), statements, definition.max_bytes)?;
        let pool = self.pool(source, endpoint)?;
        let batch = Batch {
            statements,
            mode,
            statement_time: definition.statement_timeout.as_std(),
            max_rows: usize::try_from(definition.max_rows).unwrap_or(usize::MAX),
            max_bytes: usize::try_from(definition.max_bytes).unwrap_or(usize::MAX),
            committing: AtomicBool::new(false),
        };
        let mut wait = FIRST_WAIT;
        for attempt in 1..=TRIES {
            let Fail { error, again, .. } = match pool.run(&batch, deadline).await {
                Ok(outcomes) => return Ok(outcomes),
                Err(fail) => fail,
            };
            let pause = wait.mul_f64(0.5 + rand::random::<f64>() / 2.0);
            if !again || attempt == TRIES || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            wait *= 2;
        }
        unreachable!("the last attempt returns")
    }

    /// Connects anew and says what is there.
    pub async fn check(&self, source: &Source, time: Duration) -> Result<Found, Error> {
        let maker = Maker::new(Endpoint::of(source, &self.inner.settings)?, source, &self.inner.settings);
        let began = Instant::now();
        let connect = async {
            let mut session = maker.connect().await?;
            session.server().await
        };
        match tokio::time::timeout(time, connect).await {
            Ok(found) => found.map(|server| Found { server, took: began.elapsed() }),
            Err(_) => Err(Error::Unavailable(format!("no answer within {} seconds", time.as_secs()))),
        }
    }

    /// Whether a data source of this definition could be used here, as far as that can be said without connecting.
    pub fn accepts(&self, source: &Source) -> Result<(), Error> {
        Endpoint::of(source, &self.inner.settings).map(drop)
    }

    /// Closes what is open to a data source that is no more.
    pub fn forget(&self, namespace: &str, name: &Name) {
        if let Some(pool) = self.inner.pools.lock().remove(&(namespace.to_owned(), name.clone())) {
            pool.close();
        }
    }

    fn pool(&self, source: &Source, endpoint: Endpoint) -> Result<Arc<Pool>, Error> {
        let key = (source.namespace.clone(), source.name.clone());
        let mut pools = self.inner.pools.lock();
        if let Some(pool) = pools.get(&key) {
            if pool.stamp() == source.stamp {
                return Ok(Arc::clone(pool));
            }
            pool.close();
            pools.remove(&key);
        }
        if pools.len() >= MAX_POOLS {
            return Err(Error::Unavailable(format!("more than {MAX_POOLS} data sources are in use on this node")));
        }
        let pool = Arc::new(Pool::new(Maker::new(endpoint, source, &self.inner.settings), source));
        pools.insert(key, Arc::clone(&pool));
        drop(pools);
        if !self.inner.sweeping.swap(true, Ordering::AcqRel) {
            tokio::spawn(sweep(Arc::downgrade(&self.inner)));
        }
        Ok(pool)
    }
}

/// Closes what nobody has used for a while; ends with the last handle.
async fn sweep(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.pools.lock().retain(|_, pool| {
            pool.close_idle(IDLE_CONNECTION);
            let used = pool.idle_for() < IDLE_POOL;
            if !used {
                pool.close();
            }
            used
        });
    }
}
