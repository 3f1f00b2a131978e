//! What SQLite's errors mean to a caller.

use std::path::PathBuf;

use rusqlite::ErrorCode;

use crate::store::Error;

/// Why a database cannot be opened or migrated.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is in use by another process{holder}; stop that one, or choose another data folder")]
    Locked { path: PathBuf, holder: String },
    #[error(
        "the database {path} is of a newer version ({found}) than this program knows ({known}); run the newer program, or migrate down with it first"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "the database {path} lacks migrations (it is at {found}, this program needs {known}); run `lapse migrate up`"
    )]
    Older { path: PathBuf, found: u32, known: u32 },
    #[error(
        "the database {path} was made with {found} shards and this program has {known}: the number cannot be changed under live timers"
    )]
    Shards { path: PathBuf, found: i64, known: u16 },
    #[error(
        "the audit in {path} is chained with another key than this server's; bring back the server.key that belongs to it, or give that key with store.key or store.key_file"
    )]
    Key { path: PathBuf },
    #[error("there is no migration {wanted}; the newest is {known}")]
    NoSuchMigration { wanted: u32, known: u32 },
    #[error("{path} cannot be read or written: {why}")]
    File { path: PathBuf, why: std::io::Error },
    #[error("the database {path} cannot be used: {why}")]
    Database { path: PathBuf, why: Error },
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        match code {
            // The row itself is at fault: too large, or against a constraint; or it holds what this program cannot read.
            None
            | Some(
                ErrorCode::ConstraintViolation
                | ErrorCode::TooBig
                | ErrorCode::TypeMismatch
                | ErrorCode::ParameterOutOfRange,
            ) => Self::Data(error.to_string()),
            Some(ErrorCode::DiskFull) => Self::Unavailable("the disk is full".into()),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::Unavailable(format!("the database file cannot be written to ({error})"))
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Unavailable(format!(
                "the file is damaged, or is no SQLite database ({error}); restore it from a backup"
            )),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Unavailable(format!("the database is locked by another program ({error})"))
            }
            Some(_) => Self::Unavailable(error.to_string()),
        }
    }
}
