//! Lanes: a type's bounded queues, and what of it runs. A type that hangs or floods holds up its own lane alone.
//!
//! All lanes stand behind one lock, which is held for moments and never across a call or a wait. What is fresh goes
//! before what comes from the backlog.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::{bucket::Bucket, holder::Weight, inflight::InHand, slots::Ticket};
use crate::{
    catalog::{Ready, TypeEntry},
    domain::{
        id::TypeId,
        plugin::Revision,
        time::{DurationMs, Timestamp},
        timer::{State as TimerState, Timer, Trigger},
        width::Width,
    },
    stats,
};

/// The most fresh expiries of one type that wait; what exceeds it is left to the backlog.
const MAX_QUEUE: usize = 20_000;
/// The most expiries from the backlog that one type has in its lane. They are claimed as there is room.
const MAX_BACKLOG: usize = 256;
/// The most pure decisions of one type whose write is under way.
const MAX_SETTLING: usize = 2_000;
/// The most expiries that a thread takes at once.
const MAX_BATCH: usize = 32;
/// A fresh expiry that has not started this long after its instant is dropped: the backlog takes it a second later.
pub(super) const DROP_AFTER: DurationMs = DurationMs::from_secs(4);

/// One expiry on its way through a lane.
pub(super) struct Job {
    pub timer: Timer,
    pub trigger: Trigger,
    /// Since when it may run: lateness counts from here. Unknown where a claim has overwritten it.
    pub ready_at: Option<Timestamp>,
    pub entry: Arc<TypeEntry>,
    pub ready: Arc<Ready>,
    pub in_hand: InHand,
    /// Keeps its slot open while it lives.
    pub ticket: Option<Arc<Ticket>>,
    /// None for what the backlog has claimed, which is few.
    pub weight: Option<Weight>,
}

impl Job {
    pub fn is_backlog(&self) -> bool {
        self.trigger == Trigger::Backlog
    }

    /// Whether it should not be started here any more: it is the backlog's, or less than `spare` of its lease is left.
    pub fn is_stale(&self, now: Timestamp, spare: DurationMs) -> bool {
        match self.timer.state {
            TimerState::Firing => self.timer.run_at.is_none_or(|lease| lease <= now.saturating_add(spare)),
            _ => self.ready_at.is_some_and(|at| at.saturating_add(DROP_AFTER) < now),
        }
    }
}

/// The way that a revision runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On the pool of threads.
    Pure,
    /// As a task, after a claim.
    Effects,
}

impl Way {
    pub fn of(revision: &Revision) -> Self {
        if revision.is_pure() { Self::Pure } else { Self::Effects }
    }
}

#[derive(Default)]
struct Queue {
    fresh: VecDeque<Job>,
    backlog: VecDeque<Job>,
}

impl Queue {
    fn len(&self) -> usize {
        self.fresh.len() + self.backlog.len()
    }
}

struct Lane {
    pure: Queue,
    effects: Queue,
    /// Threads of the pool that run it.
    threads: usize,
    /// Pure decisions that are being written.
    settling: usize,
    /// Calls with effects under way, and those of them from the backlog.
    running: usize,
    running_backlog: usize,
    /// Expiries from the backlog in the lane, from claim to outcome.
    backlog: usize,
    width: Width,
    rate: Option<Bucket>,
    /// Stands in the rotation of lanes with work for the pool.
    in_rotation: bool,
    /// A task will pump it once its bucket has a token.
    wake_planned: bool,
    /// It was idle when it was last looked after: if it still is, it is let go.
    was_idle: bool,
}

impl Lane {
    fn tokens(&mut self, now: Timestamp) -> usize {
        self.rate.as_mut().map_or(usize::MAX, |rate| rate.available(now))
    }

    fn spend(&mut self, tokens: usize) {
        if let Some(rate) = &mut self.rate {
            rate.take(tokens);
        }
    }

    /// For jobs that were not started after all.
    fn refund(&mut self, tokens: usize) {
        if let Some(rate) = &mut self.rate {
            rate.refund(tokens);
        }
    }

    /// Calls that the backlog may have running: a quarter is kept for what is fresh.
    fn backlog_width(&self) -> usize {
        (self.width.now() - self.width.now() / 4).max(1)
    }

    fn is_idle(&self) -> bool {
        self.pure.len() + self.effects.len() + self.threads + self.settling + self.running == 0
    }
}

struct State {
    lanes: HashMap<TypeId, Lane>,
    rotation: VecDeque<TypeId>,
    /// Threads that run lanes whose last calls timed out.
    suspects: usize,
    stopped: bool,
}

