//! Compensations: effects on other services, carried out after the decision that they were written with.
//!
//! ```text
//!  store (after each commit) ── (type, kind, run_at) ──► due now? wake the lane : note when
//!  the store, asked each second: lanes that are due, and the next instant ──► wake, wait
//!                                      │
//!                                      ▼
//!             lane (type, kind): claims as many as it has free places, oldest first (running, lease, fence)
//!                                      │
//!                                      ▼ a task each
//!      plugin.compensate, by the revision that decided ─► done │ conflict: done, skipped │ permanent: dead
//!                                      │ transient, downstream
//!                                      ▼
//!                     tries left? ─► pending again, later (it waits in the store, not in a place) : dead
//! ```
//!
//! A lane whose downstream hangs fills its own places only, and has fewer of them while it does. A run whose lease has lapsed is fenced: what it reports
//! changes nothing, and the run that has taken over reports for it. The idempotency key is the compensation's id over all
//! attempts and redrives, so that a downstream can tell a repeat.

mod places;
mod run;

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::places::{Lane, Places};
use crate::{
    catalog::Catalog,
    clock::{SharedClock, nap},
    config,
    domain::{
        compensation::{Compensation, CompensationState},
        id::{Name, TypeId},
        time::{DurationMs, Timestamp},
        timer::Timer,
    },
    stats::{CompensationChange, Stats},
    store::{Observer, Store, op::ClaimCompensations},
};

/// How often the store is asked for lanes that are due: what another node has written is seen within it.
const LOOK_EVERY: DurationMs = DurationMs::from_secs(1);
/// How often the gauges of what is pending are set, and up to which number is counted for them.
const COUNT_EVERY: DurationMs = DurationMs::from_secs(10);
const COUNT_TO: u64 = 100_000;

/// What [`Lanes`] are made of.
pub struct LanesParams {
    pub store: Store,
    pub catalog: Catalog,
    pub clock: SharedClock,
    pub config: config::Compensation,
    pub stats: Stats,
}

/// The handle. Cheap to clone; when the last one goes, nothing more is claimed.
#[derive(Clone)]
pub struct Lanes {
    alive: Arc<Alive>,
}

struct Alive {
    engine: Arc<Engine>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.engine.stop_claiming.cancel();
    }
}

struct Engine {
    store: Store,
    catalog: Catalog,
    clock: SharedClock,
    config: config::Compensation,
    stats: Stats,
    places: Places,
    /// A lane has been woken, or an earlier instant noted.
    woken: Notify,
    stop_claiming: CancellationToken,
    /// Runs under way are broken off.
    break_off: CancellationToken,
    tasks: TaskTracker,
}

impl Lanes {
    /// Starts on the current runtime.
    pub fn start(params: LanesParams) -> Self {
        let LanesParams { store, catalog, clock, config, stats } = params;
        let engine = Arc::new(Engine {
            places: Places::new(config.concurrency.max(1) as usize),
            woken: Notify::new(),
            stop_claiming: CancellationToken::new(),
            break_off: CancellationToken::new(),
            tasks: TaskTracker::new(),
            store,
            catalog,
            clock,
            config,
            stats,
        });
        engine.store.observe(Arc::new(Waker(Arc::downgrade(&engine))));
        engine.tasks.spawn(watch(Arc::clone(&engine)));
        engine.tasks.spawn(count(Arc::clone(&engine)));
        Self { alive: Arc::new(Alive { engine }) }
    }

    /// Compensations that run at this moment, over all lanes.
    pub fn running(&self) -> usize {
        self.alive.engine.places.running()
    }

    /// Stops: claims nothing more, and lets what runs come to its end. What has not after `bound` of real time is broken
    /// off and given up, and its attempt is not counted.
    pub async fn drain(&self, bound: DurationMs) {
        let engine = &self.alive.engine;
        engine.stop_claiming.cancel();
        engine.tasks.close();
        if tokio::time::timeout(bound.as_std(), engine.tasks.wait()).await.is_ok() {
            return;
        }
        engine.break_off.cancel();
        tracing::info!(
            compensations = engine.places.running(),
            "compensations are broken off by the stop, and given up"
        );
        // Giving up is a write each.
        let _given_up = tokio::time::timeout(GIVE_UP_WITHIN, engine.tasks.wait()).await;
    }
}

/// What the writes of a stop may take.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(2);

/// Wakes lanes on commits. It must not keep the engine alive.
struct Waker(Weak<Engine>);

impl Observer for Waker {
    fn timer_written(&self, _timer: &Timer) {}

    fn compensation_written(&self, type_id: TypeId, kind: &Name, run_at: Timestamp) {
        let Some(engine) = self.0.upgrade() else { return };
        if run_at <= engine.clock.now() {
            engine.places.wake(Lane { type_id, kind: kind.clone() });
        } else {
            engine.places.note(run_at);
        }
        engine.woken.notify_one();
    }

    fn catalogue_written(&self) {}
}

