//! Batches of statements on the data sources that an operator has granted.
//!
//! A batch is one transaction: all of it or none. A statement's parameters are `$1`, `$2` and so on, whatever the
//! database, and a statement may say how many rows it must change: another number rolls everything back.
//!
//! ```ignore
//! use lapse_plugin::sql::{Statement, Transaction};
//!
//! Transaction::on("shop")
//!     .then(Statement::new("INSERT INTO outbox (id, order_id) VALUES ($1, $2)").bind(&ctx.idempotency_key).bind(&order_id))
//!     .then(
//!         Statement::new("UPDATE orders SET status = 'closed' WHERE id = $1 AND status = 'pending'")
//!             .bind(&order_id)
//!             .expect_rows(1),
//!     )
//!     .run()?;
//! ```
//!
//! **A call may run again** after it was carried out: its node died before that was recorded, or the connection broke at
//! the commit. So let the first statement of a batch insert the call's idempotency key where it is unique: on a second
//! run it fails as [`SqlError::Unique`], nothing else happens, and the plugin knows that it is done.
//!
//! [`SqlError`] turns into a [`Failure`] by `?`:
//!
//! | Error | Class | What comes of it |
//! |---|---|---|
//! | `Busy` | transient | tried again soon (the host has tried some times already) |
//! | `Timeout`, `Unavailable`, `OutcomeUnknown` | downstream | tried again with longer waits |
//! | `Unique` | conflict | skipped, and recorded |
//! | `GuardFailed`, `Constraint`, `Invalid`, `Denied`, `NoSource`, `TooLarge`, `TooManyCalls` | permanent | failed, for a person to see |

use serde::Serialize;

use crate::{Failure, Whole, bindings::lapse::plugin::sql as wit};
pub use wit::{Fault, Guard, SqlError, Value};

/// One statement that reads or changes rows.
#[derive(Clone, Debug)]
pub struct Statement(wit::Statement);

impl Statement {
    pub fn new(text: impl Into<String>) -> Self {
        Self(wit::Statement { text: text.into(), parameters: vec![], expect_rows: None })
    }

    /// The next parameter: the first one is `$1`.
    pub fn bind(mut self, value: impl IntoValue) -> Self {
        self.0.parameters.push(wit::Parameter::Value(value.into_value()));
        self
    }

    /// The next parameter, as JSON.
    pub fn bind_json(self, value: &impl Serialize) -> Self {
        let json = serde_json::to_string(value).unwrap_or_else(|e| panic!("a value that is to be JSON cannot be: {e}"));
        self.bind(Value::Json(json))
    }

    /// The next parameter, as a time: milliseconds since 1970, as calls bring them.
    pub fn bind_time_ms(self, at_ms: u64) -> Self {
        let us = i64::try_from(at_ms).unwrap_or(i64::MAX / 1000).saturating_mul(1000);
        self.bind(Value::Timestamp(us))
    }

    /// The next parameter: a secret's text, which the host puts in and the plugin never sees. It needs a grant.
    pub fn bind_secret(mut self, name: &str) -> Self {
        self.0.parameters.push(wit::Parameter::Secret(name.into()));
        self
    }

    /// How many rows it must change or return.
    pub fn expect_rows(mut self, rows: u64) -> Self {
        self.0.expect_rows = Some(rows);
        self
    }

    /// Runs it by itself, in a transaction that cannot write.
    pub fn read(&self, source: &str) -> Result<Outcome, SqlError> {
        wit::read(source, &self.0).map(Outcome)
    }
}

/// Statements that happen together or not at all.
#[derive(Clone, Debug)]
pub struct Transaction {
    source: String,
    statements: Vec<wit::Statement>,
}

impl Transaction {
    pub fn on(source: &str) -> Self {
        Self { source: source.into(), statements: vec![] }
    }

    pub fn then(mut self, statement: Statement) -> Self {
        self.statements.push(statement.0);
        self
    }

    /// An outcome for each statement.
    pub fn run(&self) -> Result<Vec<Outcome>, SqlError> {
        Ok(wit::transact(&self.source, &self.statements)?.into_iter().map(Outcome).collect())
    }
}

/// What a statement came to.
#[derive(Clone, Debug)]
pub struct Outcome(wit::Outcome);

