//! Exponential backoff with full jitter and a cap.

use serde::{Deserialize, Serialize};

use super::time::DurationMs;

/// How often something is tried, and how long it waits in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; 1 to 100.
    pub attempts: u32,
    /// The longest wait before the second attempt; doubled for each one after.
    pub initial: DurationMs,
    /// What no wait exceeds.
    pub max: DurationMs,
}

impl RetryPolicy {
    /// For expiries: one and three more.
    pub const EXPIRY: Self =
        Self { attempts: 4, initial: DurationMs::from_secs(1), max: DurationMs::from_secs(5 * 60) };
    pub const COMPENSATION: Self =
        Self { attempts: 12, initial: DurationMs::from_secs(1), max: DurationMs::from_secs(60 * 60) };

    /// The most attempts that a policy may ask for.
    pub const MAX_ATTEMPTS: u32 = 100;
    /// The shortest wait: a retry can never spin.
    pub const MIN_WAIT: DurationMs = DurationMs::from_millis(50);

    pub fn is_exhausted(&self, attempt: u32) -> bool {
        attempt >= self.attempts
    }

    /// The wait after `attempt` (from 1) failed: uniform between [`Self::MIN_WAIT`] and
    /// `min(max, initial * 2^(attempt - 1))` (AWS Architecture Blog, "Exponential Backoff And Jitter": full jitter).
    /// `random` is in `[0, 1)`.
    pub fn wait(&self, attempt: u32, random: f64) -> DurationMs {
        let doublings = attempt.saturating_sub(1).min(63);
        let ceiling = self.initial.as_millis().saturating_mul(1u64 << doublings).min(self.max.as_millis());
        let floor = Self::MIN_WAIT.as_millis();
        let span = ceiling.saturating_sub(floor);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a jittered wait needs no exact milliseconds, and random is in [0, 1)"
        )]
        let jitter = (span as f64 * random.clamp(0.0, 1.0)) as u64;
        DurationMs::from_millis(floor + jitter.min(span))
    }
}
