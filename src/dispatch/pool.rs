//! The pool of threads for pure decisions.
//!
//! A pure decision blocks its thread for the time of its call, which is microseconds, or for a looping plugin as long as
//! its CPU bound. So a type has at most half of the threads, and a batch ends after [`SLICE`]: what is left of it goes
//! back, to be taken by whoever is free.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Engine,
    lane::{Batch, Job},
    meter::{Left, Meter},
    run::{self, Decided},
};
use crate::domain::{plugin::Export, time::DurationMs, timer::State};

/// How long a thread stays with one batch.
const SLICE: Duration = Duration::from_millis(10);

/// Starts the threads; they end when the lanes stop.
pub(super) fn start(engine: &Arc<Engine>, threads: usize) {
    for n in 0..threads {
        let engine = Arc::clone(engine);
        let named = std::thread::Builder::new().name(format!("decide-{n}"));
        let started = named.spawn(move || {
            let clock = Arc::clone(&engine.clock);
            while let Some(batch) = engine.lanes.next_batch(&|| clock.now()) {
                work(&engine, batch);
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "a thread for decisions cannot be started: there is one fewer");
        }
    }
}

fn work(engine: &Arc<Engine>, mut batch: Batch) {
    let since = Instant::now();
    let mut timeouts = Vec::with_capacity(batch.jobs.len());
    while let Some(job) = batch.jobs.pop_front() {
        let was_backlog = job.is_backlog();
        let now = engine.clock.now();
        if engine.is_paused(&job.timer, now) {
            engine.put_off(vec![job]);
            engine.lanes.settled_pure(batch.type_id, was_backlog);
            continue;
        }
        if job.is_stale(now, DurationMs::ZERO) {
            // A claimed one's lease has lapsed: the backlog takes it as well.
            if job.timer.state != State::Firing {
                engine.meter.left_to_backlog(job.timer.type_id, Left::Late);
            }
            drop(job);
            engine.lanes.settled_pure(batch.type_id, was_backlog);
            continue;
        }
        let decided = decide(engine, &job);
        let timed_out = decided.timed_out();
        timeouts.push(timed_out);
        let busy = Settling { engine: Arc::clone(engine), type_id: batch.type_id, was_backlog };
        let engine_of_task = Arc::clone(engine);
        engine.tasks.spawn_on(
            async move {
                engine_of_task.settle(job, decided).await;
                drop(busy);
            },
            &engine.runtime,
        );
        if timed_out || since.elapsed() >= SLICE {
            break;
        }
    }
    engine.lanes.batch_done(batch, &timeouts);
}

fn decide(engine: &Engine, job: &Job) -> Decided {
    let expiry = run::expiry(job, engine.clock.now());
    let started = Instant::now();
    // The host keeps a plugin's traps to itself; a fault of the host's own must not cost a thread of the pool.
    let run = catch_unwind(AssertUnwindSafe(|| job.ready.plugin.decide(&expiry))).unwrap_or_else(|_| run::host_fault());
    Meter::consumed(job);
    let (of, revision) = (&job.entry.row, job.ready.revision.number);
    engine.catalog.costs().record(of, revision, Export::OnExpire, &run.cost);
    Decided::new(job, &expiry, run, &engine.catalog.snapshot(), engine.clock.now()).started_at(started)
}

/// Counts a pure decision as being written, until it is dropped.
struct Settling {
    engine: Arc<Engine>,
    type_id: crate::domain::id::TypeId,
    was_backlog: bool,
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.engine.lanes.settled_pure(self.type_id, self.was_backlog);
    }
}
