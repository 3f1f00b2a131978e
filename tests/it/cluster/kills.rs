//! Nodes killed at any moment, and restarted one after the other, under load.

use std::time::Duration;

use rand::RngExt as _;

use super::rig::{Cluster, Load, load};
use crate::faults::{rounds, seeded};

const LEASES: [(&str, &str); 2] = [("LAPSE_DISPATCH__LEASE", "4s"), ("LAPSE_COMPENSATION__LEASE", "4s")];

#[tokio::test(flavor = "multi_thread")]
async fn nodes_killed_and_restarted_under_load_lose_nothing_and_do_nothing_twice() {
    let mut random = seeded();
    let mut cluster = Cluster::start(3, true, &LEASES).await;
    let mut promises = Vec::new();
    let restarts = rounds(2, 10);
    for round in 0..restarts {
        let load_of = Load { seconds: 3, per_second: 500, seed: random.random(), name: format!("kill-{round}") };
        let running = tokio::spawn(load(cluster.apis(), load_of));
        tokio::time::sleep(Duration::from_millis(random.random_range(300..2800))).await;
        let nth = random.random_range(0..3);
        cluster.kill(nth);
        promises.extend(running.await.unwrap());
        cluster.restart(nth);
        println!("round {round}: node {nth} was killed; {} timers promised so far", promises.len());
    }
    let calm = Load { seconds: 2, per_second: 500, seed: random.random(), name: "calm".into() };
    promises.extend(load(cluster.apis(), calm).await);
    for nth in 0..3 {
        let load_of = Load { seconds: 2, per_second: 500, seed: random.random(), name: format!("roll-{nth}") };
        let others = cluster.apis().into_iter().enumerate().filter(|(i, _)| *i != nth).map(|(_, api)| api);
        let running = tokio::spawn(load(others.collect(), load_of));
        tokio::time::sleep(Duration::from_millis(random.random_range(300..1500))).await;
        assert!(cluster.terminate(nth).success());
        cluster.restart(nth);
        let taken = running.await.unwrap();
        assert_eq!(taken.len(), 1000, "a restart of one node is nothing to the others");
        promises.extend(taken);
    }
    let verdict = cluster.verdict(&promises, Duration::from_mins(2)).await;
    for (what, of) in [("calm", "calm"), ("kill -9", "kill-"), ("rolling restart", "roll-")] {
        println!("lateness, {what}: {}", verdict.lateness(of));
    }
}

/// A suspended machine comes back with timers in its memory that others have settled since.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_held_still_for_longer_than_its_leases_changes_nothing_that_others_settled() {
    let mut random = seeded();
    let mut cluster = Cluster::start(3, true, &LEASES).await;
    let load_of = Load { seconds: 4, per_second: 300, seed: random.random(), name: "still".into() };
    let running = tokio::spawn(load(cluster.apis(), load_of));
    tokio::time::sleep(Duration::from_millis(random.random_range(1000..2500))).await;
    let nth = random.random_range(0..3);
    cluster.freeze(nth, true);
    tokio::time::sleep(Duration::from_secs(9)).await;
    cluster.freeze(nth, false);
    // What was asked of it meanwhile it answers now.
    let promises = running.await.unwrap();
    cluster.audit(&promises, Duration::from_mins(2)).await;
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}
