//! The shipping SLA, in TypeScript: warned at 80% of the term, made good at its end, unless it was shipped.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::server::Server;
use crate::support::dev::{Dev, DevOptions, eventually};

/// The time to ship, made short: four seconds to the warning, and one more.
const TERM: &str = "5s";
const WARN_AFTER: &str = "4s";

struct Bed {
    dev: Dev,
    shop: Server,
    _folder: tempfile::TempDir,
}

impl Bed {
    /// A server with the plugin pushed, and a service that records what it is told.
    async fn start(action: &[&str]) -> Self {
        let shop = Server::start(|_| StatusCode::NO_CONTENT).await;
        let folder = tempfile::tempdir().unwrap();
        let dev = Dev::start(DevOptions {
            folder: folder.path().to_owned(),
            args: vec!["--no-demo".into()],
            env: vec![("LAPSE_PLUGIN__COMPILE_TIMEOUT".into(), "10m".into())],
            ..DevOptions::default()
        });
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/plugins/dist/shipping-sla.wasm");
        let mut push: Vec<String> = ["plugin", "push", file, "--type", "shipping-sla"].map(Into::into).into();
        let urls = ["notice", "refund", "penalty"].map(|what| format!("{what}_url={}", shop.url(&format!("/{what}"))));
        let settings = urls.into_iter().chain([format!("term={TERM}")]).chain(action.iter().map(ToString::to_string));
        push.extend(settings.flat_map(|setting| ["--config".to_owned(), setting]));
        push.extend(["--default-delay", WARN_AFTER, "--grant", &shop.grant()].map(Into::into));
        dev.json(&push.iter().map(String::as_str).collect::<Vec<_>>());
        Self { dev, shop, _folder: folder }
    }

    fn register(&self, key: &str, amount: u64) {
        let payload = json!({"order_id": key, "merchant_id": "m-1", "amount": amount}).to_string();
        self.dev.json(&["timer", "register", "--type", "shipping-sla", "--key", key, "--payload", &payload]);
    }

    fn state(&self, key: &str) -> Option<String> {
        let found = self.dev.json(&["timer", "list", "--type", "shipping-sla", "--key", key]);
        found["items"][0]["state"].as_str().map(str::to_owned)
    }

    /// What the service was told of an order, and where.
    fn told(&self, order: &str) -> Vec<(String, Value)> {
        let asked = self.shop.asked().into_iter();
        asked
            .map(|asked| (asked.path, serde_json::from_str::<Value>(&asked.body).unwrap()))
            .filter(|(_, body)| body["order_id"] == order)
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_warns_then_refunds_and_neither_once_it_is_shipped() {
    let bed = Bed::start(&["action=refund"]).await;
    let began = Instant::now();
    bed.register("late", 12_900);
    bed.register("shipped", 1);
    bed.register("just", 1);
    let shipped = |key: &str| {
        for key in [key.to_owned(), format!("{key}:breach")] {
            // What is settled already stays so.
            bed.dev.run(&["timer", "resolve", "--type", "shipping-sla", "--key", &key, "--remember"]);
        }
    };
    shipped("shipped");
    eventually("it has warned", || bed.state("just").as_deref() == Some("closed"));
    assert!(began.elapsed() >= Duration::from_secs(4), "not before 80% of the term");
    shipped("just");
    eventually("it has refunded", || bed.told("late").len() == 2);
    assert!(began.elapsed() >= Duration::from_secs(5), "not before the end of the term");
    let paths = |key: &str| bed.told(key).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(paths("late"), ["/notice", "/refund"]);
    assert_eq!(bed.told("late")[1].1, json!({"order_id": "late", "merchant_id": "m-1", "amount": 12_900}));
    // Shipped before the warning, and between it and the end of the term.
    assert_eq!(
        (bed.state("shipped").as_deref(), bed.state("shipped:breach").as_deref()),
        (Some("resolved"), Some("resolved"))
    );
    assert_eq!((bed.state("just").as_deref(), bed.state("just:breach").as_deref()), (Some("closed"), Some("resolved")));
    assert_eq!((paths("shipped"), paths("just")), (vec![], vec!["/notice".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_penalty_is_a_share_of_the_amount() {
    let bed = Bed::start(&["action=penalty", "penalty_percent=2.5"]).await;
    bed.register("late", 12_999);
    eventually("it has fined", || bed.told("late").len() == 2);
    let (path, body) = bed.told("late").remove(1);
    assert_eq!((path.as_str(), &body["amount"]), ("/penalty", &json!(324)));
}