pub(super) struct Lanes {
    state: Mutex<State>,
    work: Condvar,
    /// The most threads of one type, and of all suspect types together: half the pool.
    half: usize,
    concurrency: u32,
    /// The backlog can claim again.
    pub room: Notify,
}

/// What a thread takes: jobs of one lane.
pub(super) struct Batch {
    pub type_id: TypeId,
    pub jobs: VecDeque<Job>,
    suspect: bool,
}

/// A lane's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    pub type_id: TypeId,
    /// Expiries that wait in the lane.
    pub queued: usize,
    /// Calls and writes under way.
    pub running: usize,
    /// Calls that may run at once now; fewer than the type's bound while they time out.
    pub width: usize,
}

/// What a lane's pump has found to start.
pub(super) struct Started {
    pub jobs: Vec<Job>,
    /// When to pump again, if only the rate holds it back.
    pub again_in: Option<DurationMs>,
}

impl Lanes {
    pub fn new(threads: usize, concurrency: u32) -> Self {
        let state = State { lanes: HashMap::new(), rotation: VecDeque::new(), suspects: 0, stopped: false };
        let half = (threads / 2).max(1);
        Self { state: Mutex::new(state), work: Condvar::new(), half, concurrency, room: Notify::new() }
    }

    /// How many calls of a type may run at once.
    fn most(&self, active: &Revision) -> usize {
        active.concurrency.unwrap_or(self.concurrency).max(1) as usize
    }

    /// Queues a job, and says which way it will go; a full lane gives a fresh one back.
    pub fn push(&self, job: Job, now: Timestamp) -> Result<Way, Box<Job>> {
        let way = Way::of(&job.ready.revision);
        let type_id = job.timer.type_id;
        let mut state = self.state.lock();
        let State { lanes, rotation, .. } = &mut *state;
        let active = &job.entry.active.revision;
        let most = self.most(active);
        let rate = active.rate.unwrap_or(0);
        let lane = lanes.entry(type_id).or_insert_with(|| Lane::new(most));
        lane.width.set_most(most);
        if lane.rate.as_ref().map_or(0, Bucket::rate) != u64::from(rate) {
            lane.rate = Bucket::new(rate, now);
        }
        let queue = match way {
            Way::Pure => &mut lane.pure,
            Way::Effects => &mut lane.effects,
        };
        if job.is_backlog() {
            lane.backlog += 1;
            queue.backlog.push_back(job);
        } else if queue.fresh.len() >= MAX_QUEUE {
            return Err(Box::new(job));
        } else {
            queue.fresh.push_back(job);
        }
        if way == Way::Pure && !lane.in_rotation {
            lane.in_rotation = true;
            rotation.push_back(type_id);
        }
        drop(state);
        if way == Way::Pure {
            self.work.notify_one();
        }
        Ok(way)
    }