impl Outcome {
    /// Changed, or returned.
    pub fn rows_affected(&self) -> u64 {
        self.0.rows_affected
    }

    pub fn len(&self) -> usize {
        self.0.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.rows.is_empty()
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.0.rows.iter().map(|values| Row { columns: &self.0.columns, values })
    }

    pub fn first(&self) -> Option<Row<'_>> {
        self.rows().next()
    }
}

/// A row that a statement returned.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl<'a> Row<'a> {
    /// The column of this name; an error that says so if there is none.
    pub fn get(&self, column: &str) -> Result<&'a Value, Failure> {
        let at = self.columns.iter().position(|name| name == column);
        at.and_then(|at| self.values.get(at))
            .ok_or_else(|| Failure::permanent("column_missing", format!("the row has no column {column:?}")))
    }

    pub fn text(&self, column: &str) -> Result<&'a str, Failure> {
        match self.get(column)? {
            Value::Text(text) | Value::Json(text) | Value::Decimal(text) => Ok(text),
            other => Err(not(column, "text", other)),
        }
    }

    pub fn integer(&self, column: &str) -> Result<i64, Failure> {
        match self.get(column)? {
            Value::Integer(value) => Ok(*value),
            other => Err(not(column, "a whole number", other)),
        }
    }

    pub fn is_null(&self, column: &str) -> Result<bool, Failure> {
        Ok(matches!(self.get(column)?, Value::Null))
    }
}

fn not(column: &str, wanted: &str, found: &Value) -> Failure {
    let found = match found {
        Value::Null => "nothing",
        Value::Boolean(_) => "a truth value",
        Value::Integer(_) => "a whole number",
        Value::Real(_) => "a floating point number",
        Value::Decimal(_) => "a decimal number",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Timestamp(_) => "a time",
        Value::Json(_) => "JSON",
    };
    Failure::permanent("column_type", format!("the column {column:?} is to be {wanted}, and is {found}"))
}

/// What can be a parameter.
pub trait IntoValue {
    fn into_value(self) -> Value;
}

macro_rules! into_value {
    ($($from:ty => |$value:ident| $into:expr),+ $(,)?) => {
        $(impl IntoValue for $from {
            fn into_value(self) -> Value {
                let $value = self;
                $into
            }
        })+
    };
}

into_value! {
    Value => |value| value,
    &Value => |value| value.clone(),
    bool => |value| Value::Boolean(value),
    i32 => |value| Value::Integer(value.into()),
    u32 => |value| Value::Integer(value.into()),
    i64 => |value| Value::Integer(value),
    f64 => |value| Value::Real(value),
    &str => |value| Value::Text(value.into()),
    String => |value| Value::Text(value),
    &String => |value| Value::Text(value.clone()),
    Vec<u8> => |value| Value::Bytes(value),
    // Beyond what a database calls an integer it is still an exact number.
    u64 => |value| i64::try_from(value).map_or_else(|_| Value::Decimal(value.to_string()), Value::Integer),
    Whole => |value| value.0.into_value(),
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, IntoValue::into_value)
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let fault = |Fault { statement, message }: Fault| format!("statement {statement}: {message}");
        match error {
            SqlError::Busy(f) => Self::transient("sql_busy", fault(f)),
            SqlError::Timeout => Self::downstream("sql_timeout", "the data source did not answer in time"),
            SqlError::Unavailable(why) => Self::downstream("sql_unavailable", why),
            SqlError::OutcomeUnknown(why) => Self::downstream("sql_outcome_unknown", why),
            SqlError::Unique(f) => Self::conflict("sql_unique", fault(f)),
            SqlError::GuardFailed(Guard { statement, expected, actual }) => Self::permanent(
                "sql_guard",
                format!("statement {statement} had {actual} rows, where {expected} were expected"),
            ),
            SqlError::Constraint(f) => Self::permanent("sql_constraint", fault(f)),
            SqlError::Invalid(f) => Self::permanent("sql_invalid", fault(f)),
            SqlError::Denied(why) => Self::permanent("sql_denied", why),
            SqlError::NoSource(why) => Self::permanent("sql_no_source", why),
            SqlError::TooLarge(why) => Self::permanent("sql_too_large", why),
            SqlError::TooManyCalls => Self::permanent("too_many_calls", "the call has used up its host calls"),
        }
    }
}
