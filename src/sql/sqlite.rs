//! SQLite: one file, on threads that may block. What a statement may touch, SQLite's own authorizer says.

use std::{
    ffi::c_int,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat};
use futures_util::future::BoxFuture;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, ffi,
    hooks::{AuthAction, AuthContext, Authorization},
    types::{ToSqlOutput, Value as Raw, ValueRef},
};

use super::{
    Batch, Error, Mode, Outcome, Room, Statement, Value,
    error::{Fail, Stopped},
    guard,
    pool::Session,
    too_many_bytes,
};

/// Steps of SQLite's machine between two looks at the clock.
const STEPS: c_int = 1_000;
/// What a row may have beyond the bytes that are asked for.
const LENGTH_MARGIN: usize = 64 * 1024;

pub(super) struct Sqlite {
    /// Away while a batch runs on another thread; not there any more if its caller has gone.
    conn: Option<Connection>,
}

/// What stops a running batch.
#[derive(Default)]
struct Stop {
    given_up: AtomicBool,
}

/// Gives a batch up when it is dropped.
struct GiveUp(Arc<Stop>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.given_up.store(true, Ordering::Relaxed);
    }
}

impl Sqlite {
    pub async fn open(path: PathBuf, max_bytes: usize) -> Result<Self, Error> {
        let open = move || -> rusqlite::Result<Connection> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let conn = Connection::open_with_flags(path, flags)?;
            conn.execute_batch("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;")?;
            let limit = c_int::try_from(max_bytes.saturating_add(LENGTH_MARGIN)).unwrap_or(c_int::MAX);
            // SAFETY: the handle is open, and setting a limit touches nothing else.
            unsafe {
                ffi::sqlite3_limit(conn.handle(), ffi::SQLITE_LIMIT_LENGTH, limit);
                ffi::sqlite3_limit(conn.handle(), ffi::SQLITE_LIMIT_ATTACHED, 0);
            }
            Ok(conn)
        };
        let opened = tokio::task::spawn_blocking(open).await.map_err(Error::unavailable)?;
        Ok(Self { conn: Some(opened.map_err(Error::unavailable)?) })
    }
}

/// What runs on the blocking thread; it needs all of it for itself.
struct Run {
    conn: Connection,
    statements: Vec<Statement>,
    mode: Mode,
    statement_time: Duration,
    room: Room,
    max_bytes: usize,
    stop: Arc<Stop>,
}