    /// The next jobs for a thread of the pool; waits for some. `None` once the lanes have stopped.
    pub fn next_batch(&self, now: &dyn Fn() -> Timestamp) -> Option<Batch> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            let mut again_in = None;
            let taken = state.take_pure(self.half, now(), true, &mut again_in);
            if let Some(batch) = taken.or_else(|| state.take_pure(self.half, now(), false, &mut again_in)) {
                return Some(batch);
            }
            match again_in {
                // Only a rate holds work back. The wait is real time, and short, since the clock may be another.
                Some(wait) => {
                    let wait = Duration::from_millis(DurationMs::as_millis(wait).clamp(1, 50));
                    self.work.wait_for(&mut state, wait);
                }
                None => self.work.wait(&mut state),
            }
        }
    }

    /// A thread is through with its batch: what is left of it goes back to the front, and so many are now being
    /// written. `timeouts` says of each call whether it timed out.
    pub fn batch_done(&self, mut batch: Batch, timeouts: &[bool]) {
        let mut state = self.state.lock();
        let State { lanes, rotation, suspects, .. } = &mut *state;
        *suspects -= usize::from(batch.suspect);
        if let Some(lane) = lanes.get_mut(&batch.type_id) {
            lane.threads -= 1;
            lane.settling -= batch.jobs.len();
            lane.refund(batch.jobs.len());
            while let Some(job) = batch.jobs.pop_back() {
                let queue = if job.is_backlog() { &mut lane.pure.backlog } else { &mut lane.pure.fresh };
                queue.push_front(job);
            }
            for timed_out in timeouts {
                lane.record(batch.type_id, *timed_out);
            }
            if lane.pure.len() > 0 && !lane.in_rotation {
                lane.in_rotation = true;
                rotation.push_back(batch.type_id);
            }
        }
        drop(state);
        self.work.notify_one();
    }

    /// A pure decision's write has ended, or a job of a batch was dropped instead.
    pub fn settled_pure(&self, type_id: TypeId, was_backlog: bool) {
        let mut state = self.state.lock();
        let Some(lane) = state.lanes.get_mut(&type_id) else { return };
        let was_full = lane.settling >= MAX_SETTLING;
        lane.settling -= 1;
        let room = lane.backlog_left(was_backlog);
        drop(state);
        if was_full {
            self.work.notify_one();
        }
        if room {
            self.room.notify_one();
        }
    }

    /// What may start of a lane's calls with effects.
    pub fn start_effects(&self, type_id: TypeId, now: Timestamp) -> Started {
        let mut started = Started { jobs: Vec::new(), again_in: None };
        let mut state = self.state.lock();
        let Some(lane) = state.lanes.get_mut(&type_id) else { return started };
        while lane.running < lane.width.now() {
            let backlog_may = lane.running_backlog < lane.backlog_width();
            if lane.effects.fresh.is_empty() && (lane.effects.backlog.is_empty() || !backlog_may) {
                break;
            }
            if lane.tokens(now) == 0 {
                if !lane.wake_planned {
                    lane.wake_planned = true;
                    started.again_in = lane.rate.as_ref().map(Bucket::next_in);
                }
                break;
            }
            let job = match lane.effects.fresh.pop_front() {
                Some(job) => job,
                None => match lane.effects.backlog.pop_front() {
                    Some(job) => job,
                    None => break,
                },
            };
            lane.spend(1);
            lane.running += 1;
            lane.running_backlog += usize::from(job.is_backlog());
            started.jobs.push(job);
        }
        started
    }

    /// The planned wake of a lane that its rate held back.
    pub fn woken(&self, type_id: TypeId) {
        if let Some(lane) = self.state.lock().lanes.get_mut(&type_id) {
            lane.wake_planned = false;
        }
    }

    /// A call with effects has ended. `timed_out` is unknown where there was no call.
    pub fn ended_effects(&self, type_id: TypeId, was_backlog: bool, timed_out: Option<bool>) {
        let mut state = self.state.lock();
        let Some(lane) = state.lanes.get_mut(&type_id) else { return };
        lane.running -= 1;
        lane.running_backlog -= usize::from(was_backlog);
        if let Some(timed_out) = timed_out {
            lane.record(type_id, timed_out);
        }
        let room = lane.backlog_left(was_backlog);
        drop(state);
        if room {
            self.room.notify_one();
        }
    }

    /// How many of a type the backlog may claim now: what can start well within its lease.
    pub fn backlog_room(&self, type_id: TypeId, active: &Revision) -> usize {
        let state = self.state.lock();
        let lane = state.lanes.get(&type_id);
        let most = match Way::of(active) {
            Way::Pure => MAX_BACKLOG,
            Way::Effects => lane.map_or(self.most(active), Lane::backlog_width).min(MAX_BACKLOG),
        };
        let most = active.rate.map_or(most, |rate| most.min(rate.max(1) as usize));
        most.saturating_sub(lane.map_or(0, |l| l.backlog))
    }

    /// Takes out the jobs that are too late to start here.
    pub fn take_stale(&self, now: Timestamp, spare: DurationMs) -> Vec<Job> {
        let mut state = self.state.lock();
        let mut stale = Vec::new();
        for lane in state.lanes.values_mut() {
            for queue in [&mut lane.pure, &mut lane.effects] {
                while queue.fresh.front().is_some_and(|j| j.is_stale(now, spare)) {
                    stale.extend(queue.fresh.pop_front());
                }
                while queue.backlog.front().is_some_and(|j| j.is_stale(now, spare)) {
                    stale.extend(queue.backlog.pop_front());
                    lane.backlog -= 1;
                }
            }
        }
        state.lanes.retain(|_, lane| {
            let idle = lane.is_idle();
            let remembers = lane.in_rotation || lane.wake_planned || lane.width.is_suspect() || lane.rate.is_some();
            let gone = idle && lane.was_idle && !remembers;
            lane.was_idle = idle;
            !gone
        });
        stale
    }

    /// Takes out the jobs whose timers are paused.
    pub fn take_paused(&self, paused: impl Fn(&Timer) -> bool) -> Vec<Job> {
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        for lane in state.lanes.values_mut() {
            for queue in [&mut lane.pure, &mut lane.effects] {
                // A lane's timers are of one type, so the first speaks for all.
                if queue.fresh.front().is_some_and(|job| paused(&job.timer)) {
                    taken.extend(queue.fresh.drain(..));
                }
                if queue.backlog.front().is_some_and(|job| paused(&job.timer)) {
                    lane.backlog -= queue.backlog.len();
                    taken.extend(queue.backlog.drain(..));
                }
            }
        }
        taken
    }

    /// One lane, for those who ask why something waits.
    pub fn look(&self, type_id: TypeId, now: Timestamp) -> Option<stats::Lane> {
        let mut state = self.state.lock();
        let lane = state.lanes.get_mut(&type_id)?;
        let queued = lane.pure.len() + lane.effects.len();
        let is_rated = queued > 0 && lane.tokens(now) == 0;
        let running = lane.settling + lane.running;
        Some(stats::Lane { queued, room: MAX_QUEUE, running, width: lane.width.now(), is_rated })
    }

    pub fn stats(&self) -> Vec<LaneStats> {
        let state = self.state.lock();
        let figures = |(id, lane): (&TypeId, &Lane)| LaneStats {
            type_id: *id,
            queued: lane.pure.len() + lane.effects.len(),
            running: lane.settling + lane.running,
            width: lane.width.now(),
        };
        state.lanes.iter().map(figures).collect()
    }

    /// Lets go of everything that waits; the pool's threads end.
    pub fn stop(&self) -> Vec<Job> {
        let mut state = self.state.lock();
        state.stopped = true;
        let mut left = Vec::new();
        for lane in state.lanes.values_mut() {
            for queue in [&mut lane.pure, &mut lane.effects] {
                left.extend(queue.fresh.drain(..));
                left.extend(queue.backlog.drain(..));
            }
        }
        drop(state);
        self.work.notify_all();
        left
    }
}

