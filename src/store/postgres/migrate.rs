//! Numbered migrations, up and down, embedded from `migrations/postgres/`. Each runs in a transaction of its own, with
//! its line in the table `migrations`, under a lock of the database: nodes that start together migrate once.

use super::{
    Connector, OpenError, PostgresParams,
    connect::Conn,
    error::Fault,
    row::{at, get},
    sql,
};
use crate::{
    domain::time::Timestamp,
    store::migration::{Migration, MigrationStatus, migration},
};

/// In order of number.
const MIGRATIONS: &[Migration] = &[
    migration!("postgres", 1, "0001", "base"),
    migration!("postgres", 2, "0002", "pause"),
    migration!("postgres", 3, "0003", "sealed"),
    migration!("postgres", 4, "0004", "revisions"),
    migration!("postgres", 5, "0005", "revoked"),
];

/// The number of the newest migration.
pub const NEWEST: u32 = MIGRATIONS[MIGRATIONS.len() - 1].number;

/// The advisory lock that migrations hold: `lapse` in ASCII.
const LOCK: i64 = 0x6c_61_70_73_65;

/// Applies what is missing; says what was applied.
pub async fn migrate_up(params: &PostgresParams) -> Result<Vec<MigrationStatus>, OpenError> {
    let connector = Connector::new(params)?;
    let conn = alone(&connector).await?;
    let before = applied(&connector, &conn).await?;
    up(&connector, &conn).await?;
    let all = status(&conn).await.map_err(|why| OpenError::database(&connector, why))?;
    Ok(all.into_iter().filter(|m| m.number > before).collect())
}

/// Takes back every migration above `to` (0 for all of them), with the data that only they hold; says which.
pub async fn migrate_down(params: &PostgresParams, to: u32) -> Result<Vec<MigrationStatus>, OpenError> {
    if to > NEWEST {
        return Err(OpenError::NoSuchMigration { wanted: to, known: NEWEST });
    }
    let connector = Connector::new(params)?;
    let conn = alone(&connector).await?;
    let at = applied(&connector, &conn).await?;
    let mut undone = Vec::new();
    for migration in MIGRATIONS.iter().rev().filter(|m| m.number > to && m.number <= at) {
        let note = format!("DELETE FROM migrations WHERE number = {}", migration.number);
        run(&conn, migration.down, &note).await.map_err(|why| OpenError::database(&connector, why))?;
        undone.push(migration.status(None));
    }
    Ok(undone)
}

/// Every migration that this program knows, in order.
pub async fn migrate_status(params: &PostgresParams) -> Result<Vec<MigrationStatus>, OpenError> {
    let connector = Connector::new(params)?;
    let conn = connector.connect().await.map_err(|why| OpenError::database(&connector, why))?;
    applied(&connector, &conn).await?;
    status(&conn).await.map_err(|why| OpenError::database(&connector, why))
}

/// A connection that holds the migrations' lock until it is dropped.
pub(super) async fn alone(connector: &Connector) -> Result<Conn, OpenError> {
    let lock = async {
        let conn = connector.connect().await?;
        // Another node's migration may take long; so may our own.
        conn.command(&format!("SET lock_timeout = 0; SET statement_timeout = 0; SELECT pg_advisory_lock({LOCK})"))
            .await?;
        Ok(conn)
    };
    let conn = lock.await.map_err(|why| OpenError::database(connector, why))?;
    connector.check_server(&conn).await?;
    Ok(conn)
}

/// Applies what is missing, on a connection that holds the lock.
pub(super) async fn up(connector: &Connector, conn: &Conn) -> Result<(), OpenError> {
    let at = applied(connector, conn).await?;
    for migration in MIGRATIONS.iter().filter(|m| m.number > at) {
        // Numbers and names are this file's own.
        let note = format!(
            "INSERT INTO migrations (number, name, applied_at) VALUES ({}, '{}', {})",
            migration.number,
            migration.name,
            sql::NOW
        );
        run(conn, migration.up, &note).await.map_err(|why| OpenError::database(connector, why))?;
        tracing::info!(migration = migration.number, name = migration.name, "the database was migrated");
    }
    Ok(())
}

/// Refuses a database that is not exactly of this version.
pub(super) async fn check(connector: &Connector, conn: &Conn) -> Result<(), OpenError> {
    let found = applied(connector, conn).await?;
    if found == NEWEST { Ok(()) } else { Err(OpenError::Older { found, known: NEWEST }) }
}

async fn run(conn: &Conn, script: &str, note: &str) -> Result<(), Fault> {
    let whole = format!(
        "BEGIN;
         CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL);
         {script}
         {note};
         COMMIT"
    );
    match conn.command(&whole).await {
        Ok(()) => Ok(()),
        Err(fault) => {
            let _ = conn.command("ROLLBACK").await;
            Err(fault)
        }
    }
}

/// The number of the newest migration in the database; an error if this program does not know it.
pub(super) async fn applied(connector: &Connector, conn: &Conn) -> Result<u32, OpenError> {
    let found = newest_applied(conn).await.map_err(|why| OpenError::database(connector, why))?;
    if found <= NEWEST { Ok(found) } else { Err(OpenError::Newer { found, known: NEWEST }) }
}

pub(super) async fn has_table(conn: &Conn) -> Result<bool, Fault> {
    let row = conn.client.query_one("SELECT to_regclass('migrations') IS NOT NULL", &[]).await?;
    get(&row, 0)
}

async fn newest_applied(conn: &Conn) -> Result<u32, Fault> {
    if !has_table(conn).await? {
        return Ok(0);
    }
    let row = conn.client.query_one("SELECT coalesce(max(number), 0) FROM migrations", &[]).await?;
    Ok(u32::try_from(get::<i32>(&row, 0)?).unwrap_or(0))
}

pub(super) async fn status(conn: &Conn) -> Result<Vec<MigrationStatus>, Fault> {
    let mut applied_at = std::collections::HashMap::<i32, Timestamp>::new();
    if has_table(conn).await? {
        for row in conn.client.query("SELECT number, applied_at FROM migrations", &[]).await? {
            applied_at.insert(get(&row, 0)?, at(&row, 1)?);
        }
    }
    let of = |number: u32| i32::try_from(number).ok().and_then(|number| applied_at.get(&number).copied());
    Ok(MIGRATIONS.iter().map(|m| m.status(of(m.number))).collect())
}
