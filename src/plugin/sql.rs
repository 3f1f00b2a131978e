//! The `sql` capability: batches on granted data sources, as they are set at the moment of the call.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    KeeperError, Standing,
    abi::v1::sql as wit,
    call::{CallState, NoSecret, Session},
    text::cut,
};
use crate::{
    domain::{id::Name, plugin::Right},
    sql::{Error, Fault, MAX_STATEMENTS, Mode, Outcome, Source, Statement, Value},
};

use wit::SqlError;

/// What is left of the call's time when a batch is given up, so that the plugin can still say something of it.
const MARGIN: Duration = Duration::from_millis(250);
/// What stands for a secret where a database says it.
const STARS: &str = "***";

/// The answer to a call that may make none.
pub fn refuse(state: &mut CallState, source: &str) -> SqlError {
    if !state.count_host_call() {
        return SqlError::TooManyCalls;
    }
    denied(state, source, Standing::NotGranted)
}

fn denied(state: &mut CallState, source: &str, standing: Standing) -> SqlError {
    SqlError::Denied(state.refuse(&format!("sql on {:?}", cut(source, 100)), standing))
}

/// Runs a batch, if the rights of the export that runs allow it.
pub async fn transact(
    state: &mut CallState,
    source: &str,
    statements: Vec<wit::Statement>,
) -> Result<Vec<wit::Outcome>, SqlError> {
    let outcomes = run(state, source, statements, Mode::Write).await?;
    Ok(outcomes.into_iter().map(lower).collect())
}

/// Runs one statement that changes nothing.
pub async fn read(state: &mut CallState, source: &str, statement: wit::Statement) -> Result<wit::Outcome, SqlError> {
    let outcomes = run(state, source, vec![statement], Mode::Read).await?;
    Ok(outcomes.into_iter().next().map_or_else(|| unreachable!("an outcome a statement"), lower))
}

async fn run(
    state: &mut CallState,
    source: &str,
    statements: Vec<wit::Statement>,
    mode: Mode,
) -> Result<Vec<Outcome>, SqlError> {
    let Some(session) = state.session.take() else { return Err(refuse(state, source)) };
    let ran = run_with(state, &session, source, statements, mode).await;
    state.session = Some(session);
    ran
}

async fn run_with(
    state: &mut CallState,
    session: &Session,
    asked: &str,
    statements: Vec<wit::Statement>,
    mode: Mode,
) -> Result<Vec<Outcome>, SqlError> {
    if !state.count_host_call() {
        return Err(SqlError::TooManyCalls);
    }
    let Ok(name) = asked.parse::<Name>() else { return Err(denied(state, asked, Standing::NotGranted)) };
    let standing =
        session.rights.standing(state.export, |right| matches!(right, Right::Sql { source } if *source == name));
    if standing != Standing::Granted {
        return Err(denied(state, asked, standing));
    }
    if statements.len() > MAX_STATEMENTS {
        return Err(SqlError::TooLarge(format!("a batch has at most {MAX_STATEMENTS} statements")));
    }
    let source = source(session, &name).await?;
    let mut secrets = Vec::new();
    let mut batch = Vec::with_capacity(statements.len());
    for statement in statements {
        batch.push(lift(state, session, statement, &mut secrets).await?);
    }
    let Some(gate) = state.gate.as_mut() else { return Err(denied(state, asked, Standing::NotGranted)) };
    let permit = gate.admit(&format!("sql:{name}")).map_err(|refused| SqlError::Unavailable(refused.to_string()))?;
    let began = Instant::now();
    let time = state.meter.wall_left().saturating_sub(MARGIN);
    let ran = session.access.databases.run(&source, batch, mode, time).await;
    let elapsed_ms = began.elapsed().as_millis();
    match &ran {
        Err(Error::Unavailable(why) | Error::OutcomeUnknown(why)) => permit.failed(why.clone()),
        // A statement that takes too long is its author's doing; a server that answers nothing lets nobody connect.
        Ok(_) | Err(_) => permit.succeeded(),
    }
    ran.map_err(|error| {
        let error = without(error, &secrets);
        // What a database says may hold the business's data.
        tracing::debug!(sql.source = %name, elapsed_ms, error.kind = kind(&error), "a plugin's batch was not carried out");
        raise(error)
    })
    .inspect(|_| tracing::debug!(sql.source = %name, elapsed_ms, "a plugin's batch was carried out"))
}

async fn source(session: &Session, name: &Name) -> Result<Source, SqlError> {
    match session.access.keeper.source(&session.namespace, name).await {
        Ok(Some(source)) => Ok(source),
        Ok(None) => {
            session.access.databases.forget(&session.namespace, name);
            Err(SqlError::NoSource(format!("there is no data source {name}")))
        }
        Err(KeeperError(why)) => Err(SqlError::Unavailable(why)),
    }
}

