//! A decision without grants can have done nothing, and is the same each time.

use serde_json::json;

use super::host::{expiry, host, load, rights, settings, task};
use crate::support::guest::component;

#[tokio::test]
async fn a_pure_decision_is_denied_every_effect_and_says_so() {
    let plugin = load(&host(&settings()), component("hostile")).await;
    let run = plugin.decide(&expiry(&json!({"do": "http", "url": "http://shop.test:81/x"}), &json!({})));
    assert_eq!(closed_with(&run), r#""denied""#);
    assert_eq!(run.denied, ["http to shop.test:81 is not granted to on-expire"]);
    assert_eq!(run.cost.host_calls, 1);

    let run = plugin.decide(&expiry(&json!({"do": "sql"}), &json!({})));
    assert_eq!(closed_with(&run), r#""denied""#);
    assert_eq!(run.denied.len(), 1);
}

#[tokio::test]
async fn a_grant_to_one_export_is_none_to_another() {
    let plugin = load(&host(&settings()), component("hostile")).await;
    let payload = json!({"do": "http", "url": "http://127.0.0.1:9/x"});
    let run = plugin.decide_with_effects(&expiry(&payload, &json!({})), &rights(&["http:127.0.0.1:9"])).await;
    assert_eq!(closed_with(&run), r#""denied""#);
    let granted = rights(&["on-expire:http:127.0.0.1:9"]);
    let run = plugin.compensate(&task("undo", &payload, &json!({})), &granted).await;
    assert_eq!(run.result.unwrap().unwrap(), r#""denied""#);
    // Granted, and refused only by whoever is not there.
    let run = plugin.decide_with_effects(&expiry(&payload, &json!({})), &granted).await;
    assert_eq!(closed_with(&run), r#""connection""#);
}

#[tokio::test]
async fn the_same_input_to_the_same_digest_gives_the_same_decision() {
    let order = json!({"order_id": "A1", "total_amount": 1, "payment_method": "online", "items": [{"sku": "s", "quantity": 1.0}]});
    let config = json!({"inventory_url": "http://a/", "coupon_url": "http://b/"});
    let mut decisions = Vec::new();
    for _ in 0..2 {
        let plugin = load(&host(&settings()), component("order-timeout")).await;
        for _ in 0..3 {
            decisions.push(format!("{:?}", plugin.decide(&expiry(&order, &config)).result.unwrap()));
        }
    }
    assert!(decisions.iter().all(|d| *d == decisions[0]), "{decisions:?}");
}

#[tokio::test]
async fn nothing_is_kept_from_one_call_to_the_next() {
    let plugin = load(&host(&settings()), component("hostile")).await;
    for _ in 0..3 {
        assert_eq!(closed_with(&plugin.decide(&expiry(&json!({"do": "memory"}), &json!({})))), "1");
    }
}

pub fn closed_with(run: &lapse::plugin::Run<lapse::domain::decision::Decision>) -> String {
    use lapse::domain::decision::Verdict;
    match run.result.as_ref().map(|d| &d.verdict) {
        Ok(Verdict::Close { result: Some(result) }) => result.clone(),
        other => panic!("{other:?}"),
    }
}