impl Lane {
    fn new(most: usize) -> Self {
        Self {
            pure: Queue::default(),
            effects: Queue::default(),
            threads: 0,
            settling: 0,
            running: 0,
            running_backlog: 0,
            backlog: 0,
            width: Width::new(most),
            rate: None,
            in_rotation: false,
            wake_planned: false,
            was_idle: false,
        }
    }

    fn record(&mut self, type_id: TypeId, timed_out: bool) {
        if self.width.record(timed_out) {
            let (type_id, width) = (type_id.0, self.width.now());
            tracing::warn!(
                lapse.type_id = type_id,
                lane.width = width,
                "a type's calls time out, or have recovered: its lane has another width"
            );
        }
    }

    /// One from the backlog has left the lane. Says whether it is worth while to claim more.
    fn backlog_left(&mut self, was_backlog: bool) -> bool {
        self.backlog -= usize::from(was_backlog);
        was_backlog && (self.backlog == 0 || self.backlog == MAX_BACKLOG / 2)
    }
}

impl State {
    /// Goes round the lanes once for one that has fresh (or backlog) work which may run now.
    fn take_pure(
        &mut self,
        half: usize,
        now: Timestamp,
        fresh: bool,
        again_in: &mut Option<DurationMs>,
    ) -> Option<Batch> {
        for _ in 0..self.rotation.len() {
            let type_id = self.rotation.pop_front()?;
            let Some(lane) = self.lanes.get_mut(&type_id) else { continue };
            if lane.pure.len() == 0 {
                lane.in_rotation = false;
                continue;
            }
            self.rotation.push_back(type_id);
            let waiting = if fresh { lane.pure.fresh.len() } else { lane.pure.backlog.len() };
            let suspect = lane.width.is_suspect();
            let free = lane.threads < lane.width.now().min(half)
                && lane.settling < MAX_SETTLING
                && !(suspect && self.suspects >= half);
            if waiting == 0 || !free {
                continue;
            }
            let tokens = lane.tokens(now);
            if tokens == 0 {
                let wait = lane.rate.as_ref().map(Bucket::next_in);
                *again_in = again_in.map_or(wait, |a| wait.map(|w| w.min(a)));
                continue;
            }
            let take = waiting.min(MAX_BATCH).min(tokens).min(MAX_SETTLING - lane.settling);
            lane.spend(take);
            lane.threads += 1;
            lane.settling += take;
            self.suspects += usize::from(suspect);
            let queue = if fresh { &mut lane.pure.fresh } else { &mut lane.pure.backlog };
            let jobs = queue.drain(..take).collect();
            return Some(Batch { type_id, jobs, suspect });
        }
        None
    }
}
