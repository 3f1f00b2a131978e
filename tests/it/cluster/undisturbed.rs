//! Three nodes, nothing in their way, and no backlog that could hide what the slots miss.

use std::time::Duration;

use lapse::domain::timer::Trigger;
use rand::RngExt as _;

use super::rig::{Cluster, Load, load};
use crate::faults::{rounds, seeded};

async fn everything_fires_by_its_slot(with_broker: bool) {
    let mut random = seeded();
    let mut cluster = Cluster::start(3, with_broker, &[("LAPSE_DISPATCH__BACKLOG", "false")]).await;
    let seconds = rounds(4, 60) as u64;
    let load_of = Load { seconds, per_second: 500, seed: random.random(), name: "calm".into() };
    let promises = load(cluster.apis(), load_of).await;
    assert_eq!(promises.len(), 500 * rounds(4, 60), "every registration was taken");
    let triggers = cluster.audit(&promises, Duration::from_mins(1)).await;
    for by in [Trigger::Slot, Trigger::Near] {
        assert!(triggers.contains(&by), "nothing fired by {by:?}");
    }
    assert!(triggers.iter().all(|t| matches!(t, Trigger::Slot | Trigger::Near)), "{triggers:?}");
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_broker_everything_fires_by_its_slot() {
    everything_fires_by_its_slot(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_broker_everything_fires_by_its_slot() {
    everything_fires_by_its_slot(false).await;
}
