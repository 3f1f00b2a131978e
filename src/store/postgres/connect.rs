//! Connections: how one is made, what is set on it, and the small pools that they stand in.

use std::{
    collections::HashMap,
    future::poll_fn,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Semaphore, SemaphorePermit, mpsc},
    task::JoinHandle,
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, Row, Statement,
    config::{SslMode, TargetSessionAttrs},
    types::ToSql,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{OpenError, PostgresParams, error::Fault, sql};

/// The oldest server whose SQL this speaks, as `server_version_num`.
const OLDEST_SERVER: i32 = 130_000;

/// For how long a transaction may wait for this side: a node that stands still in the middle of one would keep its locks.
const IDLE_IN_TRANSACTION: Duration = Duration::from_millis(500);

/// An idle connection is probed after this long, so often, and given up after this many probes without an answer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// Makes connections to one database.
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    session: String,
    /// Rises whenever a connection was found to be read-only: all that were made before are dropped, since they lead to
    /// a server that is no longer the one that writes.
    generation: AtomicU64,
}

impl Connector {
    pub(super) fn new(params: &PostgresParams) -> Result<Self, OpenError> {
        let (url, files) = take_tls(&params.url);
        let mut config: Config = url.parse().map_err(|e: tokio_postgres::Error| {
            OpenError::Url(std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string))
        })?;
        if config.get_application_name().is_none() {
            config.application_name(&params.application_name);
        }
        config
            .connect_timeout(params.connect_timeout.as_std())
            .tcp_user_timeout(params.statement_timeout.as_std() + Duration::from_secs(5))
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_PROBES)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let wanted = config.get_ssl_mode() == SslMode::Require || files.roots.is_some();
        let tls = if wanted {
            config.ssl_mode(SslMode::Require);
            Some(MakeRustlsConnect::new(files.client_config()?))
        } else {
            config.ssl_mode(SslMode::Disable);
            None
        };
        Ok(Self { config, tls, session: session(params), generation: AtomicU64::new(0) })
    }

    /// What the database is called in a sentence; without the password.
    pub(super) fn place(&self) -> String {
        let hosts: Vec<_> = self
            .config
            .get_hosts()
            .iter()
            .map(|host| match host {
                tokio_postgres::config::Host::Tcp(name) => name.clone(),
                tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        format!("PostgreSQL database {:?} at {}", self.config.get_dbname().unwrap_or("postgres"), hosts.join(","))
    }

    pub(super) async fn connect(&self) -> Result<Conn, Fault> {
        self.connect_with(None).await
    }

    /// A connection, and what is notified over it: at most `waiting` at a time, and nothing more once it has ended.
    pub(super) async fn connect_hearing(&self, waiting: usize) -> Result<(Conn, mpsc::Receiver<String>), Fault> {
        let (heard, hearing) = mpsc::channel(waiting);
        Ok((self.connect_with(Some(heard)).await?, hearing))
    }

    async fn connect_with(&self, heard: Option<mpsc::Sender<String>>) -> Result<Conn, Fault> {
        let generation = self.generation.load(Ordering::Acquire);
        let (client, task) = if let Some(tls) = &self.tls {
            let (client, connection) = self.config.connect(tls.clone()).await?;
            (client, tokio::spawn(drive(connection, heard)))
        } else {
            let (client, connection) = self.config.connect(NoTls).await?;
            (client, tokio::spawn(drive(connection, heard)))
        };
        let conn = Conn { client, task, statements: HashMap::new(), generation };
        conn.client.batch_execute(&self.session).await?;
        Ok(conn)
    }

    /// A connection that has every statement prepared: what is sent in one go must not wait for a preparation.
    pub(super) async fn connect_prepared(&self) -> Result<Conn, Fault> {
        let mut conn = self.connect().await?;
        let prepared = sql::statements().map(async |(name, text)| Ok((name, conn.client.prepare(text).await?)));
        let statements =
            futures_util::future::try_join_all(prepared).await.map_err(|e: tokio_postgres::Error| Fault::from(e))?;
        conn.statements = statements.into_iter().collect();
        Ok(conn)
    }

    /// The server's version as `server_version_num`, checked with the encoding to be one that can be used.
    pub(super) async fn check_server(&self, conn: &Conn) -> Result<(), OpenError> {
        let fault = |fault: tokio_postgres::Error| OpenError::database(self, fault.into());
        let row = conn
            .client
            .query_one("SELECT current_setting('server_version_num')::int, current_setting('server_encoding')", &[])
            .await
            .map_err(fault)?;
        let (version, encoding): (i32, String) = (row.try_get(0).map_err(fault)?, row.try_get(1).map_err(fault)?);
        if version < OLDEST_SERVER {
            return Err(OpenError::Server { found: version / 10_000, oldest: OLDEST_SERVER / 10_000 });
        }
        if encoding != "UTF8" {
            return Err(OpenError::Encoding(encoding));
        }
        Ok(())
    }

    fn role_flipped(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// Runs a connection to its end, and hands on what is notified over it; what nobody has room for is dropped.
async fn drive<S, T>(mut connection: Connection<S, T>, heard: Option<mpsc::Sender<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let (AsyncMessage::Notification(note), Some(heard)) = (message, &heard) {
            let _dropped = heard.try_send(note.payload().to_owned());
        }
    }
}

/// What is set on each connection. The planner is told to use the indexes whatever the statistics say, since they lag
/// behind tables that grow by millions in minutes, and a plan made for an empty table would be kept.
fn session(params: &PostgresParams) -> String {
    format!(
        "SET statement_timeout = {statement};
         SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = {idle};
         SET default_transaction_isolation = 'read committed';
         SET client_min_messages = warning;
         SET timezone = 'UTC';
         SET jit = off;
         SET enable_seqscan = off;
         SET enable_bitmapscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET plan_cache_mode = force_generic_plan;
         SELECT set_config('synchronous_commit', 'on', false)
         WHERE current_setting('synchronous_commit') IN ('off', 'local')",
        statement = params.statement_timeout.as_millis(),
        lock = params.lock_timeout.as_millis(),
        idle = IDLE_IN_TRANSACTION.as_millis(),
    )
}

/// One connection with its prepared statements. Dropped, it is cut off.
pub(super) struct Conn {
    pub client: Client,
    task: JoinHandle<()>,
    /// By name; as many as there are statements in the files.
    statements: HashMap<&'static str, Statement>,
    generation: u64,
}

impl Conn {
    pub(super) async fn rows(&self, name: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Fault> {
        Ok(self.client.query(self.statement(name), params).await?)
    }

    pub(super) async fn row(&self, name: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, Fault> {
        Ok(self.client.query_opt(self.statement(name), params).await?)
    }

    /// Rows of a statement that changes something and is its own transaction. If no answer comes it may have been
    /// carried out all the same; but not if the server says before the first row why it broke off, since rows are sent
    /// before the commit.
    pub(super) async fn write(&self, name: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Fault> {
        let mut rows = Vec::new();
        let mut reading = async || {
            let params = params.iter().map(|param| *param as &(dyn ToSql + Sync));
            let mut answer = pin!(self.client.query_raw(self.statement(name), params).await?);
            while let Some(row) = answer.try_next().await? {
                rows.push(row);
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        match reading().await {
            Ok(()) => Ok(rows),
            Err(error) if error.as_db_error().is_some() && rows.is_empty() => Err(error.into()),
            Err(error) => Err(Fault::from(error).in_flight()),
        }
    }

    /// How many rows it changed.
    pub(super) async fn change(&self, name: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Fault> {
        Ok(self.client.execute(self.statement(name), params).await?)
    }

    /// A statement without parameters and answer.
    pub(super) async fn command(&self, text: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(text).await?)
    }

    fn statement(&self, name: &str) -> &Statement {
        self.statements.get(name).unwrap_or_else(|| unreachable!("no statement is named {name}"))
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// At most `size` connections, made when they are needed.
pub(super) struct Pool {
    connector: Arc<Connector>,
    idle: Mutex<Vec<Arc<Conn>>>,
    permits: Semaphore,
    wait: Duration,
}

/// A connection out of its pool. Only [`Lent::give_back`] puts it back: dropped, it is cut off.
pub(super) struct Lent<'a> {
    conn: Arc<Conn>,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(connector: Arc<Connector>, size: usize, wait: Duration) -> Self {
        Self { connector, idle: Mutex::default(), permits: Semaphore::new(size.max(1)), wait }
    }

    /// Waits for a connection, for a bounded time.
    pub(super) async fn get(&self) -> Result<Lent<'_>, Fault> {
        let permit = match tokio::time::timeout(self.wait, self.permits.acquire()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(Fault::Closed),
            Err(_) => return Err(Fault::Timeout("no connection was free in time")),
        };
        let generation = self.connector.generation.load(Ordering::Acquire);
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|conn| !conn.client.is_closed() && conn.generation == generation);
            idle.pop()
        };
        let conn = match idle {
            Some(conn) => conn,
            None => Arc::new(self.connector.connect_prepared().await?),
        };
        Ok(Lent { conn, pool: self, _permit: permit })
    }

    /// Lets go of all idle connections, and of those lent once they come back.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }
}

impl Lent<'_> {
    /// For a future that must own what it works on; it is gone before the connection is given back.
    pub(super) fn share(&self) -> Arc<Conn> {
        Arc::clone(&self.conn)
    }

    /// Puts the connection back.
    pub(super) fn give_back(self) {
        if !self.conn.client.is_closed() && !self.pool.permits.is_closed() {
            self.pool.idle.lock().push(self.conn);
        }
    }

    /// Cuts the connection off for what went wrong on it.
    pub(super) fn give_up(self, fault: &Fault) {
        if matches!(fault, Fault::ReadOnly) {
            self.pool.connector.role_flipped();
        }
    }
}

impl std::ops::Deref for Lent<'_> {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

/// Certificates that a URL names, as libpq's URLs do.
#[derive(Default)]
struct TlsFiles {
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Takes what the client library does not know out of a URL's parameters: `sslrootcert`, `sslcert`, `sslkey`, and the
/// modes `verify-ca` and `verify-full`, which here are what `require` is: the certificate is always verified.
fn take_tls(url: &str) -> (String, TlsFiles) {
    let mut files = TlsFiles::default();
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), files) };
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let path = || Some(PathBuf::from(percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned()));
        match (name, value) {
            ("sslrootcert", _) => files.roots = path(),
            ("sslcert", _) => files.certificate = path(),
            ("sslkey", _) => files.key = path(),
            ("sslmode", "verify-ca" | "verify-full") => kept.push("sslmode=require"),
            _ => kept.push(pair),
        }
    }
    (if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }, files)
}

impl TlsFiles {
    fn client_config(&self) -> Result<ClientConfig, OpenError> {
        let tls = |why: String| OpenError::Tls(why);
        let mut roots = RootCertStore::empty();
        match self.roots.as_deref() {
            Some(path) if path != Path::new("system") => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|e| tls(format!("{}: {e}", path.display())))?;
                }
            }
            _ => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| tls(e.to_string()))?
            .with_root_certificates(roots);
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| tls(format!("{}: {e}", key.display())))?;
                builder.with_client_auth_cert(certificates(certificate)?, secret).map_err(|e| tls(e.to_string()))
            }
            (None, None) => Ok(builder.with_no_client_auth()),
            _ => Err(tls("sslcert and sslkey go together".into())),
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let bad = |e: rustls::pki_types::pem::Error| OpenError::Tls(format!("{}: {e}", path.display()));
    CertificateDer::pem_file_iter(path).map_err(bad)?.collect::<Result<_, _>>().map_err(bad)
}
