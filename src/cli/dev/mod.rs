//! `lapse dev`: everything that it takes to try Lapse, in one process.
//!
//! ```text
//!  token (made once, kept) ─► demo shop (journal, then address) ─► App::start (lock, store, engine, API)
//!      ─► component uploaded, two types put ─► address and lines to paste printed ─► SIGTERM ─► App::stop ─► shop stopped
//! ```

mod example;
mod token;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;

use crate::{
    app::{App, Bootstrap},
    client::Client,
    demo_shop::{self, Options, Shop},
    telemetry,
};

use super::{Result, demo_shop as shop, error::Error, output::Out, settings::Settings, signals::Stop};

#[derive(Args)]
#[command(
    about = "Start a server to try Lapse on, with example types and a demo shop",
    long_about = "Starts a server to try Lapse on: SQLite in ./lapse-data, an API on 127.0.0.1:8080, a demo shop on the \
                  next port, and the types order-timeout and order-timeout-checked, which close the shop's orders. Its \
                  key is made up once and kept in the data folder, where the commands find it. Everything survives a \
                  restart, or a kill. Stops on Ctrl-C or SIGTERM.",
    after_help = "Examples:\n  \
        lapse dev\n  \
        lapse dev --listen 127.0.0.1:0 --demo-shop 127.0.0.1:0 --data /tmp/try\n  \
        lapse dev --no-demo      a bare server"
)]
pub struct Dev {
    #[command(flatten)]
    settings: Settings,
    /// The admin key [default: made up at the first start, kept in DIR/token]
    #[arg(long, value_name = "KEY")]
    token: Option<String>,
    /// Where the demo shop listens [default: the port after the API's]
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["no_demo", "shop_url"])]
    demo_shop: Option<SocketAddr>,
    /// Use the shop that runs there (`lapse demo-shop`) instead of starting one
    #[arg(long, value_name = "URL", conflicts_with = "no_demo")]
    shop_url: Option<String>,
    /// Where the reference components are [default: beside the binary, or plugins/dist]
    #[arg(long, value_name = "DIR", env = "LAPSE_PLUGINS_DIR")]
    plugins: Option<PathBuf>,
    /// No shop and no example types
    #[arg(long)]
    no_demo: bool,
}

impl Dev {
    pub async fn run(self, out: &Out) -> Result {
        let config = self.settings.load()?.config;
        let component = if self.no_demo { None } else { Some(example::component(self.plugins.as_deref())?) };
        telemetry::init_logs(&config.log).map_err(anyhow::Error::from)?;
        let stop = Stop::listen()?;
        let data = config.store.data.clone();
        let token = token::choose(&data, self.token.as_deref())?;
        let shop = match self.shop_address(config.server.listen)? {
            Some(listen) => Some(start_shop(listen, &data).await?),
            None => None,
        };
        let listen = config.server.listen;
        let app = App::start(config, Bootstrap { admin_token: Some(token.value.clone()) }).await?;
        let url = format!("http://{}", reachable(app.address()));
        let shop_url =
            self.shop_url.clone().or_else(|| shop.as_ref().map(|s| format!("http://{}", reachable(s.address()))));
        let running = Running { app, shop };
        match set_up(SetUp { url: &url, token: &token.value, component, shop_url: shop_url.as_deref() }).await {
            Ok(()) => {}
            Err(error) => {
                running.stop().await;
                return Err(match error {
                    Error::Client(e) if e.code() == Some("unauthorized") => token.refused(&data),
                    other => other,
                });
            }
        }
        token.keep()?;
        let started = Started { url, token: token.value, shop_url, defaults: self.is_default(listen) };
        started.print(out)?;
        stop.told().await;
        out.note("stopping: what runs is finished first; once more stops at once");
        running.stop().await;
        Ok(())
    }

    /// Where the shop is to listen, if one is to be started.
    fn shop_address(&self, listen: SocketAddr) -> Result<Option<SocketAddr>> {
        if self.no_demo || self.shop_url.is_some() {
            return Ok(None);
        }
        if let Some(address) = self.demo_shop {
            return Ok(Some(address));
        }
        let port = match listen.port() {
            0 => 0,
            port => {
                port.checked_add(1).ok_or_else(|| Error::usage("there is no port after 65535: give --demo-shop"))?
            }
        };
        Ok(Some(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)))
    }

    /// Whether the other commands find this server and its key without being told.
    fn is_default(&self, listen: SocketAddr) -> bool {
        listen.port() == 8080 && self.settings.data.is_none() && self.settings.config.is_none()
    }
}

/// The shop keeps its records in the data folder; that they are in use means that the folder is.
async fn start_shop(listen: SocketAddr, data: &Path) -> Result<Shop> {
    match Shop::start(Options { listen, journal: Some(data.join("demo-shop.journal")) }).await {
        Err(demo_shop::Error::InUse(_)) => Err(Error::hinted(
            format!("another `lapse dev` runs on the data folder {}", data.display()),
            "stop that one, or give another folder with --data",
        )),
        Err(demo_shop::Error::Listen { .. }) if listen.port() != 0 => Err(Error::hinted(
            format!("the demo shop cannot listen on {listen}: another process does"),
            "give it another address with --demo-shop, or port 0 for any that is free",
        )),
        other => other.map_err(shop::explain),
    }
}

/// What is to be drained, in this order.
struct Running {
    app: App,
    shop: Option<Shop>,
}

impl Running {
    async fn stop(self) {
        // Compensations that still run may call the shop: it goes last.
        self.app.stop().await;
        if let Some(shop) = self.shop {
            shop.stop().await;
        }
    }
}

/// An address that can be called: `0.0.0.0` is only one to listen on.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::new(std::net::IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), v6.port())
        }
        other => other,
    }
}

struct SetUp<'a> {
    url: &'a str,
    token: &'a str,
    component: Option<example::Component>,
    shop_url: Option<&'a str>,
}

/// Uploads the component and puts the example types, through the API as anybody would. Nothing changes the second time.
async fn set_up(params: SetUp<'_>) -> Result {
    let client = Client::new(params.url, Some(params.token.to_owned()))?;
    let _: serde_json::Value = client.get("v1/types", &[("limit", "1".to_owned())]).await?;
    let (Some(component), Some(shop_url)) = (params.component, params.shop_url) else { return Ok(()) };
    let authority = example::authority(shop_url)?;
    let plugin: crate::client::Plugin = client.upload("v1/plugins", component.read()?).await?;
    for example in demo_shop::example_types(shop_url.trim_end_matches('/'), &authority) {
        let body = json!({ "digest": plugin.digest, "config": example.config, "grants": example.grants });
        let _: serde_json::Value = client.put(&format!("v1/types/{}", example.name), &body).await?;
    }
    Ok(())
}

struct Started {
    url: String,
    token: String,
    shop_url: Option<String>,
    defaults: bool,
}

impl Started {
    fn print(&self, out: &Out) -> Result {
        let Self { url, token, shop_url, .. } = self;
        if out.is_json() {
            return out.json_line(&json!({ "url": url, "token": token, "demo_shop": shop_url }));
        }
        out.line(format!("Lapse is ready:      {url}/#token={token}"))?;
        let Some(shop_url) = shop_url else { return Ok(()) };
        out.line(format!("The demo shop is at  {shop_url}\n"))?;
        out.line("To see an order close in ten seconds, paste these three lines into another terminal:\n")?;
        let lapse = example::program(if self.defaults { None } else { Some((url, token)) });
        for line in example::lines(&lapse, shop_url) {
            out.line(format!("  {line}"))?;
        }
        out.line("\nCtrl-C stops it.")
    }
}
