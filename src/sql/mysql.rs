//! MySQL and MariaDB. Each statement is prepared, which takes one statement only.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::{DateTime, Datelike as _, NaiveDate, Timelike as _};
use futures_util::future::BoxFuture;
use mysql_async::{
    Column, Conn, Opts, OptsBuilder, Params, SslOpts, Value as Raw,
    consts::{ColumnFlags, ColumnType},
    prelude::Queryable as _,
};

use super::{
    Batch, Error, Mode, Outcome, Room, Statement, Value,
    endpoint::Place,
    error::{Fail, Stopped, within},
    guard,
    pool::Session,
    tls, too_many_bytes,
};
use crate::config::Secret;

/// The number of the character set that means bytes.
const BINARY: u16 = 63;
/// The smallest packet that is let through: the greeting and the answers to what the host itself says.
const LEAST_PACKET: usize = 64 * 1024;

pub(super) struct Mysql {
    conn: Conn,
    opts: Opts,
    statement_time: Duration,
}

impl Mysql {
    pub async fn connect(
        place: &Arc<Place>,
        password: &Secret,
        ca: &Path,
        statement_time: Duration,
        max_bytes: usize,
    ) -> Result<Self, Error> {
        let tls = if place.tls {
            // The driver's own choice, which another room may have made already.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let roots = tls::trusted(ca)?.into_iter().map(|certificate| certificate.to_vec().into()).collect();
            Some(SslOpts::default().with_root_certs(roots).with_disable_built_in_roots(true))
        } else {
            None
        };
        let opts: Opts = OptsBuilder::default()
            .ip_or_hostname(&place.host)
            .tcp_port(place.port)
            .user(Some(&place.user))
            .pass(Some(password.reveal()).filter(|p| !p.is_empty()))
            .db_name(Some(&place.database))
            .prefer_socket(false)
            .stmt_cache_size(0)
            // A row that an update finds as it should be is one that it changed, as everywhere else.
            .client_found_rows(true)
            .max_allowed_packet(Some(max_bytes.saturating_mul(2).max(LEAST_PACKET)))
            .ssl_opts(tls)
            .into();
        let conn = Conn::new(opts.clone()).await.map_err(|e| Error::unavailable(said(&e)))?;
        let mut session = Self { conn, opts, statement_time };
        session.furnish().await.map_err(|e| Error::unavailable(said(&e)))?;
        Ok(session)
    }

    async fn furnish(&mut self) -> Result<(), mysql_async::Error> {
        let lock_s = self.statement_time.as_secs().max(1);
        self.conn.query_drop(format!("SET time_zone = '+00:00', innodb_lock_wait_timeout = {lock_s}")).await?;
        // The one is MariaDB's, and for every statement; the other MySQL's, and for reads.
        let time_s = self.statement_time.as_secs_f64();
        match self.conn.query_drop(format!("SET max_statement_time = {time_s}")).await {
            Err(mysql_async::Error::Server(_)) => {
                let time_ms = self.statement_time.as_millis();
                self.conn.query_drop(format!("SET max_execution_time = {time_ms}")).await
            }
            other => other,
        }
    }

    async fn transact(&mut self, batch: &Batch) -> Result<Vec<Outcome>, Fail> {
        let time = batch.statement_time;
        let failed = |e: mysql_async::Error, at: usize| Fail::of(read(&e, at, batch));
        let mark = format!("lapse_{:032x}", rand::random::<u128>());
        let begin = if batch.mode == Mode::Read { "START TRANSACTION READ ONLY" } else { "START TRANSACTION" };
        within(time, self.conn.query_drop(begin)).await?.map_err(|e| failed(e, 0))?;
        within(time, self.conn.query_drop(format!("SAVEPOINT {mark}"))).await?.map_err(|e| failed(e, 0))?;
        let mut room = Room::of(batch);
        let mut outcomes = Vec::with_capacity(batch.statements.len());
        for (at, statement) in batch.statements.iter().enumerate() {
            let ran = within(time, self.statement(statement, &mut room, at)).await?;
            let outcome = ran.map_err(|e| match e {
                Stopped::Said(e) => failed(e, at),
                Stopped::Error(error) => Fail::broken(error),
            })?;
            guard(at, statement, &outcome)?;
            outcomes.push(outcome);
        }
        let end = batch.statements.len();
        let ours = within(time, self.conn.query_drop(format!("RELEASE SAVEPOINT {mark}"))).await?;
        ours.map_err(|e| match e {
            // There is no such savepoint any more.
            mysql_async::Error::Server(e) if e.code == 1305 => {
                Fail::broken(Error::Invalid(Error::fault(end, "the batch has ended its own transaction")))
            }
            e => failed(e, end),
        })?;
        batch.committing.store(true, std::sync::atomic::Ordering::Relaxed);
        let committed = within(time, self.conn.query_drop("COMMIT"))
            .await
            .map_err(|_| Fail::broken(Error::OutcomeUnknown("the commit was not answered in time".to_owned())))?;
        committed.map_err(|e| failed(e, end))?;
        Ok(outcomes)
    }

