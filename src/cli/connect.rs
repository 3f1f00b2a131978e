//! Which server a command talks to, and with which key.

use std::{fs, path::Path};

use clap::Args;
use url::{Host, Url};

use crate::client::Client;

use super::{Result, error::Error};

/// Where a server listens unless it is told otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// Where `lapse dev`, started in this folder or one above it, keeps its key.
const DEV_TOKEN_FILE: &str = "lapse-data/token";
/// How many folders are looked in for it, this one included.
const FOLDERS: usize = 8;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub struct Connect {
    /// The server's address [default: http://127.0.0.1:8080]
    #[arg(long, global = true, value_name = "URL", env = "LAPSE_SERVER_URL", hide_env_values = true)]
    server: Option<String>,
    /// An API key [default: the one of `lapse dev` in this folder or above, for a server on this machine]
    #[arg(long, global = true, value_name = "KEY", env = "LAPSE_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl Connect {
    pub fn client(&self) -> Result<Client> {
        let server = self.server.as_deref().filter(|s| !s.is_empty()).unwrap_or(DEFAULT_SERVER);
        let given = self.token.clone().filter(|t| !t.is_empty());
        let token = given.or_else(|| if is_loopback(server) { dev_token() } else { None });
        Client::new(server, token).map_err(|error| Error::usage(error.to_string()))
    }
}

fn dev_token() -> Option<String> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().take(FOLDERS).find_map(|folder| read_token(&folder.join(DEV_TOKEN_FILE)))
}

/// A key in a file is not sent to another machine unasked.
fn is_loopback(server: &str) -> bool {
    match Url::parse(server).ok().as_ref().and_then(Url::host) {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

pub fn read_token(path: &Path) -> Option<String> {
    let token = fs::read_to_string(path).ok()?;
    let token = token.trim();
    (!token.is_empty()).then(|| token.to_owned())
}
