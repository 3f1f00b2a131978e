//! `lapse type`.

mod grants;
mod revisions;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    client::{Page, TimerType, segment},
    domain::time::Timestamp,
    plugin::LogLine,
};

use super::{
    Result,
    connect::Connect,
    error::Error,
    generate::Generate,
    output::{Out, Table, facts, local_text},
    plugin::decision,
    timer::{pages, payload},
};

#[derive(Subcommand)]
pub enum Types {
    /// List timer types
    List(List),
    /// Show one timer type
    Show(Show),
    DryRun(DryRun),
    /// List a type's revisions
    Revisions(revisions::Revisions),
    /// Make a revision the active one, or roll back to it
    Activate(revisions::Activate),
    /// Delete a revision that nothing needs
    DeleteRevision(revisions::DeleteRevision),
    /// Take rights from a type, at once and whatever the revision
    Revoke(grants::Revoke),
    /// Give revoked rights back to a type
    Restore(grants::Restore),
    /// Show what a type's calls cost
    Costs(revisions::Costs),
    Generate(Generate),
}

impl Types {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::List(list) => list.run(out).await,
            Self::Show(show) => show.run(out).await,
            Self::DryRun(dry_run) => dry_run.run(out).await,
            Self::Revisions(revisions) => revisions.run(out).await,
            Self::Activate(activate) => activate.run(out).await,
            Self::DeleteRevision(delete) => delete.run(out).await,
            Self::Revoke(revoke) => revoke.run(out).await,
            Self::Restore(restore) => restore.run(out).await,
            Self::Costs(costs) => costs.run(out).await,
            Self::Generate(generate) => generate.run(out).await,
        }
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse type list")]
pub struct List {
    #[command(flatten)]
    connect: Connect,
}

/// The most types that are listed.
const MAX_TYPES: usize = 10_000;

impl List {
    async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let page: Page<TimerType> = pages(&client, "v1/types", &[], None, MAX_TYPES).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["name", "revision", "default delay", "digest", "paused", "grants"]);
            for t in &page.items {
                table.row([
                    t.name.clone(),
                    t.revision.to_string(),
                    t.default_delay.map(|d| d.to_string()).unwrap_or_default(),
                    t.digest.chars().take(19).collect(),
                    t.more.get("paused").and_then(|p| p["scope"].as_str()).unwrap_or_default().to_owned(),
                    t.grants.join(" "),
                ]);
            }
            table.or("no types; `lapse plugin push FILE --type NAME` makes one")
        })
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse type show order-timeout")]
pub struct Show {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Show {
    async fn run(self, out: &Out) -> Result {
        let row: TimerType = self.connect.client()?.get(&format!("v1/types/{}", segment(&self.name)), &[]).await?;
        out.show(&row, describe)
    }
}

#[derive(Args)]
#[command(
    about = "Run a type's decision on a made-up timer; nothing comes of it",
    long_about = "Runs a type's decision on a timer that is not there, on the server. Nothing comes of it, and calls with \
                  effects are denied, and listed. The exit code is 1 if the decision fails.",
    after_help = "Examples:\n  \
        lapse type dry-run my-type --payload '{\"a\": 1}'\n  \
        lapse type dry-run order-timeout --key A17 --payload @order.json --attempt 2"
)]
pub struct DryRun {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    /// The timer's payload: JSON, or @FILE, or - for standard input
    #[arg(long, short = 'p', value_name = "JSON")]
    payload: String,
    /// The timer's key
    #[arg(long, short = 'k', value_name = "KEY", default_value = "sample")]
    key: String,
    /// When it is due, as RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    due_at: Option<Timestamp>,
    /// Which attempt it is
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// A revision of the type [default: the active one]
    #[arg(long, value_name = "N")]
    revision: Option<i64>,
    #[command(flatten)]
    connect: Connect,
}

impl DryRun {
    async fn run(self, out: &Out) -> Result {
        let mut body = json!({ "key": self.key, "payload": payload(&self.payload)? });
        let more = [
            ("due_at", self.due_at.map(|at| json!(at))),
            ("attempt", self.attempt.map(Value::from)),
            ("revision", self.revision.map(Value::from)),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        let path = format!("v1/types/{}/dry-run", segment(&self.name));
        let run: Value = self.connect.client()?.post(&path, &body).await?;
        out.show(&run, |run| {
            let read = |name: &str| run.get(name).cloned().unwrap_or_default();
            let denied: Vec<String> = serde_json::from_value(read("denied")).unwrap_or_default();
            let logs: Vec<LogLine> = serde_json::from_value(read("logs")).unwrap_or_default();
            let cpu = format!("{} µs", read("cpu_us"));
            let memory_bytes = read("memory_bytes").as_u64().unwrap_or_default();
            decision::describe(run, &denied, cpu, memory_bytes) + &decision::describe_logs(&logs)
        })?;
        if run.get("failure").is_some() { Err(Error::Said) } else { Ok(()) }
    }
}

/// What was taken from a type.
pub fn revoked(row: &TimerType) -> Vec<&str> {
    row.more.get("revoked").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A type, for a person.
pub fn describe(row: &TimerType) -> String {
    let more = |name: &str| match row.more.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let paused = match row.more.get("paused") {
        Some(pause) => {
            let text = |name: &str| pause.get(name).and_then(Value::as_str).unwrap_or_default();
            let until = local_text(pause.get("until"));
            let until = if until.is_empty() { until } else { format!(" until {until}") };
            format!("by {} ({}){until}: {}", text("by"), text("scope"), text("reason"))
        }
        None => String::new(),
    };
    facts(&[
        ("name", row.name.clone()),
        ("paused", paused),
        ("revision", row.revision.to_string()),
        ("digest", row.digest.clone()),
        ("default delay", row.default_delay.map(|d| d.to_string()).unwrap_or_default()),
        ("config", more("config")),
        ("grants", row.grants.join(" ")),
        ("revoked", revoked(row).join(" ")),
        ("retry", more("retry")),
        ("concurrency", more("concurrency")),
        ("rate", more("rate")),
        ("created", local_text(row.more.get("created_at"))),
        ("updated", local_text(row.more.get("updated_at"))),
    ])
}
