//! What every room must know of types at once: each type with its active revision, compiled and ready.
//!
//! Beside it stand the pauses (`pauses.rs`) and the rights that were taken from types (`revoked.rs`), which are taken in by
//! themselves: none may wait for a plugin to compile.
//!
//! A snapshot is read without waiting. It is made anew when the store says that the catalogue changed; a revision shows
//! up in it only once its plugin is compiled, and until then the one before serves on. No type waits for another's plugin.

mod names;
mod pauses;
mod revoked;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::{
    sync::{Mutex, OnceCell},
    task::JoinHandle,
};

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

/// Plugins that are loaded at the same time. Fewer are compiled at once; what is in the cache goes ahead of them.
const LOADS: usize = 4;
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

#[derive(Clone, Default)]
pub struct Snapshot {
    pub catalogue: Arc<Catalogue>,
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

    /// A type's row by id, ready to run or not.
    pub fn row(&self, id: TypeId) -> Option<&TypeRow> {
        self.by_id(id).map(|t| &t.row).or_else(|| self.catalogue.types.iter().find(|t| t.id == id))
    }

    /// A type's row by name, ready to run or not.
    pub fn row_named(&self, namespace: NamespaceId, name: &str) -> Option<&TypeRow> {
        let is_it = |t: &&TypeRow| t.namespace_id == namespace && t.name.as_str() == name;
        self.by_name(namespace, name).map(|t| &t.row).or_else(|| self.catalogue.types.iter().find(is_it))
    }

    /// A namespace's types, in order of name.
    pub fn types(&self, namespace: NamespaceId) -> Vec<&Arc<TypeEntry>> {
        let mut types: Vec<_> = self.by_id.values().filter(|t| t.row.namespace_id == namespace).collect();
        types.sort_by(|a, b| a.row.name.cmp(&b.row.name));
        types
    }

    /// The revisions that are to serve and do not, since their plugins are not loaded.
    fn missing(&self) -> Vec<Missing> {
        let serving = |row: &TypeRow| self.by_id(row.id).map(|entry| entry.active.revision.number);
        let waiting = self.catalogue.types.iter().filter(|row| serving(row) != Some(row.active));
        let of = |row: &TypeRow| {
            let mut all = self.catalogue.revisions.iter();
            let (_, revision) = all.find(|(id, revision)| *id == row.id && revision.number == row.active)?;
            Some(Missing { row: row.clone(), revision: revision.clone() })
        };
        waiting.filter_map(of).collect()
    }

    fn put(&mut self, entry: TypeEntry) {
        let entry = Arc::new(entry);
        self.by_id.insert(entry.row.id, Arc::clone(&entry));
        self.by_name.insert((entry.row.namespace_id, entry.row.name.as_str().to_owned()), entry);
    }

    fn schemas_of(&self, revisions: &BTreeMap<i64, Revision>) -> BTreeMap<i64, Digest> {
        revisions.values().filter_map(|r| Some((r.number, *self.schemas.get(&r.digest)?))).collect()
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
    compiled: parking_lot::Mutex<HashMap<Digest, Arc<OnceCell<Arc<Compiled>>>>>,
    /// Held while a snapshot is replaced by another, and while none is loaded.
    replacing: Mutex<Again>,
}

/// When what could not be loaded is tried again.
struct Again {
    at: Option<Instant>,
    wait: Duration,
}

impl Default for Again {
    fn default() -> Self {
        Self { at: None, wait: FIRST_WAIT }
    }
}

impl Again {
    fn is_due(&self) -> bool {
        self.at.is_some_and(|at| at <= Instant::now())
    }

    fn failed(&mut self) {
        self.at = Some(Instant::now() + self.wait);
        self.wait = LAST_WAIT.min(self.wait * 2);
    }
}

/// A revision that is to serve, and is not loaded.
struct Missing {
    row: TypeRow,
    revision: Revision,
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
            compiled: parking_lot::Mutex::default(),
            replacing: Mutex::default(),
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

    /// Takes in what has changed, and returns once all of it serves. A type whose new revision cannot be loaded keeps the
    /// one it had, and it is tried again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.take_in().await?;
        let _loaded = self.load_meanwhile(self.snapshot().missing()).await;
        Ok(())
    }

