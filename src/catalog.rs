//! What every room must know of types at once: each type with its active revision, compiled and ready.
//!
//! Beside it stand the pauses (`pauses.rs`) and the rights that were taken from types (`revoked.rs`), which are taken in by
//! themselves: none may wait for a plugin to compile.
//!
//! A snapshot is read without waiting. It is made anew when the store says that the catalogue changed; a revision shows
//! up in it only once its plugin is compiled, and until then the one before serves on.

mod names;
mod pauses;
mod revoked;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::Mutex;

pub use self::names::{MAX_KINDS, Names};
use crate::{
    costs::Costs,
    domain::{
        id::{Digest, NamespaceId, TypeId},
        plugin::{Manifest, PluginRow, Revision, TypeRow},
    },
    plugin::{Host, Plugin, Refusal, Rights},
    schema::Schema,
    store::{Store, read::Catalogue},
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    #[error("plugin {digest} cannot be loaded: {why}")]
    Plugin { digest: Digest, why: Refusal },
    #[error("the store has no bytes for plugin {0}")]
    Missing(Digest),
    #[error("type {type_id:?} has no revision {number}")]
    NoRevision { type_id: TypeId, number: i64 },
    #[error("plugin {digest}: {why}")]
    Schema { digest: Digest, why: String },
}

/// Waits until a revision that could not be loaded is tried again: the first, and up to the last, doubled each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_mins(1);

/// A revision that can run.
pub struct Ready {
    pub revision: Revision,
    pub manifest: Arc<Manifest>,
    pub schema: Arc<Schema>,
    pub plugin: Arc<dyn Plugin>,
    pub rights: Rights,
}

pub struct TypeEntry {
    pub row: TypeRow,
    pub revisions: BTreeMap<i64, Revision>,
    /// The revision that serves now.
    pub active: Arc<Ready>,
    /// The names that its plugins have made up since this node started.
    pub names: Arc<Names>,
    /// What each revision's payload schema is known by, as far as its plugin is still there.
    schemas: BTreeMap<i64, Digest>,
}

/// Which revision a timer runs, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// The active one, as timers do.
    Active,
    /// That which it is pinned to.
    Pinned,
    /// That which it was registered under: the active one's payload schema does not take its payload.
    Behind,
}

impl TypeEntry {
    /// Which revision a timer runs that was registered under `revision`; `None` if its payload has to be looked at.
    pub fn runs_at_sight(&self, revision: i64, pinned: bool) -> Option<Runs> {
        if pinned {
            return Some(Runs::Pinned);
        }
        let active = self.active.revision.number;
        let same = || self.schemas.get(&revision).is_some_and(|s| self.schemas.get(&active) == Some(s));
        (revision == active || same()).then_some(Runs::Active)
    }

    /// Which revision a timer runs. May take as long as its payload takes to be checked.
    pub fn runs(&self, revision: i64, pinned: bool, payload: &str) -> Runs {
        let checked = || if self.active_takes(payload) { Runs::Active } else { Runs::Behind };
        self.runs_at_sight(revision, pinned).unwrap_or_else(checked)
    }

    /// Whether the active revision's schema takes a payload.
    pub fn active_takes(&self, payload: &str) -> bool {
        serde_json::from_str(payload).is_ok_and(|payload| self.active.schema.takes(&payload))
    }

    /// Those, newest first, under which a timer may stay behind.
    pub fn revisions_of_another_schema(&self) -> Vec<i64> {
        let active = self.active.revision.number;
        let numbers = self.revisions.keys().rev().copied();
        numbers.filter(|number| self.runs_at_sight(*number, false).is_none() && *number != active).collect()
    }
}

#[derive(Default)]
pub struct Snapshot {
    pub catalogue: Catalogue,
    by_id: HashMap<TypeId, Arc<TypeEntry>>,
    by_name: HashMap<(NamespaceId, String), Arc<TypeEntry>>,
    /// What the payload schema of each plugin is known by.
    schemas: HashMap<Digest, Digest>,
}

impl Snapshot {
    pub fn by_id(&self, id: TypeId) -> Option<&Arc<TypeEntry>> {
        self.by_id.get(&id)
    }

    pub fn by_name(&self, namespace: NamespaceId, name: &str) -> Option<&Arc<TypeEntry>> {
        self.by_name.get(&(namespace, name.to_owned()))
    }

