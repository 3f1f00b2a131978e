//! The plugin host: runs components in a sandbox and says what they decided and what it cost.
//!
//! [`Host`] and [`Plugin`] are the seam. The rooms that call plugins know nothing of Wasm.

mod abi;
pub mod build;
mod cache;
mod call;
mod compile;
mod engine;
mod host;
pub mod http;
mod inspect;
mod limits;
mod log;
mod meter;
mod sql;
mod text;
mod wasi;

pub use host::{Access, HostParams, SchemaCheck, StartError, WasmHost};

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::{
    breaker::Deferred,
    config::Secret,
    domain::{
        decision::{CompensationTask, CounterSpec, Decision, Expiry, Failure},
        id::{Digest, Name},
        plugin::{Export, Grant, Manifest, Right},
    },
    sql::Source,
};

/// Compiles and describes components.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Checks an upload whole: that it is a component of our world, compiles within its bounds, describes itself, and
    /// asks for nothing that this version cannot carry out. Off the dispatch path.
    async fn inspect(&self, component: Bytes) -> Result<Inspection, Refusal>;

    /// A component that [`Host::inspect`] has accepted, ready to run; from the cache if it was compiled before.
    async fn load(&self, digest: Digest, component: Bytes) -> Result<Arc<dyn Plugin>, Refusal>;
}

/// A compiled component. Every call has an instance of its own, and bounds on CPU, memory, time, output and host calls.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    fn digest(&self) -> Digest;

    /// `on-expire` without an effectful capability, on the caller's thread (which it blocks for the call's time).
    /// Every host call but `log` is denied.
    fn decide(&self, expiry: &Expiry) -> Run<Decision>;

    /// `on-expire` with these rights.
    async fn decide_with_effects(&self, expiry: &Expiry, rights: &Rights) -> Run<Decision>;

    /// `compensate` with these rights.
    async fn compensate(&self, task: &CompensationTask, rights: &Rights) -> Run<Option<String>>;
}

/// What calls are given by name, as it is at the moment of the call: what was taken away is gone at once, on every node.
#[async_trait]
pub trait Keeper: Send + Sync + 'static {
    /// `None`: the namespace has no such secret.
    async fn secret(&self, namespace: &str, name: &Name) -> Result<Option<Secret>, KeeperError>;

    /// `None`: the namespace has no such data source.
    async fn source(&self, namespace: &str, name: &Name) -> Result<Option<Source>, KeeperError>;
}

/// What is kept cannot be had now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeeperError(pub String);

/// The grants of a type's revision. A host function looks only at those of the export that runs.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    pub grants: Arc<[Grant]>,
    /// What was taken from the type since.
    pub revoked: Revoked,
}

/// The rights that were taken from a type, whatever the revision. All clones are one, so that calls under way, and what
/// is kept of other revisions, know at once.
#[derive(Clone, Debug, Default)]
pub struct Revoked(Arc<RwLock<BTreeSet<Grant>>>);

impl Revoked {
    pub fn set(&self, grants: BTreeSet<Grant>) {
        *self.0.write() = grants;
    }

    pub fn get(&self) -> BTreeSet<Grant> {
        self.0.read().clone()
    }
}

/// How an export stands to something that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Granted,
    /// It was granted, and this grant was taken away since.
    Revoked(Grant),
    NotGranted,
}

impl Rights {
    /// How `export` stands to what the right is for that `fits`.
    pub fn standing(&self, export: Export, fits: impl Fn(&Right) -> bool) -> Standing {
        let revoked = self.revoked.0.read();
        let mut standing = Standing::NotGranted;
        for grant in self.grants.iter().filter(|grant| grant.export == export && fits(&grant.right)) {
            if !revoked.contains(grant) {
                return Standing::Granted;
            }
            standing = Standing::Revoked(grant.clone());
        }
        standing
    }
}

/// One call: what came of it, and what it cost.
#[derive(Clone, Debug)]
pub struct Run<T> {
    pub result: Result<T, Failure>,
    pub logs: Vec<LogLine>,
    /// Host calls that were refused, each said as a sentence.
    pub denied: Vec<String>,
    /// Steps of the plugin's own counters that count whatever the result.
    pub counters: Vec<CounterSpec>,
    pub cost: Cost,
    /// It failed because a downstream is not called at the moment: nobody's fault, and to be run again in its turn.
    pub deferred: Option<Deferred>,
}

impl<T> Run<T> {
    /// In the place of an answer that did not come: nothing is known of it but why.
    pub fn without_answer(failure: Failure) -> Self {
        Self {
            result: Err(failure),
            logs: Vec::new(),
            denied: Vec::new(),
            counters: Vec::new(),
            cost: Cost::default(),
            deferred: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub cpu_us: u64,
    /// The most linear memory that was in use.
    pub memory_bytes: u64,
    pub host_calls: u32,
    /// Those of them that asked for a request; the others asked for a batch of statements.
    #[serde(default)]
    pub http_calls: u32,
}

impl Cost {
    pub fn sql_calls(&self) -> u32 {
        self.host_calls.saturating_sub(self.http_calls)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct Inspection {
    pub digest: Digest,
    pub size: u64,
    pub manifest: Manifest,
    pub imports: Vec<String>,
    pub compile_ms: u64,
}

/// Why a component is not taken.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// Not a component, not our world, or it does not describe itself properly.
    #[error("{0}")]
    Invalid(String),
    /// Too large, too slow to compile, or too greedy.
    #[error("{0}")]
    OverLimit(String),
    /// The host's own trouble.
    #[error("the plugin host failed: {0}")]
    Internal(String),
}
