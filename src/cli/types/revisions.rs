//! `lapse type revisions`, `activate`, `delete-revision` and `costs`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Page, TimerType, segment};

use super::{
    super::{
        Result,
        connect::Connect,
        output::{Out, Table, bytes, local_text, text},
        timer::pages,
    },
    describe,
};

/// The most revisions that are listed.
const MAX_REVISIONS: usize = 10_000;

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse type revisions order-timeout")]
pub struct Revisions {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Revisions {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let path = format!("v1/types/{}/revisions", segment(&self.name));
        let page: Page<Value> = pages(&client, &path, &[], None, MAX_REVISIONS).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["revision", "active", "digest", "created", "by"]);
            for row in &page.items {
                let active = row.get("active").and_then(Value::as_bool).unwrap_or_default();
                table.row([
                    text(row, "number"),
                    if active { "active".to_owned() } else { String::new() },
                    text(row, "digest").chars().take(19).collect(),
                    local_text(row.get("created_at")),
                    text(row, "created_by"),
                ]);
            }
            table.or("no revisions")
        })
    }
}

#[derive(Args)]
#[command(
    long_about = "Makes a revision the active one; rolls back by activating an older one. Timers whose payload its schema \
                  does not take go on with the revision that they were registered under.",
    after_help = "Examples:\n  lapse type activate order-timeout 3"
)]
pub struct Activate {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    /// The revision's number
    #[arg(value_name = "REVISION")]
    revision: i64,
    #[command(flatten)]
    connect: Connect,
}

impl Activate {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let path = format!("v1/types/{}/activate", segment(&self.name));
        let row: TimerType = client.post(&path, &json!({ "revision": self.revision })).await?;
        out.show(&row, |row| {
            let behind = row.more.get("left_behind");
            let timers = behind.and_then(|b| b.get("timers")).and_then(Value::as_u64).unwrap_or_default();
            let more = behind.and_then(|b| b.get("more")).and_then(Value::as_bool).unwrap_or_default();
            let mut shown = describe(row);
            if timers > 0 || more {
                let least = if more { "at least " } else { "" };
                let stay = format!(
                    "{least}{timers} timers stay with the revision that they were registered under: this one's payload \
                     schema does not take their payload\n"
                );
                shown.push_str(&stay);
            }
            shown
        })
    }
}

#[derive(Args)]
#[command(
    long_about = "Deletes a revision that is not active and that no timer or compensation needs any more. Its number is \
                  never given again.",
    after_help = "Examples:\n  lapse type delete-revision order-timeout 2"
)]
pub struct DeleteRevision {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    /// The revision's number
    #[arg(value_name = "REVISION")]
    revision: i64,
    #[command(flatten)]
    connect: Connect,
}

impl DeleteRevision {
    pub async fn run(self, out: &Out) -> Result {
        let path = format!("v1/types/{}/revisions/{}", segment(&self.name), self.revision);
        let row: Value = self.connect.client()?.delete(&path).await?;
        out.show(&row, |row| format!("revision {} of {} is deleted\n", text(row, "number"), self.name))
    }
}

#[derive(Args)]
#[command(
    long_about = "Shows what a type's calls have cost on the node that answers, since it started: CPU time, memory and \
                  host calls, by revision and export.",
    after_help = "Examples:\n  lapse type costs order-timeout"
)]
pub struct Costs {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Costs {
    pub async fn run(self, out: &Out) -> Result {
        let path = format!("v1/types/{}/costs", segment(&self.name));
        let costs: Value = self.connect.client()?.get(&path, &[]).await?;
        out.show(&costs, |costs| {
            let mut table =
                Table::new(["revision", "export", "calls", "cpu p50", "cpu p99", "cpu max", "memory", "http", "sql"]);
            for row in costs.get("items").and_then(Value::as_array).into_iter().flatten() {
                let of = |group: &str, name: &str| row.get(group).map(|g| text(g, name)).unwrap_or_default();
                let us = |name: &str| format!("{} us", of("cpu_us", name));
                let peak = row.get("memory_bytes_peak").and_then(Value::as_u64).unwrap_or_default();
                table.row([
                    text(row, "revision"),
                    text(row, "export"),
                    text(row, "calls"),
                    us("p50"),
                    us("p99"),
                    us("max"),
                    bytes(peak),
                    of("host_calls", "http"),
                    of("host_calls", "sql"),
                ]);
            }
            let since = local_text(costs.get("since"));
            format!("{}since {since}\n", table.or("no calls yet"))
        })
    }
}
