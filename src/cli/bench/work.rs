//! What the scenarios share: a run's keys and payloads, and registering many timers in few calls.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    client::{self, Client, Page, Timer},
    demo_shop::{CHECKED, UNCHECKED, small_order},
    domain::time::Timestamp,
};

use super::super::{Result, connect::Connect, error::Error, output::now};

/// What a key stands for in a payload's template.
const PLACEHOLDER: &str = "{key}";
/// The most timers in a page of the API.
const PAGE: u64 = 500;

#[derive(Args, Clone, Debug)]
pub struct Work {
    /// The type of the timers
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = UNCHECKED)]
    timer_type: String,
    /// Their payload; {key} in it stands for the timer's key [default: a small order]
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

/// One run: a client, and keys that no other run has.
#[derive(Clone, Debug)]
pub struct Run {
    pub client: Client,
    pub timer_type: String,
    payload: Option<String>,
    prefix: String,
}

impl Work {
    pub fn start(&self) -> Result<Run> {
        let known = [UNCHECKED, CHECKED].contains(&self.timer_type.as_str());
        if self.payload.is_none() && !known {
            return Err(Error::usage(format!("give --payload for the type {}", self.timer_type)));
        }
        if let Some(payload) = &self.payload {
            let sample = payload.replace(PLACEHOLDER, "k");
            serde_json::from_str::<Value>(&sample).map_err(|e| Error::usage(format!("--payload is not JSON: {e}")))?;
        }
        Ok(Run {
            client: self.connect.client()?,
            timer_type: self.timer_type.clone(),
            payload: self.payload.clone(),
            prefix: format!("bench-{}-", now().as_millis()),
        })
    }
}

impl Run {
    /// On a server of the benchmark's own. In `payload`, `{key}` stands for the timer's key.
    pub fn of(client: Client, payload: String) -> Self {
        let prefix = format!("bench-{}-{:08x}-", now().as_millis(), rand::random::<u32>());
        Self { client, timer_type: UNCHECKED.to_owned(), payload: Some(payload), prefix }
    }

    pub fn key(&self, number: u64) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The number of one of this run's keys.
    pub fn number(&self, key: &str) -> Option<u64> {
        key.strip_prefix(&self.prefix)?.parse().ok()
    }

    /// The body of a registration.
    pub fn timer(&self, number: u64, due_at: Timestamp) -> Value {
        let key = self.key(number);
        let payload = match &self.payload {
            Some(template) => serde_json::from_str(&template.replace(PLACEHOLDER, &key)).unwrap_or_default(),
            None => small_order(&key),
        };
        json!({ "type": self.timer_type, "key": key, "payload": payload, "due_at": due_at })
    }

    /// Registers timers `0..count`, each due at `due(number)`, in batches and in order. Returns the least time that was
    /// left before a timer was due when it was registered; zero if some were late.
    pub async fn register(&self, params: RegisterParams<'_>) -> Result<Duration> {
        let RegisterParams { count, batch, at_once, due } = params;
        let least = AtomicU64::new(u64::MAX);
        let least = &least;
        let calls = (0..count).step_by(batch).map(|first| async move {
            let numbers = first..(first + batch as u64).min(count);
            let timers: Vec<Value> = numbers.map(|n| self.timer(n, due(n))).collect();
            let answer = self.client.register_batch(&timers).await?;
            if let Some(refused) = answer.results.iter().find(|r| r.status >= 400) {
                let why = refused.problem.as_ref().map(ToString::to_string).unwrap_or_default();
                return Err(Error::Other(anyhow::anyhow!("a registration was refused: {why}")));
            }
            least.fetch_min(due(first).since(now()).as_millis(), Ordering::Relaxed);
            Ok(())
        });
        let mut calls = stream::iter(calls).buffer_unordered(at_once);
        while let Some(done) = calls.next().await {
            done?;
        }
        Ok(Duration::from_millis(least.load(Ordering::Relaxed)))
    }

    /// Reads this run's timers that are due from `from` to `until`, page by page.
    pub async fn read(&self, from: Timestamp, until: Timestamp, mut each: impl FnMut(u64, Timer)) -> Result {
        let around = crate::domain::time::DurationMs::from_millis(1);
        let mut cursor = None;
        loop {
            let mut query = vec![
                ("type", self.timer_type.clone()),
                ("due_after", from.saturating_sub(around).to_string()),
                ("due_before", until.saturating_add(around).to_string()),
                ("limit", PAGE.to_string()),
            ];
            query.extend(cursor.take().map(|c| ("cursor", c)));
            let page: Page<Timer> = self.client.get("v1/timers", &query).await?;
            for timer in page.items {
                if let Some(number) = self.number(&timer.key) {
                    each(number, timer);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

pub struct RegisterParams<'a> {
    pub count: u64,
    /// Timers in one call.
    pub batch: usize,
    /// Calls at once.
    pub at_once: usize,
    pub due: &'a (dyn Fn(u64) -> Timestamp + Sync),
}

/// Waits for an instant of the wall clock.
pub async fn wait_until(at: Timestamp) {
    tokio::time::sleep(at.since(now()).as_std()).await;
}

/// Calls `done` about every half second until it says so, at most for `longest`; whether it did.
pub async fn wait_for(longest: Duration, mut done: impl AsyncFnMut() -> Result<bool>) -> Result<bool> {
    let started = Instant::now();
    loop {
        if done().await? {
            return Ok(true);
        }
        if started.elapsed() > longest {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Whether an error is a problem of this code.
pub fn is(error: &client::Error, code: &str) -> bool {
    error.code() == Some(code)
}
