//! PostgreSQL. Each statement goes out whole in the extended protocol, unnamed, which takes one statement only and infers
//! the types of what is given as text.

mod stream;
mod value;

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use futures_util::{TryStreamExt as _, future::BoxFuture};
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_postgres::{CancelToken, Client, Config, NoTls, config::SslMode, error::SqlState};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    Batch, Error, Mode, Outcome, Room, Statement,
    endpoint::Place,
    error::{Fail, Stopped, within},
    guard,
    pool::Session,
    tls, too_many_bytes,
};
use crate::config::Secret;

use self::{
    stream::{Allowance, Allowed},
    value::Param,
};

/// Bytes that a connection may read while no batch runs.
const IDLE_BYTES: u64 = 1024 * 1024;

pub(super) struct Postgres {
    client: Client,
    connection: JoinHandle<()>,
    cancel: CancelToken,
    allowance: Arc<Allowance>,
    place: Arc<Place>,
    tls: Option<MakeRustlsConnect>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Postgres {
    pub async fn connect(place: &Arc<Place>, password: &Secret, ca: &Path) -> Result<Self, Error> {
        let mut config = Config::new();
        config.user(&place.user).dbname(&place.database).application_name("lapse").host(&place.host);
        if !password.reveal().is_empty() {
            config.password(password.reveal());
        }
        config.ssl_mode(if place.tls { SslMode::Require } else { SslMode::Disable });
        let tls = if place.tls { Some(MakeRustlsConnect::new(tls::client_config(ca)?)) } else { None };
        let allowance = Arc::new(Allowance::new(IDLE_BYTES));
        let stream = Allowed::new(open(place).await?, Arc::clone(&allowance));
        let refused = |e: tokio_postgres::Error| Error::unavailable(said(&e));
        let (client, connection) = if let Some(tls) = &tls {
            let connect = connector(tls, &place.host)?;
            let (client, connection) = config.connect_raw(stream, connect).await.map_err(refused)?;
            (client, tokio::spawn(async move { drop(connection.await) }))
        } else {
            let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(refused)?;
            (client, tokio::spawn(async move { drop(connection.await) }))
        };
        let cancel = client.cancel_token();
        Ok(Self { client, connection, cancel, allowance, place: Arc::clone(place), tls })
    }

    async fn transact(&self, batch: &Batch, mark: &str) -> Result<Vec<Outcome>, Fail> {
        let failed = |e: tokio_postgres::Error, at: usize| Fail::of(self.read(&e, at, batch));
        let time = batch.statement_time;
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED {};
             SET LOCAL statement_timeout = {ms};
             SET LOCAL idle_in_transaction_session_timeout = {idle};
             SET LOCAL TimeZone = 'UTC';
             SET LOCAL lapse.mark = '{mark}'",
            if batch.mode == Mode::Read { "READ ONLY" } else { "READ WRITE" },
            ms = time.as_millis(),
            idle = time.as_millis().max(10_000),
        );
        within(time, self.client.batch_execute(&begin)).await?.map_err(|e| failed(e, 0))?;
        let mut room = Room::of(batch);
        let mut outcomes = Vec::with_capacity(batch.statements.len());
        for (at, statement) in batch.statements.iter().enumerate() {
            let ran = within(time, self.statement(statement, &mut room, at)).await?;
            let outcome = ran.map_err(|e| match e {
                Stopped::Said(e) => failed(e, at),
                // The rest of the rows is still on its way.
                Stopped::Error(error) => Fail::broken(error),
            })?;
            guard(at, statement, &outcome)?;
            outcomes.push(outcome);
        }
        // What was set locally is gone with its transaction.
        let end =
            format!("SELECT 1 / (CASE WHEN current_setting('lapse.mark', true) = '{mark}' THEN 1 ELSE 0 END); COMMIT");
        batch.committing.store(true, std::sync::atomic::Ordering::Relaxed);
        let ended = within(time, self.client.batch_execute(&end))
            .await
            .map_err(|_| Fail::broken(Error::OutcomeUnknown("the commit was not answered in time".to_owned())))?;
        ended.map_err(|e| {
            let at = batch.statements.len();
            if e.code() == Some(&SqlState::DIVISION_BY_ZERO) {
                return Fail::broken(Error::Invalid(Error::fault(at, "the batch has ended its own transaction")));
            }
            failed(e, at)
        })?;
        Ok(outcomes)
    }

