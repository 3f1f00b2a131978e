//! `lapse timer explain`.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::segment;

use super::{
    super::output::{Table, clean},
    Connect, Out, Result, Target,
};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse timer explain 0190c5d4-7b1e-7cc0-8a53-3f1f2a4d5e6f\n  \
    lapse timer explain --type order-timeout --key A17")]
pub struct Explain {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Serialize, Deserialize)]
struct Explanation {
    code: String,
    sentence: String,
    checks: Vec<Check>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Check {
    code: String,
    status: String,
    sentence: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fix: Option<Fix>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct Fix {
    action: String,
    sentence: String,
}

impl Explain {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let id = match &self.target.id {
            Some(id) => id.clone(),
            None => self.target.get(&client).await?.id,
        };
        let path = format!("v1/timers/{}/explain", segment(&id));
        let explanation: Explanation = client.get(&path, &[]).await?;
        out.show(&explanation, describe)
    }
}

fn describe(explanation: &Explanation) -> String {
    let mut table = Table::new(["", "check", "what", "what helps"]);
    for check in &explanation.checks {
        let fix = check.fix.as_ref().filter(|_| check.status == "blocking");
        table.row([
            check.status.clone(),
            check.code.clone(),
            clean(&check.sentence),
            fix.map(|f| clean(&f.sentence)).unwrap_or_default(),
        ]);
    }
    format!("{}\n\n{table}", clean(&explanation.sentence))
}
