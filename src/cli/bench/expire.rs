//! `lapse bench expire`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::domain::{
    time::{DurationMs, Timestamp},
    timer::State,
};

use super::{
    super::{
        Result,
        error::Error,
        output::{Out, facts, now},
    },
    measure::{Quantiles, Times, per_second},
    work::{RegisterParams, Run, Work, wait_for, wait_until},
};

/// How long after the last due time unsettled timers are still waited for.
const PATIENCE: Duration = Duration::from_mins(1);
/// Registrations in a call, and calls at once.
const BATCH: usize = 500;
const AT_ONCE: usize = 4;

#[derive(Args)]
#[command(
    about = "How late timers fire at a rate, and how many close a second",
    long_about = "Registers timers that are due ahead, RATE of them in each of SECONDS, and then reads from the server \
                  how long after its due time each was settled (settled_at - due_at, by the server's clock, in whole \
                  milliseconds).",
    after_help = "Examples:\n  \
        lapse bench expire --rate 500 --seconds 20\n  \
        lapse bench expire --rate 2000 --seconds 30 --ahead 30s --json"
)]
pub struct Expire {
    /// Timers due in each second
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// For how many seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How far ahead the first is due [default: 5s, or what registering them may take]
    #[arg(long, value_name = "DURATION")]
    ahead: Option<DurationMs>,
    #[command(flatten)]
    work: Work,
}

#[derive(Serialize)]
struct Report {
    rate: u64,
    registered: u64,
    closed: u64,
    /// Settled otherwise than closed.
    otherwise: u64,
    unsettled: u64,
    /// Settled before they were due: never.
    early: u64,
    /// From the first settled to the last.
    closed_per_second: f64,
    lateness: Quantiles,
    /// The least time that was left before a timer was due when it was registered, in milliseconds.
    registered_ahead_ms: u64,
}

/// The span in which the timers are due.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub from: Timestamp,
    pub until: Timestamp,
}

#[derive(Default)]
pub(super) struct Found {
    closed: u64,
    otherwise: u64,
    pub unsettled: u64,
    pub early: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl Expire {
    pub async fn run(self, out: &Out) -> Result {
        let run = self.work.start()?;
        let count = self.rate * self.seconds;
        // Registering in order of due time runs ahead of it, if it is given a start.
        let ahead = self.ahead.unwrap_or(DurationMs::from_millis((count / 8).clamp(5_000, 120_000)));
        let from = now().saturating_add(ahead);
        let due = |n: u64| from.saturating_add(DurationMs::from_millis(n * 1000 / self.rate));
        let span = Span { from, until: due(count) };
        out.note(format!("registering {count} timers, the first due in {ahead}"));
        let left = run.register(RegisterParams { count, batch: BATCH, at_once: AT_ONCE, due: &due }).await?;
        if left.is_zero() {
            out.note("some were registered only after they were due: give them more time with --ahead");
        }
        out.note(format!("waiting until the last is due, in {}", span.until.since(now())));
        wait_until(span.until.saturating_add(DurationMs::from_secs(1))).await;
        let mut times = Times::new();
        let mut found = Found::default();
        wait_for(PATIENCE, async || {
            (times, found) = look(&run, span).await?;
            Ok(found.unsettled == 0)
        })
        .await?;
        let took = match (found.first, found.last) {
            (Some(first), Some(last)) => last.since(first).as_std(),
            _ => Duration::ZERO,
        };
        let report = Report {
            rate: self.rate,
            registered: count,
            closed: found.closed,
            otherwise: found.otherwise,
            unsettled: found.unsettled + (count - (found.closed + found.otherwise + found.unsettled).min(count)),
            early: found.early,
            closed_per_second: per_second(found.closed, took),
            lateness: times.quantiles(),
            registered_ahead_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        };
        out.show(&report, Report::describe)?;
        if report.unsettled + report.early > 0 { Err(Error::Said) } else { Ok(()) }
    }
}

pub(super) async fn look(run: &Run, span: Span) -> Result<(Times, Found)> {
    let mut times = Times::new();
    let mut found = Found::default();
    run.read(span.from, span.until, |_, timer| {
        let Some(settled) = timer.settled_at else {
            found.unsettled += 1;
            return;
        };
        if timer.state == State::Closed {
            found.closed += 1;
        } else {
            found.otherwise += 1;
        }
        found.early += u64::from(settled < timer.due_at);
        found.first = Some(found.first.map_or(settled, |at| at.min(settled)));
        found.last = Some(found.last.map_or(settled, |at| at.max(settled)));
        times.note(settled.since(timer.due_at).as_std());
    })
    .await?;
    Ok((times, found))
}

impl Report {
    fn describe(&self) -> String {
        facts(&[
            ("registered", format!("{}, {} due in a second", self.registered, self.rate)),
            ("closed", self.closed.to_string()),
            ("otherwise", self.otherwise.to_string()),
            ("unsettled", self.unsettled.to_string()),
            ("early", self.early.to_string()),
            ("closed per second", self.closed_per_second.to_string()),
            ("lateness", self.lateness.to_string()),
            ("registered ahead", format!("{} ms at the least", self.registered_ahead_ms)),
        ])
    }
}
