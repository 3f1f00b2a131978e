//! `lapse plugin new`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::{
    domain::id::Name,
    plugin::build::{NewParams, new_project},
};

use super::{Lang, Out, Result};

#[derive(Args)]
#[command(
    about = "Make a new plugin's project",
    long_about = "Makes a project for a new plugin: source that works, samples of what it decides, and the guest SDK. It \
                  needs nothing beside it but the language's own tools.",
    after_help = "Examples:\n  \
        lapse plugin new my-plugin\n  \
        lapse plugin new my-plugin --lang ts\n  \
        lapse plugin new my-plugin --lang python --dir plugins/mine"
)]
pub struct New {
    /// The plugin's name: small letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: Name,
    /// The language that it is written in
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    lang: Lang,
    /// Where it is put [default: a folder of its name]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl New {
    pub fn run(self, out: &Out) -> Result {
        let dir = self.dir.unwrap_or_else(|| PathBuf::from(self.name.as_str()));
        let params = NewParams { name: &self.name, language: self.lang.into(), dir: &dir };
        let files = new_project(&params).map_err(anyhow::Error::from)?;
        let made = json!({ "name": self.name, "dir": dir, "files": files });
        out.show(&made, |_| {
            format!(
                "{dir}: {count} files\nnext:\n  cd {dir}\n  lapse plugin check\n  lapse plugin push --type {name}\n",
                dir = dir.display(),
                count = files.len(),
                name = self.name,
            )
        })
    }
}
