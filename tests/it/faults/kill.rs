//! `lapse dev` killed with SIGKILL under load, at any moment.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use rand::{RngExt as _, rngs::StdRng};
use reqwest::StatusCode;
use serde_json::json;

use super::{
    ledger::{self, Api, Promise},
    rounds, seeded,
};
use crate::support::dev::{Dev, DevOptions, ShopProcess};

/// Timers registered for each kill.
const TIMERS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn killed_under_load_it_loses_nothing_and_does_nothing_twice() {
    let mut random = seeded();
    let folder = tempfile::tempdir().unwrap();
    // A shop of its own: it must count each effect over all lives of the server.
    let shop = ShopProcess::start(folder.path());
    // Short leases: what a killed process had claimed is taken up within the test's time.
    let lease = |name: &str| (format!("LAPSE_{name}__LEASE"), "4s".to_owned());
    let mut dev = Dev::start(DevOptions {
        folder: folder.path().to_owned(),
        shop_url: Some(shop.url.clone()),
        env: vec![lease("DISPATCH"), lease("COMPENSATION")],
        ..DevOptions::default()
    });
    let mut promises = BTreeMap::new();
    for round in 0..rounds(5, 50) {
        let load = tokio::spawn(load(Api::of(&dev), round, random.random()));
        let moment = Duration::from_millis(random.random_range(150..3500));
        tokio::time::sleep(moment).await;
        dev.kill();
        for promise in load.await.unwrap() {
            promises.insert(promise.key.clone(), promise);
        }
        dev.restart();
        println!("round {round}: killed after {moment:?}; {} timers promised so far", promises.len());
    }
    let api = Api::of(&dev);
    api.settle_down(Duration::from_mins(2)).await;
    let promises: Vec<_> = promises.into_values().collect();
    let outcomes = ledger::audit(&api, &promises).await;
    println!("{} promises kept: {outcomes:?}", promises.len());
    assert!(outcomes.get("closed").is_some_and(|n| *n > 0), "the load closed timers: {outcomes:?}");
    assert!(!outcomes.contains_key("failed"), "{outcomes:?}");
    assert!(dev.terminate().success());
}

/// Registers timers due within three seconds, half of them of the checked type, and resolves some at random moments
/// around their due time. Ends when the server is gone. Returns what was promised.
async fn load(api: Api, round: usize, seed: u64) -> Vec<Promise> {
    let mut random: StdRng = rand::SeedableRng::seed_from_u64(seed);
    let mut promises: Vec<Promise> = Vec::new();
    for batch in 0..TIMERS / 100 {
        let wanted: Vec<_> = (0..100).map(|i| new_promise(&mut random, &format!("kill-{round}-{batch}-{i}"))).collect();
        let checked = wanted.iter().filter(|p| p.timer_type == "order-timeout-checked");
        let placed = checked.map(|p| {
            let (http, url) = (api.http.clone(), format!("{}/orders/{}", api.shop, p.key));
            async move { http.put(url).json(&json!({})).send().await.is_ok_and(|r| r.status().is_success()) }
        });
        if !join_all(placed).await.into_iter().all(|ok| ok) {
            return promises;
        }
        let items: Vec<_> = wanted
            .iter()
            .map(|p| {
                let items = p.compensations.min(2);
                let payload = ledger::order(&p.key, items, p.compensations - items);
                json!({ "type": p.timer_type, "key": p.key, "payload": payload, "due_at": ledger::instant(p.due_at_ms) })
            })
            .collect();
        let Ok((status, answer)) = api.post("/v1/timers/batch", &json!({ "timers": items })).await else {
            return promises;
        };
        assert_eq!(status, StatusCode::OK, "{answer}");
        for (promise, result) in wanted.into_iter().zip(answer["results"].as_array().unwrap()) {
            assert_eq!(result["status"], 201, "{result}");
            promises.push(promise);
        }
        let chosen: Vec<usize> = (0..20).map(|_| random.random_range(0..promises.len())).collect();
        let answers = join_all(chosen.iter().map(|nth| {
            let promise = &promises[*nth];
            let path = format!("/v1/types/{}/timers/{}/resolve", promise.timer_type, promise.key);
            let api = api.clone();
            async move { api.post(&path, &json!({})).await.ok() }
        }));
        for (nth, answer) in chosen.iter().zip(answers.await) {
            // The first final answer is the one that must stay true.
            let promise = &mut promises[*nth];
            promise.resolve = promise.resolve.take().or(answer);
        }
    }
    promises
}

fn new_promise(random: &mut StdRng, key: &str) -> Promise {
    Promise {
        key: key.to_owned(),
        timer_type: if random.random() { "order-timeout" } else { "order-timeout-checked" },
        due_at_ms: ledger::now_ms() + random.random_range(200..3000),
        compensations: random.random_range(1..5),
        resolve: None,
    }
}
