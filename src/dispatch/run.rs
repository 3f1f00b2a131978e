//! What a plugin is asked, and calls with effects: claimed first, then run as a task.

use std::{sync::Arc, time::Instant};

use super::{
    Engine,
    lane::Job,
    meter::{Left, Meter},
};
use crate::{
    clock::lease_nearly_ends,
    domain::{
        decision::{Decision, Expiry, Failure, FailureClass},
        id::TypeId,
        plugin::Export,
        time::Timestamp,
        timer::State,
    },
    plugin::Run,
    store::{
        Error,
        op::{Claim, Claimed},
    },
};

pub(super) use super::settle::{Decided, TIMEOUT};

/// What `on-expire` is given: a fixed function of the job and the time.
pub(super) fn expiry(job: &Job, fired_at: Timestamp) -> Expiry {
    let Job { timer, entry, ready, .. } = job;
    Expiry {
        timer_id: timer.id,
        namespace: entry.row.namespace.to_string(),
        timer_type: entry.row.name.to_string(),
        key: timer.key.to_string(),
        payload: timer.payload.clone(),
        attempt: timer.attempt,
        trigger: job.trigger,
        idempotency_key: timer.id.to_string(),
        due_at: timer.due_at,
        // It has come by the store's clock; one that was set back since does not unmake that.
        fired_at: fired_at.max(timer.due_at),
        config: ready.revision.config.clone(),
    }
}

/// In the place of an answer, where the host itself broke.
pub(super) fn host_fault() -> Run<Decision> {
    no_answer("host_fault", "the plugin host broke off the call")
}

/// In the place of an answer that did not come.
fn no_answer(code: &str, message: &str) -> Run<Decision> {
    Run::without_answer(Failure::new(FailureClass::Transient, code, message))
}

/// Counts a call with effects as running, until it is dropped; then the lane may start another.
struct Running {
    engine: Arc<Engine>,
    type_id: TypeId,
    was_backlog: bool,
    timed_out: Option<bool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.lanes.ended_effects(self.type_id, self.was_backlog, self.timed_out);
        self.engine.pump(self.type_id);
    }
}

impl Engine {
    /// Starts what may start of a type's calls with effects.
    pub(super) fn pump(self: &Arc<Self>, type_id: TypeId) {
        let started = self.lanes.start_effects(type_id, self.clock.now());
        for job in started.jobs {
            let was_backlog = job.is_backlog();
            let running = Running { engine: Arc::clone(self), type_id, was_backlog, timed_out: None };
            let engine = Arc::clone(self);
            self.tasks.spawn_on(async move { engine.run_with_effects(job, running).await }, &self.runtime);
        }
        if let Some(wait) = started.again_in {
            let engine = Arc::clone(self);
            self.tasks.spawn_on(
                async move {
                    crate::clock::nap(&*engine.clock, engine.clock.now().saturating_add(wait)).await;
                    engine.lanes.woken(type_id);
                    engine.pump(type_id);
                },
                &self.runtime,
            );
        }
    }

    async fn run_with_effects(self: &Arc<Self>, job: Job, mut running: Running) {
        if self.is_paused(&job.timer, self.clock.now()) {
            return self.put_off(vec![job]);
        }
        let job = match job.timer.state {
            State::Scheduled => match self.claim(job).await {
                Some(job) => job,
                None => return,
            },
            _ => job,
        };
        let expiry = expiry(&job, self.clock.now());
        let started = Instant::now();
        let run = tokio::select! {
            run = job.ready.plugin.decide_with_effects(&expiry, &job.ready.rights) => run,
            // Another node takes the timer over when the lease ends: none of its effects may come after that.
            () = lease_nearly_ends(&*self.clock, job.timer.run_at) => {
                no_answer(TIMEOUT, "the call was broken off before its lease ended")
            }
            () = self.break_off.cancelled() => {
                tracing::info!(timer_id = %job.timer.id, timer_key = %job.timer.key, "a call is broken off by the stop, and its lease given up");
                let lease = vec![(job.timer.id, job.timer.version)];
                return self.release(lease, self.clock.now(), super::NODE_STOPS).await;
            }
        };
        Meter::consumed(&job);
        let (of, revision) = (&job.entry.row, job.ready.revision.number);
        self.catalog.costs().record(of, revision, Export::OnExpire, &run.cost);
        let decided = Decided::new(&job, &expiry, run, &self.catalog.snapshot(), self.clock.now()).started_at(started);
        running.timed_out = Some(decided.timed_out());
        self.settle(job, decided).await;
    }

    /// Takes the timer for this node alone. `None` if it is not to run here, or not now.
    async fn claim(&self, mut job: Job) -> Option<Job> {
        let claim = Claim {
            id: job.timer.id,
            version: job.timer.version,
            lease: self.config.lease,
            trigger: job.trigger,
            node: self.node.clone(),
        };
        let type_id = job.timer.type_id;
        match self.store.claim(claim).await {
            Ok(Claimed::Done(timer)) => {
                job.in_hand.claimed(timer.version);
                job.timer = timer;
                return Some(job);
            }
            Ok(Claimed::Moved(timer)) if timer.state == State::Scheduled => self.arm(&timer),
            Ok(Claimed::Lost(_) | Claimed::Moved(_) | Claimed::Gone) => self.meter.duplicate(type_id),
            Ok(Claimed::Early(timer)) => self.hold_again(job, timer),
            Err(error) => {
                // Nothing has run yet: the backlog takes it, or its lease if the claim was committed after all.
                self.meter.left_to_backlog(type_id, Left::Store);
                if !matches!(error, Error::Stopped) && self.meter.may_say(type_id, Left::Store, self.clock.now()) {
                    tracing::warn!(%error, timer_type = %job.entry.row.name, "a timer cannot be claimed: it is left to the backlog");
                }
            }
        }
        None
    }
}
