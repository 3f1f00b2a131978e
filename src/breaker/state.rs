//! One breaker: a machine over what its downstream answers and the time. Pure, but for the last resort of a full queue.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Downstream, Snapshot, State};
use crate::{
    config,
    domain::time::{DurationMs, Timestamp},
};

/// While it ramps, the rate is doubled every so often.
const DOUBLED_EVERY: DurationMs = DurationMs::from_secs(5);
/// What a moment without calls saves up for the next one, so that the rate is met by calls that come unevenly: a tenth of a
/// second's worth, in microseconds.
const SAVED_US: i64 = 100_000;
/// How soon what is refused comes again where the breaker does not say: the probes are soon through.
const SOON: DurationMs = DurationMs::from_secs(1);
/// The furthest turn behind the first; what exceeds it comes at any moment of this span.
const LAST_TURN: DurationMs = DurationMs::from_secs(3600);
/// Openings in a row that still double the time.
const MAX_DOUBLINGS: u32 = 16;
/// Bytes kept of a failure's text.
const ERROR_BYTES: usize = 300;

/// Which stretch of a breaker's life a call belongs to: a report from another one changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Epoch(u64);

impl Epoch {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Of a downstream that nothing was known of.
    pub fn is_first(self) -> bool {
        self.0 == 0
    }
}

#[derive(Debug)]
enum Phase {
    Closed,
    Open {
        until: Timestamp,
    },
    HalfOpen {
        running: u32,
        succeeded: u32,
    },
    /// `next_us`: the earliest moment, in microseconds, for the next run at the rate of the moment.
    Ramping {
        since: Timestamp,
        next_us: i64,
    },
}

/// A change that is worth telling.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub state: State,
    pub until: Option<Timestamp>,
    pub last_error: String,
}

#[derive(Debug)]
pub(super) struct Breaker {
    phase: Phase,
    epoch: Epoch,
    /// Failures in a row, the first of them when.
    failures: u32,
    first_failed_at: Timestamp,
    last_error: String,
    /// Openings since it was last closed, and the first of them when.
    openings: u32,
    opened_at: Option<Timestamp>,
    /// The next turn, in microseconds.
    turn_us: i64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            phase: Phase::Closed,
            epoch: Epoch::default(),
            failures: 0,
            first_failed_at: Timestamp::MIN,
            last_error: String::new(),
            openings: 0,
            opened_at: None,
            turn_us: 0,
        }
    }
}

impl Breaker {
    /// Closed, and without a failure: as if it were not there.
    pub fn is_forgotten(&self) -> bool {
        matches!(self.phase, Phase::Closed) && self.failures == 0
    }

    /// Whether a run may call now; and why not.
    pub fn admit(
        &mut self,
        now: Timestamp,
        config: &config::Breaker,
        again: bool,
    ) -> Result<(Epoch, Option<Change>), String> {
        let mut change = None;
        if let Phase::Open { until } = self.phase {
            // Also where the clock was set back by far.
            if now < until && until.since(now) <= config.max {
                return Err(format!("it has failed {} times in a row ({})", self.failures, self.last_error));
            }
            self.enter(Phase::HalfOpen { running: 0, succeeded: 0 });
            change = Some(self.change());
        }
        let opened_at = self.opened_at.unwrap_or(now);
        match &mut self.phase {
            Phase::HalfOpen { running, .. } if again || *running < config.probes => *running += 1,
            Phase::HalfOpen { .. } => return Err(format!("it has failed since {opened_at}, and is being tried")),
            Phase::Ramping { since, next_us } => {
                let elapsed = now.since(*since);
                if elapsed >= config.ramp || now < *since {
                    self.close();
                    return Ok((self.epoch, Some(self.change())));
                }
                let doublings = (elapsed.as_millis() / DOUBLED_EVERY.as_millis()).min(20);
                let now_us = now.as_millis() * 1000;
                if !again && now_us < *next_us {
                    return Err(format!("it has failed since {opened_at}, is back, and is spared for a while"));
                }
                if !again {
                    *next_us = (*next_us).max(now_us - SAVED_US) + (gap_us(config) >> doublings);
                }
            }
            Phase::Closed | Phase::Open { .. } => {}
        }
        Ok((self.epoch, change))
    }

