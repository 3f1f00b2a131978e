//! `lapse plugin`.

mod build;
mod check;
pub mod decision;
mod delete;
mod new;
mod push;
mod samples;

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde_json::{Map, Value};

use crate::plugin::build::{Language, build_plugin};

use super::{Result, error::Error, output::Out, timer::unreadable};

#[derive(Subcommand)]
pub enum Plugin {
    New(new::New),
    Build(build::Build),
    Check(check::Check),
    Push(push::Push),
    /// List the uploaded plugins
    List(push::List),
    /// Delete a plugin that no revision uses
    Delete(delete::Delete),
}

impl Plugin {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::New(new) => new.run(out),
            Self::Build(build) => build.run(out).await,
            Self::Check(check) => check.run(out).await,
            Self::Push(push) => push.run(out).await,
            Self::List(list) => list.run(out).await,
            Self::Delete(delete) => delete.run(out).await,
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

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lang {
    Rust,
    /// TypeScript
    Ts,
    Python,
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::Rust => Self::Rust,
            Lang::Ts => Self::TypeScript,
            Lang::Python => Self::Python,
        }
    }
}

/// The component that is meant: the file itself, or what the project in a folder is built to.
async fn component(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let dir = path.canonicalize().map_err(|e| unreadable(path, &e))?;
    let built = tokio::task::spawn_blocking(move || build_plugin(&dir)).await.map_err(anyhow::Error::from)?;
    Ok(built.map_err(anyhow::Error::from)?)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|e| unreadable(file, &e))
}
