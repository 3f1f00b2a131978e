//! From due to decided: what is due is held to its instant, run in its type's lane, and settled.
//!
//! ```text
//!  store (after each commit) ──► arm: due within 2 s? ──near, manual──┐
//!  delivery ── slot ──► read its timers (paged) ───────slot───────────┤
//!                                                                      ▼
//!                                              holder: bounded, by (run_at, id), to the millisecond
//!                                                                      │ run_at and due_at have come
//!                                                                      ▼
//!                                    in flight? just settled? ──yes──► a duplicate, counted
//!                                                                      │ no
//!                                                                      ▼
//!  backlog: overdue by 5 s, lapsed leases ──claimed──────────► lane of the type: fresh before backlog
//!                                                              │                          │
//!                                              pure revision   │                          │  effects granted
//!                                                              ▼                          ▼
//!                                     pool of threads: decide, in batches       claim (firing, lease), then decide
//!                                                              │                          │
//!                                                              └────────► settle ◄────────┘
//!                                                                           │ one conditional write
//!          done: what it became is armed ◄── done, moved, early ───────────┤
//!          lost: counted; the row says who won ◄──────────── lost ─────────┘
//! ```
//!
//! Nothing here is the truth. What is dropped (a full queue, four seconds of delay, a node that dies) is found by the
//! backlog, since the row still says that it is due.
//!
//! **What is paused** (`pauses.rs`) is checked at the hand-over and where something starts, and left out by the backlog.
//!
//! **Draining** stops the intake, gives back the slots, lets what is due run to its end within a bound, and then gives up
//! the leases of what is left ([`Settle::Release`](crate::domain::machine::Settle::Release): the same attempt, at once).

mod backlog;
mod bucket;
mod commit;
mod failures;
mod holder;
mod inflight;
mod lane;
mod meter;
mod pauses;
mod pool;
mod revisions;
mod run;
mod settle;
mod slots;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    holder::{Held, Holder, Put, Weight},
    inflight::InFlight,
    lane::{DROP_AFTER, Job, Lanes, Way},
    meter::{Left, Meter},
    revisions::{AtHand, Revisions},
};
use crate::{
    catalog::Catalog,
    clock::{SharedClock, nap},
    config,
    delivery::{Delivery, WokenBy},
    domain::{
        decision::{Failure, FailureClass},
        id::{Name, TypeId},
        time::{DurationMs, Timestamp},
        timer::{State, Timer, Trigger},
    },
    stats::{Broker, Lane, Stats},
    store::{Observer, Store},
};

pub use self::lane::LaneStats;

/// What is written with less than this to go is armed by the node that writes it; a slot is read half a second before
/// its second starts, so that nothing falls in between.
const NEAR: DurationMs = DurationMs::from_secs(2);
/// The longest time between two looks at the clock.
const TICK: DurationMs = DurationMs::from_millis(500);
/// What the writes of a stop may take, after its bound.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(2);
/// Why leases are given up by a stop.
const NODE_STOPS: &str = "its node stops";
/// Timers handed to the lanes in one go.
const HAND_OVER: usize = 512;

/// What a [`Dispatcher`] is made of.
pub struct DispatcherParams {
    pub store: Store,
    pub catalog: Catalog,
    pub clock: SharedClock,
    pub delivery: Arc<dyn Delivery>,
    pub config: config::Dispatch,
    pub stats: Stats,
    /// Names this node in claims.
    pub node: String,
}

/// The handle. Cheap to clone; when the last one goes, nothing more is taken.
#[derive(Clone)]
pub struct Dispatcher {
    alive: Arc<Alive>,
}

/// Figures of the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Timers in memory that wait for their instant.
    pub held: usize,
    /// The first of their instants.
    pub next_at: Option<Timestamp>,
    /// Timers in a lane, from their instant to their outcome.
    pub in_flight: usize,
    pub lanes: Vec<LaneStats>,
    /// Late or second deliveries since the start, and lost races: none of them changed anything.
    pub duplicates: u64,
    /// Timers since the start that were left to the backlog.
    pub left_to_backlog: u64,
}

struct Alive {
    engine: Arc<Engine>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.engine.stop_taking.cancel();
        self.engine.stop_ticking.cancel();
        // Tickets hold the engine: without them it goes when its tasks have ended. No slot is closed for it.
        drop(self.engine.open.take_all());
        drop(self.engine.holder.take_slots());
        drop(self.engine.lanes.stop());
    }
}