    /// A namespace's types, in order of name.
    pub fn types(&self, namespace: NamespaceId) -> Vec<&Arc<TypeEntry>> {
        let mut types: Vec<_> = self.by_id.values().filter(|t| t.row.namespace_id == namespace).collect();
        types.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        types
    }

    pub fn plugin(&self, namespace: NamespaceId, digest: Digest) -> Option<&PluginRow> {
        self.catalogue.plugins.iter().find(|p| p.namespace_id == namespace && p.digest == digest)
    }
}

struct Compiled {
    plugin: Arc<dyn Plugin>,
    manifest: Arc<Manifest>,
    schema: Arc<Schema>,
}

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

struct Inner {
    costs: Costs,
    store: Store,
    host: Arc<dyn Host>,
    snapshot: RwLock<Arc<Snapshot>>,
    pauses: pauses::Held,
    revoked: revoked::Taken,
    /// The catalogue's version that these are of; none before the first reading.
    at_once: Mutex<Option<i64>>,
    /// The same, to be looked at without waiting.
    version: AtomicI64,
    compiled: Mutex<HashMap<Digest, Arc<Compiled>>>,
    refreshing: Mutex<Incomplete>,
}

/// Whether the snapshot lacks a revision that could not be loaded, and when that is tried again.
#[derive(Default)]
struct Incomplete {
    again: Option<(Instant, Duration)>,
}

impl Incomplete {
    fn waits(&self) -> bool {
        self.again.is_none_or(|(at, _)| Instant::now() < at)
    }

    fn record(&mut self, complete: bool) {
        let wait = self.again.map_or(FIRST_WAIT, |(_, wait)| LAST_WAIT.min(wait * 2));
        self.again = (!complete).then(|| (Instant::now() + wait, wait));
    }
}