async fn lift(
    state: &mut CallState,
    session: &Session,
    given: wit::Statement,
    secrets: &mut Vec<String>,
) -> Result<Statement, SqlError> {
    let mut parameters = Vec::with_capacity(given.parameters.len());
    for parameter in given.parameters {
        parameters.push(match parameter {
            wit::Parameter::Value(value) => lift_value(value),
            wit::Parameter::Secret(name) => match session.secret(state, &name).await {
                Ok(secret) => {
                    secrets.push(secret.reveal().to_owned());
                    Value::Text(secret.reveal().to_owned())
                }
                Err(NoSecret::Denied(why)) => return Err(SqlError::Denied(why)),
                Err(NoSecret::Unavailable(why)) => return Err(SqlError::Unavailable(why)),
            },
        });
    }
    Ok(Statement { text: given.text, parameters, expect_rows: given.expect_rows })
}

fn lift_value(value: wit::Value) -> Value {
    match value {
        wit::Value::Null => Value::Null,
        wit::Value::Boolean(value) => Value::Boolean(value),
        wit::Value::Integer(value) => Value::Integer(value),
        wit::Value::Real(value) => Value::Real(value),
        wit::Value::Decimal(value) => Value::Decimal(value),
        wit::Value::Text(value) => Value::Text(value),
        wit::Value::Bytes(value) => Value::Bytes(value),
        wit::Value::Timestamp(value) => Value::Timestamp(value),
        wit::Value::Json(value) => Value::Json(value),
    }
}

fn lower(outcome: Outcome) -> wit::Outcome {
    let value = |value| match value {
        Value::Null => wit::Value::Null,
        Value::Boolean(value) => wit::Value::Boolean(value),
        Value::Integer(value) => wit::Value::Integer(value),
        Value::Real(value) => wit::Value::Real(value),
        Value::Decimal(value) => wit::Value::Decimal(value),
        Value::Text(value) => wit::Value::Text(value),
        Value::Bytes(value) => wit::Value::Bytes(value),
        Value::Timestamp(value) => wit::Value::Timestamp(value),
        Value::Json(value) => wit::Value::Json(value),
    };
    wit::Outcome {
        rows_affected: outcome.rows_affected,
        columns: outcome.columns,
        rows: outcome.rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect(),
    }
}

/// A database may repeat what it was given.
fn without(error: Error, secrets: &[String]) -> Error {
    let clean = |text: String| secrets.iter().fold(text, |text, secret| text.replace(secret.as_str(), STARS));
    let fault = |Fault { statement, message }| Fault { statement, message: clean(message) };
    match error {
        Error::Invalid(f) => Error::Invalid(fault(f)),
        Error::Unique(f) => Error::Unique(fault(f)),
        Error::Constraint(f) => Error::Constraint(fault(f)),
        Error::Busy(f) => Error::Busy(fault(f)),
        Error::Unavailable(why) => Error::Unavailable(clean(why)),
        Error::OutcomeUnknown(why) => Error::OutcomeUnknown(clean(why)),
        other => other,
    }
}

fn raise(error: Error) -> SqlError {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let fault = |Fault { statement, message }| wit::Fault { statement: number(statement), message };
    match error {
        Error::Invalid(f) => SqlError::Invalid(fault(f)),
        Error::Guard { statement, expected, actual } => {
            SqlError::GuardFailed(wit::Guard { statement: number(statement), expected, actual })
        }
        Error::Unique(f) => SqlError::Unique(fault(f)),
        Error::Constraint(f) => SqlError::Constraint(fault(f)),
        Error::Busy(f) => SqlError::Busy(fault(f)),
        Error::Timeout => SqlError::Timeout,
        Error::TooLarge(why) => SqlError::TooLarge(why),
        Error::Misplaced(why) => SqlError::NoSource(why),
        Error::Unavailable(why) => SqlError::Unavailable(why),
        Error::OutcomeUnknown(why) => SqlError::OutcomeUnknown(why),
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Invalid(_) => "invalid",
        Error::Guard { .. } => "guard",
        Error::Unique(_) => "unique",
        Error::Constraint(_) => "constraint",
        Error::Busy(_) => "busy",
        Error::Timeout => "timeout",
        Error::TooLarge(_) => "too_large",
        Error::Misplaced(_) => "misplaced",
        Error::Unavailable(_) => "unavailable",
        Error::OutcomeUnknown(_) => "outcome_unknown",
    }
}
