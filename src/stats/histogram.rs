//! Lateness in buckets: exact below 16 ms, and within 12% above.

use crate::domain::time::DurationMs;

/// Each millisecond below it has a bucket of its own; above it every doubling has [`PER_OCTAVE`].
const EXACT: u64 = 16;
const EXACT_BITS: u32 = 4;
const PER_OCTAVE: u64 = 4;
const SUB_BITS: u32 = 2;
/// Up to 2^32 ms, some fifty days; what is later stands in the last one.
const BUCKETS: usize = 16 + 28 * 4;

/// How many fell into each bucket.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Box<[u32; BUCKETS]>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl Histogram {
    pub fn record(&mut self, value: DurationMs) {
        let bucket = &mut self.buckets[bucket(value.as_millis())];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
    }

    /// The value, in milliseconds, that so many percent do not exceed; `None` if there is none at all.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (nth, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(middle(nth));
            }
        }
        Some(middle(BUCKETS - 1))
    }
}

fn bucket(ms: u64) -> usize {
    if ms < EXACT {
        return usize::try_from(ms).unwrap_or(0);
    }
    let octave = ms.ilog2();
    let sub = (ms >> (octave - SUB_BITS)) & (PER_OCTAVE - 1);
    let nth = EXACT + u64::from(octave - EXACT_BITS) * PER_OCTAVE + sub;
    usize::try_from(nth).map_or(BUCKETS - 1, |nth| nth.min(BUCKETS - 1))
}

/// What stands for a bucket: the middle of its values.
fn middle(bucket: usize) -> u64 {
    let nth = bucket as u64;
    if nth < EXACT {
        return nth;
    }
    let octave = (nth - EXACT) / PER_OCTAVE + u64::from(EXACT_BITS);
    let sub = (nth - EXACT) % PER_OCTAVE;
    let width = 1 << (octave - u64::from(SUB_BITS));
    (1 << octave) + sub * width + width / 2
}