    async fn statement(
        &mut self,
        statement: &Statement,
        room: &mut Room,
        at: usize,
    ) -> Result<Outcome, Stopped<mysql_async::Error>> {
        let invalid = |why: String| Stopped::Error(Error::Invalid(Error::fault(at, why)));
        let params = statement.parameters.iter().map(param).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
        let params = if params.is_empty() { Params::Empty } else { Params::Positional(params) };
        let mut result = self.conn.exec_iter(statement.text.as_str(), params).await?;
        let mut outcome = Outcome::default();
        let columns = result.columns();
        if let Some(columns) = &columns {
            outcome.columns = columns.iter().map(|c| c.name_str().into_owned()).collect();
        }
        while let Some(row) = result.next().await? {
            let columns = columns.as_deref().unwrap_or_default();
            let values = row.unwrap().into_iter().zip(columns);
            let row = values.map(|(value, column)| value_of(value, column)).collect::<Result<Vec<_>, _>>();
            let row = row.map_err(invalid)?;
            room.take(&row).map_err(Stopped::Error)?;
            outcome.rows.push(row);
        }
        outcome.rows_affected = if outcome.columns.is_empty() {
            result.affected_rows()
        } else {
            u64::try_from(outcome.rows.len()).unwrap_or(u64::MAX)
        };
        result.drop_result().await?;
        Ok(outcome)
    }
}

/// The numbers are those of MySQL's and MariaDB's lists of error codes.
fn read(error: &mysql_async::Error, at: usize, batch: &Batch) -> Error {
    let mysql_async::Error::Server(server) = error else {
        let why = said(error);
        if why.contains("too large") || why.contains("max_allowed_packet") {
            return too_many_bytes(batch.max_bytes);
        }
        if let mysql_async::Error::Driver(mysql_async::DriverError::StmtParamsMismatch { .. }) = error {
            return Error::Invalid(Error::fault(at, why));
        }
        return if batch.is_committing() { Error::OutcomeUnknown(why) } else { Error::unavailable(why) };
    };
    let fault = Error::fault(at, format!("{} ({})", server.message, server.code));
    match server.code {
        1022 | 1062 | 1169 | 1586 => Error::Unique(fault),
        1048 | 1216 | 1217 | 1364 | 1451 | 1452 | 1557 | 1761 | 1762 | 3819 | 4025 => Error::Constraint(fault),
        1205 | 1213 | 1020 => Error::Busy(fault),
        1317 | 1969 | 3024 => Error::Timeout,
        1021 | 1037 | 1038 | 1040 | 1041 | 1053 | 1077 | 1129 | 1203 | 1226 | 1290 | 1836 | 1927 | 3100 => {
            Error::Unavailable(fault.message)
        }
        _ => Error::Invalid(fault),
    }
}

fn said(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(e) => format!("{} ({})", e.message, e.code),
        other => other.to_string(),
    }
}

