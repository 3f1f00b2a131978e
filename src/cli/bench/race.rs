//! `lapse bench race`.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    client::{self, Client, Compensation, Page, Timer, segment},
    domain::{
        time::{DurationMs, Timestamp},
        timer::State,
    },
};

use super::{
    super::{
        Result,
        error::Error,
        output::{Out, facts, now},
    },
    work::{RegisterParams, Run, Work, is, wait_for, wait_until},
};

/// How often a resolve is tried again while the timer is being decided.
const FIRING_TRIES: u32 = 50;
/// Resolves, or looks, at once.
const AT_ONCE: usize = 128;
/// How long after the last due time unsettled timers are still waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// Violations that are told one by one.
const MAX_TOLD: usize = 20;

#[derive(Args)]
#[command(
    about = "Resolve timers just when they are due, and check that exactly one side wins each",
    long_about = "Registers timers and resolves each within WINDOW of its due time, before or after. Then checks each: \
                  whoever was told `resolved` finds the timer resolved and without a compensation; whoever was told \
                  `too_late` finds it closed. With --shop, the shop's order must be closed if and only if the timer is. \
                  Exit code 1 if one is not so.",
    after_help = "Examples:\n  \
        lapse bench race --count 2000 --window-ms 5\n  \
        lapse bench race --type order-timeout-checked --shop http://127.0.0.1:8081"
)]
pub struct Race {
    /// How many timers
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// How far from the due time each is resolved, at most
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    window_ms: u64,
    /// Timers due in each second
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// The demo shop, to create the orders and to compare with
    #[arg(long, value_name = "URL")]
    shop: Option<String>,
    /// What the moments are drawn from [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Resolved,
    TooLate,
}

#[derive(Serialize)]
struct Report {
    timers: u64,
    resolved: u64,
    too_late: u64,
    /// Checks that did not hold.
    violations: u64,
    /// The first of them.
    told: Vec<String>,
    seed: u64,
}

impl Race {
    pub async fn run(self, out: &Out) -> Result {
        let run = self.work.start()?;
        let shop = self.shop.as_deref().map(|url| Client::new(url, None)).transpose()?;
        let seed = self.seed.unwrap_or_else(|| now().as_millis().unsigned_abs());
        let ahead = DurationMs::from_millis(5_000 + self.count * if shop.is_some() { 4 } else { 1 });
        let from = now().saturating_add(ahead);
        let due = |n: u64| from.saturating_add(DurationMs::from_millis(n * 1000 / self.rate));
        out.note(format!("registering {} timers, the first due in {ahead}; seed {seed}", self.count));
        if let Some(shop) = &shop {
            create_orders(shop, &run, self.count).await?;
        }
        run.register(RegisterParams { count: self.count, batch: 500, at_once: 2, due: &due }).await?;

        let told = self.resolve_all(&run, &due, seed).await?;
        let until = due(self.count);
        wait_until(until.saturating_add(DurationMs::from_secs(1))).await;
        let mut timers = BTreeMap::new();
        wait_for(PATIENCE, async || {
            timers.clear();
            run.read(from, until, |number, timer| drop(timers.insert(number, timer))).await?;
            Ok(timers.len() as u64 == self.count && timers.values().all(|t| t.state.is_settled()))
        })
        .await?;
        let faults = check_all(&run, shop.as_ref(), &told, &timers).await?;
        let count = |what| told.values().filter(|t| **t == what).count() as u64;
        let report = Report {
            timers: self.count,
            resolved: count(Told::Resolved),
            too_late: count(Told::TooLate),
            violations: faults.len() as u64,
            told: faults.into_iter().take(MAX_TOLD).collect(),
            seed,
        };
        out.show(&report, Report::describe)?;
        if report.violations > 0 { Err(Error::Said) } else { Ok(()) }
    }

