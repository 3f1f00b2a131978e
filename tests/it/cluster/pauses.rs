//! A pause that one node was told of holds on all of them, whatever dies meanwhile.

use std::time::Duration;

use rand::RngExt as _;
use reqwest::StatusCode;
use serde_json::json;

use super::rig::{Cluster, Load, load};
use crate::faults::seeded;

/// How soon a pause, or its end, holds on every node.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_on_every_node_within_a_second_and_loses_nothing_whatever_is_killed() {
    let mut random = seeded();
    let mut cluster = Cluster::start(3, false, &[]).await;
    let apis = cluster.apis();
    let paused = apis[0].post("/v1/types/order-timeout/pause", &json!({ "reason": "a test" })).await.unwrap();
    assert_eq!(paused.0, StatusCode::OK, "{paused:?}");
    tokio::time::sleep(KNOWN_WITHIN).await;
    let mut load_of = Load { seconds: 3, per_second: 100, seed: random.random(), name: "paused".into() };
    let mut promises = load(apis.clone(), load_of).await;
    assert_eq!(promises.len(), 300);
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.kill(1);
    cluster.restart(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for state in ["firing", "closed", "failed"] {
        let started = cluster.nodes[2].api.all(&format!("/v1/timers?state={state}")).await;
        assert!(started.is_empty(), "a paused timer was started: {started:#?}");
    }
    let pauses = cluster.nodes[1].api.all("/v1/pauses").await;
    assert_eq!(pauses[0]["type"], "order-timeout", "a node that starts knows it from the start");

    let resumed = cluster.nodes[2].api.post("/v1/types/order-timeout/resume", &json!({})).await.unwrap();
    assert_eq!(resumed.0, StatusCode::OK, "{resumed:?}");
    tokio::time::sleep(KNOWN_WITHIN).await;
    load_of = Load { seconds: 1, per_second: 100, seed: random.random(), name: "resumed".into() };
    promises.extend(load(cluster.apis(), load_of).await);
    cluster.audit(&promises, Duration::from_mins(1)).await;
}
