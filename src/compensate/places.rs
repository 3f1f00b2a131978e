//! The places of each lane: how many run, and which lanes have something to claim.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::domain::{
    id::{Name, TypeId},
    time::Timestamp,
};

/// Compensations of one kind of one type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lane {
    pub type_id: TypeId,
    pub kind: Name,
}

#[derive(Default)]
struct Use {
    running: usize,
    /// A claim is under way: one at a time in a lane.
    claiming: bool,
    /// There may be something to claim.
    woken: bool,
}

#[derive(Default)]
struct State {
    /// Only lanes that are in use: bounded by what runs and by what the store names as due.
    lanes: HashMap<Lane, Use>,
    /// The earliest instant at which a lane is to be looked for.
    next: Option<Timestamp>,
}

pub(super) struct Places {
    /// Places in each lane.
    each: usize,
    state: Mutex<State>,
}

impl Places {
    pub fn new(each: usize) -> Self {
        Self { each, state: Mutex::default() }
    }

    pub fn running(&self) -> usize {
        self.state.lock().lanes.values().map(|l| l.running).sum()
    }

    /// There may be something to claim for this lane.
    pub fn wake(&self, lane: Lane) {
        self.state.lock().lanes.entry(lane).or_default().woken = true;
    }

    /// At this instant some lane will have something to claim.
    pub fn note(&self, at: Timestamp) {
        let mut state = self.state.lock();
        state.next = Some(state.next.map_or(at, |next| next.min(at)));
    }

    pub fn noted(&self) -> Option<Timestamp> {
        self.state.lock().next
    }

    /// Whether the noted instant has come; it is forgotten then.
    pub fn take_noted(&self, now: Timestamp) -> bool {
        let mut state = self.state.lock();
        let come = state.next.is_some_and(|next| next <= now);
        if come {
            state.next = None;
        }
        come
    }

    /// The lanes for which a claim is to be made now, and for how many: each is then being claimed for.
    pub fn to_claim(&self) -> Vec<(Lane, usize)> {
        let mut state = self.state.lock();
        let mut claims = Vec::new();
        for (lane, used) in &mut state.lanes {
            let free = self.each.saturating_sub(used.running);
            if used.woken && !used.claiming && free > 0 {
                used.woken = false;
                used.claiming = true;
                claims.push((lane.clone(), free));
            }
        }
        state.lanes.retain(|_, used| used.running > 0 || used.claiming || used.woken);
        claims
    }

    /// A claim has ended with so many runs; `more` if there may be others.
    pub fn claimed(&self, lane: &Lane, runs: usize, more: bool) {
        let mut state = self.state.lock();
        let used = state.lanes.entry(lane.clone()).or_default();
        used.claiming = false;
        used.running += runs;
        used.woken |= more;
    }

    /// A run has ended. Says whether its lane can claim now.
    pub fn leave(&self, lane: &Lane) -> bool {
        let mut state = self.state.lock();
        let Some(used) = state.lanes.get_mut(lane) else { return false };
        used.running -= 1;
        used.woken && !used.claiming
    }
}
