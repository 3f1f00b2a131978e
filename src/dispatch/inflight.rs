//! What this node has in hand or has just settled: the guard against duplicates that costs no write.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::domain::{id::TimerId, time::Timestamp};

/// How many settled `(id, version)` are remembered: some ten seconds at full load, longer than any duplicate takes.
const REMEMBERED: usize = 65_536;

type Key = (TimerId, i64);

#[derive(Default)]
pub(super) struct InFlight {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bounded by the lanes' queues, whose jobs these are.
    in_hand: HashMap<Key, Taken>,
    settled: HashSet<Key>,
    oldest_first: VecDeque<Key>,
}

struct Taken {
    since: Timestamp,
    /// The version of the claim, while this node holds a lease on it.
    lease: Option<i64>,
}

/// One timer in hand. Dropping it lets go.
pub(super) struct InHand {
    all: Arc<InFlight>,
    key: Key,
}

impl InFlight {
    /// Takes a timer in hand; `None` if this very version already is, or has just been settled here.
    pub fn begin(self: &Arc<Self>, id: TimerId, version: i64, now: Timestamp) -> Option<InHand> {
        let key = (id, version);
        let mut state = self.state.lock();
        if state.settled.contains(&key) || state.in_hand.contains_key(&key) {
            return None;
        }
        state.in_hand.insert(key, Taken { since: now, lease: None });
        Some(InHand { all: Arc::clone(self), key })
    }

    /// Whether this very version is in hand, or has just been settled here.
    pub fn has(&self, id: TimerId, version: i64) -> bool {
        let state = self.state.lock();
        state.settled.contains(&(id, version)) || state.in_hand.contains_key(&(id, version))
    }

    pub fn len(&self) -> usize {
        self.state.lock().in_hand.len()
    }

    /// Timers taken in hand before `before`, at most `limit`.
    pub fn older_than(&self, before: Timestamp, limit: usize) -> Vec<TimerId> {
        let state = self.state.lock();
        state
            .in_hand
            .iter()
            .filter(|(_, t)| t.since < before || t.lease.is_some())
            .map(|(k, _)| k.0)
            .take(limit)
            .collect()
    }

    /// Timers with a lease of this node, and the version of each claim.
    pub fn leased(&self) -> Vec<(TimerId, i64)> {
        let state = self.state.lock();
        state.in_hand.iter().filter_map(|(k, t)| Some((k.0, t.lease?))).collect()
    }
}

impl InHand {
    /// The timer is this node's alone by a claim that made it this version.
    pub fn claimed(&self, version: i64) {
        if let Some(taken) = self.all.state.lock().in_hand.get_mut(&self.key) {
            taken.lease = Some(version);
        }
    }

    /// Its outcome is committed: a late delivery of the same version is a duplicate from now on.
    pub fn settled(&self) {
        let mut state = self.all.state.lock();
        if state.settled.insert(self.key) {
            state.oldest_first.push_back(self.key);
        }
        if state.oldest_first.len() > REMEMBERED
            && let Some(oldest) = state.oldest_first.pop_front()
        {
            state.settled.remove(&oldest);
        }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.all.state.lock().in_hand.remove(&self.key);
    }
}
