//! How many calls of a lane run at once: as many as it may, and fewer while they time out.

/// Timeouts in a row that halve a lane.
const NARROW_AFTER: u32 = 3;
/// Calls in a row that did not time out, and double it again.
const WIDEN_AFTER: u32 = 16;

#[derive(Debug)]
pub struct Width {
    most: usize,
    now: usize,
    timeouts: u32,
    healthy: u32,
}

impl Width {
    pub fn new(most: usize) -> Self {
        Self { most, now: most, timeouts: 0, healthy: 0 }
    }

    pub fn now(&self) -> usize {
        self.now
    }

    /// Its last calls have timed out.
    pub fn is_suspect(&self) -> bool {
        self.timeouts > 0 || self.now < self.most
    }

    /// The type's own bound, which an operator may change at any time.
    pub fn set_most(&mut self, most: usize) {
        if most != self.most {
            *self = Self::new(most);
        }
    }

    /// Takes in how one call went. Says whether the width has changed.
    pub fn record(&mut self, timed_out: bool) -> bool {
        let before = self.now;
        if timed_out {
            self.healthy = 0;
            self.timeouts += 1;
            if self.timeouts >= NARROW_AFTER {
                self.timeouts = 0;
                self.now = (self.now / 2).max(1);
            }
        } else {
            self.timeouts = 0;
            self.healthy += 1;
            if self.healthy >= WIDEN_AFTER {
                self.healthy = 0;
                self.now = (self.now * 2).min(self.most);
            }
        }
        before != self.now
    }
}