impl Catalog {
    /// Reads everything and compiles every active revision.
    pub async fn load(store: Store, host: Arc<dyn Host>) -> Result<Self, Error> {
        let inner = Inner {
            costs: Costs::default(),
            store,
            host,
            snapshot: RwLock::default(),
            pauses: pauses::Held::default(),
            revoked: revoked::Taken::default(),
            at_once: Mutex::default(),
            version: AtomicI64::new(-1),
            compiled: Mutex::default(),
            refreshing: Mutex::default(),
        };
        let catalog = Self { inner: Arc::new(inner) };
        catalog.refresh().await?;
        Ok(catalog)
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.inner.snapshot.read())
    }

    /// What the calls of its plugins cost on this node.
    pub fn costs(&self) -> &Costs {
        &self.inner.costs
    }

    pub fn host(&self) -> &Arc<dyn Host> {
        &self.inner.host
    }

    /// Takes in what has changed. A type whose new revision cannot be loaded keeps the one it had.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.refresh_at_once().await?;
        // One at a time.
        let mut incomplete = self.inner.refreshing.lock().await;
        let before = self.snapshot();
        let same = before.catalogue.version == self.inner.store.read().catalogue_version().await?;
        if same && !before.catalogue.namespaces.is_empty() && incomplete.waits() {
            return Ok(());
        }
        let mut complete = true;
        let catalogue = self.inner.store.read().catalogue().await?;
        let mut next = Snapshot::default();
        for plugin in &catalogue.plugins {
            let known = before.schemas.get(&plugin.digest).copied();
            let schema = known.unwrap_or_else(|| Digest::of(plugin.manifest.payload_schema.to_string().as_bytes()));
            next.schemas.insert(plugin.digest, schema);
        }
        // What is deleted is let go; calls under way hold on to it.
        self.inner.compiled.lock().await.retain(|digest, _| next.schemas.contains_key(digest));
        for row in &catalogue.types {
            let revisions: BTreeMap<i64, Revision> = catalogue
                .revisions
                .iter()
                .filter(|(id, _)| *id == row.id)
                .map(|(_, r)| (r.number, r.clone()))
                .collect();
            let old = before.by_id(row.id);
            let active = match (old, revisions.get(&row.active)) {
                (Some(old), Some(revision)) if old.active.revision == *revision => Arc::clone(&old.active),
                (_, Some(revision)) => match self.ready(row, revision, &catalogue).await {
                    Ok(ready) => ready,
                    Err(error) => {
                        complete = false;
                        tracing::error!(lapse.r#type = %row.name, revision = revision.number, %error, "a revision cannot be loaded; the one before serves on, and it is tried again");
                        match old {
                            Some(old) => Arc::clone(&old.active),
                            None => continue,
                        }
                    }
                },
                (_, None) => continue,
            };
            let schemas = revisions.values().filter_map(|r| Some((r.number, *next.schemas.get(&r.digest)?))).collect();
            let names = old.map(|old| Arc::clone(&old.names)).unwrap_or_default();
            let entry = Arc::new(TypeEntry { row: row.clone(), revisions, active, names, schemas });
            next.by_id.insert(row.id, Arc::clone(&entry));
            next.by_name.insert((row.namespace_id, row.name.as_str().to_owned()), entry);
        }
        next.catalogue = catalogue;
        incomplete.record(complete);
        *self.inner.snapshot.write() = Arc::new(next);
        Ok(())
    }

    /// Takes in what waits for no plugin: what has been paused, resumed, revoked and restored.
    ///
    /// # Errors
    /// The store cannot be read; what was known before stays in force.
    pub async fn refresh_at_once(&self) -> crate::store::Result<()> {
        let mut read_at = self.inner.at_once.lock().await;
        let store = self.inner.store.read();
        // Asked for first: what is read is then at least as new.
        let version = store.catalogue_version().await?;
        if *read_at == Some(version) {
            return Ok(());
        }
        self.inner.pauses.set(store.pauses().await?);
        self.inner.revoked.set(store.revoked().await?);
        *read_at = Some(version);
        self.inner.version.store(version, Ordering::Release);
        Ok(())
    }

    /// The version of the catalogue that this node has seen, whether or not its plugins are compiled yet.
    pub fn version_seen(&self) -> i64 {
        self.inner.version.load(Ordering::Acquire)
    }

    /// A revision of a type, ready to run, whether or not it is the active one.
    pub async fn revision(&self, type_id: TypeId, number: i64) -> Result<Arc<Ready>, Error> {
        let snapshot = self.snapshot();
        let missing = || Error::NoRevision { type_id, number };
        let entry = snapshot.by_id(type_id).ok_or_else(missing)?;
        if entry.active.revision.number == number {
            return Ok(Arc::clone(&entry.active));
        }
        let revision = entry.revisions.get(&number).ok_or_else(missing)?;
        self.ready(&entry.row, revision, &snapshot.catalogue).await
    }

    /// The same, unless it is deleted.
    pub async fn usable_revision(&self, type_id: TypeId, number: i64) -> Result<Arc<Ready>, Error> {
        match self.snapshot().catalogue.revision(type_id, number) {
            Some(_) => self.revision(type_id, number).await,
            None => Err(Error::NoRevision { type_id, number }),
        }
    }

    async fn ready(&self, row: &TypeRow, revision: &Revision, catalogue: &Catalogue) -> Result<Arc<Ready>, Error> {
        let compiled = self.compiled(row.namespace_id, revision.digest, catalogue).await?;
        Ok(Arc::new(Ready {
            revision: revision.clone(),
            manifest: Arc::clone(&compiled.manifest),
            schema: Arc::clone(&compiled.schema),
            plugin: Arc::clone(&compiled.plugin),
            rights: Rights { grants: revision.grants.clone().into(), revoked: self.inner.revoked.of(row.id) },
        }))
    }

    /// Each digest is compiled once, or twice where it is asked for twice at the same time, and never on a thread that
    /// dispatches. One that compiles keeps nobody from those that are.
    async fn compiled(
        &self,
        namespace: NamespaceId,
        digest: Digest,
        catalogue: &Catalogue,
    ) -> Result<Arc<Compiled>, Error> {
        if let Some(compiled) = self.inner.compiled.lock().await.get(&digest) {
            return Ok(Arc::clone(compiled));
        }
        let row = catalogue.plugins.iter().find(|p| p.digest == digest).ok_or(Error::Missing(digest))?;
        let bytes = self.inner.store.read().plugin_bytes(namespace, digest).await?.ok_or(Error::Missing(digest))?;
        let schema = Schema::compile(&row.manifest.payload_schema).map_err(|why| Error::Schema { digest, why })?;
        let plugin = self.inner.host.load(digest, bytes.into()).await.map_err(|why| Error::Plugin { digest, why })?;
        let compiled =
            Arc::new(Compiled { plugin, manifest: Arc::new(row.manifest.clone()), schema: Arc::new(schema) });
        let mut all = self.inner.compiled.lock().await;
        Ok(Arc::clone(all.entry(digest).or_insert(compiled)))
    }
}

/// Checks a payload against a revision's schema.
pub fn check_payload(ready: &Ready, payload: &Value) -> Result<(), Vec<crate::schema::Fault>> {
    ready.schema.check(payload, "/payload")
}
