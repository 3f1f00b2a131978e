//! The order-timeout plugin: what it decides, and what it does to give an order's parts back.

use axum::http::{HeaderMap, StatusCode};
use lapse::{
    domain::{
        decision::{Decision, Failure, FailureClass, Verdict},
        time::DurationMs,
    },
    plugin::Host as _,
    schema::Schema,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings, task},
    server::{Asked, Server},
};
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

#[tokio::test]
async fn its_schemas_are_strict() {
    let manifest = host(&settings()).inspect(component("order-timeout")).await.unwrap().manifest;
    let schema = Schema::compile(&manifest.payload_schema).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut order = order();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        order.pointer_mut(parent).unwrap()[name] = value;
        order
    };
    for fits in [
        order(),
        with("/total_amount", json!(0)),
        with("/order_id", json!("订单/№ 1 ?")),
        with("/coupon_ids", json!([])),
    ] {
        assert_eq!(schema.check(&fits, ""), Ok(()));
    }
    let online = json!({"order_id": "A", "user_id": "u", "total_amount": 5, "payment_method": "online", "items": [{"sku": "s", "quantity": 1}]});
    assert_eq!(schema.check(&online, ""), Ok(()));
    for (pointer, value) in [
        ("/total_amount", json!(-1)),
        ("/total_amount", json!(12.5)),
        ("/total_amount", json!("12")),
        ("/payment_method", json!("cash")),
        ("/wallet_payment_amount", json!(0)),
        ("/order_id", json!(17)),
        ("/order_id", json!("")),
        ("/items", json!([])),
        ("/items/0/quantity", json!(0)),
        ("/coupon_ids", json!(["a", "a"])),
    ] {
        let faults = schema.check(&with(pointer, value.clone()), "").unwrap_err();
        assert_eq!(faults[0].pointer, pointer, "{value}");
    }
    assert!(schema.check(&with("/colour", json!("red")), "").is_err());
    assert!(
        schema.check(&with("/payment_method", json!("online")), "").is_err(),
        "online freezes nothing in the wallet"
    );

    let schema = Schema::compile(&manifest.config_schema.unwrap()).unwrap();
    assert_eq!(schema.check(&config(), ""), Ok(()));
    assert!(schema.check(&json!({"inventory_url": "http://a/"}), "").is_err());
    assert!(schema.check(&json!({"inventory_url": "a", "coupon_url": "http://a/"}), "").is_err());
}

#[tokio::test]
async fn amounts_that_do_not_go_together_are_for_a_person() {
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    for (method, frozen) in [("mixed", 12901), ("wallet", 12899)] {
        let mut order = order();
        order["payment_method"] = json!(method);
        order["wallet_payment_amount"] = json!(frozen);
        let failure = plugin.decide(&expiry(&order, &config())).result.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "amounts_invalid"));
    }
}

/// Decides with an `order_url`, against a service that always answers so.
async fn checked(status: u16, retry_after: Option<&'static str>) -> (Result<Decision, Failure>, Asked) {
    let server = Server::start(move |_| answer(status, retry_after)).await;
    let mut config = config();
    config["order_url"] = json!(server.url("/orders/"));
    let mut order = order();
    order["order_id"] = json!("a/../b?c é");
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    let rights = rights(&[&format!("on-expire:{}", server.grant())]);
    let run = plugin.decide_with_effects(&expiry(&order, &config), &rights).await;
    (run.result, server.asked().remove(0))
}

fn answer(status: u16, retry_after: Option<&'static str>) -> (StatusCode, HeaderMap) {
    let mut headers = HeaderMap::new();
    if let Some(value) = retry_after {
        headers.insert("retry-after", value.parse().unwrap());
    }
    (StatusCode::from_u16(status).unwrap(), headers)
}

#[tokio::test]
async fn a_conditional_close_asks_the_order_service() {
    let (decision, asked) = checked(200, None).await;
    let decision = decision.unwrap();
    assert!(matches!(&decision.verdict, Verdict::Close { result: Some(r) } if r.contains(r#""checked":true"#)));
    assert_eq!(decision.effects.compensations.len(), 3);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/orders/a%2F..%2Fb%3Fc%20%C3%A9/close"));
    assert_eq!(asked.body, r#"{"expected_state":"unpaid"}"#);
    assert_eq!(asked.header("idempotency-key"), Some("0197-key"));

    let decision = checked(409, None).await.0.unwrap();
    assert!(matches!(decision.verdict, Verdict::Skip { .. }) && decision.effects.compensations.is_empty());
}

#[rstest]
#[case(404, None, FailureClass::Permanent, None)]
#[case(400, None, FailureClass::Permanent, None)]
#[case(302, None, FailureClass::Permanent, None)]
#[case(429, Some("7"), FailureClass::Downstream, Some(7000))]
#[case(503, Some("Sun, 01 Mar 2026 12:30:30 GMT"), FailureClass::Downstream, Some(29_996))]
#[case(500, Some("soon"), FailureClass::Downstream, None)]
#[tokio::test]
async fn what_the_order_service_answers_is_classified(
    #[case] status: u16,
    #[case] retry_after: Option<&'static str>,
    #[case] class: FailureClass,
    #[case] wait_ms: Option<u64>,
) {
    let failure = checked(status, retry_after).await.0.unwrap_err();
    assert_eq!((failure.class, failure.retry_after.map(DurationMs::as_millis)), (class, wait_ms), "{failure:?}");
}

#[tokio::test]
async fn an_order_service_that_is_away_or_not_granted() {
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    let mut config = config();
    config["order_url"] = json!("http://127.0.0.1:9/orders");
    let expiry = expiry(&order(), &config);
    let away = plugin.decide_with_effects(&expiry, &rights(&["on-expire:http:127.0.0.1:9"])).await;
    let failure = away.result.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Downstream, "http_connection"));
    let failure = plugin.decide(&expiry).result.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "http_denied"));
}

#[rstest]
#[case(200, None)]
#[case(204, None)]
#[case(409, Some(FailureClass::Conflict))]
#[case(404, Some(FailureClass::Permanent))]
#[case(429, Some(FailureClass::Downstream))]
#[case(500, Some(FailureClass::Downstream))]
#[tokio::test]
async fn compensations_post_what_was_decided(#[case] status: u16, #[case] class: Option<FailureClass>) {
    let server = Server::start(move |_| answer(status, Some("3"))).await;
    let config =
        json!({"inventory_url": server.url("/inventory/release"), "coupon_url": server.url("/coupons/return")});
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    let granted = rights(&[&server.grant()]);
    let made = plugin.decide(&expiry(&order(), &config)).result.unwrap().effects.compensations;
    for spec in &made {
        let payload = serde_json::from_str(&spec.payload).unwrap();
        let run = plugin.compensate(&task(spec.kind.as_str(), &payload, &config), &granted).await;
        assert_eq!(run.result.as_ref().err().map(|f| f.class), class, "{run:?}");
        let wait = run.result.err().and_then(|f| f.retry_after).map(DurationMs::as_millis);
        assert_eq!(wait, (class == Some(FailureClass::Downstream)).then_some(3000));
    }
    let asked = server.asked();
    assert_eq!(
        asked.iter().map(|a| a.path.as_str()).collect::<Vec<_>>(),
        ["/inventory/release", "/inventory/release", "/coupons/return"]
    );
    assert_eq!(
        serde_json::from_str::<Value>(&asked[0].body).unwrap(),
        json!({"order_id": "A17", "sku": "tea", "quantity": 2})
    );
    assert_eq!(asked[2].header("idempotency-key"), Some("0198-key"));
}