/// What all parts of the dispatcher share.
struct Engine {
    store: Store,
    catalog: Catalog,
    clock: SharedClock,
    delivery: Arc<dyn Delivery>,
    config: config::Dispatch,
    stats: Stats,
    node: String,
    runtime: Handle,
    holder: Holder,
    inflight: Arc<InFlight>,
    lanes: Lanes,
    revisions: Revisions,
    open: slots::Open,
    meter: Meter,
    watch: pauses::Watch,
    failures: failures::Failures,
    last_tick: AtomicI64,
    /// No more slots, and nothing more from the backlog.
    stop_taking: CancellationToken,
    /// The holder hands nothing over any more.
    stop_ticking: CancellationToken,
    /// Calls under way are broken off.
    break_off: CancellationToken,
    tasks: TaskTracker,
}

impl Dispatcher {
    /// Starts on the current runtime.
    pub fn start(params: DispatcherParams) -> Self {
        let DispatcherParams { store, catalog, clock, delivery, config, stats, node } = params;
        // Two at least: a lane whose calls time out has one of them, and leaves one.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = if config.threads == 0 { cores } else { config.threads }.max(2);
        let engine = Arc::new(Engine {
            holder: Holder::new(config.holder),
            inflight: Arc::default(),
            lanes: Lanes::new(threads, config.concurrency),
            revisions: Revisions::new(catalog.clone()),
            open: slots::Open::default(),
            meter: Meter::new(catalog.clone()),
            watch: pauses::Watch::default(),
            failures: failures::Failures::new(config.clone()),
            last_tick: AtomicI64::new(clock.now().as_millis()),
            stop_taking: CancellationToken::new(),
            stop_ticking: CancellationToken::new(),
            break_off: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            store,
            catalog,
            clock,
            delivery,
            config,
            stats,
            node,
        });
        engine.store.observe(Arc::new(Armer(Arc::downgrade(&engine))));
        pool::start(&engine, threads);
        engine.tasks.spawn(hold(Arc::clone(&engine)));
        engine.tasks.spawn(slots::take_in(Arc::clone(&engine)));
        if engine.config.backlog {
            engine.tasks.spawn(backlog::work_off(Arc::clone(&engine)));
        }
        Self { alive: Arc::new(Alive { engine }) }
    }

    /// When dispatch last looked at the clock; at least twice a second while it lives.
    pub fn last_tick(&self) -> Timestamp {
        Timestamp::from_millis_clamped(self.alive.engine.last_tick.load(Ordering::Relaxed))
    }

    /// A type's lane; `None` while nothing of the type waits or runs here.
    pub fn lane(&self, type_id: TypeId) -> Option<Lane> {
        let engine = &self.alive.engine;
        engine.lanes.look(type_id, engine.clock.now())
    }

    pub fn broker(&self) -> Broker {
        match self.alive.engine.delivery.woken_by() {
            WokenBy::OwnClock => Broker::None,
            WokenBy::Broker => Broker::Up,
            WokenBy::OwnClockMeanwhile(length) => {
                let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                Broker::Away { for_at_least: DurationMs::from_millis(ms) }
            }
        }
    }

    pub fn stats(&self) -> Moment {
        let engine = &self.alive.engine;
        Moment {
            held: engine.holder.len(),
            next_at: engine.holder.first(),
            in_flight: engine.inflight.len(),
            lanes: engine.lanes.stats(),
            duplicates: engine.meter.duplicates.load(Ordering::Relaxed),
            left_to_backlog: engine.meter.left.load(Ordering::Relaxed),
        }
    }

    /// Holds timers that a node which only registers has written, as if this one had.
    pub fn take_over(&self, timers: impl IntoIterator<Item = Timer>) {
        let engine = &self.alive.engine;
        if engine.stop_taking.is_cancelled() {
            return;
        }
        for timer in timers {
            if !engine.inflight.has(timer.id, timer.version) {
                engine.arm(&timer);
            }
        }
    }

