//! Slots under JetStream's delayed redelivery. From ten seconds before it, one message stands for all timers of a shard
//! and second; it is handed back with delay until half a second before.
//!
//! ```text
//!   planner (each node, each second)   message "shard second", its id the same: planned twice is one message
//!        │ publish
//!        ▼
//!   stream PREFIX-slots ── consumer `workers` ── pull (each node)
//!        ▲                                          │ too early: NAK until it opens, those of a burst together
//!        └──────────────────────────────────────────┤ too late: acknowledged unread
//!                                                   ▼ open
//!                  in hand: progress each second ── next() ── done: ack · give_back: NAK at once · closed: ack
//! ```
//!
//! A node that dies stops its progress, and within the acknowledgement wait the server hands its slots to the others. The
//! database is the truth, so a message may be lost, late, doubled or out of order: a slot is a wake-up and no lease.
//!
//! While the broker is away or silent, each node runs [`super::local::Local`] over the shards that are its own by
//! `super::live` (`fallback.rs`), and goes back once its slots arrive again. Both at once are harmless.

use std::sync::Arc;

use async_nats::jetstream::{self, AckKind};
use async_trait::async_trait;
use serde::Serialize;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    connect::Connection,
    hand::Hand,
    health::Health,
    stream::{Names, Notes},
};
use super::{
    Delivery, Slot, WokenBy,
    live::{LiveNodes, Members},
};
use crate::{clock::SharedClock, config};

mod connect;
mod fallback;
mod hand;
mod health;
mod meter;
mod planner;
mod puller;
mod stream;

pub use self::{
    connect::Error,
    health::Mode,
    stream::{Change, Counts, Look, inspect},
};

/// What a node needs to take part.
pub struct JetstreamParams {
    pub config: config::Nats,
    /// The store's clock, as this node knows it: all nodes have to agree on the second.
    pub clock: SharedClock,
    pub shards: u16,
    /// This node's name, unlike any other's.
    pub node: String,
    /// Who shares the shards while the broker is away.
    pub live: Arc<dyn LiveNodes>,
}

/// What every task of this room sees.
struct Shared {
    connection: Connection,
    context: jetstream::Context,
    names: Names,
    replicas: usize,
    clock: SharedClock,
    shards: u16,
    members: Arc<Members>,
    hand: Hand,
    health: Arc<Health>,
    notes: Notes,
    /// This node takes no more slots.
    stopping: CancellationToken,
}

/// Slots through the broker; see the module.
pub struct Jetstream {
    shared: Arc<Shared>,
    /// Ends every task.
    closing: CancellationToken,
    /// The task that takes slots from the broker.
    pulling: TaskTracker,
}

/// How it stands with the broker, as this node sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    pub connected: bool,
    pub mode: Mode,
    /// Settings that are not what they were made as.
    pub changed: Vec<Change>,
    /// What went wrong last, while it does.
    pub error: Option<String>,
    pub counts: Option<Counts>,
}

impl Jetstream {
    /// Starts to connect and to deliver, whether the broker is there or not.
    ///
    /// # Errors
    /// An address or a file of the settings that cannot be used. A broker that is away is none.
    pub async fn start(params: JetstreamParams) -> Result<Self, Error> {
        meter::describe();
        let JetstreamParams { config, clock, shards, node, live } = params;
        let health = Arc::new(Health::new());
        let connection = Connection::open(&config, &node, &health).await?;
        let shared = Arc::new(Shared {
            context: connection.context(),
            connection,
            names: Names::new(&config.prefix),
            replicas: config.replicas,
            clock,
            shards,
            members: Arc::new(Members::new(node, live)),
            hand: Hand::new(),
            health,
            notes: Notes::default(),
            stopping: CancellationToken::new(),
        });
        let closing = CancellationToken::new();
        let pulling = TaskTracker::new();
        // The puller ends by itself when this node stops, after it gave back what it still had.
        pulling.spawn(until_closed(&closing, puller::run(Arc::clone(&shared))));
        pulling.close();
        tokio::spawn(until_closed(&closing, stream::keep(Arc::clone(&shared))));
        tokio::spawn(until_closed(&closing, planner::run(Arc::clone(&shared))));
        tokio::spawn(until_closed(&closing, hand::keep(Arc::clone(&shared))));
        tokio::spawn(until_closed(&closing, health::watch(Arc::clone(&shared))));
        tokio::spawn(until_closed(&closing, fallback::run(Arc::clone(&shared))));
        tokio::spawn(until_closed(&closing, fallback::follow_members(Arc::clone(&shared))));
        Ok(Self { shared, closing, pulling })
    }

    pub fn status(&self) -> Status {
        let Shared { health, notes, .. } = &*self.shared;
        Status {
            connected: health.is_connected(),
            mode: health.mode(),
            changed: notes.changed(),
            error: health.error(),
            counts: notes.counts(),
        }
    }
}

/// A future that does not hold `closing` up.
fn until_closed<F: Future<Output = ()>>(closing: &CancellationToken, task: F) -> impl Future<Output = ()> + use<F> {
    let closing = closing.clone();
    async move {
        tokio::select! {
            () = closing.cancelled() => {}
            () = task => {}
        }
    }
}

impl Drop for Jetstream {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

#[async_trait]
impl Delivery for Jetstream {
    async fn next(&self) -> Slot {
        self.shared.hand.next().await
    }

    async fn done(&self, slot: Slot) {
        if let Some(message) = self.shared.hand.release(slot) {
            self.shared.connection.answer(&message, AckKind::Ack).await;
        }
    }

    async fn give_back(&self, slot: Slot) {
        // Or it would come back at once, to this same node.
        self.stop().await;
        if let Some(message) = self.shared.hand.release(slot) {
            self.shared.connection.answer(&message, AckKind::Nak(None)).await;
            self.shared.connection.flush().await;
        }
    }

    async fn stop(&self) {
        self.shared.stopping.cancel();
        let _ended = tokio::time::timeout(connect::PATIENCE, self.pulling.wait()).await;
        let unread = self.shared.hand.release_unread();
        if unread.is_empty() {
            return;
        }
        for message in &unread {
            self.shared.connection.answer(message, AckKind::Nak(None)).await;
        }
        self.shared.connection.flush().await;
    }
    fn nodes(&self) -> usize {
        self.shared.members.count()
    }

    fn woken_by(&self) -> WokenBy {
        self.shared.health.away_for().map_or(WokenBy::Broker, WokenBy::OwnClockMeanwhile)
    }
}
