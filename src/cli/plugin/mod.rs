//! `lapse plugin`.

mod build;
mod check;
mod push;

use std::path::Path;

use clap::Subcommand;
use serde_json::{Map, Value};

use super::{Result, error::Error, output::Out, timer::unreadable};

#[derive(Subcommand)]
pub enum Plugin {
    Build(build::Build),
    Check(check::Check),
    Push(push::Push),
    /// List the uploaded plugins
    List(push::List),
}

impl Plugin {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Build(build) => build.run(out).await,
            Self::Check(check) => check.run(out).await,
            Self::Push(push) => push.run(out).await,
            Self::List(list) => list.run(out).await,
        }
    }
}

/// `NAME=VALUE` settings of a type; a value that is JSON is taken as such, anything else as text.
fn settings(given: &[String]) -> Result<Map<String, Value>> {
    let setting = |pair: &String| match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Ok((name.to_owned(), value))
        }
        _ => Err(Error::usage(format!("--config {pair:?} is not NAME=VALUE"))),
    };
    given.iter().map(setting).collect()
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|e| unreadable(file, &e))
}
