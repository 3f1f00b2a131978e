//! The flags of the commands that read the configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Flag, Loaded, Sources};

use super::Result;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Settings")]
pub struct Settings {
    /// A TOML file with settings; `lapse config` shows them all
    #[arg(long, value_name = "FILE", env = "LAPSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where the API listens [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Where the database and the server's key stand [default: ./lapse-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// The cluster's database, postgres://… [default: SQLite in the data folder]
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// The cluster's broker, NATS with JetStream [default: none]
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    /// How many of the broker's servers keep each message [default: 1]
    #[arg(long, value_name = "N")]
    pub nats_replicas: Option<String>,
    /// What is logged: a level, or a filter such as info,lapse=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

impl Settings {
    pub fn load(&self) -> Result<Loaded> {
        self.load_with(None)
    }

    /// With flags that only this command has.
    pub fn load_with(&self, more: impl IntoIterator<Item = Flag>) -> Result<Loaded> {
        let given = [
            ("--listen", "server.listen", &self.listen),
            ("--data", "store.data", &self.data),
            ("--database", "store.database", &self.database),
            ("--nats", "nats.url", &self.nats),
            ("--nats-replicas", "nats.replicas", &self.nats_replicas),
            ("--log", "log.filter", &self.log),
        ];
        let flags = given
            .into_iter()
            .filter_map(|(flag, setting, value)| Some(Flag { flag, setting, value: value.clone()? }))
            .chain(more)
            .collect();
        // A variable that is no text is of nobody's concern unless it is a setting, and then it is refused as one.
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .collect();
        Ok(Loaded::from(&Sources { file: self.config.clone(), env, flags })?)
    }
}