impl Run {
    fn transact(&mut self) -> Result<Vec<Outcome>, Fail> {
        let failed = |e: rusqlite::Error, at: usize, bytes: usize| Fail::of(read(&e, at, bytes));
        let bytes = self.max_bytes;
        self.conn.busy_timeout(self.statement_time).map_err(|e| failed(e, 0, bytes))?;
        let begin = if self.mode == Mode::Read { "BEGIN DEFERRED" } else { "BEGIN IMMEDIATE" };
        self.conn.execute_batch(begin).map_err(|e| failed(e, 0, bytes))?;
        let ran = self.statements();
        let _ = self.conn.authorizer(None::<fn(AuthContext<'_>) -> Authorization>);
        let _ = self.conn.progress_handler(0, None::<fn() -> bool>);
        let outcomes = match ran {
            Ok(outcomes) => outcomes,
            Err(mut fail) => {
                let is_over = self.conn.is_autocommit() || self.conn.execute_batch("ROLLBACK").is_ok();
                fail.keep = is_over;
                return Err(fail);
            }
        };
        if self.conn.is_autocommit() {
            let ended = Error::fault(self.statements.len(), "the batch has ended its own transaction");
            return Err(Fail::broken(Error::Invalid(ended)));
        }
        self.conn.execute_batch("COMMIT").map_err(|e| {
            let mut fail = failed(e, self.statements.len(), bytes);
            fail.keep = self.conn.is_autocommit() || self.conn.execute_batch("ROLLBACK").is_ok();
            fail
        })?;
        Ok(outcomes)
    }

    fn statements(&mut self) -> Result<Vec<Outcome>, Fail> {
        let bytes = self.max_bytes;
        self.conn.authorizer(Some(authorize)).map_err(|e| Fail::of(read(&e, 0, bytes)))?;
        let mut outcomes = Vec::with_capacity(self.statements.len());
        for at in 0..self.statements.len() {
            let (stop, deadline) = (Arc::clone(&self.stop), Instant::now() + self.statement_time);
            let is_over = move || stop.given_up.load(Ordering::Relaxed) || Instant::now() >= deadline;
            self.conn.progress_handler(STEPS, Some(is_over)).map_err(|e| Fail::of(read(&e, at, bytes)))?;
            let statement = &self.statements[at];
            let ran = statement_on(&self.conn, (at, statement), self.mode, &mut self.room);
            let outcome = ran.map_err(|e| match e {
                Stopped::Said(e) => read(&e, at, bytes),
                Stopped::Error(error) => error,
            })?;
            guard(at, statement, &outcome)?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

/// Runs the statement that stands at this place.
fn statement_on(
    conn: &Connection,
    (at, statement): (usize, &Statement),
    mode: Mode,
    room: &mut Room,
) -> Result<Outcome, Stopped<rusqlite::Error>> {
    let invalid = |why: String| Stopped::Error(Error::Invalid(Error::fault(at, why)));
    // Refuses what stands behind a first statement.
    let mut prepared = conn.prepare(&statement.text)?;
    if mode == Mode::Read && !prepared.readonly() {
        return Err(invalid("a read changes nothing".to_owned()));
    }
    let mut used = vec![false; statement.parameters.len()];
    for index in 1..=prepared.parameter_count() {
        let number = prepared.parameter_name(index).and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let number = number.ok_or_else(|| invalid("write parameters as $1, $2 and so on".to_owned()))?;
        let place = number.checked_sub(1).filter(|place| *place < used.len());
        let place = place.ok_or_else(|| invalid(format!("there is no parameter ${number}")))?;
        used[place] = true;
        prepared.raw_bind_parameter(index, param(&statement.parameters[place]).map_err(invalid)?)?;
    }
    if let Some(unused) = used.iter().position(|used| !used) {
        return Err(invalid(format!("the parameter ${} is not used", unused + 1)));
    }
    let before = conn.total_changes();
    let columns: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let mut outcome = Outcome { columns, ..Outcome::default() };
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        let values = (0..outcome.columns.len())
            .map(|n| value_of(row.get_ref(n)?).map_err(invalid))
            .collect::<Result<Vec<_>, _>>()?;
        room.take(&values).map_err(Stopped::Error)?;
        outcome.rows.push(values);
    }
    drop(rows);
    outcome.rows_affected = if outcome.columns.is_empty() {
        if prepared.readonly() { 0 } else { conn.changes().min(conn.total_changes() - before) }
    } else {
        u64::try_from(outcome.rows.len()).unwrap_or(u64::MAX)
    };
    Ok(outcome)
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Insert { .. }
        | AuthAction::Update { .. }
        | AuthAction::Delete { .. }
        | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

fn param(value: &Value) -> Result<ToSqlOutput<'_>, String> {
    let text = |text: &'_ str| ToSqlOutput::Owned(Raw::Text(text.to_owned()));
    Ok(match value {
        Value::Null => ToSqlOutput::Owned(Raw::Null),
        Value::Boolean(value) => ToSqlOutput::Owned(Raw::Integer(i64::from(*value))),
        Value::Integer(value) => ToSqlOutput::Owned(Raw::Integer(*value)),
        Value::Real(value) => ToSqlOutput::Owned(Raw::Real(*value)),
        Value::Decimal(value) | Value::Text(value) | Value::Json(value) => text(value),
        Value::Bytes(value) => ToSqlOutput::Owned(Raw::Blob(value.clone())),
        Value::Timestamp(us) => {
            let at = DateTime::from_timestamp_micros(*us).ok_or("the timestamp is out of range")?;
            text(&at.to_rfc3339_opts(SecondsFormat::Micros, true))
        }
    })
}

fn value_of(raw: ValueRef<'_>) -> Result<Value, String> {
    Ok(match raw {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| "a text is not UTF-8")?;
            Value::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    })
}

fn read(error: &rusqlite::Error, at: usize, max_bytes: usize) -> Error {
    let rusqlite::Error::SqliteFailure(failure, message) = error else {
        return Error::Invalid(Error::fault(at, error.to_string()));
    };
    let fault = Error::fault(at, message.clone().unwrap_or_else(|| failure.to_string()));
    match (failure.code, failure.extended_code) {
        (ErrorCode::ConstraintViolation, ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => {
            Error::Unique(fault)
        }
        (ErrorCode::ConstraintViolation, _) => Error::Constraint(fault),
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Error::Busy(fault),
        (ErrorCode::OperationInterrupted, _) => Error::Timeout,
        (ErrorCode::TooBig, _) => too_many_bytes(max_bytes),
        (
            ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::OutOfMemory,
            _,
        ) => Error::Unavailable(fault.message),
        _ => Error::Invalid(fault),
    }
}

#[async_trait]
impl Session for Sqlite {
    async fn run(&mut self, batch: &Batch) -> Result<Vec<Outcome>, Fail> {
        let Some(conn) = self.conn.take() else {
            return Err(Fail::broken(Error::unavailable("the connection was given up")));
        };
        let stop = Arc::new(Stop::default());
        let _give_up = GiveUp(Arc::clone(&stop));
        let mut run = Run {
            conn,
            statements: batch.statements.clone(),
            mode: batch.mode,
            statement_time: batch.statement_time,
            room: Room::of(batch),
            max_bytes: batch.max_bytes,
            stop,
        };
        let ran = tokio::task::spawn_blocking(move || (run.transact(), run.conn)).await;
        let (ended, conn) = ran.map_err(|e| Fail::broken(Error::unavailable(e)))?;
        self.conn = Some(conn);
        ended
    }

    async fn reset(&mut self) -> bool {
        // Nothing can be set on it: the authorizer lets no statement do so.
        self.conn.is_some()
    }

    async fn server(&mut self) -> Result<String, Error> {
        let conn = self.conn.as_ref().ok_or_else(|| Error::unavailable("the connection was given up"))?;
        let count: i64 =
            conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(Error::unavailable)?;
        Ok(format!("SQLite {}, {count} objects", rusqlite::version()))
    }

    fn abort(self: Box<Self>) -> BoxFuture<'static, ()> {
        // The batch was told to stop when its future was dropped.
        Box::pin(async {})
    }

    fn is_closed(&self) -> bool {
        self.conn.is_none()
    }
}
