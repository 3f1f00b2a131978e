//! Slots by the local clock, the shards shared out among the live nodes: a cluster without a broker.
//!
//! Each node walks over all seconds, as [`Local`] does, and takes the slots of its own shards. When a shard becomes its
//! own, because a node has gone, it goes back over the shard's seconds that are still worth reading: what the other did
//! not get to is fired late by as long as it took to notice, and what it did is not scheduled any more.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Delivery, Slot, WORTH,
    live::{LiveNodes, Members},
    local::Local,
};
use crate::clock::SharedClock;

/// How often the list of nodes is asked for.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// What a node needs to take part.
pub struct ShardedParams {
    /// The store's clock, as this node knows it: all nodes have to agree on the second.
    pub clock: SharedClock,
    pub shards: u16,
    /// This node's name, unlike any other's.
    pub node: String,
    pub live: Arc<dyn LiveNodes>,
}

pub struct Sharded {
    local: Local,
    clock: SharedClock,
    shards: u16,
    members: Arc<Members>,
    state: Mutex<State>,
}

struct State {
    refresh_at: Instant,
    /// By shard, whether it is this node's.
    owned: Vec<bool>,
    /// Slots of shards that have just become this node's: at most as many as shards, times the seconds worth reading.
    behind: VecDeque<Slot>,
    was_known: bool,
}

impl Sharded {
    /// Takes the shards that are this node's among `live`; none before the first [`Delivery::next`].
    pub fn new(params: ShardedParams) -> Self {
        let ShardedParams { clock, shards, node, live } = params;
        Self::among(Arc::new(Members::new(node, live)), clock, shards)
    }

    /// Among nodes of which something may be known already.
    pub(super) fn among(members: Arc<Members>, clock: SharedClock, shards: u16) -> Self {
        let state = State {
            refresh_at: Instant::now(),
            owned: vec![false; usize::from(shards)],
            behind: VecDeque::new(),
            was_known: true,
        };
        let local = Local::new(Arc::clone(&clock), shards);
        Self { local, clock, shards, members, state: Mutex::new(state) }
    }

    /// Takes in who is there, and goes back over what has become this node's.
    async fn refresh(&self) {
        let refreshed = self.members.refresh().await;
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.refresh_at = Instant::now() + REFRESH_EVERY;
        if let Err(error) = &refreshed
            && state.was_known
        {
            tracing::warn!(%error, "the last known nodes stay in force");
        }
        state.was_known = refreshed.is_ok();
        let oldest = now.saturating_sub(WORTH).second();
        for shard in 0..self.shards {
            let owns = self.members.owns(shard);
            let owned = std::mem::replace(&mut state.owned[usize::from(shard)], owns);
            state.behind.retain(|slot| slot.shard != shard || owns);
            if owns && !owned {
                // The seconds up to the one that has opened already; the rest comes by itself.
                state.behind.extend((oldest..=now.second() + 1).map(|second| Slot { shard, second }));
            }
        }
        let opened = |slot: &Slot| slot.opens() <= now;
        state.behind.retain(opened);
    }
}

#[async_trait]
impl Delivery for Sharded {
    async fn next(&self) -> Slot {
        loop {
            let refresh_at = self.state.lock().refresh_at;
            if refresh_at <= Instant::now() {
                self.refresh().await;
            }
            if let Some(slot) = self.state.lock().behind.pop_front() {
                return slot;
            }
            let refresh_at = self.state.lock().refresh_at;
            // A slot is taken from the clock without a wait in between, so that none is lost when the time is up.
            if let Ok(slot) = tokio::time::timeout_at(refresh_at, self.local.next()).await
                && self.state.lock().owned[usize::from(slot.shard)]
            {
                return slot;
            }
        }
    }

    /// Nothing to acknowledge.
    async fn done(&self, _slot: Slot) {}

    /// Its timers are the next owner's, who goes back over them, or the backlog's.
    async fn give_back(&self, _slot: Slot) {}

    fn nodes(&self) -> usize {
        self.members.count()
    }
}
