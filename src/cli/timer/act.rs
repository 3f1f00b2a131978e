//! `lapse timer resolve`, `cancel`, `reschedule`, `fire` and `retry`.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::client::Timer;

use super::{Connect, Out, Result, Target, look::describe};

#[derive(Args, Clone, Debug)]
struct Action {
    #[command(flatten)]
    target: Target,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only if the timer still has this version
    #[arg(long, value_name = "N")]
    if_version: Option<i64>,
    #[command(flatten)]
    connect: Connect,
}

impl Action {
    async fn send(self, verb: &str, mut body: Map<String, Value>, out: &Out) -> Result {
        let client = self.connect.client()?;
        if let Some(reason) = self.reason {
            body.insert("reason".into(), reason.into());
        }
        // `remember` is for a key that was never seen: there is nothing to look up.
        let path = format!("{}/{verb}", self.target.path(&client).await?);
        let timer: Timer = client.act(&path, &body, self.if_version).await?;
        out.show(&timer, describe)
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse timer resolve --type order-timeout --key A17 --reason paid\n  \
    lapse timer resolve --type order-timeout --key A18 --remember   even before it is registered")]
pub struct Resolve {
    #[command(flatten)]
    action: Action,
    /// If the key was never seen, remember it as resolved: a registration that comes later changes nothing
    #[arg(long, requires = "key")]
    remember: bool,
}

impl Resolve {
    pub async fn run(self, out: &Out) -> Result {
        let mut body = Map::new();
        if self.remember {
            body.insert("remember".into(), true.into());
        }
        self.action.send("resolve", body, out).await
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse timer cancel --type order-timeout --key A17 --reason 'order withdrawn'")]
pub struct Cancel {
    #[command(flatten)]
    action: Action,
}

impl Cancel {
    pub async fn run(self, out: &Out) -> Result {
        self.action.send("cancel", Map::new(), out).await
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse timer reschedule --type order-timeout --key A17 --delay 15m   from now\n  \
    lapse timer reschedule --type order-timeout --key A17 --due-at 2026-03-01T12:30:00Z")]
pub struct Reschedule {
    #[command(flatten)]
    action: Action,
    /// Due so long from now: 500ms, 30s, 15m, 2h, 7d
    #[arg(long, value_name = "DURATION", required_unless_present = "due_at", conflicts_with = "due_at")]
    delay: Option<String>,
    /// Due at this instant
    #[arg(long, value_name = "INSTANT")]
    due_at: Option<String>,
}

impl Reschedule {
    pub async fn run(self, out: &Out) -> Result {
        let mut body = Map::new();
        body.extend(self.delay.map(|d| ("delay".to_owned(), json!(d))));
        body.extend(self.due_at.map(|d| ("due_at".to_owned(), json!(d))));
        self.action.send("reschedule", body, out).await
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse timer fire --type order-timeout --key A17 --reason 'closed by hand'")]
pub struct Fire {
    #[command(flatten)]
    action: Action,
}

impl Fire {
    pub async fn run(self, out: &Out) -> Result {
        self.action.send("fire", Map::new(), out).await
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse timer retry --type order-timeout --key A17")]
pub struct Retry {
    #[command(flatten)]
    action: Action,
}

impl Retry {
    pub async fn run(self, out: &Out) -> Result {
        self.action.send("retry", Map::new(), out).await
    }
}
