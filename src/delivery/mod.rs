//! Which slots are this node's now. A slot is a wake-up, not a lease: what it stands for is read from the store.

use async_trait::async_trait;

use crate::domain::time::{DurationMs, Timestamp};

pub mod jetstream;
pub mod live;
pub mod local;
pub mod sharded;

/// How long before its second a slot is given to a node.
const LEAD: DurationMs = DurationMs::from_millis(500);
/// How long after its second a slot is worth reading; then its timers are the backlog's.
const WORTH: DurationMs = DurationMs::from_secs(4);

/// All timers of a shard whose `run_at` lies in one second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot {
    pub shard: u16,
    /// Seconds since 1970.
    pub second: i64,
}

impl Slot {
    /// When its second begins.
    pub fn starts(self) -> Timestamp {
        Timestamp::from_millis_clamped(self.second.saturating_mul(1000))
    }

    /// From when on a node has it: half a second before it starts.
    pub fn opens(self) -> Timestamp {
        self.starts().saturating_sub(LEAD)
    }

    /// From when on it is worth nothing: four seconds after its second has ended.
    pub fn closes(self) -> Timestamp {
        Self { second: self.second.saturating_add(1), ..self }.starts().saturating_add(WORTH)
    }
}

/// What wakes a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WokenBy {
    /// Its own clock: there is no broker.
    OwnClock,
    Broker,
    /// Its own clock, since the broker has been away for so long.
    OwnClockMeanwhile(std::time::Duration),
}

#[async_trait]
pub trait Delivery: Send + Sync + 'static {
    /// The next slot of this node, from half a second before it starts. Waits for one.
    async fn next(&self) -> Slot;

    /// The slot's timers are settled or handed on.
    async fn done(&self, slot: Slot);

    /// This node stops: the slot's timers that were not started are another's.
    async fn give_back(&self, slot: Slot);

    /// This node stops: it takes no more slots, and those that [`Delivery::next`] has not yielded yet are another's. What
    /// was yielded may still be done or given back.
    async fn stop(&self) {}

    /// How many nodes share the work, this one among them, as far as it knows.
    fn nodes(&self) -> usize {
        1
    }

    fn woken_by(&self) -> WokenBy {
        WokenBy::OwnClock
    }
}
