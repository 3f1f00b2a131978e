//! Numbered migrations, up and down, embedded from `migrations/sqlite/`. Each runs in a transaction of its own, with
//! its line in the table `migrations`.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{OpenError, connect, lock::Lock};
use crate::{
    clock::{Clock as _, SystemClock},
    domain::time::Timestamp,
    store::{
        Error,
        migration::{Migration, MigrationStatus, migration},
    },
};

/// In order of number.
const MIGRATIONS: &[Migration] = &[
    migration!("sqlite", 1, "0001", "base"),
    migration!("sqlite", 2, "0002", "pause"),
    migration!("sqlite", 3, "0003", "sealed"),
    migration!("sqlite", 4, "0004", "revisions"),
    migration!("sqlite", 5, "0005", "revoked"),
];

/// The number of the newest migration.
pub const NEWEST: u32 = MIGRATIONS[MIGRATIONS.len() - 1].number;

/// Applies what is missing; says what was applied.
pub fn migrate_up(path: &Path) -> Result<Vec<MigrationStatus>, OpenError> {
    let _lock = Lock::take(path)?;
    let mut conn = connect::create(path).map_err(|why| database(path, why))?;
    let before = applied(path, &conn)?;
    up(path, &mut conn)?;
    Ok(status(&conn).map_err(|why| database(path, why))?.into_iter().filter(|m| m.number > before).collect())
}

/// Takes back every migration above `to` (0 for all of them), with the data that only they hold; says which.
pub fn migrate_down(path: &Path, to: u32) -> Result<Vec<MigrationStatus>, OpenError> {
    if to > NEWEST {
        return Err(OpenError::NoSuchMigration { wanted: to, known: NEWEST });
    }
    let _lock = Lock::take(path)?;
    let mut conn = connect::create(path).map_err(|why| database(path, why))?;
    let at = applied(path, &conn)?;
    let mut undone = Vec::new();
    for migration in MIGRATIONS.iter().rev().filter(|m| m.number > to && m.number <= at) {
        run(&mut conn, migration.down, |conn| {
            conn.execute("DELETE FROM migrations WHERE number = ?1", params![migration.number]).map(drop)
        })
        .map_err(|why| database(path, why))?;
        undone.push(migration.status(None));
    }
    Ok(undone)
}

/// Every migration that this program knows, in order; none applied if there is no database yet.
pub fn migrate_status(path: &Path) -> Result<Vec<MigrationStatus>, OpenError> {
    if !path.exists() {
        return Ok(MIGRATIONS.iter().map(|m| m.status(None)).collect());
    }
    let conn = connect::reader(path).map_err(|why| database(path, why))?;
    applied(path, &conn)?;
    status(&conn).map_err(|why| database(path, why))
}

/// Applies what is missing, on a connection whose holder has the lock.
pub(super) fn up(path: &Path, conn: &mut Connection) -> Result<(), OpenError> {
    let at = applied(path, conn)?;
    for migration in MIGRATIONS.iter().filter(|m| m.number > at) {
        run(conn, migration.up, |conn| {
            conn.execute(
                "INSERT INTO migrations (number, name, applied_at) VALUES (?1, ?2, ?3)",
                params![migration.number, migration.name, SystemClock.now().as_millis()],
            )
            .map(drop)
        })
        .map_err(|why| database(path, why))?;
        tracing::info!(migration = migration.number, name = migration.name, "the database was migrated");
    }
    Ok(())
}

/// Refuses a database that is not exactly of this version.
pub(super) fn check(path: &Path, conn: &Connection) -> Result<(), OpenError> {
    let found = applied(path, conn)?;
    if found == NEWEST { Ok(()) } else { Err(OpenError::Older { path: path.into(), found, known: NEWEST }) }
}

fn run(
    conn: &mut Connection,
    script: &str,
    note: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<(), Error> {
    let transaction = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
            number     INTEGER PRIMARY KEY,
            name       TEXT NOT NULL,
            applied_at INTEGER NOT NULL
        ) STRICT",
    )?;
    transaction.execute_batch(script)?;
    note(&transaction)?;
    Ok(transaction.commit()?)
}

/// The number of the newest migration in the database; an error if this program does not know it.
fn applied(path: &Path, conn: &Connection) -> Result<u32, OpenError> {
    let found = newest_applied(conn).map_err(|why| database(path, why.into()))?;
    if found <= NEWEST { Ok(found) } else { Err(OpenError::Newer { path: path.into(), found, known: NEWEST }) }
}

fn has_table(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'", [], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

fn newest_applied(conn: &Connection) -> rusqlite::Result<u32> {
    if !has_table(conn)? {
        return Ok(0);
    }
    conn.query_row("SELECT coalesce(max(number), 0) FROM migrations", [], |row| row.get(0))
}

fn status(conn: &Connection) -> Result<Vec<MigrationStatus>, Error> {
    let has_table = has_table(conn)?;
    let mut all = Vec::new();
    for migration in MIGRATIONS {
        let applied_at = if has_table {
            conn.query_row("SELECT applied_at FROM migrations WHERE number = ?1", [migration.number], |row| row.get(0))
                .optional()?
                .map(Timestamp::from_millis_clamped)
        } else {
            None
        };
        all.push(migration.status(applied_at));
    }
    Ok(all)
}

fn database(path: &Path, why: Error) -> OpenError {
    OpenError::Database { path: path.into(), why }
}
