//! Plugins on a whole node: what bad ones come to is written down and harms nobody else, and what all of them cost, and
//! which of their downstreams are away, is there to be seen.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    node::{self, Api},
    server::Server,
};
use crate::support::guest::component;

const PATIENCE: Duration = Duration::from_mins(1);

async fn put(api: &Api, plugin: &str, config: Value, grants: &[String]) -> Value {
    let digest = api.upload(component(plugin).to_vec()).await;
    let retry = json!({ "attempts": 1, "initial": "1s", "max": "1s" });
    let body = json!({ "digest": digest, "config": config, "grants": grants, "retry": retry });
    let (status, answer) = api.call(Method::PUT, &format!("/v1/types/{plugin}"), Some(body)).await;
    assert!(status.is_success(), "{answer}");
    digest
}

async fn register(api: &Api, timers: Vec<Value>) {
    let count = timers.len();
    let (_, answer) = api.call(Method::POST, "/v1/timers/batch", Some(json!({ "timers": timers }))).await;
    let made = answer["results"].as_array().unwrap().iter().filter(|r| r["status"] == 201).count();
    assert_eq!(made, count, "{answer}");
}

fn order(n: usize) -> Value {
    let payload = json!({
        "order_id": format!("o-{n}"), "user_id": "u1", "total_amount": 100, "payment_method": "online",
        "items": [{ "sku": "tea", "quantity": 1 }], "coupon_ids": ["c-1"],
    });
    json!({ "type": "order-timeout", "key": format!("o-{n}"), "payload": payload, "delay": format!("{}ms", n * 10) })
}

/// Asks until what is answered will do.
async fn until(api: &Api, path: &str, will_do: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let (_, answer) = api.call(Method::GET, path, None).await;
        if will_do(&answer) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{path}: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hostile_ones_come_to_is_audited_and_the_others_close() {
    const ORDERS: usize = 100;
    const TIMES: usize = 3;
    let deeds = [
        ("loop", "transient", "timeout"),
        ("memory_bomb", "permanent", "out_of_memory"),
        ("recursion", "permanent", "stack_overflow"),
        ("huge", "permanent", "output_too_large"),
        ("panic", "permanent", "panic"),
        ("wild_read", "permanent", "trap"),
        ("bad_json", "permanent", "contract"),
        ("skip_with_effects", "permanent", "contract"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let (app, api) = node::start(folder.path(), None, |config| {
        config.plugin.cpu = "100ms".parse().unwrap();
        config.dispatch.pause_failed_share = 0.0;
    })
    .await;
    let nowhere = json!({ "inventory_url": "http://127.0.0.1:9/", "coupon_url": "http://127.0.0.1:9/" });
    put(&api, "order-timeout", nowhere, &["http:127.0.0.1:9".to_owned()]).await;
    let digest = put(&api, "hostile", json!({}), &[]).await;
    let hostile = |key: &str, deed: &str| {
        let payload = json!({ "do": deed, "bytes": 50_000_000 });
        json!({ "type": "hostile", "key": key, "payload": payload, "delay": "200ms" })
    };
    let keys: Vec<_> = (0..TIMES).flat_map(|n| deeds.map(|deed| (format!("{}-{n}", deed.0), deed))).collect();
    register(&api, keys.iter().map(|(key, deed)| hostile(key, deed.0)).collect()).await;
    register(&api, (0..ORDERS).map(order).collect()).await;

    let closed = |page: &Value| page["items"].as_array().unwrap().len() == ORDERS;
    until(&api, "/v1/timers?type=order-timeout&state=closed&limit=500", closed).await;
    for (key, (_, class, code)) in &keys {
        let is_settled = |timer: &Value| timer.get("settled_at").is_some();
        let timer = until(&api, &format!("/v1/types/hostile/timers/{key}"), is_settled).await;
        let failure = &timer["outcome"]["failure"];
        assert_eq!(
            (&timer["state"], &failure["class"], &failure["code"]),
            (&json!("failed"), &json!(class), &json!(code)),
            "{timer}"
        );
        let path = format!("/v1/timers/{}/events", timer["id"].as_str().unwrap());
        let (_, events) = api.call(Method::GET, &path, None).await;
        let last = events["items"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["kind"], &last["digest"]), (&json!("failed"), &digest), "{events}");
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_plugins_cost_and_which_downstream_is_away_is_seen() {
    const ORDERS: usize = 6;
    let (inventory, coupons) = (Server::start(|_| StatusCode::BAD_GATEWAY).await, Server::start(|_| "{}").await);
    let folder = tempfile::tempdir().unwrap();
    let (app, api) = node::start(folder.path(), None, |config| {
        config.breaker.failures = 3;
        config.compensation.initial = "20ms".parse().unwrap();
    })
    .await;
    let config = json!({ "inventory_url": inventory.url("/"), "coupon_url": coupons.url("/") });
    put(&api, "order-timeout", config, &[inventory.grant(), coupons.grant()]).await;
    register(&api, (0..ORDERS).map(order).collect()).await;
    let all = |page: &Value| page["items"].as_array().unwrap().len() == ORDERS;
    until(&api, "/v1/compensations?kind=return_coupon&state=done", all).await;
    let stats = until(&api, "/v1/stats", |stats| !stats["breakers"].as_array().unwrap().is_empty()).await;
    let away = inventory.address.to_string();
    assert_eq!(
        (&stats["breakers"][0]["host"], &stats["breakers"][0]["state"]),
        (&json!(away), &json!("open")),
        "{stats}"
    );

    let (_, costs) = api.call(Method::GET, "/v1/types/order-timeout/costs", None).await;
    let of = |export: &str| costs["items"].as_array().unwrap().iter().find(|c| c["export"] == export).unwrap();
    let (decided, carried_out) = (of("on-expire"), of("compensate"));
    assert_eq!((&decided["revision"], &decided["calls"]), (&json!(1), &json!(ORDERS)));
    assert_eq!(decided["host_calls"], json!({ "http": 0, "sql": 0 }));
    let number = |value: &Value| value.as_u64().unwrap();
    for cost in [decided, carried_out] {
        assert!(number(&cost["cpu_us"]["p50"]) > 0 && number(&cost["memory_bytes_peak"]) > 0, "{cost}");
    }
    let asked = inventory.asked().len() + coupons.asked().len();
    assert!(number(&carried_out["host_calls"]["http"]) >= asked as u64, "{carried_out}, {asked} requests");

    let metrics = reqwest::get(format!("{}/metrics", api.base)).await.unwrap().text().await.unwrap();
    let shows = |name: &str, labels: &[&str]| {
        let mut lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let line = lines.find(|line| labels.iter().all(|label| line.contains(label)));
        line.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
    };
    assert_eq!(shows("lapse_breaker_state", &[&format!("host=\"{away}\"")]), Some(3.0));
    let expiries = ["type=\"order-timeout\"", "revision=\"1\"", "export=\"on-expire\""];
    assert_eq!(shows("lapse_plugin_cpu_seconds_count", &expiries), Some(6.0));
    assert!(shows("lapse_plugin_memory_peak_bytes", &expiries).is_some_and(|bytes| bytes > 0.0));
    let requests = ["type=\"order-timeout\"", "export=\"compensate\"", "capability=\"http\""];
    assert!(shows("lapse_plugin_host_calls_total", &requests).is_some_and(|calls| calls >= 6.0));
    app.stop().await;
}
