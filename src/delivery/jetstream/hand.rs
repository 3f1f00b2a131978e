//! The slots that this node has in hand, from when they open until they are done, given back or closed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_nats::jetstream::{AckKind, Message};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::Shared;
use crate::{delivery::Slot, domain::time::Timestamp};

/// Slots that wait to be asked for: those of two seconds of 16 shards. A node that lags more leaves them to others.
const UNREAD: usize = 32;
/// How often the broker hears that a slot is still in hand; a fifth of what it waits.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Hand {
    held: Mutex<BTreeMap<Slot, Held>>,
    unread: mpsc::Sender<Slot>,
    read: AsyncMutex<mpsc::Receiver<Slot>>,
}

struct Held {
    /// What to acknowledge; none if it came by this node's own clock.
    message: Option<Message>,
    /// Whether it was asked for.
    is_read: bool,
}

pub(super) enum Taken {
    /// It waits to be asked for, or was in hand already.
    Yes,
    /// It was in hand already, by another message: this one is to be acknowledged.
    Twice(Message),
    /// There is no room: another node's.
    Full(Option<Message>),
}

impl Hand {
    pub fn new() -> Self {
        let (unread, read) = mpsc::channel(UNREAD);
        Self { held: Mutex::default(), unread, read: AsyncMutex::new(read) }
    }

    pub fn take(&self, slot: Slot, message: Option<Message>) -> Taken {
        let mut held = self.held.lock();
        let Some(before) = held.get_mut(&slot) else {
            if self.unread.try_send(slot).is_err() {
                return Taken::Full(message);
            }
            held.insert(slot, Held { message, is_read: false });
            return Taken::Yes;
        };
        let Some(message) = message else { return Taken::Yes };
        let same = |a: &Message, b: &Message| match (a.info(), b.info()) {
            (Ok(a), Ok(b)) => a.stream_sequence == b.stream_sequence,
            _ => false,
        };
        // A redelivery's own reply subject is the one that counts from now on.
        match before.message.replace(message) {
            Some(old) if !before.message.as_ref().is_some_and(|new| same(&old, new)) => Taken::Twice(old),
            _ => Taken::Yes,
        }
    }

    pub async fn next(&self) -> Slot {
        let mut read = self.read.lock().await;
        loop {
            // The sender stands beside the receiver, so the channel is never closed.
            let Some(slot) = read.recv().await else { std::future::pending().await };
            if let Some(held) = self.held.lock().get_mut(&slot) {
                held.is_read = true;
                return slot;
            }
        }
    }

    pub fn release(&self, slot: Slot) -> Option<Message> {
        self.held.lock().remove(&slot)?.message
    }

    /// Drops what was not asked for yet.
    pub fn release_unread(&self) -> Vec<Message> {
        self.held.lock().extract_if(.., |_, held| !held.is_read).filter_map(|(_, held)| held.message).collect()
    }

    /// What is to be said of the slots in hand; those that are closed leave it.
    fn reports(&self, now: Timestamp) -> Vec<(Message, AckKind)> {
        let mut held = self.held.lock();
        let closed = held.extract_if(.., |slot, _| slot.closes() <= now).filter_map(|(_, h)| h.message);
        let mut reports: Vec<_> = closed.map(|message| (message, AckKind::Ack)).collect();
        reports.extend(held.values().filter_map(|h| h.message.clone()).map(|message| (message, AckKind::Progress)));
        reports
    }
}

/// Reports progress, and acknowledges what has closed.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for (message, kind) in shared.hand.reports(shared.clock.now()) {
            shared.connection.answer(&message, kind).await;
        }
    }
}
