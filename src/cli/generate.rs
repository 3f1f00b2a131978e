//! `lapse type generate`.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use crate::{
    client::{Page, TimerType, segment},
    codegen::{self, Language},
};

use super::{Result, connect::Connect, error::Error, output::Out, timer::pages};

#[derive(Args)]
#[command(
    about = "Write typed helpers for timer types",
    long_about = "Writes a module for the client library of a language, with types for the payloads of the server's \
                  timer types and functions that take them: registerOrderTimeout, or register_order_timeout. The same \
                  types give the same text, so that it can be kept and compared.",
    after_help = "Examples:\n  \
                  lapse type generate --lang ts > src/lapse-types.ts\n  \
                  lapse type generate order-timeout --lang python > lapse_types.py\n  \
                  lapse type generate --lang ts --schemas schemas.json"
)]
pub struct Generate {
    /// Of these types [default: all]
    #[arg(value_name = "TYPE")]
    names: Vec<String>,
    /// For this language's client library
    #[arg(long, value_name = "LANGUAGE", value_enum)]
    lang: Lang,
    /// Read the schemas from a file instead of a server: a JSON object, each member a type's payload schema
    #[arg(long, value_name = "FILE")]
    schemas: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lang {
    #[value(alias = "typescript")]
    Ts,
    Python,
}

/// The most types that helpers are written for.
const MAX_TYPES: usize = 10_000;

impl Generate {
    pub async fn run(self, out: &Out) -> Result {
        let types = match &self.schemas {
            Some(file) => self.of_file(file)?,
            None => self.of_server().await?,
        };
        if types.is_empty() {
            return Err(Error::hinted("there are no types", "`lapse plugin push FILE --type NAME` makes one"));
        }
        let language = match self.lang {
            Lang::Ts => Language::TypeScript,
            Lang::Python => Language::Python,
        };
        let text = codegen::generate(language, &types);
        if out.is_json() { out.json(&serde_json::json!({"text": text})) } else { out.line(text.trim_end()) }
    }

    async fn of_server(&self) -> Result<Vec<codegen::TimerType>> {
        let client = self.connect.client()?;
        let mut rows: Vec<TimerType> = Vec::new();
        if self.names.is_empty() {
            let page: Page<TimerType> = pages(&client, "v1/types", &[], None, MAX_TYPES).await?;
            rows = page.items;
        }
        for name in &self.names {
            rows.push(client.get(&format!("v1/types/{}", segment(name)), &[]).await?);
        }
        let types = rows.into_iter().map(|mut row| codegen::TimerType {
            name: row.name,
            payload_schema: row.more.remove("payload_schema").unwrap_or(Value::Bool(true)),
        });
        Ok(types.collect())
    }

    fn of_file(&self, file: &PathBuf) -> Result<Vec<codegen::TimerType>> {
        let wrong = |why: String| Error::usage(format!("{}: {why}", file.display()));
        let text = fs::read(file).map_err(|e| Error::usage(format!("{} cannot be read: {e}", file.display())))?;
        let mut all: Map<String, Value> = serde_json::from_slice(&text)
            .map_err(|e| wrong(format!("it is not a JSON object with a schema for each type: {e}")))?;
        if !self.names.is_empty() {
            if let Some(name) = self.names.iter().find(|name| !all.contains_key(*name)) {
                return Err(wrong(format!("it has no type {name}")));
            }
            all.retain(|name, _| self.names.contains(name));
        }
        Ok(all.into_iter().map(|(name, payload_schema)| codegen::TimerType { name, payload_schema }).collect())
    }
}