    async fn statement(
        &self,
        statement: &Statement,
        room: &mut Room,
        at: usize,
    ) -> Result<Outcome, Stopped<tokio_postgres::Error>> {
        let params = statement.parameters.iter().map(|value| (Param(value), value::type_of(value)));
        let rows = self.client.query_typed_raw(&statement.text, params.collect::<Vec<_>>()).await?;
        let mut rows = std::pin::pin!(rows);
        let mut outcome = Outcome::default();
        while let Some(row) = rows.try_next().await? {
            if outcome.columns.is_empty() {
                outcome.columns = row.columns().iter().map(|c| c.name().to_owned()).collect();
            }
            let row = value::row(&row).map_err(|why| Stopped::Error(Error::Invalid(Error::fault(at, why))))?;
            room.take(&row).map_err(Stopped::Error)?;
            outcome.rows.push(row);
        }
        outcome.rows_affected = rows.rows_affected().unwrap_or(0);
        Ok(outcome)
    }

    fn read(&self, error: &tokio_postgres::Error, at: usize, batch: &Batch) -> Error {
        if self.allowance.is_used_up() {
            return too_many_bytes(batch.max_bytes);
        }
        let Some(database) = error.as_db_error() else {
            // What the driver cannot make sense of, such as the answer to COPY, ends the connection as well.
            return if batch.is_committing() {
                Error::OutcomeUnknown(said(error))
            } else {
                Error::unavailable(said(error))
            };
        };
        let fault = Error::fault(at, format!("{} ({})", database.message(), database.code().code()));
        let code = database.code();
        match code.code() {
            "23505" => Error::Unique(fault),
            "40001" | "40P01" | "55P03" => Error::Busy(fault),
            "57014" | "25P03" => Error::Timeout,
            "25006" if batch.mode == Mode::Write => Error::Unavailable(fault.message),
            // So many parameters as the statement has not.
            "08P01" => Error::Invalid(fault),
            c if c.starts_with("23") => Error::Constraint(fault),
            c if c.starts_with("08") || c.starts_with("53") || c.starts_with("57") || c.starts_with("58") => {
                Error::Unavailable(fault.message)
            }
            _ => Error::Invalid(fault),
        }
    }
}

fn connector(
    tls: &MakeRustlsConnect,
    host: &str,
) -> Result<<MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Allowed>>::TlsConnect, Error> {
    let mut tls = tls.clone();
    tokio_postgres::tls::MakeTlsConnect::<Allowed>::make_tls_connect(&mut tls, host).map_err(Error::unavailable)
}

async fn open(place: &Place) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await.map_err(Error::unavailable)?;
    stream.set_nodelay(true).map_err(Error::unavailable)?;
    Ok(stream)
}

/// The database's own words, without the driver's around them.
fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(database), _) => format!("{} ({})", database.message(), database.code().code()),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    }
}

#[async_trait]
impl Session for Postgres {
    async fn run(&mut self, batch: &Batch) -> Result<Vec<Outcome>, Fail> {
        // Rows come with names and types around them, and a little more.
        let room = u64::try_from(batch.max_bytes).unwrap_or(u64::MAX);
        self.allowance.set(room.saturating_mul(2).saturating_add(IDLE_BYTES));
        let mark = format!("{:032x}", rand::random::<u128>());
        let ran = self.transact(batch, &mark).await;
        let Err(mut fail) = ran else { return ran };
        let mid_way = matches!(
            fail.error,
            Error::Timeout | Error::TooLarge(_) | Error::Unavailable(_) | Error::OutcomeUnknown(_)
        );
        if !mid_way && !self.client.is_closed() {
            let back = within(batch.statement_time, self.client.batch_execute("ROLLBACK")).await;
            fail.keep = matches!(back, Ok(Ok(())));
        }
        Err(fail)
    }

    async fn reset(&mut self) -> bool {
        self.allowance.set(IDLE_BYTES);
        !self.client.is_closed() && self.client.batch_execute("DISCARD ALL").await.is_ok()
    }

    async fn server(&mut self) -> Result<String, Error> {
        let read = |e: tokio_postgres::Error| Error::unavailable(said(&e));
        let row = self.client.query_one("SELECT version()", &[]).await.map_err(read)?;
        let version: String = row.try_get(0).map_err(read)?;
        Ok(version.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    }

    fn abort(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Ok(stream) = open(&self.place).await else { return };
            let stream = Allowed::new(stream, Arc::new(Allowance::new(IDLE_BYTES)));
            // Nothing is to be done where it cannot be cancelled: the server's own limit ends it.
            let _ = match &self.tls {
                Some(tls) => match connector(tls, &self.place.host) {
                    Ok(connect) => self.cancel.cancel_query_raw(stream, connect).await,
                    Err(_) => return,
                },
                None => self.cancel.cancel_query_raw(stream, NoTls).await,
            };
        })
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}
