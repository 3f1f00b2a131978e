//! The order-timeout plugin: what it decides, and what it does to give an order's parts back.

use lapse::{domain::decision::Verdict, plugin::Host as _};
use serde_json::{Value, json};

use super::host::{expiry, host, load, settings};
use crate::support::guest::component;

fn order() -> Value {
    json!({
        "order_id": "A17",
        "user_id": "u-1",
        "total_amount": 12900,
        "payment_method": "mixed",
        "wallet_payment_amount": 2900,
        "items": [{"sku": "tea", "quantity": 2}, {"sku": "cup", "quantity": 1}],
        "coupon_ids": ["c-9"],
    })
}

fn config() -> Value {
    json!({"inventory_url": "http://shop.test/inventory/release", "coupon_url": "http://shop.test/coupons/return"})
}

#[tokio::test]
async fn describes_itself() {
    let inspection = host(&settings()).inspect(component("order-timeout")).await.unwrap();
    assert_eq!(inspection.manifest.name.as_str(), "order-timeout");
    assert_eq!(inspection.manifest.default_delay.unwrap().to_string(), "30m");
    assert_eq!(inspection.imports, ["lapse:plugin/http@1.0.0", "lapse:plugin/log@1.0.0"]);
}

#[tokio::test]
async fn closes_with_a_compensation_for_each_item_and_coupon() {
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    let run = plugin.decide(&expiry(&order(), &config()));
    let decision = run.result.unwrap();
    let Verdict::Close { result: Some(result) } = &decision.verdict else { panic!("{decision:?}") };
    assert_eq!(result, r#"{"checked":false,"order_id":"A17"}"#);
    let made: Vec<_> = decision.effects.compensations.iter().map(|c| (c.kind.as_str(), c.payload.as_str())).collect();
    assert_eq!(
        made,
        [
            ("release_inventory", r#"{"order_id":"A17","sku":"tea","quantity":2}"#),
            ("release_inventory", r#"{"order_id":"A17","sku":"cup","quantity":1}"#),
            ("return_coupon", r#"{"order_id":"A17","coupon_id":"c-9"}"#),
        ]
    );
    assert!(run.denied.is_empty() && run.cost.host_calls == 0 && run.cost.memory_bytes > 0);
}
