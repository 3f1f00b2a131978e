//! Settings: a struct per concern. `default.toml` holds every default, with what it means.

mod accept;
mod load;
mod nats;
mod secret;

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use self::{
    load::{Error, Fault, Flag, Loaded, Setting, Sources},
    nats::Nats,
    secret::Secret,
};

use crate::domain::time::DurationMs;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    pub store: Store,
    pub nats: Nats,
    pub dispatch: Dispatch,
    pub compensation: Compensation,
    pub breaker: Breaker,
    pub plugin: Plugin,
    pub sql: Sql,
    pub log: Log,
}

/// The HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub listen: SocketAddr,
    /// Requests that one API key may make in a second; 0 for no limit.
    pub rate_limit: u32,
    /// How long the head of a request may take, from when its connection is ready for it.
    pub header_timeout: DurationMs,
    /// How long resolve and cancel wait for a decision that is under way.
    pub firing_wait: DurationMs,
    /// How long a stop may take before what still runs is left to its lease.
    pub drain: DurationMs,
}

/// The database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Where the compile cache stands, and, unless they are given, the database and the server's key.
    pub data: PathBuf,
    /// `postgres://…`: the cluster's database. Empty: SQLite in the data folder.
    pub database: Secret,
    /// What the audit is chained with: 64 hex digits, the same on every node. Empty: what `key_file` holds.
    pub key: Secret,
    /// A file with the key. Empty: `server.key` in the data folder, made at the first start.
    pub key_file: PathBuf,
    /// Operations of one class that may wait to be written.
    pub queue: usize,
    /// Operations in one transaction.
    pub batch: usize,
    /// Connections for reading.
    pub readers: usize,
}

impl Store {
    /// The file of SQLite's database.
    pub fn sqlite(&self) -> PathBuf {
        self.data.join("lapse.db")
    }

    /// The URL of PostgreSQL's database, if that is the one.
    pub fn postgres(&self) -> Option<&str> {
        Some(self.database.reveal()).filter(|url| !url.is_empty())
    }
}

/// From due to decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// Whether this node fires timers and runs compensations, or only registers.
    pub fire: bool,
    /// Timers that a node holds in memory to their instant; what exceeds it is left to the backlog.
    pub holder: usize,
    /// Threads for pure decisions; 0 for one a core.
    pub threads: usize,
    /// Expiries of one type that run at once, where its revision does not say.
    pub concurrency: u32,
    /// How long a claimed timer is a node's alone.
    pub lease: DurationMs,
    /// Whether overdue timers are looked for. Only a test switches it off.
    pub backlog: bool,
    /// Overdue timers started in a second by all nodes together; 0 for no limit.
    pub drain_rate: u32,
    /// The share of a type's expiries, from 0 to 1, that may fail within `pause_window`: if more do, and at least
    /// `pause_min` were settled, the type pauses itself. 0: never.
    pub pause_failed_share: f64,
    pub pause_window: DurationMs,
    pub pause_min: u32,
}

/// The lanes of compensations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compensation {
    /// Compensations of one (type, kind) that run at once.
    pub concurrency: u32,
    pub lease: DurationMs,
    /// Attempts, and the waits in between.
    pub attempts: u32,
    pub initial: DurationMs,
    pub max: DurationMs,
}

/// When a downstream is held to be away, and how it is come back to. Each node judges for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    /// Failures in a row, within `window`, after which a downstream is not called; 0 for never.
    pub failures: u32,
    pub window: DurationMs,
    /// How long it is not called then; doubled each time that it is still away, up to `max`.
    pub open: DurationMs,
    pub max: DurationMs,
    /// Calls at once that try whether it is back; as many must succeed.
    pub probes: u32,
    /// Runs that are let through in a second to one that is back.
    pub drain_rate: u32,
    /// How long that rate holds; it is doubled every five seconds.
    pub ramp: DurationMs,
}

/// The sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// The largest component, in bytes.
    pub max_component_bytes: u64,
    /// The longest compilation.
    pub compile_timeout: DurationMs,
    /// CPU time of one call.
    pub cpu: DurationMs,
    /// Wall time of one pure call: a hard stop far above `cpu`, for a machine that is busy.
    pub wall: DurationMs,
    /// Wall time of one call with effects.
    pub effect_wall: DurationMs,
    /// Linear memory of one call, in bytes.
    pub memory_bytes: u64,
    /// Bytes in one call's answer.
    pub output_bytes: u64,
    /// Host calls other than `log` in one call.
    pub host_calls: u32,
    /// Log lines kept of one call, and bytes in each.
    pub log_lines: u32,
    pub log_line_bytes: u32,
    /// Time of one HTTP request, and bytes in its answer.
    pub http_timeout: DurationMs,
    pub http_body_bytes: u64,
}

/// The business's databases that plugins may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    /// Where SQLite data sources may be, in a folder for each namespace. Empty: nowhere.
    pub sqlite_folder: PathBuf,
    /// Certificates that are trusted instead of the machine's. Empty: the machine's.
    pub tls_ca: PathBuf,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// As for `tracing_subscriber::EnvFilter`.
    pub filter: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    Json,
}

/// Every default, with what it means.
pub const DEFAULTS: &str = include_str!("default.toml");

impl Default for Config {
    fn default() -> Self {
        toml::from_str(DEFAULTS).unwrap_or_else(|e| unreachable!("the embedded defaults are whole: {e}"))
    }
}
