//! `lapse serve`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::{
    app::{App, Bootstrap},
    config::Flag,
    telemetry,
};

use super::{Result, connect::read_token, error::Error, output::Out, settings::Settings, signals::Stop};

/// The shortest first key: nobody guesses it.
pub const MIN_TOKEN_CHARS: usize = 16;

#[derive(Args)]
#[command(
    about = "Start a server",
    long_about = "Starts a server: alone, with SQLite in its data folder, or as one of any number of equal nodes that \
                  share a PostgreSQL database (--database) and a NATS broker (--nats). Every node needs the same \
                  LAPSE_STORE__KEY. The first start needs an admin key, from LAPSE_BOOTSTRAP_TOKEN or a file; it is \
                  looked at only while there is no key at all. Stops on SIGTERM: what runs is finished, within a bound.",
    after_help = "Examples:\n  \
        LAPSE_BOOTSTRAP_TOKEN=$(openssl rand -hex 32) lapse serve --data /var/lib/lapse\n  \
        lapse serve --config /etc/lapse.toml --bootstrap-token-file /run/secrets/lapse\n  \
        lapse serve --database postgres://lapse@db.example/lapse --nats nats://broker.example --listen 0.0.0.0:8080\n  \
        lapse serve --database postgres://lapse@db.example/lapse --no-fire"
)]
pub struct Serve {
    #[command(flatten)]
    settings: Settings,
    /// The first admin key, while there is no key at all
    #[arg(long, value_name = "KEY", env = "LAPSE_BOOTSTRAP_TOKEN", hide = true, hide_env_values = true)]
    bootstrap_token: Option<String>,
    /// Register timers and answer every call, but fire nothing: other nodes do
    #[arg(long)]
    no_fire: bool,
    /// A file with the first admin key; LAPSE_BOOTSTRAP_TOKEN wins
    #[arg(long, value_name = "FILE")]
    bootstrap_token_file: Option<PathBuf>,
}

impl Serve {
    pub async fn run(self, out: &Out) -> Result {
        let flags = self.no_fire.then(|| Flag { flag: "--no-fire", setting: "dispatch.fire", value: "false".into() });
        let loaded = self.settings.load_with(flags)?;
        let admin_token = match (self.bootstrap_token.filter(|t| !t.is_empty()), &self.bootstrap_token_file) {
            (Some(token), _) => Some(token),
            (None, Some(file)) => Some(
                read_token(file)
                    .ok_or_else(|| Error::usage(format!("{} cannot be read, or is empty", file.display())))?,
            ),
            (None, None) => None,
        };
        if let Some(token) = &admin_token {
            check_token(token)?;
        }
        telemetry::init_logs(&loaded.config.log).map_err(anyhow::Error::from)?;
        let stop = Stop::listen()?;
        let app = App::start(loaded.config, Bootstrap { admin_token }).await?;
        if app.store().read().api_keys(None).await.map_err(anyhow::Error::from)?.is_empty() {
            app.stop().await;
            return Err(Error::hinted(
                "there is no API key, so nobody could call this server",
                "start it once with LAPSE_BOOTSTRAP_TOKEN set, or with --bootstrap-token-file",
            ));
        }
        let url = format!("http://{}", app.address());
        if out.is_json() {
            out.json_line(&json!({ "url": url }))?;
        } else {
            out.line(format!("Lapse listens on {url}"))?;
        }
        stop.told().await;
        app.stop().await;
        Ok(())
    }
}

/// A key that is fit to guard a server, and to stand in a header.
pub fn check_token(token: &str) -> Result {
    if token.len() < MIN_TOKEN_CHARS || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::usage(format!(
            "a token is at least {MIN_TOKEN_CHARS} visible ASCII characters; make one with `openssl rand -hex 32`"
        )));
    }
    Ok(())
}
