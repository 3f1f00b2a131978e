//! A token bucket over the clock: so many starts in a second, evenly.

use crate::domain::time::{DurationMs, Timestamp};

#[derive(Debug)]
pub(super) struct Bucket {
    /// Tokens a second; at least 1.
    rate: u64,
    /// Thousandths of a token. At most a tenth of a second's worth (and at least one token) is saved up, so that no
    /// second sees more than a tenth above the rate.
    milli: u64,
    at: Timestamp,
}

impl Bucket {
    /// `rate` per second; none where it is 0.
    pub fn new(rate: u32, now: Timestamp) -> Option<Self> {
        (rate > 0).then(|| Self { rate: u64::from(rate), milli: 1000, at: now })
    }

    pub fn rate(&self) -> u64 {
        self.rate
    }

    fn most(&self) -> u64 {
        (self.rate * 100).max(1000)
    }

    fn refill(&mut self, now: Timestamp) {
        let earned = now.since(self.at).as_millis().saturating_mul(self.rate);
        self.milli = self.milli.saturating_add(earned).min(self.most());
        self.at = now;
    }

    /// How many tokens there are now.
    pub fn available(&mut self, now: Timestamp) -> usize {
        self.refill(now);
        usize::try_from(self.milli / 1000).unwrap_or(usize::MAX)
    }

    /// Takes what [`Self::available`] has said is there.
    pub fn take(&mut self, tokens: usize) {
        self.milli = self.milli.saturating_sub((tokens as u64).saturating_mul(1000));
    }

    /// Gives back tokens that were taken and not used.
    pub fn refund(&mut self, tokens: usize) {
        self.milli = self.milli.saturating_add((tokens as u64).saturating_mul(1000));
    }

    /// How long until there is a token.
    pub fn next_in(&self) -> DurationMs {
        DurationMs::from_millis(1000u64.saturating_sub(self.milli).div_ceil(self.rate))
    }
}
