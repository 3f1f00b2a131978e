//! What is paused does not start: the check where something would, and what follows when a pause begins or ends.
//!
//! ```text
//!  holder ── its instant ──► paused? ──yes──► dropped: the row still says that it is due
//!               lane ── a thread, a call ──► paused? ──yes──► dropped, or its lease given up
//!                                  backlog ──► paused types are left out
//!  a pause ends (resumed, or its time has come): the backlog looks at the whole of the type, oldest first, at its rate
//! ```
//!
//! A call that has begun comes to its end and is settled. Compensations run on: a pause is of deciding, and what was
//! decided is to be carried out.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use metrics::gauge;
use parking_lot::Mutex;

use super::{Engine, lane::Job, meter::Left};
use crate::{
    catalog::Snapshot,
    domain::{
        id::TypeId,
        pause::{Pause, Scope},
        time::Timestamp,
        timer::{State, Timer},
    },
};

/// Why the lease of a paused timer is given up.
const PAUSED: &str = "its type is paused";

/// What held at the last look. Bounded by the pauses and types that there are.
#[derive(Default)]
pub(super) struct Watch(Mutex<Known>);

#[derive(Default)]
struct Known {
    pauses: HashMap<Scope, Pause>,
    types: HashSet<TypeId>,
}

impl Engine {
    pub(super) fn is_paused(&self, timer: &Timer, now: Timestamp) -> bool {
        self.catalog.is_paused(timer, now)
    }

    /// Types that a pause keeps from firing at `now`.
    pub(super) fn paused_types(&self, snapshot: &Snapshot, now: Timestamp) -> HashSet<TypeId> {
        let pauses = self.catalog.pauses();
        if pauses.is_empty() {
            return HashSet::new();
        }
        let types = snapshot.catalogue.types.iter();
        types.filter(|t| pauses.of(t.namespace_id, t.id, now).is_some()).map(|t| t.id).collect()
    }

    /// Lets go of a job that must not start: the backlog finds it when the pause ends.
    pub(super) fn put_off(self: &Arc<Self>, jobs: Vec<Job>) {
        let mut leased = Vec::new();
        for job in &jobs {
            if job.timer.state == State::Firing {
                leased.push((job.timer.id, job.timer.version));
            } else {
                self.meter.left_to_backlog(job.timer.type_id, Left::Paused);
            }
        }
        if leased.is_empty() {
            return;
        }
        let engine = Arc::clone(self);
        let release = async move {
            engine.release(leased, engine.clock.now(), PAUSED).await;
            // In hand until it is released, so that nobody here takes it meanwhile.
            drop(jobs);
        };
        self.tasks.spawn_on(release, &self.runtime);
    }

    /// Takes in what has been paused and resumed since the last look, by somebody or by itself.
    pub(super) fn look_after_pauses(self: &Arc<Self>, now: Timestamp) {
        let pauses = self.catalog.pauses();
        let mut known = self.watch.0.lock();
        if pauses.is_empty() && known.pauses.is_empty() {
            return;
        }
        let snapshot = self.catalog.snapshot();
        let types = self.paused_types(&snapshot, now);
        let holding: HashMap<Scope, Pause> = pauses.holding(now).map(|pause| (pause.scope, pause.clone())).collect();
        for pause in holding.values().filter(|pause| known.pauses.get(&pause.scope) != Some(*pause)) {
            tell(&snapshot, pause, "firing is paused");
        }
        for pause in known.pauses.values().filter(|pause| !holding.contains_key(&pause.scope)) {
            tell(&snapshot, pause, "firing is resumed");
        }
        set_gauges(&snapshot, &holding, known.types.union(&types), |id| types.contains(&id));
        let resumed: Vec<TypeId> = known.types.difference(&types).copied().collect();
        *known = Known { pauses: holding, types };
        drop(known);
        if !resumed.is_empty() {
            self.failures.forget(&resumed);
            self.store.read().look_from_the_start(&resumed);
            self.lanes.room.notify_one();
        }
        // Also after the first look: a job may have been on its way to its lane then.
        let waiting = self.lanes.take_paused(|timer| self.is_paused(timer, now));
        self.put_off(waiting);
    }
}

fn tell(snapshot: &Snapshot, pause: &Pause, what: &str) {
    let (namespace, name) = named(snapshot, pause.scope);
    tracing::info!(
        pause.scope = pause.scope.as_str(), pause.namespace = namespace, pause.r#type = name,
        pause.reason = pause.reason, pause.by = pause.by, pause.since = %pause.since,
        pause.until = pause.until.map(|until| until.to_string()),
        "{what}"
    );
}

/// A scope's namespace and type, where it has them.
fn named(snapshot: &Snapshot, scope: Scope) -> (Option<String>, Option<String>) {
    match scope {
        Scope::All => (None, None),
        Scope::Namespace(id) => {
            let row = snapshot.catalogue.namespaces.iter().find(|n| n.id == id);
            (row.map(|n| n.name.to_string()), None)
        }
        Scope::Type(id) => {
            let row = snapshot.catalogue.types.iter().find(|t| t.id == id);
            (row.map(|t| t.namespace.to_string()), row.map(|t| t.name.to_string()))
        }
    }
}

fn set_gauges<'a>(
    snapshot: &Snapshot,
    holding: &HashMap<Scope, Pause>,
    types: impl Iterator<Item = &'a TypeId>,
    is_paused: impl Fn(TypeId) -> bool,
) {
    for scope in ["all", "namespace", "type"] {
        let count = holding.keys().filter(|held| held.as_str() == scope).count();
        gauge!("lapse_pauses", "scope" => scope).set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    }
    for id in types {
        if let (Some(namespace), Some(name)) = named(snapshot, Scope::Type(*id)) {
            gauge!("lapse_type_paused", "namespace" => namespace, "type" => name)
                .set(f64::from(u8::from(is_paused(*id))));
        }
    }
}
