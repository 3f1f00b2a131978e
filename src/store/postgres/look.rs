//! A look at a database without changing it, for a person who asks what is there and what is missing.

use std::time::Instant;

use serde::Serialize;

use super::{
    Connector, OpenError, PostgresParams,
    connect::Conn,
    error::Fault,
    migrate::{applied, has_table, status},
    row::get,
    sql,
};
use crate::{domain::time::Timestamp, store::migration::MigrationStatus};

/// Rows of nodes that are shown.
const MAX_NODES: i64 = 1000;

/// What was found.
#[derive(Clone, Debug)]
pub struct Look {
    /// The server's version.
    pub server: String,
    pub settings: Vec<ServerSetting>,
    pub migrations: Vec<MigrationStatus>,
    /// The server's clock when it was asked, and how long the answer took: it lies that much in the past at most.
    pub now: Timestamp,
    pub round_trip: std::time::Duration,
    /// The nodes that said that they live.
    pub nodes: Vec<SeenNode>,
}

/// A node as it was last heard of.
#[derive(Clone, Debug, Serialize)]
pub struct SeenNode {
    pub id: String,
    /// Or it only registers.
    pub fires: bool,
    pub ago_ms: i64,
}

/// One of the server's settings that matter here.
#[derive(Clone, Debug, Serialize)]
pub struct ServerSetting {
    pub name: String,
    /// As PostgreSQL writes it, with its unit.
    pub value: String,
    /// What is wrong with it, and what to do; `None` where it is well.
    pub remark: Option<String>,
    /// Whether timers can be lost, or the database choked, if it stays.
    pub is_fault: bool,
}

/// Looks at the server and at the database.
///
/// # Errors
/// The database cannot be reached, or is of a newer version than this program.
pub async fn inspect(params: &PostgresParams) -> Result<Look, OpenError> {
    let connector = Connector::new(params)?;
    let database = |why| OpenError::database(&connector, why);
    let conn = connector.connect().await.map_err(database)?;
    connector.check_server(&conn).await?;
    let at = applied(&connector, &conn).await?;
    let look = async {
        let asked = Instant::now();
        let row = conn.client.query_one(&format!("SELECT {}", sql::NOW), &[]).await?;
        let (now, round_trip) = (super::row::at(&row, 0)?, asked.elapsed());
        let row = conn.client.query_one("SELECT current_setting('server_version')", &[]).await?;
        let nodes = if at > 0 && has_table(&conn).await? { nodes(&conn).await? } else { Vec::new() };
        let (server, settings, migrations) = (get(&row, 0)?, settings(&conn).await?, status(&conn).await?);
        Ok(Look { server, settings, migrations, now, round_trip, nodes })
    };
    look.await.map_err(database)
}

async fn nodes(conn: &Conn) -> Result<Vec<SeenNode>, Fault> {
    // A database that is still to be migrated may not have the column.
    let text = format!(
        "SELECT id, coalesce((to_jsonb(nodes) ->> 'fires')::bool, true), {} - beat_at
         FROM nodes ORDER BY id LIMIT {MAX_NODES}",
        sql::NOW
    );
    let rows = conn.client.query(&text, &[]).await?;
    rows.iter().map(|row| Ok(SeenNode { id: get(row, 0)?, fires: get(row, 1)?, ago_ms: get(row, 2)? })).collect()
}

/// What the server itself has set, whatever this program sets on its own connections.
async fn settings(conn: &Conn) -> Result<Vec<ServerSetting>, Fault> {
    let text = "SELECT name, setting, coalesce(unit, ''), reset_val FROM pg_settings WHERE name IN ('fsync', \
                'full_page_writes', 'synchronous_commit', 'autovacuum', 'max_connections', 'max_wal_size', \
                'wal_compression', 'shared_buffers') ORDER BY name";
    let mut found = Vec::new();
    for row in conn.client.query(text, &[]).await? {
        let (name, unit, value): (String, String, String) = (get(&row, 0)?, get(&row, 2)?, get(&row, 3)?);
        let (is_fault, remark) = judge(&name, &value);
        let value = if unit.is_empty() { value } else { format!("{value} x {unit}") };
        found.push(ServerSetting { name, value, remark: remark.map(str::to_owned), is_fault });
    }
    Ok(found)
}

/// Whether a value is a fault, and what to say of it.
fn judge(name: &str, value: &str) -> (bool, Option<&'static str>) {
    let number = value.parse::<u64>().unwrap_or(u64::MAX);
    match (name, value) {
        ("fsync" | "full_page_writes", "off") => {
            (true, Some("a crash of the machine can lose or damage what was committed; switch it on"))
        }
        ("autovacuum", "off") => (true, Some("dead rows pile up and every read slows down; switch it on")),
        ("synchronous_commit", "off" | "local") => (false, Some("Lapse sets it to `on` for its own connections")),
        ("max_connections", _) if number < 50 => {
            (false, Some("each node takes up to 13 connections and store.readers (4) more; raise it for many nodes"))
        }
        // In MB.
        ("max_wal_size", _) if number < 2048 => (
            false,
            Some(
                "a timer takes some 4 kB of log: under load checkpoints come often and slow commits down; 4GB or more is better",
            ),
        ),
        ("wal_compression", "off") => (false, Some("switched on, less is written under load")),
        _ => (false, None),
    }
}
