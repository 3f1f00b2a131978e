//! The broker dies, forgets, stays away, loses its leader, or is set differently, under load: timers fire on.

use std::time::Duration;

use rand::RngExt as _;
use tokio::task::JoinHandle;

use super::{
    doctor,
    rig::{Cluster, ClusterParams, Load, load},
};
use crate::{
    faults::{ledger::Promise, rounds, seeded},
    support::{
        dev::eventually,
        nats::{self, Nats},
    },
};

const STREAM: &str = "lapse-slots";
const PER_SECOND: usize = 500;

/// A load beside which a test does what it likes.
fn beside(cluster: &Cluster, name: &str, seconds: u64, seed: u64) -> JoinHandle<Vec<Promise>> {
    tokio::spawn(load(cluster.apis(), Load { seconds, per_second: PER_SECOND, seed, name: name.into() }))
}

async fn seconds(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

async fn until_degraded(cluster: &Cluster, degraded: f64) {
    for nth in 0..cluster.nodes.len() {
        while (cluster.metric(nth, "lapse_broker_degraded", "").await - degraded).abs() > f64::EPSILON {
            seconds(0.1).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_wiped_and_away_makes_timers_late_by_seconds_at_most() {
    let mut random = seeded();
    let mut broker = Nats::start().await;
    let params = ClusterParams { size: 3, nats: broker.url(), ..ClusterParams::default() };
    let mut cluster = Cluster::of(params).await;
    let mut promises = Vec::new();

    let killed = beside(&cluster, "killed", 5, random.random());
    seconds(random.random_range(0.5..1.5)).await;
    broker.kill();
    broker.run().await;
    seconds(random.random_range(1.0..2.0)).await;
    broker.kill();
    broker.wipe();
    broker.run().await;
    promises.extend(killed.await.unwrap());

    // The load begins before, and goes on until shortly before the broker is back.
    let away = u32::try_from(rounds(12, 60)).unwrap();
    let without = beside(&cluster, "away", u64::try_from(rounds(5, 55)).unwrap(), random.random());
    seconds(0.5).await;
    broker.kill();
    seconds(f64::from(away)).await;
    until_degraded(&cluster, 1.0).await;
    broker.run().await;
    promises.extend(without.await.unwrap());
    until_degraded(&cluster, 0.0).await;

    let back = beside(&cluster, "back", 2, random.random());
    promises.extend(back.await.unwrap());
    assert!(promises.len() >= 5000, "every registration was taken: {}", promises.len());
    let verdict = cluster.verdict(&promises, Duration::from_mins(2)).await;
    for of in ["killed", "away", "back"] {
        println!("lateness, broker {of}: {}", verdict.lateness(of));
    }
    assert!(verdict.triggers("back").contains_key("slot"), "the slots are the broker's again");
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}

async fn restart_leader(brokers: &mut nats::Cluster) {
    let leader = brokers.leader(STREAM).await;
    brokers.servers[leader].kill();
    seconds(2.0).await;
    brokers.servers[leader].run().await;
}

/// Three brokers that replicate. The one that leads the stream is killed, and comes back; then somebody changes what the
/// stream and its consumer were made as.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_and_settings_that_are_changed_lose_nothing() {
    let mut random = seeded();
    let mut brokers = nats::Cluster::start().await;
    let settings = [("LAPSE_NATS__REPLICAS", "3")];
    let params = ClusterParams { size: 3, nats: brokers.urls(), settings: &settings, ..ClusterParams::default() };
    let cluster = Cluster::of(params).await;
    let context = brokers.jetstream().await;
    let mut promises = Vec::new();
    for round in 0..rounds(0, 5) {
        let led = beside(&cluster, &format!("again-{round}"), 6, random.random());
        seconds(random.random_range(0.5..2.0)).await;
        restart_leader(&mut brokers).await;
        promises.extend(led.await.unwrap());
    }

    let led = beside(&cluster, "led", 10, random.random());
    seconds(random.random_range(0.5..2.0)).await;
    restart_leader(&mut brokers).await;
    let stream = loop {
        if let Ok(stream) = context.get_stream(STREAM).await {
            break stream;
        }
        seconds(0.1).await;
    };
    let mut config = stream.cached_info().config.clone();
    config.max_age *= 2;
    config.max_messages = 5_000;
    context.update_stream(config).await.unwrap();
    for nth in 0..3 {
        while cluster.metric(nth, "lapse_broker_settings_changed", "").await < 2.0 {
            seconds(0.1).await;
        }
        let said = |log: String| log.contains("max_age") && log.contains("is not what it was made as");
        eventually("the log says which setting was changed", || said(cluster.log(nth)));
    }
    let report = doctor::ask(cluster.folder.path(), cluster.env());
    assert_eq!(report.verdict("broker", "stream.max_age"), Some("fault"), "{:#?}", report.findings);
    promises.extend(led.await.unwrap());
    let changed = beside(&cluster, "changed", 1, random.random());
    promises.extend(changed.await.unwrap());

    let kept = context.get_stream(STREAM).await.unwrap().cached_info().config.clone();
    assert_eq!(kept.max_messages, 5_000, "what somebody has set is left as it is");
    let verdict = cluster.verdict(&promises, Duration::from_mins(2)).await;
    println!("lateness, leader killed: {}", verdict.lateness("led"));
    assert!(verdict.triggers("changed").contains_key("slot"));
}
