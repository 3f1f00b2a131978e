//! What PostgreSQL's errors mean: to a transaction under way, and to a caller.

use tokio_postgres::error::SqlState;

use super::connect::Connector;
use crate::store::Error;

/// Why a database cannot be opened or migrated.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database's URL cannot be used: {0}; write it like postgres://USER:PASSWORD@HOST:5432/DATABASE")]
    Url(String),
    #[error("the certificates for the database's connection cannot be used: {0}")]
    Tls(String),
    #[error("the server is PostgreSQL {found}; {oldest} is the oldest that can be used")]
    Server { found: i32, oldest: i32 },
    #[error("the database is encoded in {0}; make one with ENCODING 'UTF8'")]
    Encoding(String),
    #[error(
        "the database is of a newer version ({found}) than this program knows ({known}); run the newer program, or migrate down with it first"
    )]
    Newer { found: u32, known: u32 },
    #[error("the database lacks migrations (it is at {found}, this program needs {known}); run `lapse migrate up`")]
    Older { found: u32, known: u32 },
    #[error(
        "the database was made with {found} shards and this program has {known}: the number cannot be changed under live timers"
    )]
    Shards { found: i64, known: u16 },
    #[error(
        "the audit in the {place} is chained with another key than this node's; every node needs the same: take the first node's server.key, and give it with store.key (LAPSE_STORE__KEY) or store.key_file"
    )]
    Key { place: String },
    #[error("there is no migration {wanted}; the newest is {known}")]
    NoSuchMigration { wanted: u32, known: u32 },
    #[error("the {place} cannot be used: {why}")]
    Database { place: String, why: Error },
}

impl OpenError {
    pub(super) fn database(connector: &Connector, fault: Fault) -> Self {
        Self::Database { place: connector.place(), why: fault.into() }
    }
}

/// What went wrong in one go at a transaction, or in a read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server ended it in favour of another: the same again may well succeed.
    #[error("the database ended the transaction in favour of another ({0})")]
    Conflict(String),
    /// One of the rows cannot be stored, or one read cannot be understood.
    #[error("{0}")]
    Data(String),
    #[error("the server is read-only: it is no longer the one that writes")]
    ReadOnly,
    #[error("{0}")]
    Refused(String),
    /// Another transaction holds a row, and did not let go of it in time.
    #[error("another transaction holds what is to be changed ({0})")]
    Locked(String),
    /// The connection is gone, or the server is going.
    #[error("{0}")]
    Broken(String),
    /// Waited for too long; what the connection is doing is not known.
    #[error("{0}")]
    Timeout(&'static str),
    /// The commit was sent, and no answer came.
    #[error("{0}")]
    Unknown(String),
    #[error("the store is stopping")]
    Closed,
}

impl Fault {
    /// Whether the connection can be used again, once a transaction that is open on it was rolled back.
    pub(super) fn spares_connection(&self) -> bool {
        matches!(self, Self::Conflict(_) | Self::Data(_) | Self::Refused(_) | Self::Locked(_))
    }

    /// What the same fault means when it is the answer to a commit.
    pub(super) fn at_commit(self) -> Self {
        match self {
            Self::Conflict(_) | Self::Data(_) | Self::ReadOnly | Self::Closed => self,
            Self::Refused(why) | Self::Locked(why) | Self::Broken(why) | Self::Unknown(why) => Self::Unknown(why),
            Self::Timeout(why) => Self::Unknown(why.into()),
        }
    }

    /// What the same fault means for a statement that is its own transaction: what the server has refused did not
    /// happen, but if the connection broke it may have.
    pub(super) fn in_flight(self) -> Self {
        match self {
            Self::Broken(why) => Self::Unknown(why),
            Self::Timeout(why) => Self::Unknown(why.into()),
            other => other,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            let whole = match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            // A value that does not fit its column's type never leaves this process.
            let is_ours = whole.starts_with("error deserializing") || whole.starts_with("error serializing");
            return if is_ours { Self::Data(whole) } else { Self::Broken(whole) };
        };
        let told = format!("{} ({})", db.message(), db.code().code());
        let code = db.code();
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED {
            return Self::Conflict(told);
        }
        // How a write says that a row was not as it had been read.
        if *code == SqlState::DIVISION_BY_ZERO {
            return Self::Conflict("a row that was read was changed by another since".into());
        }
        if *code == SqlState::LOCK_NOT_AVAILABLE {
            return Self::Locked(told);
        }
        if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            return Self::ReadOnly;
        }
        let is_fatal = matches!(
            db.parsed_severity(),
            Some(tokio_postgres::error::Severity::Fatal | tokio_postgres::error::Severity::Panic)
        );
        match code.code().get(..2) {
            _ if is_fatal => Self::Broken(told),
            // Data exceptions, constraints, limits of size.
            Some("22" | "23" | "54") => Self::Data(told),
            // The connection; its prepared statements, which no longer fit the tables; a server that starts or stops
            // (57P…; a cancelled statement is 57014).
            Some("08" | "0A" | "26") => Self::Broken(told),
            Some("57") if *code != SqlState::QUERY_CANCELED => Self::Broken(told),
            _ => Self::Refused(told),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Data(why) => Self::Data(why),
            Fault::Unknown(why) => Self::OutcomeUnknown(why),
            Fault::Closed => Self::Stopped,
            other => Self::Unavailable(other.to_string()),
        }
    }
}
