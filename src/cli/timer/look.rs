//! `lapse timer get`, `list` and `events`.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::{
    client::{Client, Event, Page, Timer, segment},
    domain::time::DurationMs,
};

use super::{
    super::output::{Table, facts, local, local_long, relative},
    Connect, Error, Out, Result, Target,
};

/// The most items that the API puts in a page.
const PAGE: usize = 500;
/// How often a timer that is waited for is looked at.
const POLL: Duration = Duration::from_millis(200);

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse timer get 0190c5d4-7b1e-7cc0-8a53-3f1f2a4d5e6f\n  \
    lapse timer get --type order-timeout --key A17\n  \
    lapse timer get --type order-timeout --key A17 --wait 30s   until it is settled")]
pub struct Get {
    #[command(flatten)]
    target: Target,
    /// Wait until the timer is settled, at most so long; exit code 1 if it is not
    #[arg(long, value_name = "DURATION")]
    wait: Option<DurationMs>,
    #[command(flatten)]
    connect: Connect,
}

impl Get {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let started = Instant::now();
        loop {
            let timer = self.target.get(&client).await?;
            let Some(wait) = self.wait.filter(|_| !timer.state.is_settled()) else {
                return out.show(&timer, describe);
            };
            if started.elapsed() >= wait.as_std() {
                out.show(&timer, describe)?;
                return Err(Error::Other(anyhow::anyhow!("it is still {} after {wait}", timer.state.as_str())));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// A timer, for a person.
pub fn describe(timer: &Timer) -> String {
    let text = |name: &str| timer.more.get(name).map(text).unwrap_or_default();
    let lateness = match timer.settled_at {
        Some(settled) if settled >= timer.due_at => {
            format!(", {}ms after due", settled.since(timer.due_at).as_millis())
        }
        _ => String::new(),
    };
    facts(&[
        ("id", timer.id.clone()),
        ("type", timer.timer_type.clone()),
        ("key", timer.key.clone()),
        ("state", timer.state.as_str().to_owned()),
        ("due", local_long(timer.due_at)),
        ("runs", timer.run_at.filter(|at| *at != timer.due_at).map(local_long).unwrap_or_default()),
        ("settled", timer.settled_at.map(|at| format!("{}{lateness}", local_long(at))).unwrap_or_default()),
        ("outcome", timer.outcome.as_ref().map(Value::to_string).unwrap_or_default()),
        ("attempt", timer.attempt.to_string()),
        ("version", timer.version.to_string()),
        ("revision", text("revision")),
        ("labels", labels(timer)),
        ("created", local_long(timer.created_at)),
        ("payload", text("payload")),
    ])
}

fn labels(timer: &Timer) -> String {
    timer.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// A string as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse timer list --state scheduled --limit 20\n  \
    lapse timer list --type order-timeout --expired true\n  \
    lapse timer list --label shop=berlin --due-before 2026-03-01T00:00:00Z --json")]
pub struct List {
    /// Of this type
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    timer_type: Option<String>,
    /// In this state
    #[arg(long, short = 's', value_parser = ["scheduled", "firing", "closed", "skipped", "resolved", "cancelled", "failed"])]
    state: Option<String>,
    /// With this key
    #[arg(long, short = 'k', value_name = "KEY")]
    key: Option<String>,
    /// Due before this instant
    #[arg(long, value_name = "INSTANT")]
    due_before: Option<String>,
    /// Due at this instant or after it
    #[arg(long, value_name = "INSTANT")]
    due_after: Option<String>,
    /// Only those that are due and not settled, or only the others
    #[arg(long, value_name = "BOOL")]
    expired: Option<bool>,
    /// With this label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Option<String>,
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
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let given = [
            ("type", self.timer_type),
            ("state", self.state),
            ("key", self.key),
            ("due_before", self.due_before),
            ("due_after", self.due_after),
            ("expired", self.expired.map(|e| e.to_string())),
            ("label", self.label),
        ];
        let query: Vec<_> = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let page: Page<Timer> = pages(&client, "v1/timers", &query, self.cursor, self.limit as usize).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["id", "type", "key", "state", "due", "", "attempt"]);
            for t in &page.items {
                table.row([
                    t.id.clone(),
                    t.timer_type.clone(),
                    t.key.clone(),
                    t.state.as_str().to_owned(),
                    local(t.due_at),
                    relative(t.due_at),
                    t.attempt.to_string(),
                ]);
            }
            table.or("no timers")
        })?;
        if let Some(cursor) = &page.next_cursor {
            out.note(format!("there are more: --limit, or --cursor {cursor}"));
        }
        Ok(())
    }
}

/// Items of a list up to a limit, over as many pages as it takes. Every page brings the cursor on, so it ends.
pub async fn pages<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
    query: &[(&str, String)],
    mut cursor: Option<String>,
    limit: usize,
) -> Result<Page<T>> {
    let mut items = Vec::new();
    loop {
        let mut query = query.to_vec();
        query.push(("limit", (limit - items.len()).min(PAGE).to_string()));
        query.extend(cursor.take().map(|c| ("cursor", c)));
        let page: Page<T> = client.get(path, &query).await?;
        items.extend(page.items);
        if page.next_cursor.is_none() || items.len() >= limit {
            return Ok(Page { items, next_cursor: page.next_cursor });
        }
        cursor = page.next_cursor;
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse timer events --type order-timeout --key A17")]
pub struct Events {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    connect: Connect,
}

/// The most events of one timer that are shown.
const MAX_EVENTS: usize = 10_000;

impl Events {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let id = match &self.target.id {
            Some(id) => id.clone(),
            None => self.target.get(&client).await?.id,
        };
        let path = format!("v1/timers/{}/events", segment(&id));
        let page: Page<Event> = pages(&client, &path, &[], None, MAX_EVENTS).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["seq", "at", "kind", "state", "attempt", "trigger", "actor", "detail"]);
            for e in &page.items {
                let state = match e.state_before.filter(|before| *before != e.state_after) {
                    Some(before) => format!("{} → {}", before.as_str(), e.state_after.as_str()),
                    None => e.state_after.as_str().to_owned(),
                };
                table.row([
                    e.seq.to_string(),
                    local(e.at),
                    e.kind.clone(),
                    state,
                    e.attempt.to_string(),
                    e.trigger.clone().unwrap_or_default(),
                    e.actor.clone(),
                    if e.detail.is_null() { String::new() } else { shorten(&e.detail.to_string()) },
                ]);
            }
            table.to_string()
        })
    }
}

/// The most of an event's detail that a table shows; `--json` has all of it.
const DETAIL_CHARS: usize = 120;

fn shorten(text: &str) -> String {
    match text.char_indices().nth(DETAIL_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
