//! The connections to one data source: few, made when they are needed, back to their first state after each batch.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    Batch, Error, Outcome, Settings, Source,
    endpoint::{Dialect, Endpoint, Place},
    error::Fail,
    mysql::Mysql,
    postgres::Postgres,
    sqlite::Sqlite,
};
use crate::config::Secret;

/// How long making a connection may take, putting it back to its first state, and ending what runs on it.
const CONNECT: Duration = Duration::from_secs(5);
const RESET: Duration = Duration::from_secs(2);
const ABORT: Duration = Duration::from_secs(5);

/// One connection.
#[async_trait]
pub(super) trait Session: Send {
    /// One transaction. It is committed, or rolled back, or the session is not to be kept.
    async fn run(&mut self, batch: &Batch) -> Result<Vec<Outcome>, Fail>;

    /// Leaves nothing of what a batch has set. False if that cannot be said.
    async fn reset(&mut self) -> bool;

    /// The product and its version.
    async fn server(&mut self) -> Result<String, Error>;

    /// Ends what the server still runs for it.
    fn abort(self: Box<Self>) -> BoxFuture<'static, ()>;

    fn is_closed(&self) -> bool;
}

/// Makes connections to one data source.
#[derive(Clone)]
pub(super) struct Maker {
    target: Target,
    statement_time: Duration,
    max_bytes: usize,
}

#[derive(Clone)]
enum Target {
    Server { place: Arc<Place>, password: Secret, ca: PathBuf },
    File(PathBuf),
}

impl Maker {
    pub fn new(endpoint: Endpoint, source: &Source, settings: &Settings) -> Self {
        let target = match endpoint {
            Endpoint::File(path) => Target::File(path),
            Endpoint::Server(place) => Target::Server {
                place: Arc::new(place),
                password: source.password.clone(),
                ca: settings.config.tls_ca.clone(),
            },
        };
        let max_bytes = usize::try_from(source.definition.max_bytes).unwrap_or(usize::MAX);
        Self { target, statement_time: source.definition.statement_timeout.as_std(), max_bytes }
    }

    pub async fn connect(&self) -> Result<Box<dyn Session>, Error> {
        let made = async {
            Ok(match &self.target {
                Target::File(path) => Box::new(Sqlite::open(path.clone(), self.max_bytes).await?) as Box<dyn Session>,
                Target::Server { place, password, ca } if place.dialect == Dialect::Postgres => {
                    Box::new(Postgres::connect(place, password, ca).await?)
                }
                Target::Server { place, password, ca } => {
                    Box::new(Mysql::connect(place, password, ca, self.statement_time, self.max_bytes).await?)
                }
            })
        };
        tokio::time::timeout(CONNECT, made).await.unwrap_or_else(|_| Err(Error::unavailable("no answer in time")))
    }
}

pub(super) struct Pool {
    maker: Maker,
    stamp: Vec<u8>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<(Box<dyn Session>, Instant)>>,
    used: Mutex<Instant>,
    closed: AtomicBool,
}

impl Pool {
    pub fn new(maker: Maker, source: &Source) -> Self {
        let size = usize::try_from(source.definition.connections.max(1)).unwrap_or(1);
        Self {
            maker,
            stamp: source.stamp.clone(),
            permits: Arc::new(Semaphore::new(size)),
            idle: Mutex::default(),
            used: Mutex::new(Instant::now()),
            closed: AtomicBool::new(false),
        }
    }

    pub fn stamp(&self) -> &[u8] {
        &self.stamp
    }

    pub fn idle_for(&self) -> Duration {
        self.used.lock().elapsed()
    }

    /// Lets go of all idle connections, and of those lent once they come back.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.idle.lock().clear();
    }

    pub fn close_idle(&self, after: Duration) {
        self.idle.lock().retain(|(_, since)| since.elapsed() < after);
    }

    /// One batch on one connection.
    pub async fn run(self: &Arc<Self>, batch: &Batch, deadline: Instant) -> Result<Vec<Outcome>, Fail> {
        let mut lent = match tokio::time::timeout_at(deadline, self.lend()).await {
            Ok(lent) => lent?,
            Err(_) => return Err(Fail::broken(Error::unavailable("no connection was free in time"))),
        };
        let Some(session) = lent.session.as_mut() else { unreachable!("lent with a session") };
        batch.committing.store(false, Ordering::Relaxed);
        let ended = tokio::time::timeout_at(deadline, session.run(batch)).await;
        match ended {
            Ok(Ok(outcomes)) => {
                lent.give_back();
                Ok(outcomes)
            }
            Ok(Err(fail)) => {
                if fail.keep {
                    lent.give_back();
                }
                Err(fail)
            }
            Err(_) if batch.is_committing() => {
                Err(Fail::broken(Error::OutcomeUnknown("the commit was not answered in time".to_owned())))
            }
            Err(_) => Err(Fail::broken(Error::Timeout)),
        }
    }

    async fn lend(self: &Arc<Self>) -> Result<Lent, Fail> {
        *self.used.lock() = Instant::now();
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Fail::broken(Error::unavailable("the data source is closed")))?;
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|(session, _)| !session.is_closed());
            idle.pop()
        };
        let session = match idle {
            Some((session, _)) => session,
            None => self.maker.connect().await.map_err(Fail::broken)?,
        };
        Ok(Lent { session: Some(session), permit: Some(permit), pool: Arc::clone(self) })
    }
}

/// A connection out of its pool. Dropped without having been given back, also when its caller goes away in the middle of
/// a batch, what runs on it is ended, and only then is its place free.
struct Lent {
    session: Option<Box<dyn Session>>,
    permit: Option<OwnedSemaphorePermit>,
    pool: Arc<Pool>,
}

impl Lent {
    fn give_back(mut self) {
        let (session, permit) = (self.session.take(), self.permit.take());
        let Some(mut session) = session else { return };
        let pool = Arc::clone(&self.pool);
        // Nobody has to wait for it.
        tokio::spawn(async move {
            let is_clean = matches!(tokio::time::timeout(RESET, session.reset()).await, Ok(true));
            if is_clean && !pool.closed.load(Ordering::Acquire) {
                pool.idle.lock().push((session, Instant::now()));
                // Closed in between: nothing stays behind.
                if pool.closed.load(Ordering::Acquire) {
                    pool.idle.lock().clear();
                }
            }
            drop(permit);
        });
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(session), permit) = (self.session.take(), self.permit.take()) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(ABORT, session.abort()).await;
                drop(permit);
            });
        }
    }
}
