//! Slots by the local clock, every shard this node's own.
//!
//! A cursor walks over the seconds. It follows the clock: after a jump forwards it skips what is too old to be taken
//! (the backlog has that), and after a jump back it starts again at the clock's second, so that what is registered
//! from then on is delivered. A slot may so be yielded twice, which is harmless.

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{Delivery, Slot, WORTH};
use crate::{
    clock::{SharedClock, nap},
    domain::time::{DurationMs, Timestamp},
};

/// A slot that was yielded is yielded again if the clock stands further than this before its second. Less than the
/// two seconds' reach of a node's own arming minus the slot's own second, so that no timer falls in between.
const SET_BACK: DurationMs = DurationMs::from_secs(1);

#[derive(Debug)]
pub struct Local {
    clock: SharedClock,
    shards: u16,
    cursor: Mutex<Cursor>,
}

/// The slot that is yielded next.
#[derive(Debug)]
struct Cursor {
    second: i64,
    shard: u16,
}

impl Local {
    /// Delivers the shards `0..shards`, from a few seconds before now on.
    pub fn new(clock: SharedClock, shards: u16) -> Self {
        assert!(shards > 0, "a delivery without shards would deliver nothing");
        let second = clock.now().saturating_sub(WORTH).second();
        Self { clock, shards, cursor: Mutex::new(Cursor { second, shard: 0 }) }
    }
}

impl Cursor {
    /// Moves the cursor to where the clock is, if it has jumped.
    fn follow(&mut self, now: Timestamp) {
        let oldest = now.saturating_sub(WORTH).second();
        let yielded = Slot { shard: 0, second: if self.shard > 0 { self.second } else { self.second - 1 } };
        if self.second < oldest {
            *self = Self { second: oldest, shard: 0 };
        } else if now < yielded.starts().saturating_sub(SET_BACK) {
            *self = Self { second: now.second(), shard: 0 };
        }
    }

    fn slot(&self) -> Slot {
        Slot { shard: self.shard, second: self.second }
    }

    fn take(&mut self, shards: u16) -> Slot {
        let slot = self.slot();
        self.shard += 1;
        if self.shard == shards {
            *self = Self { second: self.second + 1, shard: 0 };
        }
        slot
    }
}

#[async_trait]
impl Delivery for Local {
    async fn next(&self) -> Slot {
        loop {
            let now = self.clock.now();
            let wake = {
                let mut cursor = self.cursor.lock();
                cursor.follow(now);
                let opens = cursor.slot().opens();
                if opens <= now {
                    return cursor.take(self.shards);
                }
                opens
            };
            nap(&*self.clock, wake).await;
        }
    }

    /// Nothing to acknowledge: the database is read again at the next start.
    async fn done(&self, _slot: Slot) {}

    /// There is no other node; the next start looks back far enough.
    async fn give_back(&self, _slot: Slot) {}
}
