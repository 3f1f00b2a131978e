//! What a node registers that fires nothing is fired by the others, on time, and without the backlog's help.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use lapse::domain::timer::Trigger;
use rand::RngExt as _;
use reqwest::StatusCode;
use serde_json::json;

use super::rig::{Cluster, Load, load};
use crate::faults::{
    ledger::{self, Api, Promise},
    seeded,
};

const TYPE: &str = "order-timeout";
/// How soon the others know of a node.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

async fn register(api: &Api, delay: &str, count: usize) -> Vec<Promise> {
    let mut promises = Vec::new();
    for n in 0..count {
        let key = format!("in-{delay}-{n}");
        let body = json!({ "type": TYPE, "key": key, "payload": ledger::order(&key, 2, 0), "delay": delay });
        let (status, timer) = api.post("/v1/timers", &body).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{timer}");
        let due_at_ms = ledger::millis(timer["due_at"].as_str().unwrap());
        promises.push(Promise { key, timer_type: TYPE, due_at_ms, compensations: 2, resolve: None });
    }
    promises
}

async fn fired_by_the_other(with_broker: bool) -> (Cluster, Vec<Trigger>) {
    let mut cluster = Cluster::start(1, with_broker, &[("LAPSE_DISPATCH__BACKLOG", "false")]).await;
    cluster.join(&[("LAPSE_DISPATCH__FIRE", "false")]);
    tokio::time::sleep(KNOWN_WITHIN).await;
    let registering = cluster.nodes[1].api.clone();
    let mut promises = Vec::new();
    for delay in ["0s", "500ms", "1500ms", "5s"] {
        promises.extend(register(&registering, delay, 10).await);
    }
    let triggers = cluster.audit(&promises, Duration::from_mins(1)).await;
    assert_eq!(triggers.len(), 40);
    assert!(triggers.iter().all(|t| matches!(t, Trigger::Slot | Trigger::Near)), "{triggers:?}");
    (cluster, triggers)
}

fn count(triggers: &[Trigger], by: Trigger) -> usize {
    triggers.iter().filter(|t| **t == by).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_broker_what_is_only_registered_here_fires_there() {
    let (_cluster, triggers) = fired_by_the_other(true).await;
    assert!(count(&triggers, Trigger::Near) >= 20 && count(&triggers, Trigger::Slot) >= 10, "{triggers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_broker_what_is_only_registered_here_fires_there_and_nothing_fires_here() {
    let (mut cluster, triggers) = fired_by_the_other(false).await;
    assert!(count(&triggers, Trigger::Near) >= 20 && count(&triggers, Trigger::Slot) >= 10, "{triggers:?}");
    cluster.kill(0);
    let api = cluster.nodes[1].api.clone();
    let key = "nobody-fires-it";
    let body = json!({ "type": TYPE, "key": key, "payload": ledger::order(key, 1, 0), "delay": "0s" });
    assert_eq!(api.post("/v1/timers", &body).await.unwrap().0, StatusCode::CREATED);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let timer = api.get(&format!("/v1/types/{TYPE}/timers/{key}")).await.unwrap();
    assert_eq!((&timer["state"], &timer["version"]), (&json!("scheduled"), &json!(1)));
    assert!(cluster.terminate(1).success());
}

/// Each firing node hears of every timer, and takes those of its own shards.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_is_only_registered_here_is_shared_by_the_others() {
    let mut random = seeded();
    let mut cluster = Cluster::start(2, true, &[("LAPSE_DISPATCH__BACKLOG", "false")]).await;
    cluster.join(&[("LAPSE_DISPATCH__FIRE", "false")]);
    tokio::time::sleep(KNOWN_WITHIN).await;
    let load_of = Load { seconds: 3, per_second: 300, seed: random.random(), name: "handed-on".into() };
    let promises = load(vec![cluster.nodes[2].api.clone()], load_of).await;
    assert_eq!(promises.len(), 900, "every registration was taken");
    let triggers = cluster.audit(&promises, Duration::from_mins(1)).await;
    assert!(triggers.iter().all(|t| matches!(t, Trigger::Slot | Trigger::Near)), "{triggers:?}");
    let mut fired = Vec::new();
    for node in &cluster.nodes {
        fired.push(metric(&node.api, "lapse_timer_fired_total").await);
        println!(
            "fired {}, in vain {}",
            fired[fired.len() - 1],
            metric(&node.api, "lapse_timer_duplicate_total").await
        );
    }
    assert!(fired[0] > 0 && fired[1] > 0 && fired[2] == 0, "{fired:?}");
}

/// A counter's sum over its labels.
async fn metric(api: &Api, name: &str) -> u64 {
    let metrics = api.http.get(format!("{}/metrics", api.base)).send().await.unwrap().text().await.unwrap();
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Whoever listens is cut off again and again: what it is not told, it finds.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_other_is_not_told_of_it_finds() {
    let mut cluster = Cluster::start(1, false, &[("LAPSE_DISPATCH__BACKLOG", "false")]).await;
    let client = cluster.database().client().await;
    let cuts = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&cuts);
    let deafening = tokio::spawn(async move {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()
                       AND (query = 'LISTEN lapse_near' OR query LIKE '%pg_is_in_recovery%')";
        loop {
            let row = client.query_one(cut, &[]).await.unwrap();
            counted.fetch_add(row.get(0), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    cluster.join(&[("LAPSE_DISPATCH__FIRE", "false")]);
    tokio::time::sleep(KNOWN_WITHIN).await;
    let promises = register(&cluster.nodes[1].api, "0s", 20).await;
    let triggers = cluster.audit(&promises, Duration::from_mins(1)).await;
    assert!(!deafening.is_finished() && cuts.load(Ordering::Relaxed) > 1, "it was cut off");
    deafening.abort();
    assert_eq!(count(&triggers, Trigger::Near), 20, "{triggers:?}");
}
