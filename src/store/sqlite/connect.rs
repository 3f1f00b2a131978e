//! Connections, each with the settings of its job.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags};

use crate::store::Error;

/// How long a connection waits for another's lock. Within this process none is held for long; the rest is for people
/// who look at the file with tools of their own.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Page caches, in KiB. The writer's holds the hot parts of the indexes.
const WRITER_CACHE_KIB: i64 = 64 * 1024;
const READER_CACHE_KIB: i64 = 8 * 1024;

/// What the WAL file is cut back to when it is reset after a peak.
const WAL_KEPT_BYTES: i64 = 64 * 1024 * 1024;

/// Opens the database for writing, and makes it if there is none.
pub(super) fn create(path: &Path) -> Result<Connection, Error> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    // In this order: it can be set only before the first page is written.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Error::Unavailable(format!(
            "the journal mode stays {mode}; a file system that can share memory is needed"
        )));
    }
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    Ok(conn)
}

/// Opens the database for reading only.
pub(super) fn reader(path: &Path) -> Result<Connection, Error> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Opens the database for checkpoints.
pub(super) fn checkpointer(path: &Path) -> Result<Connection, Error> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "journal_size_limit", WAL_KEPT_BYTES)?;
    Ok(conn)
}

/// Each connection is one thread's alone, so SQLite's own mutexes are left out.
fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    Ok(conn)
}