    /// Resolves each timer at its moment, and notes what it was told.
    async fn resolve_all(
        &self,
        run: &Run,
        due: &(dyn Fn(u64) -> Timestamp + Sync),
        seed: u64,
    ) -> Result<BTreeMap<u64, Told>> {
        let mut moments: Vec<(i64, u64)> = (0..self.count)
            .map(|n| {
                let width = 2 * self.window_ms + 1;
                let offset = i64::try_from(mix(seed ^ n) % width).unwrap_or(0) - self.window_ms.cast_signed();
                (due(n).as_millis() + offset, n)
            })
            .collect();
        moments.sort_unstable();
        let calls = moments.into_iter().map(|(at, number)| async move {
            wait_until(Timestamp::from_millis_clamped(at)).await;
            resolve(run, number).await.map(|told| (number, told))
        });
        let mut calls = stream::iter(calls).buffer_unordered(AT_ONCE);
        let mut told = BTreeMap::new();
        while let Some(answer) = calls.next().await {
            let (number, answer) = answer?;
            told.insert(number, answer);
        }
        Ok(told)
    }
}

/// SplitMix64's mixing: a seed and a number make a moment.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

async fn resolve(run: &Run, number: u64) -> Result<Told> {
    let path = format!("v1/types/{}/timers/{}/resolve", segment(&run.timer_type), segment(&run.key(number)));
    for _ in 0..FIRING_TRIES {
        match run.client.post_patiently::<Timer>(&path, &json!({ "reason": "paid" })).await {
            Ok(_) => return Ok(Told::Resolved),
            Err(error) if is(&error, "too_late") => return Ok(Told::TooLate),
            Err(error) if is(&error, "firing") => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(error) => return Err(error.into()),
        }
    }
    Err(anyhow::anyhow!("timer {} was firing for too long", run.key(number)).into())
}

async fn create_orders(shop: &Client, run: &Run, count: u64) -> Result {
    let calls = (0..count)
        .map(|n| async move { shop.put::<Value>(&format!("orders/{}", segment(&run.key(n))), &json!({})).await });
    let mut calls = stream::iter(calls).buffer_unordered(AT_ONCE);
    while let Some(answer) = calls.next().await {
        answer?;
    }
    Ok(())
}

/// Everything that is not as it was told.
async fn check_all(
    run: &Run,
    shop: Option<&Client>,
    told: &BTreeMap<u64, Told>,
    timers: &BTreeMap<u64, Timer>,
) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut checks = stream::iter(told.iter().map(|(number, told)| async move {
        let key = run.key(*number);
        match timers.get(number) {
            Some(timer) => check(run, shop, *told, timer).await,
            None => Ok(Some(format!("{key}: there is no such timer"))),
        }
    }))
    .buffer_unordered(AT_ONCE);
    while let Some(fault) = checks.next().await {
        faults.extend(fault?);
    }
    Ok(faults)
}

async fn check(run: &Run, shop: Option<&Client>, told: Told, timer: &Timer) -> Result<Option<String>> {
    let key = &timer.key;
    let agrees = match told {
        Told::Resolved => timer.state == State::Resolved,
        Told::TooLate => timer.state == State::Closed,
    };
    if !agrees {
        return Ok(Some(format!("{key}: told {told:?}, and it is {}", timer.state.as_str())));
    }
    let query = [("timer_id", timer.id.clone()), ("limit", "500".to_owned())];
    let compensations: Page<Compensation> = run.client.get("v1/compensations", &query).await?;
    let any = !compensations.items.is_empty();
    if any != (told == Told::TooLate) {
        let has = if any { "has compensations" } else { "has no compensation" };
        return Ok(Some(format!("{key}: {} and {has}", timer.state.as_str())));
    }
    let Some(shop) = shop else { return Ok(None) };
    let order: std::result::Result<Value, client::Error> = shop.get(&format!("orders/{}", segment(key)), &[]).await;
    let closed = order?.get("state").and_then(Value::as_str) == Some("closed");
    if closed != (told == Told::TooLate) {
        return Ok(Some(format!(
            "{key}: {}, and the shop's order is {}closed",
            timer.state.as_str(),
            if closed { "" } else { "not " }
        )));
    }
    Ok(None)
}

impl Report {
    fn describe(&self) -> String {
        let mut text = facts(&[
            ("timers", self.timers.to_string()),
            ("resolved", self.resolved.to_string()),
            ("too late", self.too_late.to_string()),
            ("violations", self.violations.to_string()),
            ("seed", self.seed.to_string()),
        ]);
        for violation in &self.told {
            text.extend(["  ", violation, "\n"]);
        }
        text
    }
}
