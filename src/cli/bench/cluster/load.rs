//! Timers that are registered ahead, so many due in each second, and how late each was settled.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use crate::domain::{
    time::{DurationMs, Timestamp},
    timer::State,
};

use super::{
    super::{
        super::{Result, output::now},
        measure::{Quantiles, Times},
        work::{RegisterParams, Run, wait_for, wait_until},
    },
    AT_ONCE, BATCH,
    nodes::Nodes,
    usage::Share,
};

/// How long after the last due time unsettled timers are still waited for.
const PATIENCE: Duration = Duration::from_mins(2);
/// What registering them takes is not measured: so much of a second for each, and at least so long.
const MS_FOR_EACH: f64 = 0.5;
const AHEAD_AT_LEAST_MS: u64 = 8_000;

#[derive(Serialize)]
pub struct Offered {
    pub rate: u64,
    pub fired: u64,
    pub unsettled: u64,
    pub early: u64,
    pub lateness: Quantiles,
    /// By what triggered them, from the nodes' metrics.
    pub triggers: BTreeMap<String, u64>,
    pub cpu: Vec<Share>,
}

/// A timer's due time, and its outcome's, if it has one.
#[derive(Clone, Copy)]
pub struct Seen {
    pub due: Timestamp,
    pub settled: Option<Timestamp>,
}

/// A load that is registered, and comes due.
pub struct Coming<'a> {
    run: &'a Run,
    pub from: Timestamp,
    pub until: Timestamp,
    count: u64,
}

/// Registers them all, and returns before the first is due.
pub async fn register(run: &Run, rate: u64, seconds: u64) -> Result<Coming<'_>> {
    let count = rate * seconds;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rough time"
    )]
    let ahead = ((count as f64 * MS_FOR_EACH) as u64).max(AHEAD_AT_LEAST_MS);
    let from = now().saturating_add(DurationMs::from_millis(ahead));
    let due = |n: u64| from.saturating_add(DurationMs::from_millis(n * 1000 / rate));
    run.register(RegisterParams { count, batch: BATCH, at_once: AT_ONCE, due: &due }).await?;
    Ok(Coming { run, from, until: due(count), count })
}

impl Coming<'_> {
    /// Waits until all are settled, or for as long as is sensible.
    pub async fn outcome(&self) -> Result<Vec<Seen>> {
        wait_until(self.until.saturating_add(DurationMs::from_secs(1))).await;
        let mut seen = Vec::new();
        wait_for(PATIENCE, async || {
            seen.clear();
            let closed = |timer: &crate::client::Timer| timer.settled_at.filter(|_| timer.state == State::Closed);
            let each = |_, timer: crate::client::Timer| seen.push(Seen { due: timer.due_at, settled: closed(&timer) });
            // A node may be gone for a moment: what cannot be read now is read again.
            let read = self.run.read(self.from, self.until, each).await;
            Ok(read.is_ok() && seen.len() as u64 >= self.count && seen.iter().all(|s| s.settled.is_some()))
        })
        .await?;
        // Those that could not be read at all are not settled, as far as is known.
        let missing = usize::try_from(self.count).unwrap_or(usize::MAX).saturating_sub(seen.len());
        seen.extend(std::iter::repeat_n(Seen { due: self.until, settled: None }, missing));
        Ok(seen)
    }
}

/// Offers a load; `begins` is called when the first of it is due.
pub async fn offer(nodes: &Nodes, run: &Run, rate: u64, seconds: u64, begins: impl Fn()) -> Result<Offered> {
    let before = nodes.triggers().await;
    let coming = register(run, rate, seconds).await?;
    wait_until(coming.from).await;
    begins();
    wait_until(coming.until).await;
    begins();
    let seen = coming.outcome().await?;
    let mut triggers = nodes.triggers().await;
    for (trigger, count) in &mut triggers {
        *count = count.saturating_sub(before.get(trigger).copied().unwrap_or(0));
    }
    triggers.retain(|_, count| *count > 0);
    let mut times = Times::new();
    let (mut fired, mut early) = (0, 0);
    for (due, settled) in seen.iter().filter_map(|s| Some((s.due, s.settled?))) {
        fired += 1;
        early += u64::from(settled < due);
        times.note(settled.since(due).as_std());
    }
    let unsettled = seen.len() as u64 - fired;
    Ok(Offered { rate, fired, unsettled, early, lateness: times.quantiles(), triggers, cpu: Vec::new() })
}
