//! What there is to tell of this node and of its namespaces' work, at a price that does not grow with the number of
//! timers: figures of this node since its start, from memory; counts from the store's indexes, capped and kept for a
//! second; and what only the running engine knows.
//!
//! ```text
//!  store (after each commit) ──┐                              ┌─► get_stats, stream_events: figures, capped counts
//!  dispatch (lateness, retries) ├─► Stats (one lock, bounded) ─┤
//!  compensate (runs' ends) ─────┘                              └─► stream_events: what changed, while it is watched
//! ```

mod changes;
mod figures;
mod histogram;
mod tallies;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    clock::SharedClock,
    domain::{
        id::{Name, NamespaceId, TypeId},
        time::{DurationMs, Timestamp},
        timer::Timer,
    },
    store::{Observer, Result, Store},
};

use self::{changes::Watched, figures::Figures, tallies::Tallies};
pub use self::{
    changes::{Changed, Changes, CompensationChange, TimerChange},
    figures::{Counts, HISTORY, OfNamespace, OfType, Point, STEP_MS, WINDOW_MS},
    tallies::{CAP, Counted},
};

/// What only the running engine can tell.
pub trait Engine: Send + Sync + 'static {
    /// The lane of a type on this node; `None` while it has none, since nothing of the type waits or runs here.
    fn lane(&self, type_id: TypeId) -> Option<Lane>;
    fn broker(&self) -> Broker;
}

/// A type's lane on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Expiries that wait in it.
    pub queued: usize,
    /// Where it takes no more.
    pub room: usize,
    /// Calls and writes under way.
    pub running: usize,
    /// Calls that may run at once now.
    pub width: usize,
    /// Something waits that only the type's rate holds back.
    pub is_rated: bool,
}

/// Whether a broker wakes this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    /// None is configured.
    None,
    Up,
    /// It is away, or silent: this node keeps the time of its shards by itself.
    Away {
        for_at_least: DurationMs,
    },
}

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Stats {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: SharedClock,
    memory: Mutex<Memory>,
    tallies: Tallies,
}

struct Memory {
    figures: Figures,
    watched: Watched,
}

impl Stats {
    /// Counts from now on what is written through `store`.
    pub fn start(store: Store, clock: SharedClock) -> Self {
        let memory = Memory { figures: Figures::new(clock.now()), watched: Watched::default() };
        let stats =
            Self { inner: Arc::new(Inner { store, clock, memory: Mutex::new(memory), tallies: Tallies::default() }) };
        stats.inner.store.observe(Arc::new(Written(Arc::downgrade(&stats.inner))));
        stats
    }

    /// Since when the figures count.
    pub fn since(&self) -> Timestamp {
        self.inner.memory.lock().figures.since()
    }

    /// An expiry's decision was committed: `timer` is what it has become, and `again` says that it is to be tried again.
    pub fn fired(&self, timer: &Timer, lateness: Option<DurationMs>, again: bool) {
        let now = self.inner.clock.now();
        self.inner.memory.lock().figures.fired(timer, lateness, again, now);
    }

    /// Compensations that have come to another state; they are only made if somebody watches the namespace.
    pub fn compensations_changed<I: IntoIterator<Item = CompensationChange>>(
        &self,
        namespace: NamespaceId,
        changes: impl FnOnce() -> I,
    ) {
        let mut memory = self.inner.memory.lock();
        if memory.watched.is_watched(namespace) {
            changes().into_iter().for_each(|change| memory.watched.compensation(change));
        }
    }

    pub fn of_namespace(&self, namespace: NamespaceId) -> OfNamespace {
        let now = self.inner.clock.now();
        self.inner.memory.lock().figures.of_namespace(namespace, now)
    }

    pub fn of_types(&self, types: &[TypeId]) -> Vec<OfType> {
        let now = self.inner.clock.now();
        let memory = self.inner.memory.lock();
        types.iter().map(|id| memory.figures.of_type(*id, now)).collect()
    }

    /// The counts of these types, which are all of a namespace; at most a second old where the store is quick.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn counted(&self, namespace: NamespaceId, types: Vec<TypeId>) -> Result<Arc<Counted>> {
        self.inner.tallies.of(namespace, types, &self.inner.store, self.inner.clock.now()).await
    }

    /// From now on what changes in the namespace is kept for [`Stats::take_changes`].
    pub fn watch(&self, namespace: NamespaceId) {
        self.inner.memory.lock().watched.watch(namespace);
    }

    pub fn unwatch(&self, namespace: NamespaceId) {
        self.inner.memory.lock().watched.forget(namespace);
    }

    /// What has changed since it was last asked.
    pub fn take_changes(&self, namespace: NamespaceId) -> Changes {
        self.inner.memory.lock().watched.take(namespace)
    }
}

/// It must not keep the store alive, which holds it.
struct Written(std::sync::Weak<Inner>);

impl Observer for Written {
    fn timer_written(&self, timer: &Timer) {
        let Some(inner) = self.0.upgrade() else { return };
        let now = inner.clock.now();
        let mut memory = inner.memory.lock();
        memory.figures.written(timer, now);
        memory.watched.timer(timer);
    }

    fn compensation_written(&self, _: TypeId, _: &Name, _: Timestamp) {}

    fn catalogue_written(&self) {}
}
