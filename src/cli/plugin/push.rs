//! `lapse plugin push` and `list`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::{
    client::{Client, Page, Plugin as Row, TimerType, segment},
    domain::{plugin::Grant, time::DurationMs},
};

use super::{
    super::{
        connect::Connect,
        output::{Table, bytes},
        timer::pages,
        types,
    },
    Out, Result, component, read, settings,
};

#[derive(Args)]
#[command(
    about = "Upload a component, and make or change a timer type with it",
    long_about = "Uploads a component and, with --type, makes a timer type of it, or a new revision of one, which serves \
                  at once. Pushing the same again changes nothing.",
    after_help = "Examples:\n  \
        lapse plugin push --type my-type   the plugin in this folder, built\n  \
        lapse plugin push my.wasm --type my-type\n  \
        lapse plugin push plugins/dist/order-timeout.wasm --type order-timeout \\\n      \
            --config inventory_url=http://127.0.0.1:8081/inventory/release \\\n      \
            --config coupon_url=http://127.0.0.1:8081/coupons/return \\\n      \
            --grant http:127.0.0.1:8081"
)]
pub struct Push {
    /// The component, or the folder of a plugin, which is built
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// The timer type; without it the plugin is only uploaded
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    timer_type: Option<String>,
    /// A setting of the type; a value that is JSON is taken as such, anything else as text. May be given more than once
    #[arg(long, short = 'c', value_name = "NAME=VALUE", requires = "timer_type")]
    config: Vec<String>,
    /// A right of the type: [EXPORT:]http:HOST[:PORT], [EXPORT:]sql:NAME or [EXPORT:]secret:NAME, where EXPORT is compensate (the default) or on-expire. May be
    /// given more than once
    #[arg(long, short = 'g', value_name = "GRANT", requires = "timer_type")]
    grant: Vec<Grant>,
    /// Due so long after registration, where that does not say [default: the plugin's]
    #[arg(long, value_name = "DURATION", requires = "timer_type")]
    default_delay: Option<DurationMs>,
    /// Expiries of the type that run at once
    #[arg(long, value_name = "N", requires = "timer_type")]
    concurrency: Option<u32>,
    /// Expiries of the type that are started in a second
    #[arg(long, value_name = "N", requires = "timer_type")]
    rate: Option<u32>,
    #[command(flatten)]
    connect: Connect,
}

impl Push {
    pub async fn run(self, out: &Out) -> Result {
        let config = settings(&self.config)?;
        let bytes = read(&component(&self.path).await?)?;
        let client = self.connect.client()?;
        let plugin: Row = client.upload("v1/plugins", bytes).await?;
        let Some(timer_type) = &self.timer_type else { return out.show(&plugin, describe) };
        let row = self.put(&client, timer_type, &plugin, config).await?;
        out.show(&row, |row| types::describe(row) + &warning(row))
    }

    async fn put(&self, client: &Client, name: &str, plugin: &Row, config: Map<String, Value>) -> Result<TimerType> {
        let mut body = json!({ "digest": plugin.digest, "config": config, "grants": self.grant });
        if let Some(delay) = self.default_delay {
            body["default_delay"] = json!(delay);
        }
        if let Some(n) = self.concurrency {
            body["concurrency"] = n.into();
        }
        if let Some(n) = self.rate {
            body["rate"] = n.into();
        }
        Ok(client.put(&format!("v1/types/{}", segment(name)), &body).await?)
    }
}

/// What the type is granted, and will be refused all the same.
fn warning(row: &TimerType) -> String {
    let refused: Vec<_> = types::revoked(row).into_iter().filter(|r| row.grants.iter().any(|g| g == r)).collect();
    if refused.is_empty() {
        return String::new();
    }
    let (refused, name) = (refused.join(" "), &row.name);
    format!("revoked, and so refused: {refused}; `lapse type restore {name} {refused}` gives them back\n")
}

fn describe(plugin: &Row) -> String {
    let compiled = plugin.compile_ms.map(|ms| format!(", compiled in {ms} ms")).unwrap_or_default();
    let name = plugin.manifest.get("name").and_then(Value::as_str).unwrap_or_default();
    let version = plugin.manifest.get("version").and_then(Value::as_str).unwrap_or_default();
    format!("{}\n{name} {version}, {}{compiled}\n", plugin.digest, bytes(plugin.size))
}

#[derive(Args)]
#[command(after_help = "Examples:\n  lapse plugin list")]
pub struct List {
    #[command(flatten)]
    connect: Connect,
}

/// The most plugins that are listed.
const MAX_PLUGINS: usize = 10_000;

impl List {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        let page: Page<Row> = pages(&client, "v1/plugins", &[], None, MAX_PLUGINS).await?;
        out.show(&page, |page| {
            let mut table = Table::new(["digest", "name", "version", "size", "imports"]);
            for p in &page.items {
                let text = |name: &str| p.manifest.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                table.row([p.digest.clone(), text("name"), text("version"), bytes(p.size), p.imports.join(" ")]);
            }
            table.or("no plugins; `lapse plugin push FILE` uploads one")
        })
    }
}
