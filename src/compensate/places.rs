//! The places of each lane: how many run, and which lanes have something to claim. A lane whose runs hang has fewer.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::domain::{
    id::{Name, TypeId},
    time::Timestamp,
    width::Width,
};

/// Lanes without work whose runs have hung of late and that are remembered; more are as wide as ever when they are next
/// used.
const MAX_SUSPECTS: usize = 1_000;
/// The places of a type, over all its kinds, in lanes' full widths: a type of many kinds leaves room for the others.
const LANES_OF_A_TYPE: usize = 8;

/// Compensations of one kind of one type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lane {
    pub type_id: TypeId,
    pub kind: Name,
}

struct Use {
    running: usize,
    /// The places for which a claim is under way, if one is: one at a time in a lane.
    claiming: Option<usize>,
    /// There may be something to claim.
    woken: bool,
    /// How many may run.
    width: Width,
}

impl Use {
    fn new(places: usize) -> Self {
        Self { running: 0, claiming: None, woken: false, width: Width::new(places) }
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.claiming.is_none() && !self.woken
    }
}

#[derive(Default)]
struct State {
    /// Only lanes that are in use: bounded by what runs and by what the store names as due.
    lanes: HashMap<Lane, Use>,
    /// Types whose places are all taken, and that have lanes with something to claim.
    full: HashSet<TypeId>,
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
        self.state.lock().lanes.entry(lane).or_insert_with(|| Use::new(self.each)).woken = true;
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
        let state = &mut *state;
        let mut taken = HashMap::<TypeId, usize>::new();
        for (lane, used) in &state.lanes {
            *taken.entry(lane.type_id).or_default() += used.running + used.claiming.unwrap_or(0);
        }
        let mut claims = Vec::new();
        for (lane, used) in &mut state.lanes {
            let own = used.width.now().saturating_sub(used.running);
            if !used.woken || used.claiming.is_some() || own == 0 {
                continue;
            }
            let taken = taken.entry(lane.type_id).or_default();
            let free = own.min((self.each * LANES_OF_A_TYPE).saturating_sub(*taken));
            if free == 0 {
                state.full.insert(lane.type_id);
                continue;
            }
            *taken += free;
            used.woken = false;
            used.claiming = Some(free);
            claims.push((lane.clone(), free));
        }
        let mut suspects = 0;
        state.lanes.retain(|_, used| {
            let remembered = used.width.is_suspect() && suspects < MAX_SUSPECTS;
            suspects += usize::from(remembered && used.is_idle());
            !used.is_idle() || remembered
        });
        claims
    }

    /// A claim has ended with so many runs; `more` if there may be others.
    pub fn claimed(&self, lane: &Lane, runs: usize, more: bool) {
        let mut state = self.state.lock();
        let used = state.lanes.entry(lane.clone()).or_insert_with(|| Use::new(self.each));
        used.claiming = None;
        used.running += runs;
        used.woken |= more;
    }

    /// A run has ended, and hung or did not; that is unknown where there was none. Says whether its lane can claim now,
    /// and how wide it is if that has changed.
    pub fn leave(&self, lane: &Lane, hung: Option<bool>) -> (bool, Option<usize>) {
        let mut state = self.state.lock();
        let Some(used) = state.lanes.get_mut(lane) else { return (false, None) };
        used.running -= 1;
        let changed = hung.is_some_and(|hung| used.width.record(hung));
        let told = (used.woken && used.claiming.is_none(), changed.then(|| used.width.now()));
        let another = state.full.remove(&lane.type_id);
        (told.0 || another, told.1)
    }
}
