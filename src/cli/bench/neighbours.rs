//! `lapse bench neighbours`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    client::{Client, segment},
    domain::time::{DurationMs, Timestamp},
};

use super::{
    super::{
        Result,
        error::Error,
        output::{Out, facts, now},
    },
    expire::{Span, look},
    measure::Quantiles,
    work::{RegisterParams, Run, Work, wait_for, wait_until},
};

/// How long after the last due time unsettled timers are still waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// Registrations in a call, and calls at once.
const BATCH: usize = 500;
const AT_ONCE: usize = 4;
/// The type that the hostile plugin is pushed as.
const HOSTILE: &str = "bench-hostile";
/// What the hostile plugin is asked to do, one after the other.
const DEEDS: [&str; 8] = ["loop", "memory_bomb", "recursion", "huge", "panic", "wild_read", "bad_json", "log_flood"];

#[derive(Args)]
#[command(
    about = "What hostile plugins do to the lateness of another type",
    long_about = "Measures the lateness of a type's timers twice at the same rate: alone, and while a hostile plugin's \
                  expiries loop, take memory, recurse, panic and break their contract. Says how many times the p99 of \
                  the first is that of the second. FILE is a component that takes payloads like {\"do\": \"loop\"}: \
                  the test guest of plugins/fixtures/hostile. The server must not pause a type for its failures: start it \
                  with LAPSE_DISPATCH__PAUSE_FAILED_SHARE=0, as `bench/run.sh neighbours` does.",
    after_help = "Examples:\n  lapse bench neighbours --hostile plugins/dist/hostile.wasm --rate 200 --seconds 20"
)]
pub struct Neighbours {
    /// The hostile component
    #[arg(long, value_name = "FILE")]
    hostile: PathBuf,
    /// Timers of the neighbour's due in each second
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Hostile timers due in each second
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    hostile_rate: u64,
    /// For how many seconds, each time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    #[command(flatten)]
    work: Work,
}

#[derive(Serialize)]
struct Report {
    rate: u64,
    hostile_rate: u64,
    alone: Quantiles,
    beside: Quantiles,
    /// `beside.p99_ms / alone.p99_ms`.
    p99_ratio: f64,
    unsettled: u64,
    early: u64,
}

impl Neighbours {
    pub async fn run(self, out: &Out) -> Result {
        let alone = self.measure(&self.work.start()?, out, "alone").await?;
        let run = self.work.start()?;
        self.push(&run.client).await?;
        let beside = self.measure_beside(&run, out).await?;
        check_ran(&run.client).await?;
        let report = Report {
            rate: self.rate,
            hostile_rate: self.hostile_rate,
            alone: alone.lateness,
            beside: beside.lateness,
            p99_ratio: beside.lateness.p99_ms / alone.lateness.p99_ms.max(0.001),
            unsettled: alone.unsettled + beside.unsettled,
            early: alone.early + beside.early,
        };
        out.show(&report, Report::describe)?;
        if report.unsettled + report.early > 0 { Err(Error::Said) } else { Ok(()) }
    }

    /// The hostile plugin, as a type of its own.
    async fn push(&self, client: &Client) -> Result {
        let bytes = std::fs::read(&self.hostile)
            .map_err(|e| Error::usage(format!("--hostile {}: {e}", self.hostile.display())))?;
        let plugin: Value = client.upload("v1/plugins", bytes).await?;
        let body = json!({
            "digest": plugin.get("digest"), "retry": { "attempts": 1, "initial": "1s", "max": "1s" }
        });
        let path = format!("v1/types/{}", segment(HOSTILE));
        let _: Value = client.put(&path, &body).await?;
        // A run before this one may have left it paused.
        let _: Value = client.post(&format!("{path}/resume"), &json!({})).await?;
        Ok(())
    }

    async fn measure_beside(&self, run: &Run, out: &Out) -> Result<Measured> {
        let from = now().saturating_add(self.ahead());
        let count = self.hostile_rate * self.seconds;
        let due = |n: u64| from.saturating_add(DurationMs::from_millis(n * 1000 / self.hostile_rate));
        let prefix = from.as_millis();
        let all: Vec<Value> = (0..count)
            .zip(DEEDS.iter().cycle())
            .map(|(n, deed)| {
                // As large and as many as what reads no such member ignores.
                let payload = json!({ "do": deed, "bytes": 8_000_000, "lines": 10_000 });
                json!({ "type": HOSTILE, "key": format!("{prefix}-{n}"), "payload": payload, "due_at": due(n) })
            })
            .collect();
        for timers in all.chunks(BATCH) {
            run.client.register_batch(timers).await?;
        }
        out.note(format!("{count} hostile timers are registered"));
        self.measure_from(run, out, from, "beside them").await
    }

    async fn measure(&self, run: &Run, out: &Out, how: &str) -> Result<Measured> {
        self.measure_from(run, out, now().saturating_add(self.ahead()), how).await
    }

    async fn measure_from(&self, run: &Run, out: &Out, from: Timestamp, how: &str) -> Result<Measured> {
        let count = self.rate * self.seconds;
        let due = |n: u64| from.saturating_add(DurationMs::from_millis(n * 1000 / self.rate));
        let span = Span { from, until: due(count) };
        out.note(format!("registering {count} timers, to fire {how}"));
        run.register(RegisterParams { count, batch: BATCH, at_once: AT_ONCE, due: &due }).await?;
        wait_until(span.until.saturating_add(DurationMs::from_secs(1))).await;
        let mut measured = None;
        wait_for(PATIENCE, async || {
            let (times, found) = look(run, span).await?;
            measured = Some(Measured { lateness: times.quantiles(), unsettled: found.unsettled, early: found.early });
            Ok(found.unsettled == 0)
        })
        .await?;
        measured.ok_or_else(|| Error::Other(anyhow::anyhow!("nothing was read")))
    }

    /// Registering must be through before the first is due.
    fn ahead(&self) -> DurationMs {
        let all = (self.rate + self.hostile_rate) * self.seconds;
        DurationMs::from_millis((all / 4).clamp(5_000, 120_000))
    }
}

/// A hostile type that was paused has disturbed nobody.
async fn check_ran(client: &Client) -> Result {
    let row: Value = client.get(&format!("v1/types/{}", segment(HOSTILE)), &[]).await?;
    if row.get("paused").is_none() {
        return Ok(());
    }
    Err(Error::Other(anyhow::anyhow!(
        "the server has paused {HOSTILE} for its failures, so that nothing was measured: start it with \
         LAPSE_DISPATCH__PAUSE_FAILED_SHARE=0"
    )))
}

struct Measured {
    lateness: Quantiles,
    unsettled: u64,
    early: u64,
}

impl Report {
    fn describe(&self) -> String {
        facts(&[
            ("neighbour", format!("{} due in a second", self.rate)),
            ("hostile", format!("{} due in a second", self.hostile_rate)),
            ("lateness alone", self.alone.to_string()),
            ("lateness beside", self.beside.to_string()),
            ("p99 ratio", format!("{:.2}", self.p99_ratio)),
            ("unsettled", self.unsettled.to_string()),
            ("early", self.early.to_string()),
        ])
    }
}
