//! `lapse plugin delete`.

use clap::Args;
use serde_json::Value;

use crate::client::segment;

use super::{
    super::{connect::Connect, output::clean},
    Out, Result,
};

#[derive(Args)]
#[command(
    long_about = "Deletes a plugin that no revision uses. A revision that was just deleted holds on to its plugin for a \
                  minute.",
    after_help = "Examples:\n  \
    lapse plugin delete sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)]
pub struct Delete {
    /// The plugin's digest: sha256: and 64 hex digits
    #[arg(value_name = "DIGEST")]
    digest: String,
    #[command(flatten)]
    connect: Connect,
}

impl Delete {
    pub async fn run(self, out: &Out) -> Result {
        let row: Value = self.connect.client()?.delete(&format!("v1/plugins/{}", segment(&self.digest))).await?;
        out.show(&row, |_| format!("{} is deleted\n", clean(&self.digest)))
    }
}
