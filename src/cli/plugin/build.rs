//! `lapse plugin build`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::plugin::build::{build_crate, build_workspace};

use super::{super::output::bytes, Out, Result};

#[derive(Args)]
#[command(
    about = "Build a component from a crate's source",
    long_about = "Builds a component from the source of a Rust crate. It needs cargo, and a Rust that can build for \
                  wasm32-unknown-unknown (`rustup target add wasm32-unknown-unknown`); nothing else.",
    after_help = "Examples:\n  \
        lapse plugin build\n  \
        lapse plugin build my-plugin -o my.wasm\n  \
        lapse plugin build plugins --all -o plugins/dist"
)]
pub struct Build {
    /// The crate's folder
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Build every plugin of the workspace in DIR; -o is a folder then
    #[arg(long, requires = "output")]
    all: bool,
    /// Where the component is put [default: in the crate's target folder]
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
            Some(folder) if self.all => Ok(build_workspace(&dir, folder)?),
            Some(file) => {
                copy(&build_crate(&dir)?, file)?;
                Ok(vec![file.clone()])
            }
            None => Ok(vec![build_crate(&dir)?]),
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
