//! Times, summed up.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest time that is told apart: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Times in microseconds, to three digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

#[derive(Clone, Copy, Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are those of the printed JSON, and say the unit")]
pub struct Quantiles {
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Times {
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_US, 3).unwrap_or_else(|e| unreachable!("the bounds are sound: {e}")))
    }

    pub fn note(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(LONGEST_US));
    }

    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).unwrap_or_else(|e| unreachable!("both have the same bounds: {e}"));
    }

    #[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is far below 2^53")]
    pub fn quantiles(&self) -> Quantiles {
        let ms = |us: u64| us as f64 / 1000.0;
        Quantiles {
            p50_ms: ms(self.0.value_at_quantile(0.5)),
            p90_ms: ms(self.0.value_at_quantile(0.9)),
            p99_ms: ms(self.0.value_at_quantile(0.99)),
            max_ms: ms(self.0.max()),
        }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            self.p50_ms, self.p90_ms, self.p99_ms, self.max_ms
        )
    }
}

/// How many a second.
#[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
pub fn per_second(count: u64, took: Duration) -> f64 {
    let rate = count as f64 / took.as_secs_f64().max(0.001);
    (rate * 10.0).round() / 10.0
}
