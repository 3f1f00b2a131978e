//! Takes messages from the broker: into the hand if their slot is open, and otherwise back to the broker until it is.

use std::{sync::Arc, time::Duration};

use async_nats::{
    StatusCode, Subscriber,
    jetstream::{AckKind, Message},
};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use super::{Shared, hand::Taken, meter, planner::decode};
use crate::{clock::nap, delivery::Slot, domain::time::DurationMs};

/// Messages asked for at once; asked again when half of them have come.
const BATCH: usize = 256;
/// How long one request stands, and how often the server says that it does. Short, since for as long the server hands
/// slots to a node that is stopped or cut off without a word.
const EXPIRES: Duration = Duration::from_secs(2);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Without anything from the server for this long, the request is taken for lost.
const SILENCE: Duration = Duration::from_millis(1_300);
/// How long to wait before asking again after a refusal.
const REST: Duration = Duration::from_millis(250);
/// Early messages are gathered until none came for this long, or so many have come, and handed back together.
const GATHER: Duration = Duration::from_millis(5);
const GATHER_MOST: usize = 256;
/// A message that is early by no more than this is kept: handing it back would take as long.
const NEARLY: DurationMs = DurationMs::from_millis(30);
/// After which time a slot that found no room comes back, here or elsewhere.
const NO_ROOM: Duration = Duration::from_millis(100);
/// How long what is on its way may take to arrive when this node stops.
const LAST: Duration = Duration::from_millis(300);

struct Puller {
    shared: Arc<Shared>,
    subscriber: Subscriber,
    inbox: String,
    /// Messages that the server may still send for what was asked.
    asked: usize,
    /// When to ask at the earliest.
    ask_at: Instant,
    last_frame: Instant,
    early: Vec<(Slot, Message)>,
    last_early: Instant,
}

/// Ends when this node stops.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut connection = shared.health.connection();
    while !shared.stopping.is_cancelled() {
        if !*connection.borrow_and_update() {
            // Whatever is said to a broker that is away only piles up.
            tokio::select! {
                _ = connection.changed() => continue,
                () = shared.stopping.cancelled() => return,
            }
        }
        let inbox = shared.connection.client().new_inbox();
        let Ok(subscriber) = shared.connection.client().subscribe(inbox.clone()).await else {
            // Only if the client is closed, and then the process is about to end.
            tokio::time::sleep(REST).await;
            continue;
        };
        let now = Instant::now();
        let mut puller = Puller {
            shared: Arc::clone(&shared),
            subscriber,
            inbox,
            asked: 0,
            ask_at: now,
            last_frame: now,
            early: Vec::new(),
            last_early: now,
        };
        puller.pull(&mut connection).await;
        puller.end().await;
    }
}

impl Puller {
    /// Until the server falls silent, the connection goes or comes (what was asked over it is gone with it), or this
    /// node stops.
    async fn pull(&mut self, connection: &mut watch::Receiver<bool>) {
        let stopping = self.shared.stopping.clone();
        loop {
            let now = Instant::now();
            if self.asked <= BATCH / 2 && now >= self.ask_at && self.shared.health.is_connected() {
                self.ask().await;
            }
            let gathered = self.last_early + GATHER;
            let wake = if self.asked <= BATCH / 2 && self.ask_at > now { self.ask_at } else { now + SILENCE };
            tokio::select! {
                biased;
                // Rather than to end a step in its middle, all that would end this stands here.
                frame = self.subscriber.next() => match frame {
                    Some(frame) => self.take(frame).await,
                    None => return,
                },
                () = tokio::time::sleep_until(gathered), if !self.early.is_empty() => self.hand_back().await,
                () = tokio::time::sleep_until(wake.min(self.last_frame + SILENCE)) => {}
                _ = connection.changed() => return,
                () = stopping.cancelled() => return,
            }
            if self.last_frame.elapsed() >= SILENCE {
                return;
            }
        }
    }

    async fn ask(&mut self) {
        let names = &self.shared.names;
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", names.stream, names.consumer);
        let request = json!({
            "batch": BATCH,
            "expires": u64::try_from(EXPIRES.as_nanos()).unwrap_or(u64::MAX),
            "idle_heartbeat": u64::try_from(HEARTBEAT.as_nanos()).unwrap_or(u64::MAX),
        });
        let client = self.shared.connection.client();
        if client.publish_with_reply(subject, self.inbox.clone(), request.to_string().into()).await.is_ok() {
            self.asked += BATCH;
        }
    }