    /// Stops: takes nothing more, gives back slots, and lets what is due, or was armed here and is due within two
    /// seconds, run to its end. What is not through after `bound` of real time is broken off and its lease given up.
    pub async fn drain(&self, bound: DurationMs) {
        let engine = &self.alive.engine;
        let deadline = Instant::now() + bound.as_std();
        engine.stop_taking.cancel();
        if tokio::time::timeout(bound.as_std(), engine.delivery.stop()).await.is_err() {
            tracing::warn!(
                "the delivery does not stop within the bound: what it holds comes back to other nodes by itself"
            );
        }
        // Taken out first: the last ticket that goes closes its slot, as if its timers were settled.
        let open = engine.open.take_all();
        drop(engine.holder.take_slots());
        for slot in open {
            engine.delivery.give_back(slot).await;
        }
        let busy = || engine.holder.first().is_some_and(|at| at <= engine.clock.now().saturating_add(NEAR));
        while Instant::now() < deadline && (busy() || engine.inflight.len() > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        engine.stop_ticking.cancel();
        // Calls with effects give up their own leases.
        engine.break_off.cancel();
        let left = engine.lanes.stop();
        engine.tasks.close();
        let _ended = tokio::time::timeout(GIVE_UP_WITHIN, engine.tasks.wait()).await;
        // What is left in the lanes, and what a thread is still deciding.
        engine.release(engine.inflight.leased(), engine.clock.now(), NODE_STOPS).await;
        drop(left);
    }
}

/// Whether a timer is due so shortly that whoever writes it has to see to it: its slot may have been read already.
pub fn is_near(timer: &Timer, now: Timestamp) -> bool {
    timer.state == State::Scheduled && holder::ready_at(timer) <= now.saturating_add(NEAR)
}

/// Arms every timer that a commit leaves due shortly. It must not keep the engine alive.
struct Armer(Weak<Engine>);

impl Observer for Armer {
    fn timer_written(&self, timer: &Timer) {
        let Some(engine) = self.0.upgrade() else { return };
        engine.arm(timer);
        if timer.state == State::Failed && failure_of(timer).is_some_and(|f| f.class == FailureClass::Poison) {
            engine.meter.poisoned(timer);
            engine.judge(timer);
        }
    }

    /// Held twice is held once, and held by another node too it is a duplicate; held by none, it would be the backlog's.
    fn timer_found(&self, timer: &Timer) {
        let Some(engine) = self.0.upgrade() else { return };
        if timer.state == State::Scheduled {
            engine.arm(timer);
        }
    }

    fn compensation_written(&self, _type_id: TypeId, _kind: &Name, _run_at: Timestamp) {}

    fn catalogue_written(&self) {}
}

/// The failure in a timer's outcome.
fn failure_of(timer: &Timer) -> Option<Failure> {
    #[derive(serde::Deserialize)]
    struct Outcome {
        failure: Option<Failure>,
    }
    serde_json::from_str::<Outcome>(timer.outcome.as_deref()?).ok()?.failure
}

impl Engine {
    /// Holds a timer that is due shortly; what is due later, its slot will bring. What was held of it before is forgotten.
    fn arm(&self, timer: &Timer) {
        if !is_near(timer, self.clock.now()) || self.stop_ticking.is_cancelled() {
            self.holder.forget_before(timer.id, timer.version);
            return;
        }
        let trigger = if timer.manual { Trigger::Manual } else { Trigger::Near };
        self.hold(Held { timer: timer.clone(), trigger, ticket: None }, Timestamp::MIN);
    }

    fn hold(&self, held: Held, not_before: Timestamp) {
        let type_id = held.timer.type_id;
        if self.holder.put(held, not_before) == Put::Full {
            self.meter.left_to_backlog(type_id, Left::HolderFull);
            if self.meter.may_say(type_id, Left::HolderFull, self.clock.now()) {
                tracing::warn!(
                    lapse.type_id = type_id.0,
                    dispatch.holder = self.config.holder,
                    "the holder is full: timers fire some seconds late, from the backlog"
                );
            }
        }
    }

    /// Hands what has come to its instant to its lane.
    fn hand_over(self: &Arc<Self>, ready: Vec<(Held, Weight)>, now: Timestamp) {
        let snapshot = self.catalog.snapshot();
        for (Held { timer, trigger, ticket }, weight) in ready {
            let ready_at = holder::ready_at(&timer);
            if ready_at.saturating_add(DROP_AFTER) < now {
                self.meter.left_to_backlog(timer.type_id, Left::Late);
                continue;
            }
            if self.is_paused(&timer, now) {
                self.meter.left_to_backlog(timer.type_id, Left::Paused);
                continue;
            }
            let Some(in_hand) = self.inflight.begin(timer.id, timer.version, now) else {
                self.meter.duplicate(timer.type_id);
                continue;
            };
            let due = Due { timer, trigger, ready_at: Some(ready_at), in_hand, ticket, weight: Some(weight) };
            match self.revisions.at_hand(&snapshot, &due.timer) {
                AtHand::Ready(entry, ready) => self.enqueue(due.with(entry, ready), now),
                AtHand::Later(entry) => self.load_and_enqueue(due, entry),
                AtHand::NoType => self.no_type(due.timer.type_id, now),
            }
        }
    }

