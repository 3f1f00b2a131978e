//! Which slots are this node's now. A slot is a wake-up, not a lease: what it stands for is read from the store.

use async_trait::async_trait;

pub mod local;

/// All timers of a shard whose `run_at` lies in one second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    pub shard: u16,
    /// Seconds since 1970.
    pub second: i64,
}

#[async_trait]
pub trait Delivery: Send + Sync + 'static {
    /// The next slot of this node, from half a second before it starts. Waits for one.
    async fn next(&self) -> Slot;

    /// The slot's timers are settled or handed on.
    async fn done(&self, slot: Slot);

    /// This node stops: the slot's timers that were not started are another's.
    async fn give_back(&self, slot: Slot);
}
