//! `lapse type`.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::client::{Page, TimerType, segment};

use super::{
    Result,
    connect::Connect,
    output::{Out, Table, facts, local_text},
    timer::pages,
};

#[derive(Subcommand)]
pub enum Types {
    /// List timer types
    List(List),
    /// Show one timer type
    Show(Show),
}

impl Types {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::List(list) => list.run(out).await,
            Self::Show(show) => show.run(out).await,
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
            let mut table = Table::new(["name", "revision", "default delay", "digest", "grants"]);
            for t in &page.items {
                table.row([
                    t.name.clone(),
                    t.revision.to_string(),
                    t.default_delay.map(|d| d.to_string()).unwrap_or_default(),
                    t.digest.chars().take(19).collect(),
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
        ("retry", more("retry")),
        ("concurrency", more("concurrency")),
        ("rate", more("rate")),
        ("created", local_text(row.more.get("created_at"))),
        ("updated", local_text(row.more.get("updated_at"))),
    ])
}
