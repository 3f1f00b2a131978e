//! The broker dies, is cut off, forgets everything, or was never there: each slot is still given, and none early.

use std::{sync::Arc, time::Duration};

use lapse::{
    config,
    delivery::jetstream::Mode,
    domain::{
        id::SHARDS,
        time::{DurationMs, Timestamp},
    },
};
use parking_lot::Mutex;
use rstest::rstest;

use super::rig::{CONSUMER, Habit, Names, Node, Nodes, STREAM, assert_bounded, now, second_from_now, settings, until};
use crate::support::{
    nats::{Cluster, Nats},
    proxy::{Proxy, Way},
};

/// Seconds that are watched after the broker is back.
const AFTER: i64 = 6;

async fn settled(url: &str, count: usize) -> (config::Nats, Nodes) {
    let config = settings(url);
    let nodes = Nodes::start(&config, count).await;
    nodes.covered(second_from_now(2)..second_from_now(3)).await;
    (config, nodes)
}

/// Every slot from `first` until a while after now is given, and the broker wakes the nodes again.
async fn recovered(nodes: &Nodes, first: i64) {
    nodes.until_mode(Mode::Broker).await;
    nodes.covered(first..now().second() + AFTER).await;
    nodes.until_mode(Mode::Broker).await;
}

#[derive(Clone, Copy, PartialEq)]
enum Loss {
    Terminated,
    Killed,
    Wiped,
}

#[rstest]
#[case::terminated(Loss::Terminated, 0)]
#[case::killed(Loss::Killed, 0)]
#[case::killed_and_wiped(Loss::Wiped, 1)]
#[case::killed_and_away(Loss::Killed, 15)]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_lost_and_comes_back(#[case] loss: Loss, #[case] away: u64) {
    let mut server = Nats::start().await;
    let (_, nodes) = settled(&server.url(), 2).await;
    let first = now().second();
    match loss {
        Loss::Terminated => server.stop(),
        Loss::Killed | Loss::Wiped => server.kill(),
    }
    if loss == Loss::Wiped {
        server.wipe();
    }
    if away > 5 {
        nodes.until_mode(Mode::Local).await;
        // Without the broker the shards are divided, and none is double.
        let alone = now().second() + 4;
        let times = nodes.covered(alone..alone + 5).await;
        let twice = times.values().filter(|&&n| n > 1).count();
        assert_eq!(twice, 0, "slots that were given more than once: {times:?}");
        assert_eq!(times.len(), usize::from(SHARDS) * 5);
    }
    tokio::time::sleep(Duration::from_secs(away)).await;
    server.run().await;
    recovered(&nodes, first).await;
    assert_bounded(&server.jetstream().await).await;
}

