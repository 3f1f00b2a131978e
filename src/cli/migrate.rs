//! `lapse migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::{
    domain::audit::Chain,
    store::{
        migration::MigrationStatus,
        postgres::{self, PostgresParams},
        sqlite,
    },
};

use super::{
    Result,
    error::Error,
    output::{Out, Table, local},
    settings::Settings,
};

#[derive(Subcommand)]
pub enum Migrate {
    /// Bring the database to this version
    #[command(after_help = "Examples:\n  lapse migrate up --data /var/lib/lapse\n  \
                           lapse migrate up --database postgres://lapse@db.example/lapse")]
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
            Self::Up(place) => show(&place.database()?.up().await?, "applied", "the database is up to date", out),
            Self::Down(down) => {
                let database = Where { settings: down.settings }.database()?;
                if !down.yes {
                    return Err(Error::usage(format!(
                        "this takes every migration above {} out of {}, with its data; say --yes if that is meant",
                        down.to,
                        database.name()
                    )));
                }
                show(&database.down(down.to).await?, "taken back", "there was nothing to take back", out)
            }
            Self::Status(place) => {
                let all = place.database()?.status().await?;
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
    fn database(&self) -> Result<Database> {
        let store = self.settings.load()?.config.store;
        // Migrations chain no audit.
        let postgres = |url| Database::Postgres(Box::new(PostgresParams::new(url, Chain::new([0; 32]))));
        Ok(store.postgres().map_or_else(|| Database::Sqlite(store.sqlite()), postgres))
    }
}

enum Database {
    Sqlite(PathBuf),
    Postgres(Box<PostgresParams>),
}

impl Database {
    /// For a person; without a password.
    fn name(&self) -> String {
        match self {
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres(_) => "the PostgreSQL database".to_owned(),
        }
    }

    async fn up(self) -> Result<Vec<MigrationStatus>> {
        match self {
            Self::Sqlite(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                blocking(move || sqlite::migrate_up(&path)).await
            }
            Self::Postgres(params) => Ok(postgres::migrate_up(&params).await.map_err(anyhow::Error::from)?),
        }
    }

    async fn down(self, to: u32) -> Result<Vec<MigrationStatus>> {
        match self {
            Self::Sqlite(path) => blocking(move || sqlite::migrate_down(&path, to)).await,
            Self::Postgres(params) => Ok(postgres::migrate_down(&params, to).await.map_err(anyhow::Error::from)?),
        }
    }

    async fn status(self) -> Result<Vec<MigrationStatus>> {
        match self {
            Self::Sqlite(path) => blocking(move || sqlite::migrate_status(&path)).await,
            Self::Postgres(params) => Ok(postgres::migrate_status(&params).await.map_err(anyhow::Error::from)?),
        }
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
