//! `lapse plugin build`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::plugin::build::{build_all, build_plugin};

use super::{super::output::bytes, Lang, Out, Result};

#[derive(Args)]
#[command(
    about = "Build a component from a plugin's source",
    long_about = "Builds a component from a plugin's source. In Rust (Cargo.toml) it needs cargo, and a Rust that can \
                  build for wasm32-unknown-unknown (`rustup target add wasm32-unknown-unknown`); in TypeScript \
                  (package.json) Node.js 20.19 or later, with npm; in Python (pyproject.toml) Python 3.10 or later. \
                  What else it takes is installed into the project. What was built already, and has not changed since, \
                  is not built again.",
    after_help = "Examples:\n  \
        lapse plugin build\n  \
        lapse plugin build my-plugin -o my.wasm\n  \
        lapse plugin build plugins --all -o plugins/dist\n  \
        lapse plugin build plugins --all --lang rust -o plugins/dist"
)]
pub struct Build {
    /// The plugin's folder
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Build every plugin in DIR and up to three folders below it; -o is a folder then
    #[arg(long, requires = "output")]
    all: bool,
    /// With --all, only what is written in this language
    #[arg(long, value_name = "LANGUAGE", requires = "all")]
    lang: Option<Lang>,
    /// Where the component is put [default: within the project]
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Build {
    pub async fn run(self, out: &Out) -> Result {
        let built = tokio::task::spawn_blocking(move || self.build()).await.map_err(anyhow::Error::from)??;
        let rows: Vec<_> = built
            .into_iter()
            .map(|file| {
                let size = std::fs::metadata(&file).map_or(0, |m| m.len());
                json!({ "file": file, "size": size })
            })
            .collect();
        out.show(&rows, |rows| {
            let line = |row: &serde_json::Value| {
                let file = row["file"].as_str().unwrap_or_default();
                format!("{file}  {}\n", bytes(row["size"].as_u64().unwrap_or_default()))
            };
            rows.iter().map(line).collect()
        })
    }

    fn build(&self) -> anyhow::Result<Vec<PathBuf>> {
        // Cargo runs in DIR, and what it answers must mean the same here.
        let dir = self.dir.canonicalize().map_err(|e| anyhow::anyhow!("{}: {e}", self.dir.display()))?;
        match &self.output {
            Some(folder) if self.all => Ok(build_all(&dir, folder, self.lang.map(Into::into))?),
            Some(file) => {
                copy(&build_plugin(&dir)?, file)?;
                Ok(vec![file.clone()])
            }
            None => Ok(vec![build_plugin(&dir)?]),
        }
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, to).map_err(|e| anyhow::anyhow!("{} cannot be written: {e}", to.display()))?;
    Ok(())
}
