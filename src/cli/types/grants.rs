//! `lapse type revoke` and `restore`.

use clap::Args;
use serde_json::json;

use crate::{
    client::{TimerType, segment},
    domain::plugin::Grant,
};

use super::{
    super::{Result, connect::Connect, output::Out},
    describe,
};

#[derive(Args)]
#[command(
    long_about = "Takes rights from a type, at once and whatever the revision: from timers that are pinned, and from \
                  compensations that an older revision decided, too. What fails for it ends as grant_revoked, and can be \
                  retried or redriven once the rights are restored.",
    after_help = "Examples:\n  \
        lapse type revoke order-timeout http:inventory.example\n  \
        lapse type revoke order-timeout-sql on-expire:sql:shop"
)]
pub struct Revoke {
    #[command(flatten)]
    of: Of,
}

#[derive(Args)]
#[command(
    long_about = "Gives revoked rights back to the revisions of a type that were granted them. What failed for want of them \
                  is retried (`lapse timer retry`) or redriven (`lapse compensation redrive`) by hand.",
    after_help = "Examples:\n  lapse type restore order-timeout http:inventory.example"
)]
pub struct Restore {
    #[command(flatten)]
    of: Of,
}

#[derive(Args)]
struct Of {
    /// The type's name
    #[arg(value_name = "TYPE")]
    name: String,
    /// Rights as its revisions were granted them: [EXPORT:]http:HOST[:PORT], [EXPORT:]sql:NAME or [EXPORT:]secret:NAME
    #[arg(value_name = "GRANT", required = true)]
    grants: Vec<Grant>,
    #[command(flatten)]
    connect: Connect,
}

impl Of {
    async fn post(&self, out: &Out, call: &str) -> Result {
        let path = format!("v1/types/{}/{call}", segment(&self.name));
        let row: TimerType = self.connect.client()?.post(&path, &json!({ "grants": self.grants })).await?;
        out.show(&row, describe)
    }
}

impl Revoke {
    pub async fn run(self, out: &Out) -> Result {
        self.of.post(out, "revoke").await
    }
}

impl Restore {
    pub async fn run(self, out: &Out) -> Result {
        self.of.post(out, "restore").await
    }
}