    fn no_type(&self, type_id: TypeId, now: Timestamp) {
        self.meter.left_to_backlog(type_id, Left::NotLoaded);
        if self.meter.may_say(type_id, Left::NotLoaded, now) {
            tracing::error!(
                lapse.type_id = type_id.0,
                "a timer is due whose type cannot be loaded: it waits until it can"
            );
        }
    }

    /// Queues a job in its lane.
    fn enqueue(self: &Arc<Self>, job: Job, now: Timestamp) {
        let type_id = job.timer.type_id;
        match self.lanes.push(job, now) {
            Ok(Way::Pure) => {}
            Ok(Way::Effects) => self.pump(type_id),
            Err(refused) => {
                self.meter.left_to_backlog(type_id, Left::LaneFull);
                if self.meter.may_say(type_id, Left::LaneFull, now) {
                    tracing::warn!(timer_type = %refused.entry.row.name, "a type's lane is full: its timers fire some seconds late, from the backlog");
                }
            }
        }
    }

    /// A revision that is not at hand is chosen or loaded first; each waits by itself, so that the others go on.
    fn load_and_enqueue(self: &Arc<Self>, due: Due, entry: Arc<crate::catalog::TypeEntry>) {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            let (type_id, number) = (due.timer.type_id, due.timer.revision);
            match engine.revisions.choose(&entry, &due.timer).await {
                Ok(ready) => engine.enqueue(due.with(entry, ready), engine.clock.now()),
                Err(error) => {
                    let now = engine.clock.now();
                    engine.meter.left_to_backlog(type_id, Left::NotLoaded);
                    if engine.meter.may_say(type_id, Left::NotLoaded, now) {
                        tracing::error!(timer_type = %entry.row.name, revision = number, %error, "a timer needs a revision that cannot be loaded: it waits until it can");
                    }
                    if due.timer.state == State::Firing {
                        let again = now.saturating_add(backlog::LOAD_AGAIN);
                        engine.release(vec![(due.timer.id, due.timer.version)], again, "its revision cannot be loaded").await;
                    }
                }
            }
        });
    }
}

/// A timer that is to run, before its revision is known.
struct Due {
    timer: Timer,
    trigger: Trigger,
    ready_at: Option<Timestamp>,
    in_hand: inflight::InHand,
    ticket: Option<Arc<slots::Ticket>>,
    weight: Option<Weight>,
}

impl Due {
    fn with(self, entry: Arc<crate::catalog::TypeEntry>, ready: Arc<crate::catalog::Ready>) -> Job {
        let Self { timer, trigger, ready_at, in_hand, ticket, weight } = self;
        Job { timer, trigger, ready_at, entry, ready, in_hand, ticket, weight }
    }
}

/// The one task that watches the clock.
async fn hold(engine: Arc<Engine>) {
    let mut look_after = Timestamp::MIN;
    loop {
        let now = engine.clock.now();
        engine.last_tick.store(now.as_millis(), Ordering::Relaxed);
        let ready = engine.holder.take_ready(now, HAND_OVER);
        let more = ready.len() == HAND_OVER;
        engine.hand_over(ready, now);
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        let next_tick = now.saturating_add(TICK);
        // Also after the clock was set back.
        if look_after <= now || look_after > next_tick {
            look_after = next_tick;
            engine.look_after_lanes(now);
        }
        let until = engine.holder.first().map_or(next_tick, |first| first.min(next_tick));
        tokio::select! {
            () = nap(&*engine.clock, until) => {}
            () = engine.holder.earlier.notified() => {}
            () = engine.stop_ticking.cancelled() => return,
        }
    }
}

impl Engine {
    /// Closes slots that are past their time, and takes from the lanes what should not start here any more.
    fn look_after_lanes(self: &Arc<Self>, now: Timestamp) {
        self.meter.gauges(self.holder.len(), self.inflight.len(), &self.lanes.stats());
        self.look_after_pauses(now);
        let past = self.open.take_past(now);
        let spare = DurationMs::from_millis(self.config.lease.as_millis() / 4);
        let stale = self.lanes.take_stale(now, spare);
        if past.is_empty() && stale.is_empty() {
            return;
        }
        let mut leased = Vec::new();
        for job in &stale {
            if job.timer.state == State::Firing {
                leased.push((job.timer.id, job.timer.version));
            } else {
                self.meter.left_to_backlog(job.timer.type_id, Left::Late);
            }
        }
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            for slot in past {
                engine.delivery.done(slot).await;
            }
            engine.release(leased, now, "it waited too long in its lane").await;
            drop(stale);
        });
    }
}
