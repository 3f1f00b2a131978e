//! Three nodes, nothing in their way, and no backlog that could hide what the slots miss.

use std::time::Duration;

use rand::RngExt as _;

use super::rig::{Cluster, Load, load};
use crate::faults::{rounds, seeded};

async fn everything_fires_by_its_slot(with_broker: bool, seconds: usize) {
    let mut random = seeded();
    let mut cluster = Cluster::start(3, with_broker, &[("LAPSE_DISPATCH__BACKLOG", "false")]).await;
    let (seconds, per_second) = (rounds(seconds, 60), 500);
    let load_of = Load { seconds: seconds as u64, per_second, seed: random.random(), name: "calm".into() };
    let promises = load(cluster.apis(), load_of).await;
    assert_eq!(promises.len(), per_second * seconds, "every registration was taken");
    let verdict = cluster.verdict(&promises, Duration::from_mins(1)).await;
    verdict.assert_undisturbed("");
    let triggers = verdict.triggers("");
    assert_eq!(triggers.len(), 2, "some fire by their slot, some near: {triggers:?}");
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_broker_everything_fires_by_its_slot() {
    everything_fires_by_its_slot(true, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_broker_everything_fires_by_its_slot() {
    everything_fires_by_its_slot(false, 5).await;
}