    pub fn failed(&mut self, now: Timestamp, config: &config::Breaker, epoch: Epoch, why: &str) -> Option<Change> {
        if epoch != self.epoch {
            return None;
        }
        self.last_error = cut(why, ERROR_BYTES).replace('\0', "\u{fffd}");
        let fresh = now.since(self.first_failed_at) <= config.window && self.first_failed_at <= now;
        if self.failures == 0 || (!fresh && !matches!(self.phase, Phase::HalfOpen { .. })) {
            self.failures = 0;
            self.first_failed_at = now;
        }
        self.failures = self.failures.saturating_add(1);
        let opens = match self.phase {
            Phase::HalfOpen { .. } => true,
            Phase::Closed | Phase::Ramping { .. } => self.failures >= config.failures,
            Phase::Open { .. } => false,
        };
        if !opens {
            return None;
        }
        let doublings = self.openings.min(MAX_DOUBLINGS);
        let length = DurationMs::from_millis(config.open.as_millis().saturating_mul(1 << doublings)).min(config.max);
        let until = now.saturating_add(length);
        self.openings += 1;
        self.opened_at.get_or_insert(now);
        self.enter(Phase::Open { until });
        Some(Change { until: Some(until), ..self.change() })
    }

    pub fn succeeded(&mut self, now: Timestamp, config: &config::Breaker, epoch: Epoch) -> Option<Change> {
        if epoch != self.epoch {
            return None;
        }
        match &mut self.phase {
            Phase::HalfOpen { running, succeeded } => {
                *running = running.saturating_sub(1);
                *succeeded += 1;
                if *succeeded < config.probes {
                    return None;
                }
                self.failures = 0;
                self.enter(Phase::Ramping { since: now, next_us: now.as_millis() * 1000 });
                Some(self.change())
            }
            Phase::Ramping { since, .. } => {
                self.failures = 0;
                if now.since(*since) < config.ramp {
                    return None;
                }
                self.close();
                Some(self.change())
            }
            Phase::Closed => {
                self.failures = 0;
                None
            }
            Phase::Open { .. } => None,
        }
    }

    /// A call ended that told nothing.
    pub fn given_up(&mut self, epoch: Epoch) {
        if epoch == self.epoch
            && let Phase::HalfOpen { running, .. } = &mut self.phase
        {
            *running = running.saturating_sub(1);
        }
    }

    /// One after the other at the drain rate, from when the downstream is tried again.
    pub fn turn(&mut self, now: Timestamp, config: &config::Breaker) -> Timestamp {
        let first = match self.phase {
            Phase::Open { until } => until,
            Phase::HalfOpen { .. } | Phase::Ramping { .. } | Phase::Closed => now.saturating_add(SOON),
        };
        let first_us = first.as_millis() * 1000;
        let span = i64::try_from(LAST_TURN.as_millis() * 1000).unwrap_or(i64::MAX);
        let turn = self.turn_us.max(first_us);
        if turn - first_us > span {
            let anywhere = rand::random_range(0..LAST_TURN.as_millis());
            return first.saturating_add(DurationMs::from_millis(anywhere));
        }
        self.turn_us = turn + gap_us(config);
        Timestamp::from_millis_clamped(turn / 1000)
    }

    /// A ramp that is over ends here, if no call came to end it.
    pub fn tidy(&mut self, now: Timestamp, config: &config::Breaker) -> Option<Change> {
        let Phase::Ramping { since, .. } = self.phase else { return None };
        if now.since(since) < config.ramp {
            return None;
        }
        self.close();
        Some(self.change())
    }

    pub fn show(&self, downstream: &Downstream, now: Timestamp) -> Snapshot {
        let (state, until) = match self.phase {
            Phase::Closed => (State::Closed, None),
            Phase::Open { until } if now < until => (State::Open, Some(until)),
            Phase::Open { .. } | Phase::HalfOpen { .. } => (State::HalfOpen, None),
            Phase::Ramping { .. } => (State::Ramping, None),
        };
        let turn = Timestamp::from_millis_clamped(self.turn_us / 1000);
        Snapshot {
            downstream: downstream.clone(),
            state,
            failures: self.failures,
            last_error: self.last_error.clone(),
            opened_at: self.opened_at.filter(|_| state != State::Closed),
            until,
            next_turn_at: (turn > now).then_some(turn),
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.epoch = Epoch::next();
    }

    fn close(&mut self) {
        *self = Self::default();
    }

    fn change(&self) -> Change {
        let state = match self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen { .. } => State::HalfOpen,
            Phase::Ramping { .. } => State::Ramping,
        };
        Change { state, until: None, last_error: self.last_error.clone() }
    }
}

/// Microseconds from one run to the next at the drain rate.
fn gap_us(config: &config::Breaker) -> i64 {
    1_000_000 / i64::from(config.drain_rate.max(1))
}

/// The first bytes of a text, at a character's end.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
