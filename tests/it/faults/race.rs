//! Resolve against expire, in the same few milliseconds.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rand::RngExt as _;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{
    ledger::{self, Api, Promise},
    rounds, seeded,
};
use crate::support::dev::{Dev, DevOptions};

/// How far from the due time a resolve may be sent, in milliseconds.
const WINDOW_MS: i64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_resolve_and_expire_wins() {
    let mut random = seeded();
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    let api = Api::of(&dev);
    let count = rounds(2000, 20_000);
    let mut promises = Vec::new();
    // Spread so that the machine can send each resolve within its window.
    for (nth, kind) in ["order-timeout", "order-timeout-checked"].into_iter().cycle().take(count).enumerate() {
        let key = format!("race-{nth}");
        if kind == "order-timeout-checked" {
            api.place_order(&key).await;
        }
        promises.push(Promise { key, timer_type: kind, due_at_ms: 0, compensations: 1, resolve: None });
    }
    let start = ledger::now_ms() + 3000;
    for (promise, nth) in promises.iter_mut().zip(0..) {
        promise.due_at_ms = start + nth * 4;
    }
    register(&api, &promises).await;
    let jobs = promises.into_iter().map(|promise| {
        let api = api.clone();
        let at = promise.due_at_ms + random.random_range(-WINDOW_MS..=WINDOW_MS);
        async move { resolve_at(&api, promise, at).await }
    });
    let promises: Vec<Promise> = stream::iter(jobs).buffer_unordered(count).collect().await;
    api.settle_down(Duration::from_mins(1)).await;
    let outcomes = ledger::audit(&api, &promises).await;
    println!("{outcomes:?}");
    for state in ["resolved", "closed"] {
        assert!(outcomes.get(state).is_some_and(|n| *n > count / 50), "both sides win some: {outcomes:?}");
    }
    for promise in promises.iter().filter(|p| p.timer_type == "order-timeout-checked") {
        shop_agrees(&api, promise).await;
    }
    assert!(dev.terminate().success());
}

async fn register(api: &Api, promises: &[Promise]) {
    for batch in promises.chunks(500) {
        let timers: Vec<_> = batch
            .iter()
            .map(|p| {
                let payload = ledger::order(&p.key, p.compensations, 0);
                json!({ "type": p.timer_type, "key": p.key, "payload": payload, "due_at": ledger::instant(p.due_at_ms) })
            })
            .collect();
        let (status, answer) = api.post("/v1/timers/batch", &json!({ "timers": timers })).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert!(answer["results"].as_array().unwrap().iter().all(|i| i["status"] == 201), "{answer}");
    }
}

/// Sends the resolve, and again while it is told that a decision is under way: the answer is about a final state.
async fn resolve_at(api: &Api, mut promise: Promise, at_ms: i64) -> Promise {
    tokio::time::sleep(Duration::from_millis(u64::try_from(at_ms - ledger::now_ms()).unwrap_or(0))).await;
    let path = format!("/v1/types/{}/timers/{}/resolve", promise.timer_type, promise.key);
    for _ in 0..20 {
        let (status, body) = api.post(&path, &json!({ "reason": "paid" })).await.unwrap();
        if body["code"] == "firing" {
            continue;
        }
        assert!(status == StatusCode::OK || body["code"] == "too_late", "{status} {body}");
        promise.resolve = Some((status, body));
        return promise;
    }
    panic!("{} was firing for ever", promise.key)
}

/// The order in the shop is closed exactly if the timer is.
async fn shop_agrees(api: &Api, promise: &Promise) {
    let order: Value =
        api.http.get(format!("{}/orders/{}", api.shop, promise.key)).send().await.unwrap().json().await.unwrap();
    let (status, body) = promise.resolve.as_ref().unwrap();
    let closed = *status == StatusCode::CONFLICT && body["timer"]["state"] == "closed";
    assert_eq!(order["state"] == "closed", closed, "{order} {body}");
}
