//! Something is lost under load: how late timers are, and until when.

use std::{fmt, process::Stdio, time::Duration};

use clap::Args;
use serde::Serialize;
use tokio::process::Command;

use crate::domain::time::{DurationMs, Timestamp};

use super::{
    super::{
        super::{Result, error::Error, output::now},
        work::{Run, wait_until},
    },
    load::{self, Seen},
    nodes::Nodes,
};

/// For how long the load comes due, and when in it the fault happens.
const SECONDS: u64 = 25;
const FAULT_AFTER: DurationMs = DurationMs::from_secs(5);
/// A timer that is later than this, and than twice the p99 of those due before the fault, is late because of it.
const LATE_AT_LEAST: DurationMs = DurationMs::from_millis(250);
/// Between two commands of one fault.
const BETWEEN: Duration = Duration::from_secs(5);

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Faults")]
pub struct Commands {
    /// Kills the broker; a shell's command
    #[arg(long, value_name = "COMMAND", requires = "start_broker")]
    kill_broker: Option<String>,
    /// Starts it again, five seconds later
    #[arg(long, value_name = "COMMAND", requires = "kill_broker")]
    start_broker: Option<String>,
    /// Restarts the database
    #[arg(long, value_name = "COMMAND")]
    restart_database: Option<String>,
}

/// Commands one after the other, with a pause in between.
pub struct Fault {
    pub what: &'static str,
    pub commands: Vec<String>,
}

impl Commands {
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if let (Some(kill), Some(start)) = (&self.kill_broker, &self.start_broker) {
            faults.push(Fault { what: "the broker is killed for 5 s", commands: vec![kill.clone(), start.clone()] });
        }
        if let Some(restart) = &self.restart_database {
            faults.push(Fault { what: "the database is restarted", commands: vec![restart.clone()] });
        }
        faults
    }
}

/// What a fault led to.
#[derive(Serialize)]
pub struct Recovered {
    pub fault: &'static str,
    pub rate: u64,
    pub timers: usize,
    pub unsettled: usize,
    /// Of those due before the fault.
    pub usual_p99_ms: u64,
    /// Later than 250 ms, and than twice what was usual.
    pub late: usize,
    pub most_late_ms: u64,
    /// From the fault until the last of those that were late had fired: the time to recover.
    pub after_ms: u64,
}

impl Recovered {
    fn of(fault: &'static str, rate: u64, at: Timestamp, seen: &[Seen]) -> Self {
        let settled = || seen.iter().filter_map(|s| Some((s.due, s.settled?)));
        let lateness = |(due, settled): (Timestamp, Timestamp)| settled.since(due).as_millis();
        // Those due in the last second before it may have met it.
        let calm = at.saturating_sub(DurationMs::from_secs(1));
        let mut before: Vec<u64> = settled().filter(|(due, _)| *due < calm).map(lateness).collect();
        before.sort_unstable();
        let usual_p99_ms = before.get(before.len() * 99 / 100).copied().unwrap_or(0);
        let bound = LATE_AT_LEAST.as_millis().max(2 * usual_p99_ms);
        let late = || settled().filter(|times| lateness(*times) > bound);
        let last = late().map(|(_, settled)| settled).max();
        Self {
            fault,
            rate,
            timers: seen.len(),
            unsettled: seen.iter().filter(|s| s.settled.is_none()).count(),
            usual_p99_ms,
            late: late().count(),
            most_late_ms: settled().map(lateness).max().unwrap_or(0),
            after_ms: last.map_or(0, |last| last.since(at).as_millis()),
        }
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, rate, timers, unsettled, usual_p99_ms, late, most_late_ms, after_ms } = self;
        write!(
            f,
            "{fault}, at {rate} a second: {late} of {timers} late, by {most_late_ms} ms at most; the last late one fired \
             {after_ms} ms after it; before it p99 was {usual_p99_ms} ms; {unsettled} unsettled"
        )
    }
}

/// The last node, which does not take the registrations.
pub async fn kill_a_node(nodes: &mut Nodes, run: &Run, rate: u64) -> Result<Recovered> {
    let coming = load::register(run, rate, SECONDS).await?;
    wait_until(coming.from.saturating_add(FAULT_AFTER)).await;
    let at = now();
    let nth = nodes.count() - 1;
    nodes.kill(nth).await?;
    let seen = coming.outcome().await?;
    nodes.restart(nth).await?;
    Ok(Recovered::of("a node is killed", rate, at, &seen))
}

pub async fn by_command(run: &Run, rate: u64, fault: &Fault) -> Result<Recovered> {
    let coming = load::register(run, rate, SECONDS).await?;
    wait_until(coming.from.saturating_add(FAULT_AFTER)).await;
    let at = now();
    for (nth, command) in fault.commands.iter().enumerate() {
        if nth > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null());
        let status = shell.status().await.map_err(|e| Error::Other(e.into()))?;
        if !status.success() {
            return Err(Error::Other(anyhow::anyhow!("{command:?} has failed: {status}")));
        }
    }
    let seen = coming.outcome().await?;
    Ok(Recovered::of(fault.what, rate, at, &seen))
}
