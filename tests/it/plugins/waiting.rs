//! What a whole node says of timers that wait: for their type's lane, for its rate, for a downstream that is away. In
//! `api/explain.rs` these facts are given; here the engine itself has them.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    node::{self, Api},
    server::{drip, raw},
};
use crate::support::guest::component;

const PATIENCE: Duration = Duration::from_mins(1);

/// A timer of the type that is due now, with a key of its own.
async fn due(api: &Api, of: &str) -> String {
    let key = uuid::Uuid::now_v7().to_string();
    let payload = json!({
        "order_id": key, "user_id": "u1", "total_amount": 100, "payment_method": "online",
        "items": [{ "sku": "S1", "quantity": 1 }]
    });
    let timer = json!({ "type": of, "key": key, "payload": payload, "delay": "0s" });
    let (status, timer) = api.call(Method::POST, "/v1/timers", Some(timer)).await;
    assert!(status.is_success(), "{timer}");
    timer["id"].as_str().unwrap().to_owned()
}

/// Registers timers of the type until one of them waits for this, and gives what is said of that one. A state that passes
/// within seconds may be missed on a busy machine, and comes again with the next.
async fn waits_for(api: &Api, of: &str, code: &str) -> Value {
    let began = Instant::now();
    let mut all = Vec::new();
    let mut last = Value::Null;
    while began.elapsed() < PATIENCE {
        if all.len() < 200 {
            all.push(due(api, of).await);
        }
        for id in all.iter().rev().take(5) {
            let (_, explained) = api.call(Method::GET, &format!("/v1/timers/{id}/explain"), None).await;
            if explained["code"] == code {
                return explained;
            }
            last = explained;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("none waits for {code}; the last: {last}");
}

fn check<'a>(explained: &'a Value, code: &str) -> &'a Value {
    explained["checks"].as_array().unwrap().iter().find(|c| c["code"] == code).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_what_holds_its_timers_up() {
    let (silent, task) = raw(drip).await;
    let folder = tempfile::tempdir().unwrap();
    let (node, api) = node::start(folder.path(), None, |config| {
        config.breaker.failures = 2;
        config.plugin.http_timeout = "3s".parse().unwrap();
    })
    .await;
    let digest = api.upload(component("order-timeout").to_vec()).await;
    let put = async |name: &str, host: &str, more: Value| {
        let url = |path: &str| format!("http://{host}/{path}");
        let mut body = json!({
            "digest": digest,
            "config": { "inventory_url": url("stock"), "coupon_url": url("coupons"), "order_url": url("orders") },
            "grants": [format!("on-expire:http:{host}"), format!("http:{host}")],
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, answer) = api.call(Method::PUT, &format!("/v1/types/{name}"), Some(body)).await;
        assert!(status.is_success(), "{answer}");
    };

    // One at a time, and the one that runs is never answered to its end.
    put("narrow", &silent.to_string(), json!({ "concurrency": 1 })).await;
    let held = waits_for(&api, "narrow", "claimed").await;
    assert_eq!(held["state"], "firing");
    assert_eq!(check(&held, "claimed")["evidence"]["node"], held["node_id"]);
    let full = waits_for(&api, "narrow", "lane_full").await;
    let evidence = &check(&full, "lane_full")["evidence"];
    assert_eq!((&evidence["running"], &evidence["width"]), (&json!(1), &json!(1)), "{full}");

    // It decides by itself, and once a second.
    let quiet = json!({ "inventory_url": "http://127.0.0.1:1/", "coupon_url": "http://127.0.0.1:1/" });
    put("slow", "127.0.0.1:1", json!({ "rate": 1, "config": quiet })).await;
    let limited = waits_for(&api, "slow", "rate_limited").await;
    assert_eq!(check(&limited, "rate_limited")["evidence"], json!({ "rate": 1 }));

    // Nothing listens there.
    put("away", "127.0.0.1:1", json!({})).await;
    let retrying = waits_for(&api, "away", "breaker_open").await;
    assert_eq!(check(&retrying, "breaker_open")["evidence"]["host"], "127.0.0.1:1", "{retrying}");

    drop(api);
    node.stop().await;
    task.abort();
}
