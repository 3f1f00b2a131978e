//! Time comes only through [`Clock`]: the system's, or one that a test moves.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::domain::time::{DurationMs, Timestamp};

#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    fn now(&self) -> Timestamp;

    /// Returns once [`Clock::now`] has reached `at`: never before, whichever way the clock is moved meanwhile.
    async fn sleep_until(&self, at: Timestamp);

    async fn sleep(&self, length: DurationMs) {
        self.sleep_until(self.now().saturating_add(length)).await;
    }
}

pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

/// The longest single wait. A clock that jumps, or a machine that was suspended, is noticed within it.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis_clamped(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Waits on the monotonic clock, in bounded steps, and asks the wall clock after each.
    async fn sleep_until(&self, at: Timestamp) {
        loop {
            let left = at.since(self.now());
            if left == DurationMs::ZERO {
                return;
            }
            tokio::time::sleep(left.as_std().min(LONGEST_WAIT)).await;
        }
    }
}

/// For loops that look at the clock again by themselves: returns once [`Clock::now`] has reached `at`, or half a second
/// of real time later, so that a clock that was set back stalls no loop.
pub async fn nap(clock: &dyn Clock, at: Timestamp) {
    let _looked_again = tokio::time::timeout(LONGEST_NAP, clock.sleep_until(at)).await;
}

/// The longest that [`nap`] takes, by the monotonic clock.
const LONGEST_NAP: Duration = Duration::from_millis(500);

/// A clock that stands still until it is moved, forwards or back.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
    moved: watch::Sender<()>,
}

impl ManualClock {
    pub fn new(now: Timestamp) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new(now), moved: watch::Sender::new(()) })
    }

    pub fn set(&self, now: Timestamp) {
        *self.now.lock() = now;
        self.moved.send_replace(());
    }

    pub fn advance(&self, by: DurationMs) {
        let mut now = self.now.lock();
        *now = now.saturating_add(by);
        self.moved.send_replace(());
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock()
    }

    async fn sleep_until(&self, at: Timestamp) {
        let mut moved = self.moved.subscribe();
        while self.now() < at {
            if moved.changed().await.is_err() {
                return;
            }
        }
    }
}
