//! `lapse key`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Page, segment};

use super::{
    Result,
    connect::Connect,
    output::{Out, Table, local_text, text},
    timer::pages,
};

#[derive(Subcommand)]
pub enum Key {
    Create(Create),
    /// List keys
    List(List),
    /// Revoke a key, at once and for good
    Revoke(Revoke),
}

impl Key {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Create(create) => create.run(out).await,
            Self::List(list) => list.run(out).await,
            Self::Revoke(revoke) => revoke.run(out).await,
        }
    }
}

#[derive(Args)]
#[command(
    about = "Make a key; its secret is shown once",
    long_about = "Makes an API key. Its secret is shown once and kept nowhere.\n\n\
                  Roles: reader looks; producer also registers, resolves, cancels and reschedules; publisher looks, and \
                  uploads plugins and types; operator does all of these, and fires, retries, redrives and grants; \
                  admin does everything.",
    after_help = "Examples:\n  lapse key create --name checkout --role producer"
)]
pub struct Create {
    /// What the audit calls it
    #[arg(long, value_name = "NAME")]
    name: String,
    /// What it may do
    #[arg(long, value_parser = ["reader", "producer", "publisher", "operator", "admin"])]
    role: String,
    #[command(flatten)]
    connect: Connect,
}

impl Create {
    async fn run(self, out: &Out) -> Result {
        let body = json!({ "name": self.name, "role": self.role });
        let key: Value = self.connect.client()?.post("v1/keys", &body).await?;
        out.note("keep it: it is shown only now");
        out.show(&key, |key| format!("{}\n", text(key, "secret")))
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse key list")]
pub struct List {
    #[command(flatten)]
    connect: Connect,
}

/// The most keys that are listed.
const MAX_KEYS: usize = 10_000;

impl List {
    async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let page: Page<Value> = pages(&client, "v1/keys", &[], None, MAX_KEYS).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["id", "name", "role", "created", "by", "revoked"]);
            for key in &page.items {
                let time = |name: &str| local_text(key.get(name));
                table.row([
                    text(key, "id"),
                    text(key, "name"),
                    text(key, "role"),
                    time("created_at"),
                    text(key, "created_by"),
                    time("revoked_at"),
                ]);
            }
            table.or("no keys")
        })
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse key revoke 0190c5d4-7b1e-7cc0-8a53-3f1f2a4d5e6f")]
pub struct Revoke {
    /// The key's id; `lapse key list` shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    connect: Connect,
}

impl Revoke {
    async fn run(self, out: &Out) -> Result {
        let key: Value = self.connect.client()?.delete(&format!("v1/keys/{}", segment(&self.id))).await?;
        out.show(&key, |_| format!("{} is revoked\n", self.id))
    }
}
