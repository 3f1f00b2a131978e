//! `lapse dev` killed with SIGKILL under load, at any moment.

use std::{collections::BTreeMap, time::Duration};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use reqwest::StatusCode;
use serde_json::json;

use super::{
    ledger::{self, Api, Promise},
    rounds, seeded,
};
use crate::support::dev::Dev;

/// Timers registered for each kill.
const TIMERS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn killed_under_load_it_loses_nothing_and_does_nothing_twice() {
    let mut random = seeded();
    let mut dev = Dev::builder()
        // Short leases: what a killed process had claimed is taken up within the test's time.
        .env("LAPSE_DISPATCH__LEASE", "4s")
        .env("LAPSE_COMPENSATION__LEASE", "4s")
        .start()
        .await;
    let mut promises = BTreeMap::new();
    for round in 0..rounds(5, 50) {
        let load = tokio::spawn(load(dev.api(), round, random.random()));
        let moment = Duration::from_millis(random.random_range(150..3500));
        tokio::time::sleep(moment).await;
        dev.kill().await;
        for promise in load.await.unwrap() {
            promises.insert(promise.key.clone(), promise);
        }
        dev.restart().await;
        println!("round {round}: killed after {moment:?}; {} timers promised so far", promises.len());
    }
    dev.api().settle_down(Duration::from_secs(120)).await;
    let promises: Vec<_> = promises.into_values().collect();
    let outcomes = ledger::audit(&dev.api(), &promises).await;
    println!("{} promises kept: {outcomes:?}", promises.len());
    assert!(outcomes.get("closed").is_some_and(|n| *n > 0), "the load closed timers: {outcomes:?}");
    assert!(!outcomes.contains_key("failed"), "{outcomes:?}");
    dev.stop().await;
}

/// Registers timers due within three seconds, half of them of the checked type, and resolves some at random moments
/// around their due time. Ends when the server is gone. Returns what was promised.
async fn load(api: Api, round: usize, seed: u64) -> Vec<Promise> {
    let mut random: StdRng = rand::SeedableRng::seed_from_u64(seed);
    let mut promises: Vec<Promise> = Vec::new();
    for batch in 0..TIMERS / 100 {
        let wanted: Vec<_> = (0..100).map(|i| new_promise(&mut random, &format!("kill-{round}-{batch}-{i}"))).collect();
        for promise in wanted.iter().filter(|p| p.timer_type == "order-timeout-checked") {
            let put = api.http.put(format!("{}/orders/{}", api.shop, promise.key)).json(&json!({})).send().await;
            if put.is_err() {
                return promises;
            }
        }
        let items: Vec<_> = wanted
            .iter()
            .map(|p| {
                let items = p.compensations.min(2);
                let payload = ledger::order(&p.key, items, p.compensations - items);
                json!({ "type": p.timer_type, "key": p.key, "payload": payload, "due_at": ledger::instant(p.due_at_ms) })
            })
            .collect();
        let Ok((status, answer)) = api.post("/v1/timers/batch", &json!({ "timers": items })).await else { return promises };
        assert_eq!(status, StatusCode::OK, "{answer}");
        for (promise, result) in wanted.into_iter().zip(answer["items"].as_array().unwrap()) {
            assert_eq!(result["status"], 201, "{result}");
            promises.push(promise);
        }
        for _ in 0..20 {
            let Some(chosen) = promises.choose(&mut random).map(|p| p.key.clone()) else { continue };
            let promise = promises.iter_mut().find(|p| p.key == chosen).unwrap();
            let path = format!("/v1/types/{}/timers/{}/resolve", promise.timer_type, promise.key);
            match api.post(&path, &json!({})).await {
                // The first final answer is the one that must stay true.
                Ok(answer) if promise.resolve.is_none() => promise.resolve = Some(answer),
                Ok(_) => {}
                Err(_) => return promises,
            }
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
