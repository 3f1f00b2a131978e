//! `lapse datasource`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use url::Url;

use crate::client::{Page, segment};

use super::{
    Result,
    connect::Connect,
    error::Error,
    output::{Out, Table, facts, text},
    secret::{delete, read},
    timer::pages,
};

/// The most data sources that are listed.
const MAX_SOURCES: usize = 1_000;

#[derive(Subcommand)]
pub enum DataSource {
    Set(Set),
    /// List data sources, without their passwords
    List(List),
    /// Connect to a data source and say what is there
    Check(Check),
    /// Delete a data source: the next batch that names it is refused
    Delete(Delete),
}

impl DataSource {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Set(set) => set.run(out).await,
            Self::List(list) => list.run(out).await,
            Self::Check(check) => check.run(out).await,
            Self::Delete(delete) => delete.run(out).await,
        }
    }
}

#[derive(Args)]
#[command(
    about = "Set a data source: a database that plugins may be granted",
    long_about = "Sets a data source. A URL with a password in it is read from a file or standard input, and never from an \
                  argument, which others on this machine can see. The password is kept sealed.\n\n\
                  postgres://USER:PASSWORD@HOST:5432/DATABASE, mysql://… or mariadb://…, with ?sslmode=require for TLS; \
                  or sqlite:FILE, a file in the namespace's folder below the server's sql.sqlite_folder.",
    after_help = "Examples:\n  lapse datasource set shop --url-file shop.url\n  lapse datasource set ledger --url sqlite:ledger.db --connections 1"
)]
pub struct Set {
    /// What plugins and grants call it
    #[arg(value_name = "NAME")]
    name: String,
    /// Its URL, if that has no password
    #[arg(long, value_name = "URL", conflicts_with = "url_file")]
    url: Option<String>,
    /// Where its URL stands; - for standard input [default: standard input]
    #[arg(long, value_name = "FILE")]
    url_file: Option<PathBuf>,
    /// The time of one statement [default: 5s]
    #[arg(long, value_name = "DURATION")]
    statement_timeout: Option<String>,
    /// Rows that one batch may return [default: 1000]
    #[arg(long, value_name = "N")]
    max_rows: Option<u32>,
    /// Bytes that one batch may return [default: 1048576]
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// Connections that each node may have open [default: 4]
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    #[command(flatten)]
    connect: Connect,
}

impl Set {
    async fn run(self, out: &Out) -> Result {
        let url = match self.url {
            Some(url) if Url::parse(&url).is_ok_and(|u| u.password().is_some()) => {
                return Err(Error::usage(
                    "--url has a password in it, which others on this machine could see: give it by --url-file, or on standard input",
                ));
            }
            Some(url) => url,
            None => read(self.url_file.as_deref())?,
        };
        let mut body = json!({ "url": url });
        let given = [
            ("statement_timeout", self.statement_timeout.map(Value::from)),
            ("max_rows", self.max_rows.map(Value::from)),
            ("max_bytes", self.max_bytes.map(Value::from)),
            ("connections", self.connections.map(Value::from)),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        let path = format!("v1/datasources/{}", segment(&self.name));
        let source: Value = self.connect.client()?.put(&path, &body).await?;
        out.show(&source, |source| {
            let names = ["name", "kind", "url", "statement_timeout", "max_rows", "max_bytes", "connections"];
            facts(&names.map(|name| (name, text(source, name))))
        })?;
        out.note(format!("`lapse datasource check {}` connects to it", self.name));
        Ok(())
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse datasource list")]
pub struct List {
    #[command(flatten)]
    connect: Connect,
}

impl List {
    async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let page: Page<Value> = pages(&client, "v1/datasources", &[], None, MAX_SOURCES).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["name", "kind", "url", "timeout", "rows", "bytes", "connections"]);
            for source in &page.items {
                let names = ["name", "kind", "url", "statement_timeout", "max_rows", "max_bytes", "connections"];
                table.row(names.map(|name| text(source, name)));
            }
            table.or("no data sources; `lapse datasource set NAME` sets one")
        })
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse datasource check shop")]
pub struct Check {
    /// The data source's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Check {
    async fn run(self, out: &Out) -> Result {
        let path = format!("v1/datasources/{}/check", segment(&self.name));
        let found: Value = self.connect.client()?.post(&path, &json!({})).await?;
        let is_there = found.get("ok") == Some(&Value::Bool(true));
        out.show(&found, |found| {
            if is_there {
                format!("{}, after {} ms\n", text(found, "server"), text(found, "elapsed_ms"))
            } else {
                format!("{}\n", text(found, "error"))
            }
        })?;
        if is_there { Ok(()) } else { Err(Error::Said) }
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse datasource delete shop")]
pub struct Delete {
    /// The data source's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connect: Connect,
}

impl Delete {
    async fn run(self, out: &Out) -> Result {
        delete(&self.connect, out, ("datasources", &self.name)).await
    }
}
