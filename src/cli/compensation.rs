//! `lapse compensation`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::{Compensation as Row, Page, segment};

use super::{
    Result,
    connect::Connect,
    error::Error,
    output::{Out, Table, facts, local_long, local_text, relative},
    timer::pages,
};

#[derive(Subcommand)]
pub enum Compensation {
    /// List compensations, newest first
    List(List),
    /// Show one compensation
    Show(Show),
    /// Send dead compensations back to their lanes
    Redrive(Redrive),
}

impl Compensation {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::List(list) => list.run(out).await,
            Self::Show(show) => show.run(out).await,
            Self::Redrive(redrive) => redrive.run(out).await,
        }
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse compensation list --state dead\n  \
    lapse compensation list --timer 0190c5d4-7b1e-7cc0-8a53-3f1f2a4d5e6f")]
pub struct List {
    /// In this state
    #[arg(long, short = 's', value_parser = ["pending", "running", "done", "dead"])]
    state: Option<String>,
    /// Of timers of this type
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    timer_type: Option<String>,
    /// Of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Of this timer (its id)
    #[arg(long = "timer", value_name = "ID")]
    timer_id: Option<String>,
    /// How many at most; pages are fetched as needed
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Go on where an earlier list ended (its `next_cursor`)
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl List {
    async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let given =
            [("state", self.state), ("type", self.timer_type), ("kind", self.kind), ("timer_id", self.timer_id)];
        let query: Vec<_> = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let page: Page<Row> = pages(&client, "v1/compensations", &query, self.cursor, self.limit as usize).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["id", "kind", "state", "attempt", "next", "timer", "last error"]);
            for c in &page.items {
                table.row([
                    c.id.clone(),
                    c.kind.clone(),
                    c.state.as_str().to_owned(),
                    c.attempt.to_string(),
                    c.run_at.map(relative).unwrap_or_default(),
                    c.timer_id.clone(),
                    failure(&c.last_error),
                ]);
            }
            table.or("no compensations")
        })?;
        if let Some(cursor) = &page.next_cursor {
            out.note(format!("there are more: --limit, or --cursor {cursor}"));
        }
        Ok(())
    }
}

fn failure(error: &Value) -> String {
    match (error.get("code").and_then(Value::as_str), error.get("message").and_then(Value::as_str)) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ if error.is_null() => String::new(),
        _ => error.to_string(),
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse compensation show 0190c5d4-7b1e-7cc0-8a53-3f1f2a4d5e6f")]
pub struct Show {
    /// The compensation's id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    connect: Connect,
}

impl Show {
    async fn run(self, out: &Out) -> Result {
        let row: Row = self.connect.client()?.get(&format!("v1/compensations/{}", segment(&self.id)), &[]).await?;
        out.show(&row, describe)
    }
}

fn describe(row: &Row) -> String {
    let more = |name: &str| match row.more.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    facts(&[
        ("id", row.id.clone()),
        ("timer", row.timer_id.clone()),
        ("kind", row.kind.clone()),
        ("state", row.state.as_str().to_owned()),
        ("attempt", row.attempt.to_string()),
        ("next", row.run_at.map(local_long).unwrap_or_default()),
        ("last error", failure(&row.last_error)),
        ("created", local_text(row.more.get("created_at"))),
        ("settled", local_text(row.more.get("settled_at"))),
        ("result", more("result")),
        ("payload", more("payload")),
    ])
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse compensation redrive 0190c5d4-7b1e-7cc0-8a53-3f1f2a4d5e6f --note 'inventory is back'\n  \
    lapse compensation redrive --type order-timeout --kind release_inventory --note 'inventory is back'")]
pub struct Redrive {
    /// The compensation's id; without it, all dead ones that fit --type and --kind
    #[arg(value_name = "ID", required_unless_present_any = ["timer_type", "kind"], conflicts_with_all = ["timer_type", "kind", "limit"])]
    id: Option<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// Of timers of this type
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    timer_type: Option<String>,
    /// Of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Which revision carries it out: that which decided it, or the active one, for a plugin that was mended
    #[arg(long, value_name = "WHICH", value_parser = ["decided", "active"])]
    revision: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl Redrive {
    async fn run(self, out: &Out) -> Result {
        if self.note.trim().is_empty() {
            return Err(Error::usage("--note says why: it stands in the audit, and may not be empty"));
        }
        let client = self.connect.client()?;
        let mut body = Map::from_iter([("note".to_owned(), json!(self.note))]);
        body.extend(self.revision.map(|which| ("revision".to_owned(), which.into())));
        if let Some(id) = self.id {
            let row: Row = client.post(&format!("v1/compensations/{}/redrive", segment(&id)), &body).await?;
            return out.show(&row, describe);
        }
        let given = [("type", self.timer_type.map(Value::from)), ("kind", self.kind.map(Value::from))];
        body.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        body.extend(self.limit.map(|n| ("limit".to_owned(), n.into())));
        let answer: Value = client.post("v1/compensations/redrive", &body).await?;
        out.show(&answer, |answer| {
            let count = answer.get("count").and_then(Value::as_u64).unwrap_or_default();
            let more = answer.get("more").and_then(Value::as_bool).unwrap_or_default();
            format!("{count} sent back{}\n", if more { "; there are more: run it again" } else { "" })
        })
    }
}
