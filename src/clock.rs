//! Time comes only through [`Clock`]: the system's, the store's as this node knows it, or one that a test moves.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

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

    async fn sleep_until(&self, at: Timestamp) {
        wait_in_steps(self, at).await;
    }
}

/// Waits on the monotonic clock, in bounded steps, and asks `clock` after each.
async fn wait_in_steps(clock: &dyn Clock, at: Timestamp) {
    loop {
        let left = at.since(clock.now());
        if left == DurationMs::ZERO {
            return;
        }
        tokio::time::sleep(left.as_std().min(LONGEST_WAIT)).await;
    }
}

/// The clock of a store that other nodes share, as far as its answers tell: never ahead of it, and behind it by no more
/// than the quickest answer took on its way. Before the first answer it is the machine's clock.
///
/// ```text
///   this node   asked ─────────────── answered        the store's now, when answered, lies
///   the store           └─ store_now ─┘               between store_now and store_now + round_trip
/// ```
///
/// It runs on the monotonic clock, so that setting the machine's clock changes nothing. It takes the lower bound of the
/// best answer, gives way a little (200 ppm) as that grows old, and follows at once when the store's clock itself was set.
#[derive(Debug)]
pub struct StoreClock {
    origin: Instant,
    known: Mutex<Option<Known>>,
}

/// One microsecond in this many is given way to a monotonic clock that runs faster than the store's: 200 ppm, several
/// times what a machine's oscillator is off by.
const DRIFT: i64 = 5_000;

/// The store's clock in microseconds since 1970, less the microseconds since `origin`.
#[derive(Clone, Copy, Debug)]
struct Known {
    ahead: i64,
    /// Microseconds since `origin`, when that was learnt.
    at: i64,
}

impl Known {
    fn ahead(self, at: i64) -> i64 {
        self.ahead - (at - self.at).max(0) / DRIFT
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        Self { origin: Instant::now(), known: Mutex::new(None) }
    }
}

impl StoreClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The store answered just now, and read `store_now` from its clock at some moment of the `round_trip` before.
    pub fn observe(&self, store_now: Timestamp, round_trip: Duration) {
        let at = self.elapsed();
        let lower = store_now.as_millis() * 1000 - at;
        // `store_now` is cut to milliseconds.
        let upper = lower.saturating_add(micros(round_trip)).saturating_add(999);
        let mut known = self.known.lock();
        let holds = known.is_some_and(|k| (lower..=upper).contains(&k.ahead(at)));
        if !holds {
            *known = Some(Known { ahead: lower, at });
        }
    }

    /// How far the store's clock is ahead of this machine's, in milliseconds; `None` before the first answer.
    pub fn ahead_of_system_ms(&self) -> Option<i64> {
        let is_known = self.known.lock().is_some();
        is_known.then(|| self.now().as_millis() - SystemClock.now().as_millis())
    }

    fn elapsed(&self) -> i64 {
        micros(self.origin.elapsed())
    }
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        let Some(known) = *self.known.lock() else { return SystemClock.now() };
        let at = self.elapsed();
        Timestamp::from_millis_clamped(known.ahead(at).saturating_add(at).div_euclid(1000))
    }

    async fn sleep_until(&self, at: Timestamp) {
        wait_in_steps(self, at).await;
    }
}

/// For loops that look at the clock again by themselves: returns once [`Clock::now`] has reached `at`, or half a second
/// of real time later, so that a clock that was set back stalls no loop.
pub async fn nap(clock: &dyn Clock, at: Timestamp) {
    let _looked_again = tokio::time::timeout(LONGEST_NAP, clock.sleep_until(at)).await;
}

/// How long before the end of a lease what runs under it is broken off.
const LEASE_MARGIN: DurationMs = DurationMs::from_millis(500);

/// Returns shortly before a lease ends: whatever runs under it must have ended when another takes over.
pub async fn lease_nearly_ends(clock: &dyn Clock, lease_until: Option<Timestamp>) {
    match lease_until {
        Some(until) => clock.sleep_until(until.saturating_sub(LEASE_MARGIN)).await,
        None => std::future::pending().await,
    }
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
