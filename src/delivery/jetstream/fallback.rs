//! The degraded mode: while the broker is away, the loop of a cluster that has none.

use std::{sync::Arc, time::Duration};

use super::{Shared, hand::Taken, health::Mode};
use crate::delivery::{Delivery as _, Slot, sharded::Sharded};

/// How often the list of nodes is asked for. Also while the broker is there: it may be too late afterwards.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// How often a slot that found no room tries again.
const ROOM_EVERY: Duration = Duration::from_millis(20);
/// Seconds for which this node goes on by itself once the broker is back, so that none falls in between.
const OVERLAP: i64 = 3;

pub(super) async fn run(shared: Arc<Shared>) {
    let mut modes = shared.health.modes();
    loop {
        if modes.wait_for(|m| *m == Mode::Local).await.is_err() {
            return;
        }
        by_own_clock(&shared).await;
    }
}

/// Until the broker has been back for a while. It starts with what lies a few seconds back, as long as it took to notice.
async fn by_own_clock(shared: &Shared) {
    let sharded = Sharded::among(Arc::clone(&shared.members), Arc::clone(&shared.clock), shared.shards);
    let mut modes = shared.health.modes();
    // The first second that is left to the broker.
    let until_when = |mode| (mode == Mode::Broker).then(|| shared.clock.now().second() + OVERLAP);
    let mut until = until_when(*modes.borrow_and_update());
    loop {
        tokio::select! {
            slot = sharded.next() => {
                if until.is_some_and(|u| slot.second >= u) {
                    return;
                }
                take(shared, slot).await;
            }
            changed = modes.changed() => {
                if changed.is_err() {
                    return;
                }
                until = until_when(*modes.borrow_and_update());
            }
        }
    }
}

/// Waits for room, as long as the slot is worth it: here there is no other node to leave it to.
async fn take(shared: &Shared, slot: Slot) {
    while !shared.stopping.is_cancelled() {
        if !matches!(shared.hand.take(slot, None), Taken::Full(_)) {
            return;
        }
        if shared.clock.now() >= slot.closes() {
            tracing::warn!(slot.shard, slot.second, "this node lags; a slot is left to the backlog");
            return;
        }
        tokio::time::sleep(ROOM_EVERY).await;
    }
}

/// Keeps the list of nodes fresh.
pub(super) async fn follow_members(shared: Arc<Shared>) {
    let mut was_known = true;
    loop {
        let refreshed = shared.members.refresh().await;
        if let Err(error) = &refreshed
            && was_known
        {
            tracing::warn!(%error, "the last known nodes stay in force");
        }
        was_known = refreshed.is_ok();
        tokio::time::sleep(REFRESH_EVERY).await;
    }
}
