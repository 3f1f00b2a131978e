//! Whether the broker can be relied on, and who keeps the time meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use super::{Shared, meter};

/// A connection that is lost for this long is not waited for.
const LOST: Duration = Duration::from_secs(1);
/// Every second a burst is planned; if none went through for this long, the broker is away.
const UNPUBLISHED: Duration = Duration::from_millis(2_500);
/// Every second 16 slots are handed out twice over all nodes, one after the other. If this node has had none for this
/// long, and as long again as its turn may take, the broker hands out nothing.
const UNDELIVERED: Duration = Duration::from_secs(3);
const TURN_PER_NODE: Duration = Duration::from_millis(125);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often what goes wrong is logged, while one thing after the other does.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Who wakes this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The broker's slots.
    Broker,
    /// Its own clock, for the shards that are its own.
    Local,
}

pub(super) struct Health {
    connected: watch::Sender<bool>,
    mode: watch::Sender<Mode>,
    mode_since: Mutex<Instant>,
    seen: Mutex<Seen>,
    error: Mutex<Option<String>>,
    last_said: Mutex<Option<Instant>>,
}

/// When each last happened, by the monotonic clock.
#[derive(Clone, Copy)]
struct Seen {
    /// The connection came or went.
    connection: Instant,
    /// A burst was published, whole.
    published: Instant,
    /// A message arrived.
    delivered: Instant,
}

impl Health {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            connected: watch::Sender::new(false),
            mode: watch::Sender::new(Mode::Broker),
            mode_since: Mutex::new(now),
            seen: Mutex::new(Seen { connection: now, published: now, delivered: now }),
            error: Mutex::default(),
            last_said: Mutex::default(),
        }
    }

    pub fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }

    pub fn set_connected(&self, is: bool) {
        if self.connected.send_replace(is) != is {
            self.seen.lock().connection = Instant::now();
            meter::connected(is);
        }
    }

    pub fn connection(&self) -> watch::Receiver<bool> {
        self.connected.subscribe()
    }

    pub fn mode(&self) -> Mode {
        *self.mode.borrow()
    }

    fn set_mode(&self, mode: Mode) {
        meter::mode(mode);
        *self.mode_since.lock() = Instant::now();
        self.mode.send_replace(mode);
    }

    /// How long this node has kept the time by itself; `None` while the broker does.
    pub fn away_for(&self) -> Option<Duration> {
        (self.mode() == Mode::Local).then(|| self.mode_since.lock().elapsed())
    }

    pub fn modes(&self) -> watch::Receiver<Mode> {
        self.mode.subscribe()
    }

    pub fn published(&self) {
        self.seen.lock().published = Instant::now();
    }

    pub fn delivered(&self) {
        self.seen.lock().delivered = Instant::now();
    }

    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    /// Keeps what went wrong until all is well, and says it once; what follows soon after it is its consequence.
    pub fn went_wrong(&self, what: &str) {
        if self.error.lock().replace(what.to_owned()).as_deref() == Some(what) {
            return;
        }
        let mut last_said = self.last_said.lock();
        if last_said.is_none_or(|at| at.elapsed() > SAY_EVERY) {
            tracing::warn!(error = what, "the broker does not do as it should");
            *last_said = Some(Instant::now());
        }
    }

    /// What keeps this node from relying on the broker, in words.
    fn fault(&self, nodes: usize) -> Option<&'static str> {
        let seen = *self.seen.lock();
        let turn = TURN_PER_NODE * u32::try_from(nodes).unwrap_or(u32::MAX);
        if !self.is_connected() {
            (seen.connection.elapsed() > LOST).then_some("the connection is lost")
        } else if seen.published.elapsed() > UNPUBLISHED {
            Some("nothing can be published")
        } else if seen.delivered.elapsed() > UNDELIVERED + turn {
            Some("nothing is delivered")
        } else {
            None
        }
    }

    /// Whether all is well again: published and delivered over the connection that there is.
    fn is_well(&self, nodes: usize) -> bool {
        let seen = *self.seen.lock();
        self.is_connected()
            && seen.published > seen.connection
            && seen.delivered > seen.connection
            && self.fault(nodes).is_none()
    }
}

/// Changes the mode.
pub(super) async fn watch(shared: Arc<Shared>) {
    let health = &shared.health;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let nodes = shared.members.count();
        match health.mode() {
            Mode::Broker => {
                if let Some(fault) = health.fault(nodes) {
                    tracing::warn!(fault, "the broker is away; this node keeps the time of its shards by itself");
                    health.set_mode(Mode::Local);
                }
            }
            Mode::Local => {
                if health.is_well(nodes) {
                    tracing::info!("the broker is back; its slots wake this node again");
                    health.set_mode(Mode::Broker);
                }
            }
        }
        if health.is_well(nodes) {
            health.error.lock().take();
        }
    }
}