#[rstest]
#[case::swallows_everything(Way::BlackHole)]
#[case::refuses(Way::Cut)]
#[case::crawls(Way::Late(Duration::from_millis(1_500)))]
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that(#[case] way: Way) {
    let server = Nats::start().await;
    let proxy = Proxy::to(server.address()).await;
    let (_, nodes) = settled(&format!("nats://{}", proxy.address), 2).await;
    let first = now().second();
    proxy.set(way);
    tokio::time::sleep(Duration::from_secs(8)).await;
    if !matches!(way, Way::Late(_)) {
        nodes.until_mode(Mode::Local).await;
    }
    proxy.set(Way::Through);
    recovered(&nodes, first).await;
    assert_bounded(&server.jetstream().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_is_made_again() {
    let server = Nats::start().await;
    let proxy = Proxy::to(server.address()).await;
    let (_, nodes) = settled(&format!("nats://{}", proxy.address), 2).await;
    let first = now().second();
    for _ in 0..5 {
        proxy.cut_once().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    recovered(&nodes, first).await;
}

/// One node alone loses the broker: the others have it, and what both are given is no harm.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_cut_off_keeps_its_own_shards() {
    let server = Nats::start().await;
    let proxy = Proxy::to(server.address()).await;
    let live = ["far", "near"];
    let done = Habit::Done;
    let far = Node::start(settings(&format!("nats://{}", proxy.address)), "far", &live, done).await;
    let near = Node::start(settings(&server.url()), "near", &live, done).await;
    let nodes = Nodes(vec![far, near]);
    nodes.covered(second_from_now(2)..second_from_now(3)).await;
    proxy.set(Way::BlackHole);
    until("the one is cut off", async || nodes.0[0].mode() == Mode::Local).await;
    assert_eq!(nodes.0[1].mode(), Mode::Broker);
    // What the server still handed to the one that is cut off comes to the other seconds later, or to the backlog.
    let alone = now().second() + 1;
    nodes.covered(alone..alone + 4).await;
    proxy.set(Way::Through);
    recovered(&nodes, alone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_only_later() {
    let mut server = Nats::start().await;
    server.kill();
    server.wipe();
    let nodes = Nodes::start(&settings(&server.url()), 2).await;
    let first = second_from_now(1);
    nodes.until_mode(Mode::Local).await;
    nodes.covered(first..now().second() + 2).await;
    assert!(!nodes.0[0].jetstream.status().connected);
    server.run().await;
    recovered(&nodes, first).await;
    assert!(nodes.0[0].jetstream.status().connected);
}

#[rstest]
#[case::the_stream(true)]
#[case::the_consumer(false)]
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_deletes_is_created_again(#[case] stream: bool) {
    let server = Nats::start().await;
    let (_, nodes) = settled(&server.url(), 2).await;
    let context = server.jetstream().await;
    let first = now().second();
    if stream {
        context.delete_stream(STREAM).await.unwrap();
    } else {
        let found = context.get_stream(STREAM).await.unwrap();
        found.delete_consumer(CONSUMER).await.unwrap();
    }
    recovered(&nodes, first).await;
    assert_bounded(&context).await;
    assert!(nodes.0[0].jetstream.status().changed.is_empty());
}

/// While the broker is away, a node dies and is missed two seconds later: the others go back over what was its.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_while_the_broker_is_away() {
    let mut server = Nats::start().await;
    let names = Names(Arc::new(Mutex::new(["n0", "n1", "n2"].map(str::to_owned).to_vec())));
    let mut nodes = Nodes(vec![]);
    for name in ["n0", "n1", "n2"] {
        nodes.0.push(Node::among(settings(&server.url()), name, names.clone(), Habit::Done).await);
    }
    nodes.covered(second_from_now(2)..second_from_now(3)).await;
    server.kill();
    nodes.until_mode(Mode::Local).await;
    nodes.covered(second_from_now(1)..second_from_now(3)).await;
    let first = second_from_now(1);
    let dead = nodes.0.pop().unwrap().die().await;
    assert!(dead.iter().any(|given| given.slot.second >= first - 2), "it had its share");
    tokio::time::sleep(Duration::from_secs(2)).await;
    names.0.lock().pop();
    nodes.covered(first..first + 6).await;
    server.run().await;
    recovered(&nodes, first + 6).await;
}

/// The connection is there, and so are the stream and the server's heartbeats; only nothing comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_falls_silent() {
    let server = Nats::start().await;
    let (_, nodes) = settled(&server.url(), 2).await;
    let context = server.jetstream().await;
    let pause = async |until: Timestamp| {
        let subject = format!("CONSUMER.PAUSE.{STREAM}.{CONSUMER}");
        let request = serde_json::json!({ "pause_until": until });
        let answer: serde_json::Value = context.request(subject, &request).await.unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
    };
    pause(now().saturating_add(DurationMs::from_secs(3_600))).await;
    nodes.until_mode(Mode::Local).await;
    let alone = now().second() + 1;
    nodes.covered(alone..alone + 3).await;
    pause(Timestamp::MIN).await;
    recovered(&nodes, alone).await;
    assert_bounded(&context).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_leader_is_killed() {
    let mut cluster = Cluster::start().await;
    let config = config::Nats { replicas: 3, ..settings(&cluster.urls()) };
    let nodes = Nodes::start(&config, 3).await;
    until("the slots come from the broker", async || {
        nodes.0.iter().all(|n| n.mode() == Mode::Broker && n.jetstream.status().counts.is_some())
    })
    .await;
    nodes.covered(second_from_now(3)..second_from_now(4)).await;
    let first = now().second();
    let leader = cluster.leader(STREAM).await;
    cluster.servers[leader].kill();
    recovered(&nodes, first).await;
    // With two of three it goes on; the third comes back as a follower.
    cluster.servers[leader].run().await;
    recovered(&nodes, first).await;
    assert_bounded(&cluster.jetstream().await).await;
}

/// Ten kills in a row, each in the middle of the recovery from the one before, and a minute without any broker.
#[tokio::test(flavor = "multi_thread")]
async fn soak_a_server_that_is_killed_again_and_again() {
    if std::env::var_os("LAPSE_SOAK").is_none() {
        return;
    }
    let mut server = Nats::start().await;
    let (_, nodes) = settled(&server.url(), 3).await;
    let first = now().second();
    for i in 0..10 {
        server.kill();
        if i % 3 == 2 {
            server.wipe();
        }
        tokio::time::sleep(Duration::from_millis(300 * i)).await;
        server.run().await;
        tokio::time::sleep(Duration::from_millis(700 * (10 - i))).await;
    }
    recovered(&nodes, first).await;
    server.kill();
    tokio::time::sleep(Duration::from_mins(1)).await;
    server.run().await;
    recovered(&nodes, first).await;
    assert_bounded(&server.jetstream().await).await;
}
