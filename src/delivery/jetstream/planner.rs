//! Plans slots: every second, on every node, the second that has come into reach, all shards in one burst.
//!
//! At the whole second, since slots come back at the half: each hand-back puts the server's look at its pending messages
//! off by some milliseconds.

use std::sync::Arc;

use async_nats::jetstream::{context::PublishErrorKind, message::PublishMessage};
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{Shared, connect::PATIENCE, meter};
use crate::{
    clock::nap,
    delivery::Slot,
    domain::time::{DurationMs, Timestamp},
};

/// Seconds that are planned ahead.
pub(super) const AHEAD: i64 = 10;
/// Seconds that are planned again after the broker was away: what is older has closed.
pub(super) const BACK: i64 = 4;
/// Publishes whose acknowledgement is awaited at once.
const WINDOW: usize = 64;
/// How long a burst that failed waits before it is tried again.
const REST: DurationMs = DurationMs::from_millis(250);

pub(super) async fn run(shared: Arc<Shared>) {
    let mut connection = shared.health.connection();
    // The first second that is not planned; nothing is.
    let mut next = None;
    loop {
        if !*connection.borrow_and_update() {
            next = None;
            let _changed = connection.changed().await;
            continue;
        }
        let now = shared.clock.now().second();
        // After an outage, or if the clock was set, all over again: what is there already is one message with it.
        let from = next.filter(|n| (now - BACK..=now + AHEAD + 1).contains(n)).unwrap_or(now - BACK);
        match publish(&shared, from..=now + AHEAD).await {
            Ok(()) => {
                next = Some(now + AHEAD + 1);
                if from <= now + AHEAD {
                    shared.health.published();
                }
            }
            Err(error) => {
                meter::publish_failed();
                shared.health.went_wrong(&format!("slots cannot be planned: {error}"));
                shared.notes.look_soon();
                nap(&*shared.clock, shared.clock.now().saturating_add(REST)).await;
                continue;
            }
        }
        tokio::select! {
            () = the_second_after(&shared, now) => {}
            () = shared.notes.anew.notified() => next = None,
            _ = connection.changed() => next = None,
        }
    }
}

/// Until the clock shows another second than `second`, whichever way.
async fn the_second_after(shared: &Shared, second: i64) {
    while shared.clock.now().second() == second {
        nap(&*shared.clock, Timestamp::from_millis_clamped((second + 1) * 1000)).await;
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Publish(#[from] async_nats::error::Error<PublishErrorKind>),
    #[error("no answer in time")]
    Silent,
}

async fn publish(shared: &Shared, seconds: std::ops::RangeInclusive<i64>) -> Result<(), Error> {
    let slots = seconds.flat_map(|second| (0..shared.shards).map(move |shard| Slot { shard, second }));
    let burst = futures_util::stream::iter(slots)
        .map(|slot| async move {
            let message = PublishMessage::build().payload(encode(slot).into()).message_id(message_id(slot));
            let ack = shared.context.send_publish(shared.names.subject(slot), message).await?.await?;
            if !ack.duplicate {
                meter::published();
            }
            Ok(())
        })
        .buffer_unordered(WINDOW)
        .try_collect::<()>();
    // Each is bounded by itself; this bounds them all.
    tokio::time::timeout(PATIENCE, burst).await.map_err(|_elapsed| Error::Silent)?
}

fn message_id(slot: Slot) -> String {
    format!("{}-{}", slot.shard, slot.second)
}

fn encode(slot: Slot) -> String {
    format!("{} {}", slot.shard, slot.second)
}

/// The slot that a message stands for; nothing if it is not one of ours.
pub(super) fn decode(payload: &[u8], shards: u16) -> Option<Slot> {
    let (shard, second) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    let slot = Slot { shard: shard.parse().ok()?, second: second.parse().ok()? };
    (slot.shard < shards).then_some(slot)
}
