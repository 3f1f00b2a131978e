//! `lapse secret`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Page, segment};

use super::{
    Result,
    connect::Connect,
    error::Error,
    output::{Out, Table, local_text, text},
    timer::pages,
};

/// The longest secret that is read, in bytes; the server has a bound of its own.
const MAX_BYTES: u64 = 64 * 1024;
/// The most secrets that are listed.
const MAX_SECRETS: usize = 1_000;

#[derive(Subcommand)]
pub enum Secret {
    Set(Set),
    /// List secrets, without their values
    List(List),
    /// Delete a secret: the next call that names it is refused
    Delete(Delete),
}

impl Secret {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Set(set) => set.run(out).await,
            Self::List(list) => list.run(out).await,
            Self::Delete(delete) => delete.run(out).await,
        }
    }
}

#[derive(Args)]
#[command(
    about = "Set a secret, from standard input or a file",
    long_about = "Sets a secret. Its value is read from standard input or a file, and never from an argument, which others \
                  on this machine can see; one line break at its end is left out. No call answers it again.",
    after_help = "Examples:\n  printf %s \"$TOKEN\" | lapse secret set shop-token\n  lapse secret set shop-token --file token.txt"
)]
pub struct Set {
    /// What plugins and grants call it
    #[arg(value_name = "NAME")]
    name: String,
    /// Where its value stands [default: standard input]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

impl Set {
    async fn run(self, out: &Out) -> Result {
        let value = read(self.file.as_deref())?;
        if value.is_empty() {
            return Err(Error::usage("the secret is empty"));
        }
        let path = format!("v1/secrets/{}", segment(&self.name));
        let secret: Value = self.connect.client()?.put(&path, &json!({ "value": value })).await?;
        out.show(&secret, |_| format!("{} is set\n", self.name))
    }
}

/// A file's text, or standard input's, without the line break at its end.
pub fn read(file: Option<&std::path::Path>) -> Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    match file.filter(|file| *file != std::path::Path::new("-")) {
        Some(file) => {
            let opened = std::fs::File::open(file);
            let unreadable = |e: std::io::Error| Error::usage(format!("{} cannot be read: {e}", file.display()));
            opened.and_then(|f| f.take(MAX_BYTES).read_to_string(&mut text)).map_err(unreadable)?;
        }
        None => {
            std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text)?;
        }
    }
    let line = text.strip_suffix('\n').map(|t| t.strip_suffix('\r').unwrap_or(t));
    Ok(line.map(str::to_owned).unwrap_or(text))
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse secret list")]
pub struct List {
    #[command(flatten)]
    connect: Connect,
}

impl List {
    async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let page: Page<Value> = pages(&client, "v1/secrets", &[], None, MAX_SECRETS).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["name", "set", "by"]);
            for secret in &page.items {
                table.row([text(secret, "name"), local_text(secret.get("updated_at")), text(secret, "updated_by")]);
            }
            table.or("no secrets; `lapse secret set NAME` sets one")
        })
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse secret delete shop-token")]
pub struct Delete {
    /// The secret's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Delete {
    async fn run(self, out: &Out) -> Result {
        delete(&self.connect, out, ("secrets", &self.name)).await
    }
}

/// Deletes what a collection has under a name.
pub async fn delete(connect: &Connect, out: &Out, (collection, name): (&str, &str)) -> Result {
    let deleted: Value = connect.client()?.delete(&format!("v1/{collection}/{}", segment(name))).await?;
    out.show(&deleted, |_| format!("{name} is deleted\n"))
}
