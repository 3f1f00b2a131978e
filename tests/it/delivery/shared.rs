//! Nodes share the slots.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::message::PublishMessage;
use lapse::{
    delivery::{Delivery as _, Slot, jetstream::Mode},
    domain::id::SHARDS,
};

use super::rig::{Habit, Node, Nodes, STREAM, assert_bounded, messages, now, second_from_now, settings, until};
use crate::support::nats::Nats;

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_share_the_slots_and_plan_each_once() {
    let server = Nats::start().await;
    let begun = now().second();
    let nodes = Nodes::start(&settings(&server.url()), 3).await;
    let first = second_from_now(3);
    let times = nodes.covered(first..first + 6).await;

    let twice = times.values().filter(|&&n| n > 1).count();
    assert!(twice * 20 <= times.len(), "{twice} of {} slots were given more than once", times.len());
    for (i, node) in nodes.0.iter().enumerate() {
        assert!(!node.slots().is_empty(), "n{i} had no share");
        assert_eq!(node.mode(), Mode::Broker);
    }
    // Three planners, and each second's slots published once: from four seconds back to ten ahead, and what came since.
    let context = server.jetstream().await;
    let state = context.get_stream(STREAM).await.unwrap().cached_info().state.clone();
    let seconds = u64::try_from(now().second() - begun + 4 + 10 + 1).unwrap();
    assert!(state.last_sequence <= seconds * u64::from(SHARDS), "{} messages in {seconds} s", state.last_sequence);
    assert_bounded(&context).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slots_of_a_node_that_dies_come_back_to_another() {
    let server = Nats::start().await;
    let config = settings(&server.url());
    let live = ["dies", "stays"];
    let stays = Node::start(config.clone(), "stays", &live, Habit::Done).await;
    // What comes back has little time left before it closes: on a machine that is held up, another attempt.
    for _ in 0..4 {
        let dies = Node::start(config.clone(), "dies", &live, Habit::Keep).await;
        let fresh = async || dies.given.lock().iter().any(|g| g.at < g.slot.starts());
        until("the node that dies has slots in hand", fresh).await;
        let lost: Vec<Slot> = dies.die().await.iter().map(|g| g.slot).collect();
        let closes = lost.iter().map(|s| s.closes()).max().unwrap();
        while now() < closes {
            let has = stays.slots();
            if lost.iter().any(|slot| has.contains(slot)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    panic!("no slot came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_to_another_at_once() {
    let server = Nats::start().await;
    let config = settings(&server.url());
    let live = ["stops", "stays"];
    let stays = Node::start(config.clone(), "stays", &live, Habit::Done).await;
    let stops = Node::start(config.clone(), "stops", &live, Habit::Keep).await;
    until("the node that stops has slots in hand", async || {
        stops.given.lock().iter().filter(|g| g.at < g.slot.starts()).count() > 2
    })
    .await;
    stops.jetstream.stop().await;
    let in_hand = stops.slots();
    for slot in &in_hand {
        stops.jetstream.give_back(*slot).await;
    }
    // Well before the server would have missed its progress.
    let until = std::time::Instant::now() + Duration::from_secs(4);
    let open: Vec<Slot> = in_hand.into_iter().filter(|s| s.closes() > now()).collect();
    assert!(!open.is_empty());
    while !open.iter().all(|slot| stays.slots().contains(slot) || slot.closes() <= now()) {
        assert!(std::time::Instant::now() < until, "of {open:?} only {:?} came", stays.slots());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // And it takes no more.
    let before = stops.given.lock().len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(stops.given.lock().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn doubled_late_disordered_and_foreign_messages_do_no_harm() {
    let server = Nats::start().await;
    let node = Node::start(settings(&server.url()), "n0", &["n0"], Habit::Keep).await;
    until("a slot is given", async || !node.slots().is_empty()).await;
    let context = server.jetstream().await;
    let publish = async |shard: i64, text: String| {
        let message = PublishMessage::build().payload(text.into());
        context.send_publish(format!("lapse.slots.{shard}"), message).await.unwrap().await.unwrap();
    };
    let second = now().second();
    // The last first, each three times, under no id and so as messages of their own.
    for ahead in (1..=4).rev() {
        for _ in 0..3 {
            publish(3, format!("3 {}", second + ahead)).await;
        }
    }
    let late = [second - 7, second - 3_600, 0, i64::MIN];
    for old in late {
        publish(4, format!("4 {old}")).await;
    }
    for foreign in ["", "x", "16 99", "3", "-1 5", "3 99999999999999999999", "3 5 7"] {
        publish(5, foreign.to_owned()).await;
    }
    let last = Slot { shard: 3, second: second + 4 };
    until("the last of them is given", async || node.slots().contains(&last)).await;
    until("all of them are gone", async || messages(&context).await <= 16 * 18).await;

    let given = node.given.lock().clone();
    assert!(given.iter().all(|g| g.at >= g.slot.opens() && g.at < g.slot.closes()), "{given:?}");
    assert!(!given.iter().any(|g| late.contains(&g.slot.second)));
    for ahead in 1..=4 {
        // In hand all the time, so given once.
        let times = given.iter().filter(|g| g.slot == Slot { shard: 3, second: second + ahead }).count();
        assert_eq!(times, 1, "second {ahead} ahead");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_nobody_finishes_is_acknowledged_when_it_closes() {
    let server = Nats::start().await;
    let node = Arc::new(Node::start(settings(&server.url()), "n0", &["n0"], Habit::Keep).await);
    until("a slot is given", async || !node.slots().is_empty()).await;
    let context = server.jetstream().await;
    let first = node.slots().first().copied().unwrap();
    // Ten seconds and more in which nothing is ever done.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(first.closes() < now());
    assert_bounded(&context).await;
    // Each was given once: progress kept it from coming again, and its end was its acknowledgement.
    let given = node.given.lock().clone();
    let again = given.len() - node.slots().len();
    assert!(again * 20 <= given.len(), "{again} of {} slots came again", given.len());
}
