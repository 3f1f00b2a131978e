//! Slot messages that come twice, out of order and late: a duplicate changes nothing, and is counted.

use std::time::Duration;

use async_nats::jetstream;
use futures_util::future::join_all;
use lapse::domain::id::SHARDS;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::rig::{Cluster, ClusterParams, Load, load};
use crate::{
    faults::{
        ledger::{Promise, now_ms},
        rounds, seeded,
    },
    support::{
        nats::Nats,
        proxy::{Proxy, Way},
    },
};

/// Publishes slot messages of its own, with no message id that could give them away: for each shard and second one copy
/// nine seconds ahead, in random order, one when it is about to open, one when it has
/// been open for a while, and one that is long past.
async fn republish(context: jetstream::Context, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut second = now_ms() / 1000;
    loop {
        while now_ms() / 1000 <= second {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second += 1;
        let mut copies: Vec<(u16, i64)> =
            (0..SHARDS).flat_map(|shard| [(shard, 9), (shard, 1), (shard, -1), (shard, -6)]).collect();
        for nth in 0..copies.len() {
            let other = random.random_range(0..copies.len());
            copies.swap(nth, other);
        }
        let published = copies.into_iter().map(|(shard, ahead)| {
            let copy = format!("{shard} {}", second + ahead);
            context.publish(format!("lapse.slots.{shard}"), copy.into())
        });
        for acknowledged in join_all(published).await {
            acknowledged.unwrap().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_come_twice_out_of_order_and_late_change_nothing() {
    let mut random = seeded();
    let broker = Nats::start().await;
    // What one node says and hears takes a while: its acknowledgements come late, and its slots later than the others'.
    let slow = Proxy::to(broker.address()).await;
    let own = vec![(2, "LAPSE_NATS__URL", format!("nats://{}", slow.address))];
    let settings = [("LAPSE_DISPATCH__BACKLOG", "false")];
    let cluster = Cluster::of(ClusterParams {
        size: 3,
        nats: broker.url(),
        settings: &settings,
        own,
        ..ClusterParams::default()
    })
    .await;
    slow.set(Way::Late(Duration::from_millis(150)));
    let copies = tokio::spawn(republish(broker.jetstream().await, random.random()));
    let seconds = rounds(10, 60);
    let load_of = Load { seconds: seconds as u64, per_second: 500, seed: random.random(), name: "twice".into() };
    let promises: Vec<Promise> = load(cluster.apis(), load_of).await;
    assert_eq!(promises.len(), 500 * seconds, "every registration was taken");
    let verdict = cluster.verdict(&promises, Duration::from_mins(1)).await;
    assert!(!copies.is_finished(), "the copies went on to the end");
    copies.abort();
    verdict.assert_undisturbed("");
    let timers = cluster.metrics("lapse_timer_duplicate_total", "").await;
    let slots = cluster.metrics("lapse_broker_duplicates_total", "").await;
    let unread = cluster.metrics("lapse_broker_dead_letters", "").await;
    println!("duplicates: {timers} of timers, {slots} of slots in hand; {unread} slots were acknowledged unread");
    assert!(timers > 0.0 && slots > 0.0 && unread > 0.0, "what came twice or too late is counted");
    let fired = cluster.metrics("lapse_timer_fired_total", "").await;
    let closed = f64::from(u32::try_from(verdict.fired.len()).unwrap());
    assert!((fired - closed).abs() < 0.5, "{fired} of {closed}: a duplicate is not counted as fired");
    let stream = broker.jetstream().await.get_stream("lapse-slots").await.unwrap();
    println!("{} messages are left in the broker", stream.cached_info().state.messages);
}
