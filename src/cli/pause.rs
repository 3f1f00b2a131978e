//! `lapse pause`, `lapse resume`, `lapse pauses`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Page, segment};

use super::{
    Result,
    connect::Connect,
    output::{Out, Table, local_text},
    timer::pages,
};

/// What is paused or resumed.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Scope {
    /// One timer type
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    timer_type: Option<String>,
    /// A whole namespace; an admin key may name any
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// All firing, in every namespace
    #[arg(long)]
    all: bool,
}

impl Scope {
    fn path(&self, verb: &str) -> String {
        match (&self.timer_type, &self.namespace) {
            (Some(name), _) => format!("v1/types/{}/{verb}", segment(name)),
            (_, Some(name)) => format!("v1/namespaces/{}/{verb}", segment(name)),
            _ => format!("v1/{verb}"),
        }
    }

    fn words(&self) -> String {
        match (&self.timer_type, &self.namespace) {
            (Some(name), _) => format!("type {name}"),
            (_, Some(name)) => format!("namespace {name}"),
            _ => "all firing".to_owned(),
        }
    }
}

#[derive(Args)]
#[command(
    about = "Stop timers from firing: of a type, of a namespace, or all",
    long_about = "Stops timers from firing: of a type, of a namespace, or all. They can be registered, resolved, \
                  cancelled and rescheduled all the same, and nothing is lost. What runs already comes to its end, and \
                  compensations go on. Pausing what is paused changes the reason and the end.",
    after_help = "Examples:\n  \
        lapse pause --type order-timeout --reason provider-down --until 30m\n  \
        lapse pause --namespace shop-two --reason maintenance --until 2030-03-01T06:00:00Z\n  \
        lapse pause --all --reason rollback"
)]
pub struct Pause {
    #[command(flatten)]
    scope: Scope,
    /// Why; everybody who meets the pause reads it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// When it ends by itself, as a time or a duration [default: when somebody resumes]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

impl Pause {
    pub async fn run(self, out: &Out) -> Result {
        let mut body = json!({ "reason": self.reason });
        if let Some(until) = self.until {
            body["until"] = until.into();
        }
        let answer: Value = self.connect.client()?.post(&self.scope.path("pause"), &body).await?;
        out.show(&answer, |answer| {
            let until = match local_text(answer["paused"].get("until")) {
                until if until.is_empty() => "until it is resumed".to_owned(),
                until => format!("until {until}"),
            };
            format!("{} is paused {until}\n", self.scope.words())
        })
    }
}

#[derive(Args)]
#[command(
    about = "Let timers fire again",
    long_about = "Lets timers fire again. What is overdue is drained at the set rate (dispatch.drain_rate), oldest first, \
                  and fresh timers are on time meanwhile. A wider or narrower pause stays in force; `lapse pauses` shows \
                  what is.",
    after_help = "Examples:\n  lapse resume --type order-timeout\n  lapse resume --all"
)]
pub struct Resume {
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    connect: Connect,
}

impl Resume {
    pub async fn run(self, out: &Out) -> Result {
        let answer: Value = self.connect.client()?.post(&self.scope.path("resume"), &json!({})).await?;
        out.show(&answer, |_| format!("{} is resumed\n", self.scope.words()))?;
        if let Some(scope) = answer["paused"]["scope"].as_str() {
            out.note(format!("it is still paused by a pause of scope {scope}; `lapse pauses` shows it"));
        }
        Ok(())
    }
}

#[derive(Args)]
#[command(about = "List the pauses that hold", after_help = "Examples:\n  lapse pauses")]
pub struct Pauses {
    #[command(flatten)]
    connect: Connect,
}

/// The most pauses that are listed.
const MAX_PAUSES: usize = 10_000;

impl Pauses {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let page: Page<Value> = pages(&client, "v1/pauses", &[], None, MAX_PAUSES).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["scope", "namespace", "type", "since", "until", "by", "reason"]);
            for pause in &page.items {
                let text = |name: &str| pause.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                table.row([
                    text("scope"),
                    text("namespace"),
                    text("type"),
                    local_text(pause.get("since")),
                    local_text(pause.get("until")),
                    text("by"),
                    text("reason"),
                ]);
            }
            table.or("nothing is paused")
        })
    }
}