fn param(value: &Value) -> Result<Raw, String> {
    Ok(match value {
        Value::Null => Raw::NULL,
        Value::Boolean(value) => Raw::Int(i64::from(*value)),
        Value::Integer(value) => Raw::Int(*value),
        Value::Real(value) => Raw::Double(*value),
        Value::Decimal(text) | Value::Text(text) | Value::Json(text) => Raw::Bytes(text.clone().into_bytes()),
        Value::Bytes(bytes) => Raw::Bytes(bytes.clone()),
        Value::Timestamp(us) => {
            let at = DateTime::from_timestamp_micros(*us).ok_or("the timestamp is out of range")?.naive_utc();
            let small = |n: u32| u8::try_from(n).unwrap_or(0);
            let year = u16::try_from(at.year()).map_err(|_| "the timestamp is out of range")?;
            Raw::Date(
                year,
                small(at.month()),
                small(at.day()),
                small(at.hour()),
                small(at.minute()),
                small(at.second()),
                at.nanosecond() / 1000,
            )
        }
    })
}

fn value_of(raw: Raw, column: &Column) -> Result<Value, String> {
    let named = |why: &str| format!("column {:?} {why}", column.name_str());
    Ok(match raw {
        Raw::NULL => Value::Null,
        Raw::Int(value) => Value::Integer(value),
        Raw::UInt(value) => i64::try_from(value).map_or_else(|_| Value::Decimal(value.to_string()), Value::Integer),
        Raw::Float(value) => Value::Real(value.into()),
        Raw::Double(value) => Value::Real(value),
        Raw::Bytes(bytes) => {
            let of = column.column_type();
            let is_blob = column.character_set() == BINARY && column.flags().contains(ColumnFlags::BINARY_FLAG);
            let is_number = matches!(of, ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL);
            if is_blob && !is_number && of != ColumnType::MYSQL_TYPE_JSON {
                return Ok(Value::Bytes(bytes));
            }
            let text = String::from_utf8(bytes).map_err(|_| named("is not UTF-8"))?;
            match of {
                _ if is_number => Value::Decimal(text),
                ColumnType::MYSQL_TYPE_JSON => Value::Json(text),
                _ => Value::Text(text),
            }
        }
        Raw::Date(year, month, day, hour, minute, second, micro) => {
            let date = NaiveDate::from_ymd_opt(year.into(), month.into(), day.into())
                .ok_or_else(|| named("is a date that there is not"))?;
            if column.column_type() == ColumnType::MYSQL_TYPE_DATE {
                return Ok(Value::Text(date.to_string()));
            }
            let at = date
                .and_hms_micro_opt(hour.into(), minute.into(), second.into(), micro)
                .ok_or_else(|| named("is a time that there is not"))?;
            Value::Timestamp(at.and_utc().timestamp_micros())
        }
        Raw::Time(is_negative, days, hours, minutes, seconds, micro) => {
            let sign = if is_negative { "-" } else { "" };
            let hours = u64::from(days) * 24 + u64::from(hours);
            Value::Text(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}.{micro:06}"))
        }
    })
}

#[async_trait]
impl Session for Mysql {
    async fn run(&mut self, batch: &Batch) -> Result<Vec<Outcome>, Fail> {
        let ran = self.transact(batch).await;
        let Err(mut fail) = ran else { return ran };
        let mid_way = matches!(
            fail.error,
            Error::Timeout | Error::TooLarge(_) | Error::Unavailable(_) | Error::OutcomeUnknown(_)
        );
        if !mid_way && !self.conn.is_disconnected() {
            let back = within(batch.statement_time, self.conn.query_drop("ROLLBACK")).await;
            fail.keep = matches!(back, Ok(Ok(())));
        }
        Err(fail)
    }

    async fn reset(&mut self) -> bool {
        // A server too old to do it is connected to anew each time.
        matches!(self.conn.reset().await, Ok(true)) && self.furnish().await.is_ok()
    }

    async fn server(&mut self) -> Result<String, Error> {
        let version: Option<String> =
            self.conn.query_first("SELECT version()").await.map_err(|e| Error::unavailable(said(&e)))?;
        let version = version.unwrap_or_default();
        let product = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
        Ok(format!("{product} {}", version.split('-').next().unwrap_or_default()))
    }

    fn abort(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let id = self.conn.id();
            if let Ok(mut other) = Conn::new(self.opts.clone()).await {
                // Fails if it has ended meanwhile.
                let _ = other.query_drop(format!("KILL {id}")).await;
                let _ = other.disconnect().await;
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.conn.is_disconnected()
    }
}
