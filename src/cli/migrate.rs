//! `lapse migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::store::sqlite::{MigrationStatus, migrate_down, migrate_status, migrate_up};

use super::{
    Result,
    error::Error,
    output::{Out, Table, local},
    settings::Settings,
};

#[derive(Subcommand)]
pub enum Migrate {
    /// Bring the database to this version
    #[command(after_help = "Examples:\n  lapse migrate up --data /var/lib/lapse")]
    Up(Where),
    /// Take migrations back, and with them the data that only they hold
    Down(Down),
    /// Show which migrations the database has
    #[command(after_help = "Examples:\n  lapse migrate status --data /var/lib/lapse")]
    Status(Where),
}

#[derive(Args)]
pub struct Where {
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse migrate down --to 0 --yes")]
pub struct Down {
    /// The last migration that is to stay; 0 takes back all, and all data with them
    #[arg(long, value_name = "N")]
    to: u32,
    /// Do it: what the migrations hold is lost
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    settings: Settings,
}

impl Migrate {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Up(place) => {
                let database = place.database()?;
                if let Some(folder) = database.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                let done = blocking(move || migrate_up(&database)).await?;
                show(&done, "applied", "the database is up to date", out)
            }
            Self::Down(down) => {
                let database = Where { settings: down.settings }.database()?;
                if !down.yes {
                    return Err(Error::usage(format!(
                        "this takes every migration above {} out of {}, with its data; say --yes if that is meant",
                        down.to,
                        database.display()
                    )));
                }
                let done = blocking(move || migrate_down(&database, down.to)).await?;
                show(&done, "taken back", "there was nothing to take back", out)
            }
            Self::Status(place) => {
                let database = place.database()?;
                let all = blocking(move || migrate_status(&database)).await?;
                out.show(&all.iter().map(row).collect::<Vec<_>>(), |_| {
                    let mut table = Table::new(["number", "name", "applied"]);
                    for m in &all {
                        let applied = m.applied_at.map_or_else(|| "no".to_owned(), local);
                        table.row([m.number.to_string(), m.name.clone(), applied]);
                    }
                    table.to_string()
                })
            }
        }
    }
}

impl Where {
    fn database(&self) -> Result<PathBuf> {
        Ok(self.settings.load()?.config.store.database())
    }
}

async fn blocking<T, E>(work: impl FnOnce() -> std::result::Result<T, E> + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let done = tokio::task::spawn_blocking(work).await.map_err(anyhow::Error::from)?;
    Ok(done.map_err(anyhow::Error::from)?)
}

fn row(m: &MigrationStatus) -> serde_json::Value {
    json!({ "number": m.number, "name": m.name, "applied_at": m.applied_at })
}

fn show(done: &[MigrationStatus], what: &str, nothing: &str, out: &Out) -> Result {
    out.show(&done.iter().map(row).collect::<Vec<_>>(), |_| {
        if done.is_empty() {
            return format!("{nothing}\n");
        }
        let lines: Vec<_> = done.iter().map(|m| format!("{what}: {} {}\n", m.number, m.name)).collect();
        lines.concat()
    })
}
