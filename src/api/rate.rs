//! How many calls a key may make: a token bucket a key, a second's worth deep.

use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::domain::{id::ApiKeyId, time::Timestamp};

use super::problem::{Code, Error, Result};

/// Buckets held; beyond it those that are full again are dropped, and if none is, all.
const MAX_BUCKETS: usize = 10_000;

pub(super) struct Limiter {
    /// Calls a second; 0 for no limit.
    rate: u32,
    buckets: Mutex<HashMap<ApiKeyId, Bucket>>,
}

/// Thousandths of a call, so that a millisecond adds `rate` of them.
struct Bucket {
    thousandths: u64,
    filled_at: Timestamp,
}

/// What a key has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    limit: u32,
    remaining: u64,
    /// Seconds until the bucket is full.
    reset_s: u64,
}

impl Limiter {
    pub fn new(rate: u32) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Counts a call; `None` where there is no limit.
    pub fn take(&self, key: ApiKeyId, now: Timestamp) -> Result<Option<Allowance>> {
        if self.rate == 0 {
            return Ok(None);
        }
        let (rate, full) = (u64::from(self.rate), u64::from(self.rate) * 1000);
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(&key) {
            buckets.retain(|_, b| b.thousandths + now.since(b.filled_at).as_millis().saturating_mul(rate) < full);
            if buckets.len() >= MAX_BUCKETS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(key).or_insert(Bucket { thousandths: full, filled_at: now });
        // A clock that was put back adds nothing, and is followed from where it is.
        let gained = now.since(bucket.filled_at).as_millis().saturating_mul(rate);
        bucket.thousandths = bucket.thousandths.saturating_add(gained).min(full);
        bucket.filled_at = now;
        let passed = bucket.thousandths >= 1000;
        if passed {
            bucket.thousandths -= 1000;
        }
        let allowance = Allowance {
            limit: self.rate,
            remaining: bucket.thousandths / 1000,
            reset_s: (full - bucket.thousandths).div_ceil(full),
        };
        if passed {
            return Ok(Some(allowance));
        }
        let detail = format!("this key may make {} calls a second", self.rate);
        let error = Error::new(Code::RateLimited, detail).retry_after(1);
        Err(allowance.headers().into_iter().fold(error, |e, (name, value)| e.with_header(name, value)))
    }
}

impl Allowance {
    fn headers(self) -> [(HeaderName, HeaderValue); 3] {
        [
            (HeaderName::from_static("ratelimit-limit"), HeaderValue::from(self.limit)),
            (HeaderName::from_static("ratelimit-remaining"), HeaderValue::from(self.remaining)),
            (HeaderName::from_static("ratelimit-reset"), HeaderValue::from(self.reset_s)),
        ]
    }

    pub fn write(self, headers: &mut HeaderMap) {
        headers.extend(self.headers());
    }
}