    async fn take(&mut self, frame: async_nats::Message) {
        self.last_frame = Instant::now();
        match frame.status {
            None | Some(StatusCode::OK) => {
                self.asked = self.asked.saturating_sub(1);
                let context = self.shared.context.clone();
                self.message(Message { message: frame, context }).await;
            }
            Some(StatusCode::IDLE_HEARTBEAT) => {}
            // A request that has run its time; how much of it was left stands in a header.
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => self.asked = self.asked.saturating_sub(left(&frame)),
            Some(status) => {
                let why = frame.description.as_deref().unwrap_or_default();
                tracing::debug!(%status, why, "the broker refuses a request for slots");
                self.asked = self.asked.saturating_sub(left(&frame));
                self.ask_at = Instant::now() + REST;
                self.shared.notes.look_soon();
            }
        }
    }

    async fn message(&mut self, message: Message) {
        let Shared { health, clock, connection, shards, .. } = &*self.shared;
        health.delivered();
        let Some(slot) = decode(&message.payload, *shards) else {
            tracing::warn!(subject = %message.subject, "a message among the slots is none; it is acknowledged unread");
            meter::dead_letter();
            connection.answer(&message, AckKind::Term).await;
            return;
        };
        let now = clock.now();
        if now >= slot.closes() {
            meter::dead_letter();
            connection.answer(&message, AckKind::Ack).await;
        } else if now >= slot.opens() {
            open(&self.shared, slot, message).await;
        } else {
            self.last_early = Instant::now();
            self.early.push((slot, message));
            if self.early.len() >= GATHER_MOST {
                self.hand_back().await;
            }
        }
    }

    /// Hands back what is early, until each opens.
    async fn hand_back(&mut self) {
        let now = self.shared.clock.now();
        for (slot, message) in std::mem::take(&mut self.early) {
            let left = slot.opens().since(now);
            if left > NEARLY {
                self.shared.connection.answer(&message, AckKind::Nak(Some(left.as_std()))).await;
            } else {
                let shared = Arc::clone(&self.shared);
                tokio::spawn(async move { wait_and_open(&shared, slot, message).await });
            }
        }
    }

    /// Hands back what has come and what is still on its way, so that no other node has to wait for it.
    async fn end(mut self) {
        if !self.shared.health.is_connected() {
            return;
        }
        let _drained = tokio::time::timeout(LAST, async {
            if self.subscriber.drain().await.is_ok() {
                while let Some(frame) = self.subscriber.next().await {
                    if !self.shared.stopping.is_cancelled() {
                        self.take(frame).await;
                    } else if matches!(frame.status, None | Some(StatusCode::OK)) {
                        let context = self.shared.context.clone();
                        let message = Message { message: frame, context };
                        self.shared.connection.answer(&message, AckKind::Nak(None)).await;
                    }
                }
            }
        })
        .await;
        self.hand_back().await;
    }
}

async fn open(shared: &Shared, slot: Slot, message: Message) {
    match shared.hand.take(slot, Some(message)) {
        Taken::Yes => {}
        Taken::Twice(message) => {
            meter::duplicate();
            shared.connection.answer(&message, AckKind::Ack).await;
        }
        Taken::Full(message) => {
            if let Some(message) = message {
                shared.connection.answer(&message, AckKind::Nak(Some(NO_ROOM))).await;
            }
        }
    }
}

async fn wait_and_open(shared: &Shared, slot: Slot, message: Message) {
    let opens = slot.opens();
    while shared.clock.now() < opens {
        nap(&*shared.clock, opens).await;
        // The clock was set back meanwhile: the broker keeps it for as long.
        let left = opens.since(shared.clock.now());
        if left > NEARLY {
            shared.connection.answer(&message, AckKind::Nak(Some(left.as_std()))).await;
            return;
        }
    }
    if shared.stopping.is_cancelled() {
        shared.connection.answer(&message, AckKind::Nak(None)).await;
    } else {
        open(shared, slot, message).await;
    }
}

/// How many messages of a request were not sent; all of them if the server does not say.
fn left(frame: &async_nats::Message) -> usize {
    let header = frame.headers.as_ref().and_then(|h| h.get("Nats-Pending-Messages"));
    header.and_then(|h| h.as_str().parse().ok()).unwrap_or(BATCH)
}