    /// The same, and returns once this type is as it was changed to be.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn refresh_type(&self, type_id: TypeId) -> Result<(), Error> {
        self.take_in().await?;
        let (own, others) = self.snapshot().missing().into_iter().partition(|missing| missing.row.id == type_id);
        self.load_meanwhile(others);
        let _loaded = self.load_meanwhile(own).await;
        Ok(())
    }

    /// The same, and waits for no plugin.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn refresh_meanwhile(&self) -> Result<(), Error> {
        if self.take_in().await? {
            self.load_meanwhile(self.snapshot().missing());
        }
        Ok(())
    }

    /// As a task, which ends whatever becomes of who waits for it.
    fn load_meanwhile(&self, missing: Vec<Missing>) -> JoinHandle<()> {
        let catalog = self.clone();
        tokio::spawn(async move {
            stream::iter(missing).for_each_concurrent(LOADS, |missing| catalog.load_one(missing)).await;
        })
    }

    /// Replaces the snapshot by one of what is loaded already. False if there was nothing to take in, nor to be tried again.
    async fn take_in(&self) -> Result<bool, Error> {
        self.refresh_at_once().await?;
        let mut again = self.inner.replacing.lock().await;
        let before = self.snapshot();
        let same = before.catalogue.version == self.inner.store.read().catalogue_version().await?;
        if same && !before.catalogue.namespaces.is_empty() && !again.is_due() {
            return Ok(false);
        }
        let catalogue = self.inner.store.read().catalogue().await?;
        let mut next = Snapshot::default();
        for plugin in &catalogue.plugins {
            let known = before.schemas.get(&plugin.digest).copied();
            let schema = known.unwrap_or_else(|| Digest::of(plugin.manifest.payload_schema.to_string().as_bytes()));
            next.schemas.insert(plugin.digest, schema);
        }
        // What is deleted is let go; calls under way hold on to it.
        self.inner.compiled.lock().retain(|digest, _| next.schemas.contains_key(digest));
        let mut of_type = HashMap::<TypeId, BTreeMap<i64, Revision>>::new();
        for (id, revision) in &catalogue.revisions {
            of_type.entry(*id).or_default().insert(revision.number, revision.clone());
        }
        for row in &catalogue.types {
            let revisions = of_type.remove(&row.id).unwrap_or_default();
            let Some(revision) = revisions.get(&row.active) else { continue };
            let old = before.by_id(row.id);
            let serving = old.map(|old| Arc::clone(&old.active));
            let active = match serving.filter(|serving| serving.revision == *revision) {
                Some(same) => Some(same),
                None => self.loaded(revision.digest).map(|compiled| self.ready_of(row, revision, &compiled)),
            };
            let Some(active) = active.or_else(|| old.map(|old| Arc::clone(&old.active))) else { continue };
            let names = old.map(|old| Arc::clone(&old.names)).unwrap_or_default();
            next.put(TypeEntry { row: row.clone(), schemas: next.schemas_of(&revisions), revisions, active, names });
        }
        next.catalogue = Arc::new(catalogue);
        again.at = None;
        if next.missing().is_empty() {
            *again = Again::default();
        }
        *self.inner.snapshot.write() = Arc::new(next);
        Ok(true)
    }

    /// Loads a revision and lets it serve, unless its type has moved on meanwhile.
    async fn load_one(&self, Missing { row, revision }: Missing) {
        let loaded = self.ready(&row, &revision, &self.snapshot().catalogue).await;
        let mut again = self.inner.replacing.lock().await;
        let before = self.snapshot();
        let ready = match loaded {
            Ok(ready) => ready,
            // It was deleted since.
            Err(_) if before.catalogue.revision(row.id, revision.number).is_none() => return,
            Err(error) => {
                again.failed();
                tracing::error!(lapse.r#type = %row.name, revision = revision.number, %error, "a revision cannot be loaded; the one before serves on, and it is tried again");
                return;
            }
        };
        let Some(row) = before.catalogue.types.iter().find(|t| t.id == row.id && t.active == revision.number) else {
            return;
        };
        let of_type = before.catalogue.revisions.iter().filter(|(id, _)| *id == row.id);
        let revisions: BTreeMap<i64, Revision> = of_type.map(|(_, r)| (r.number, r.clone())).collect();
        if revisions.get(&revision.number) != Some(&ready.revision) {
            return;
        }
        let names = before.by_id(row.id).map(|old| Arc::clone(&old.names)).unwrap_or_default();
        let mut next = Snapshot::clone(&before);
        next.put(TypeEntry { row: row.clone(), schemas: next.schemas_of(&revisions), revisions, active: ready, names });
        *self.inner.snapshot.write() = Arc::new(next);
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
        Ok(())
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
        Ok(self.ready_of(row, revision, &compiled))
    }

    fn ready_of(&self, row: &TypeRow, revision: &Revision, compiled: &Compiled) -> Arc<Ready> {
        Arc::new(Ready {
            revision: revision.clone(),
            manifest: Arc::clone(&compiled.manifest),
            schema: Arc::clone(&compiled.schema),
            plugin: Arc::clone(&compiled.plugin),
            rights: Rights { grants: revision.grants.clone().into(), revoked: self.inner.revoked.of(row.id) },
        })
    }

    fn loaded(&self, digest: Digest) -> Option<Arc<Compiled>> {
        self.inner.compiled.lock().get(&digest)?.get().cloned()
    }

    /// Each digest is compiled once, and never on a thread that dispatches. One that compiles holds up no other.
    async fn compiled(
        &self,
        namespace: NamespaceId,
        digest: Digest,
        catalogue: &Catalogue,
    ) -> Result<Arc<Compiled>, Error> {
        let row = catalogue.plugins.iter().find(|p| p.digest == digest).ok_or(Error::Missing(digest))?;
        let cell = Arc::clone(self.inner.compiled.lock().entry(digest).or_default());
        let load = async || {
            let bytes = self.inner.store.read().plugin_bytes(namespace, digest).await?.ok_or(Error::Missing(digest))?;
            let schema = Schema::compile(&row.manifest.payload_schema).map_err(|why| Error::Schema { digest, why })?;
            let plugin =
                self.inner.host.load(digest, bytes.into()).await.map_err(|why| Error::Plugin { digest, why })?;
            Ok(Arc::new(Compiled { plugin, manifest: Arc::new(row.manifest.clone()), schema: Arc::new(schema) }))
        };
        cell.get_or_try_init(load).await.cloned()
    }
}

/// Checks a payload against a revision's schema.
pub fn check_payload(ready: &Ready, payload: &Value) -> Result<(), Vec<crate::schema::Fault>> {
    ready.schema.check(payload, "/payload")
}
