//! Uploads and dry runs of real components, over the real host.

use lapse::{
    breaker::Breakers,
    config::Config,
    plugin::{HostParams, WasmHost},
    schema::Schema,
};
use serde_json::{Value, json};

use crate::support::{
    app::{AppOptions, TestApp},
    guest,
};

async fn app() -> TestApp {
    let mut settings = Config::default().plugin;
    settings.cpu = "200ms".parse().unwrap();
    let check_schema = |schema: &Value| Schema::compile(schema).map(drop);
    let host = WasmHost::new(&settings, HostParams { breakers: Breakers::off(), cache: None, check_schema }).unwrap();
    TestApp::start_with(AppOptions { max_component_bytes: 8 * 1024 * 1024, ..AppOptions::default() }, host).await
}

async fn push(app: &TestApp, name: &str, body: Value) -> Value {
    let upload = app.post("/v1/plugins").octets(guest::component(name).to_vec()).send().await;
    assert_eq!(upload.status, 201, "{upload:?}");
    let mut body = body;
    body["digest"] = upload.json["digest"].clone();
    let put = app.put(&format!("/v1/types/{name}")).json(&body).send().await;
    assert_eq!(put.status, 201, "{put:?}");
    put.json
}

#[tokio::test]
async fn an_order_timeout_is_uploaded_granted_checked_and_tried_out() {
    let app = app().await;
    let upload = app.post("/v1/plugins").octets(guest::component("order-timeout").to_vec()).send().await;
    let config = json!({ "inventory_url": "http://127.0.0.1:1/inventory", "coupon_url": "http://127.0.0.1:1/coupons" });
    let body = json!({ "digest": upload.json["digest"], "config": config });
    let ungranted = app.put("/v1/types/order-timeout").json(&body).send().await;
    assert_eq!(ungranted.says(), (422, "grant_missing"), "{ungranted:?}");
    let body = json!({ "digest": upload.json["digest"], "config": config, "grants": ["http:127.0.0.1:1"] });
    let put = app.put("/v1/types/order-timeout").json(&body).send().await;
    assert_eq!(
        (put.status.as_u16(), &put.json["pure"], &put.json["default_delay"]),
        (201, &json!(true), &json!("30m")),
        "{put:?}"
    );

    let order = json!({
        "order_id": "A17", "user_id": "u1", "total_amount": 1200, "payment_method": "online", "wallet_payment_amount": 0,
        "items": [{ "sku": "S1", "quantity": 2 }, { "sku": "S2", "quantity": 1 }], "coupon_ids": ["C1"]
    });
    let dry_run = json!({ "key": "A17", "payload": order, "due_at": "2026-03-01T12:30:00Z" });
    let run = || app.post("/v1/types/order-timeout/dry-run").key("publisher").json(&dry_run).send();
    let first = run().await;
    assert_eq!(first.status, 200, "{first:?}");
    let kinds: Vec<_> =
        first.json["decision"]["compensations"].as_array().unwrap().iter().map(|c| &c["kind"]).collect();
    assert_eq!(kinds, ["release_inventory", "release_inventory", "return_coupon"]);
    assert!(first.json["memory_bytes"].as_u64().unwrap() > 0);
    assert_eq!(run().await.json["decision"], first.json["decision"], "the same request, the same decision");

    let wrong = json!({ "type": "order-timeout", "key": "B", "payload": { "order_id": "B", "items": [{ "sku": "S1", "quantity": -1 }] } });
    let refused = app.post("/v1/timers").json(&wrong).send().await;
    assert_eq!(refused.says(), (422, "payload_invalid"));
    assert!(refused.pointers().contains(&"/payload/items/0/quantity"), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_component_is_refused_and_a_hostile_one_does_no_harm() {
    let app = app().await;
    let whole = guest::component("order-timeout");
    let core_module = wat::parse_str("(module)").unwrap();
    let other_world = wat::parse_str("(component)").unwrap();
    for (what, bytes) in [
        ("text", b"hello".to_vec()),
        ("a core module", core_module),
        ("another world", other_world),
        ("broken off", whole[..whole.len() / 2].to_vec()),
    ] {
        let reply = app.post("/v1/plugins").octets(bytes).send().await;
        assert_eq!(reply.says(), (422, "plugin_invalid"), "{what}: {reply:?}");
    }
    let large = app.post("/v1/plugins").octets(vec![0; 9 * 1024 * 1024]).send().await;
    assert_eq!(large.says(), (413, "plugin_over_limit"));

    push(&app, "hostile", json!({})).await;
    for act in ["loop", "memory_bomb", "recursion", "panic"] {
        let body = json!({ "key": "A", "payload": { "do": act } });
        let reply = app.post("/v1/types/hostile/dry-run").json(&body).send().await;
        assert_eq!(reply.status, 200, "{act}: {reply:?}");
        assert!(reply.json["failure"]["class"].is_string() && reply.json.get("decision").is_none(), "{act}: {reply:?}");
    }
    let body = json!({ "key": "A", "payload": { "do": "close" } });
    assert_eq!(app.post("/v1/types/hostile/dry-run").json(&body).send().await.json["decision"]["outcome"], "close");
}
