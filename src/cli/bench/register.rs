//! `lapse bench register`.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;

use crate::domain::time::DurationMs;

use super::{
    super::{
        Result,
        error::Error,
        output::{Out, facts, now},
    },
    measure::{Quantiles, Times, per_second},
    work::{Run, Work},
};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse bench register --count 20000 --concurrency 64\n  \
    lapse bench register --count 100000 --batch 500 --concurrency 4\n  \
    lapse bench register --rate 1000 --count 10000 --json")]
pub struct Register {
    /// Registrations a second; 0 for as many as it takes
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u64,
    /// How many in all
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: u64,
    /// Calls at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// Registrations in one call
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// How far ahead they are due
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    delay: DurationMs,
    #[command(flatten)]
    work: Work,
}

#[derive(Serialize)]
struct Report {
    registered: u64,
    failed: u64,
    first_failure: Option<String>,
    seconds: f64,
    per_second: f64,
    /// Of one call.
    latency: Quantiles,
    batch: u64,
    concurrency: u16,
}

/// What one worker found.
struct Part {
    registered: u64,
    failed: u64,
    first_failure: Option<String>,
    times: Times,
}

impl Register {
    pub async fn run(self, out: &Out) -> Result {
        let run = self.work.start()?;
        let next = AtomicU64::new(0);
        let started = Instant::now();
        let parts = join_all((0..self.concurrency).map(|_| self.worker(&run, &next, started))).await;
        let took = started.elapsed();
        let mut times = Times::new();
        let (mut registered, mut failed, mut first_failure) = (0, 0, None);
        for part in parts {
            times.add(&part.times);
            registered += part.registered;
            failed += part.failed;
            first_failure = first_failure.or(part.first_failure);
        }
        let report = Report {
            registered,
            failed,
            first_failure,
            seconds: took.as_secs_f64(),
            per_second: per_second(registered, took),
            latency: times.quantiles(),
            batch: self.batch,
            concurrency: self.concurrency,
        };
        out.show(&report, Report::describe)?;
        if report.failed > 0 { Err(Error::Said) } else { Ok(()) }
    }

    /// Takes the next call until none is left. All workers run on one task: the server is what is measured.
    async fn worker(&self, run: &Run, next: &AtomicU64, started: Instant) -> Part {
        let mut part = Part { registered: 0, failed: 0, first_failure: None, times: Times::new() };
        loop {
            let first = next.fetch_add(self.batch, Ordering::Relaxed);
            if first >= self.count {
                return part;
            }
            if let Some(after_us) = first.saturating_mul(1_000_000).checked_div(self.rate) {
                tokio::time::sleep_until((started + Duration::from_micros(after_us)).into()).await;
            }
            let due = now().saturating_add(self.delay);
            let size = self.batch.min(self.count - first);
            let timers: Vec<_> = (first..first + size).map(|n| run.timer(n, due)).collect();
            let call = Instant::now();
            let result = match timers.as_slice() {
                [one] => run.client.post::<serde_json::Value>("v1/timers", one).await.map(|_| 1),
                many => run
                    .client
                    .register_batch(many)
                    .await
                    .map(|answer| answer.results.iter().filter(|r| r.status < 300).count() as u64),
            };
            part.times.note(call.elapsed());
            match result {
                Ok(taken) => {
                    part.registered += taken;
                    part.failed += size - taken;
                }
                Err(error) => {
                    part.failed += size;
                    part.first_failure.get_or_insert_with(|| error.to_string());
                }
            }
        }
    }
}

impl Report {
    fn describe(&self) -> String {
        facts(&[
            ("registered", self.registered.to_string()),
            ("failed", self.failed.to_string()),
            ("first failure", self.first_failure.clone().unwrap_or_default()),
            ("seconds", format!("{:.2}", self.seconds)),
            ("per second", self.per_second.to_string()),
            ("a call took", self.latency.to_string()),
            ("calls", format!("{} at once, {} registrations in each", self.concurrency, self.batch)),
        ])
    }
}
