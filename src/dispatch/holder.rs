//! The holder: timers in memory, in order of the millisecond at which they may run.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::slots::Ticket;
use crate::domain::{
    id::TimerId,
    time::Timestamp,
    timer::{Timer, Trigger},
};

/// What the timers in memory may weigh, from the holder to their outcome: large payloads must not fill the memory.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// What a timer weighs beside its payload.
const OVERHEAD_BYTES: usize = 1024;

/// A timer's part of the memory that all may take, until it is dropped.
pub(super) struct Weight {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A timer that waits for its instant.
pub(super) struct Held {
    pub timer: Timer,
    pub trigger: Trigger,
    /// Keeps its slot open until it is settled or handed on.
    pub ticket: Option<Arc<Ticket>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Held,
    /// This version, or a later one, is held already.
    Known {
        by: Trigger,
    },
    Full,
}

pub(super) struct Holder {
    /// The most timers held.
    bound: usize,
    /// Bytes of all timers that were held and are not yet through.
    used: Arc<AtomicUsize>,
    state: Mutex<State>,
    /// The first instant is now an earlier one.
    pub earlier: Notify,
}

#[derive(Default)]
struct State {
    queue: BTreeMap<(Timestamp, TimerId), (Held, Weight)>,
    index: HashMap<TimerId, Timestamp>,
}

/// The instant before which a timer must not run.
pub(super) fn ready_at(timer: &Timer) -> Timestamp {
    timer.run_at.unwrap_or(Timestamp::MAX).max(timer.due_at)
}

impl Holder {
    pub fn new(bound: usize) -> Self {
        Self { bound, used: Arc::default(), state: Mutex::default(), earlier: Notify::new() }
    }

    pub fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Holds a timer until it is ready, and until `not_before` at least. A later version takes an earlier one's place.
    pub fn put(&self, held: Held, not_before: Timestamp) -> Put {
        let at = ready_at(&held.timer).max(not_before);
        let id = held.timer.id;
        let mut state = self.state.lock();
        let State { queue, index } = &mut *state;
        let mut replaced = None;
        if let Some(known) = index.get(&id) {
            let key = (*known, id);
            if let Some((known, _)) = queue.get(&key).filter(|(k, _)| k.timer.version >= held.timer.version) {
                return Put::Known { by: known.trigger };
            }
            replaced = queue.remove(&key);
        } else if queue.len() >= self.bound {
            return Put::Full;
        }
        let Some(weight) = self.weigh(&held.timer) else {
            index.remove(&id);
            return Put::Full;
        };
        let first = queue.first_key_value().is_none_or(|(key, _)| at < key.0);
        index.insert(id, at);
        queue.insert((at, id), (held, weight));
        drop(state);
        // Its ticket may close a slot: not under the lock.
        drop(replaced);
        if first {
            self.earlier.notify_one();
        }
        Put::Held
    }

    fn weigh(&self, timer: &Timer) -> Option<Weight> {
        let bytes = timer.payload.len() + OVERHEAD_BYTES;
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let weight = Weight { used: Arc::clone(&self.used), bytes };
        // Dropping it gives the bytes back.
        (before + bytes <= MAX_BYTES).then_some(weight)
    }

    /// Lets go of versions of a timer before this one.
    pub fn forget_before(&self, id: TimerId, version: i64) {
        let mut state = self.state.lock();
        let State { queue, index } = &mut *state;
        let Some(at) = index.get(&id).copied() else { return };
        if queue.get(&(at, id)).is_some_and(|(held, _)| held.timer.version < version) {
            index.remove(&id);
            let forgotten = queue.remove(&(at, id));
            drop(state);
            drop(forgotten);
        }
    }

    /// Takes out what is ready by `now`, in order, at most `limit`.
    pub fn take_ready(&self, now: Timestamp, limit: usize) -> Vec<(Held, Weight)> {
        let mut state = self.state.lock();
        let State { queue, index } = &mut *state;
        let mut ready = Vec::new();
        while ready.len() < limit {
            let Some(first) = queue.first_entry().filter(|e| e.key().0 <= now) else { break };
            index.remove(&first.key().1);
            ready.push(first.remove());
        }
        ready
    }

    /// Takes out all that its slot brought here: another node may have it.
    pub fn take_slots(&self) -> Vec<(Held, Weight)> {
        let mut state = self.state.lock();
        let State { queue, index } = &mut *state;
        let of_slots: Vec<_> = queue.iter().filter(|(_, (held, _))| held.ticket.is_some()).map(|(k, _)| *k).collect();
        let mut taken = Vec::with_capacity(of_slots.len());
        for key in of_slots {
            index.remove(&key.1);
            taken.extend(queue.remove(&key));
        }
        taken
    }

    pub fn first(&self) -> Option<Timestamp> {
        self.state.lock().queue.first_key_value().map(|(key, _)| key.0)
    }
}
