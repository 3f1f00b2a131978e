//! `lapse demo-shop`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use serde_json::json;

use crate::demo_shop::{self, Options, Shop};

use super::{Result, error::Error, output::Out, signals::Stop};

#[derive(Args)]
#[command(
    about = "Run the demo shop alone: a tiny order, inventory and coupon service",
    long_about = "Runs the demo shop that `lapse dev` starts, alone: orders that close by compare-and-set, an inventory \
                  and coupons, idempotent by Idempotency-Key. GET / lists its calls.",
    after_help = "Examples:\n  \
        lapse demo-shop\n  \
        lapse demo-shop --listen 127.0.0.1:9000 --journal shop.journal\n  \
        lapse dev --shop-url http://127.0.0.1:9000"
)]
pub struct DemoShop {
    /// Where it listens; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// A file that keeps its records over a restart, or a kill
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

impl DemoShop {
    pub async fn run(self, out: &Out) -> Result {
        let stop = Stop::listen()?;
        let shop = Shop::start(Options { listen: self.listen, journal: self.journal }).await.map_err(explain)?;
        let url = format!("http://{}", shop.address());
        if out.is_json() {
            out.json_line(&json!({ "demo_shop": url }))?;
        } else {
            out.line(format!("The demo shop listens on {url}"))?;
        }
        stop.told().await;
        shop.stop().await;
        Ok(())
    }
}

/// Why a shop does not start, and what to do about it.
pub fn explain(error: demo_shop::Error) -> Error {
    let hint = match &error {
        demo_shop::Error::Listen { .. } => "give it another address, or port 0 for any that is free",
        demo_shop::Error::InUse(_) => "stop the process that uses it, or give another file",
        demo_shop::Error::Journal { .. } => "give a file that this user may write",
        demo_shop::Error::Corrupt { .. } => "move the file away to begin with empty books",
    };
    Error::hinted(error.to_string(), hint)
}