/// The one task that looks at the clock and into the store.
async fn watch(engine: Arc<Engine>) {
    let mut look_at = Timestamp::MIN;
    while !engine.stop_claiming.is_cancelled() {
        let now = engine.clock.now();
        let noted = engine.places.take_noted(now);
        // Also after the clock was set back.
        if noted || look_at <= now || look_at > now.saturating_add(LOOK_EVERY) {
            look_at = now.saturating_add(LOOK_EVERY);
            if let Err(error) = engine.look(now).await {
                tracing::warn!(%error, "compensations that are due cannot be looked for; trying again");
            }
        }
        for (lane, free) in engine.places.to_claim() {
            let engine = Arc::clone(&engine);
            engine.tasks.clone().spawn(async move { engine.claim(lane, free).await });
        }
        let until = engine.places.noted().map_or(look_at, |next| next.min(look_at));
        tokio::select! {
            () = nap(&*engine.clock, until) => {}
            () = engine.woken.notified() => {}
            () = engine.stop_claiming.cancelled() => {}
        }
    }
}

/// Sets the gauges of what is pending.
async fn count(engine: Arc<Engine>) {
    let mut shown = HashSet::new();
    loop {
        if let Err(error) = engine.count(&mut shown).await {
            tracing::debug!(%error, "compensations cannot be counted");
        }
        let next = Instant::now() + COUNT_EVERY.as_std();
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = engine.stop_claiming.cancelled() => return,
        }
    }
}

impl Engine {
    /// Sets the gauges of every type that has something to show, or had when this was done last.
    async fn count(&self, shown: &mut HashSet<TypeId>) -> crate::store::Result<()> {
        let snapshot = self.catalog.snapshot();
        let rows = &snapshot.catalogue.types;
        let types: Vec<TypeId> = rows.iter().map(|row| row.id).collect();
        let mut all = Vec::new();
        for (name, state) in [
            ("lapse_compensation_pending", CompensationState::Pending),
            ("lapse_compensation_running", CompensationState::Running),
            ("lapse_compensation_dead", CompensationState::Dead),
        ] {
            let counts = self.store.read().compensations_by_type(types.clone(), state, COUNT_TO).await?;
            shown.extend(counts.keys());
            all.push((name, counts));
        }
        for row in rows.iter().filter(|row| shown.contains(&row.id)) {
            let labels = [("namespace", row.namespace.to_string()), ("type", row.name.to_string())];
            for (name, counts) in &all {
                #[expect(clippy::cast_precision_loss, reason = "counted up to a bound far below 2^52")]
                metrics::gauge!(*name, &labels).set(counts.get(&row.id).copied().unwrap_or(0) as f64);
            }
        }
        Ok(())
    }

    /// Wakes the lanes that are due, and notes the next instant at which one will be.
    async fn look(&self, now: Timestamp) -> crate::store::Result<()> {
        for (type_id, kind) in self.store.read().compensation_lanes(now).await? {
            self.places.wake(Lane { type_id, kind });
        }
        if let Some(next) = self.store.read().next_compensation_at().await?.filter(|next| *next > now) {
            self.places.note(next);
        }
        Ok(())
    }

    fn changed(&self, compensation: &Compensation, state: CompensationState) {
        self.stats.compensations_changed(compensation.namespace_id, || [CompensationChange::of(compensation, state)]);
    }

    /// Claims for a lane as many as it has free places, and starts them.
    async fn claim(self: Arc<Self>, lane: Lane, free: usize) {
        let claim = ClaimCompensations {
            type_id: lane.type_id,
            kind: lane.kind.clone(),
            limit: free,
            lease: self.config.lease,
        };
        match self.store.claim_compensations(claim).await {
            Ok(claimed) => {
                self.places.claimed(&lane, claimed.len(), claimed.len() == free);
                for one in &claimed {
                    self.changed(one, CompensationState::Running);
                }
                for compensation in claimed {
                    let engine = Arc::clone(&self);
                    let lane = lane.clone();
                    self.tasks.spawn(async move {
                        let mut place = Place { engine: Arc::clone(&engine), lane, hung: None };
                        place.hung = engine.run(compensation).await;
                        drop(place);
                    });
                }
            }
            Err(error) => {
                // The next look wakes the lane again.
                self.places.claimed(&lane, 0, false);
                tracing::warn!(%error, compensation.kind = %lane.kind, lapse.type_id = lane.type_id.0, "compensations cannot be claimed; trying again");
            }
        }
        self.woken.notify_one();
    }
}

/// A place in a lane, until it is dropped.
struct Place {
    engine: Arc<Engine>,
    lane: Lane,
    /// Whether its run hung, if it came to its end.
    hung: Option<bool>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let (can_claim, width) = self.engine.places.leave(&self.lane, self.hung);
        if let Some(width) = width {
            tracing::warn!(
                lapse.type_id = self.lane.type_id.0, compensation.kind = %self.lane.kind, lane.width = width,
                "runs of a lane of compensations hang, or have recovered: it has another width"
            );
        }
        if can_claim {
            self.engine.woken.notify_one();
        }
    }
}
