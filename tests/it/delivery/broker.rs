//! What the broker holds is as it was made; who may connect; and what is counted.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use lapse::{
    config::{self, Secret},
    delivery::jetstream::{Error, Mode, inspect},
};
use rstest::rstest;

use super::rig::{CONSUMER, Habit, Node, Nodes, STREAM, messages, now, second_from_now, settings, until};
use crate::support::nats::Nats;

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_were_changed_are_reported_and_left() {
    let server = Nats::start().await;
    let config = settings(&server.url());
    let look = inspect(&config).await.unwrap();
    assert_eq!(look.missing, ["stream", "consumer"]);
    assert!(look.server.starts_with("2."), "{}", look.server);

    let nodes = Nodes::start(&config, 1).await;
    nodes.covered(second_from_now(2)..second_from_now(3)).await;
    let look = inspect(&config).await.unwrap();
    assert_eq!((look.missing.len(), look.changed.len()), (0, 0), "{look:?}");
    assert!(look.counts.unwrap().messages > 0);

    let context = server.jetstream().await;
    let mut stream = context.get_stream(STREAM).await.unwrap();
    let mut changed = stream.info().await.unwrap().config.clone();
    changed.max_age = Duration::from_hours(1);
    changed.max_messages = 5_000;
    context.update_stream(&changed).await.unwrap();
    let consumer = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_wait: Duration::from_secs(7),
        max_ack_pending: -1,
        max_deliver: -1,
        ..Default::default()
    };
    stream.update_consumer(consumer).await.unwrap();
    let before = messages(&context).await;

    // The node that runs, one that starts, and a person who looks: all see it.
    let later = Node::start(config.clone(), "later", &["n0", "later"], Habit::Done).await;
    let expected = ["stream.max_age", "stream.max_messages", "consumer.ack_wait"];
    for node in [&nodes.0[0], &later] {
        until("the change is reported", async || {
            let changed = node.jetstream.status().changed;
            changed.iter().map(|c| c.setting.as_str()).eq(expected)
        })
        .await;
    }
    assert_eq!(inspect(&config).await.unwrap().changed.len(), 3);
    let found = nodes.0[0].jetstream.status().changed;
    assert_eq!((found[2].wanted.as_str(), found[2].found.as_str()), ("5s", "7s"));

    // Nothing was put back, and nothing dropped.
    let stream = context.get_stream(STREAM).await.unwrap();
    assert_eq!(stream.cached_info().config.max_age, Duration::from_hours(1));
    assert!(messages(&context).await + 48 > before, "messages were dropped");
    let first = now().second() + 2;
    Nodes(vec![later].into_iter().chain(nodes.0).collect()).covered(first..first + 3).await;
}

/// A key of this test alone.
const SEED: &str = "SUAGHP7BPZYKL2C4QJP63QTMBPAU2ARUEEPX2YNLJRV27XMHSIDQ2DFM4A";
const PUBLIC: &str = "UC3NLTNQMTPMKVL3Z34B353QRDMDKDPJ7T2XDLDBNECZLT4P74WFZQHW";

#[derive(Clone, Copy)]
enum Proof {
    Password,
    Token,
    Seed,
    /// By an operator's server.
    Credentials,
}

#[rstest]
#[case::password(Proof::Password)]
#[case::token(Proof::Token)]
#[case::seed(Proof::Seed)]
#[case::credentials(Proof::Credentials)]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_proves_who_it_is_or_keeps_the_time_by_itself(#[case] proof: Proof) {
    let authorization = match proof {
        Proof::Password => "authorization { user: lapse, password: pw-4711 }".to_owned(),
        Proof::Token => "authorization { token: tk-4711 }".to_owned(),
        Proof::Seed => format!("authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}"),
        Proof::Credentials => include_str!("jwt/server.conf").to_owned(),
    };
    let server = Nats::with(&authorization).await;
    let folder = tempfile::tempdir().unwrap();
    let seed = folder.path().join("seed");
    std::fs::write(&seed, format!("{SEED}\n")).unwrap();
    let credentials = folder.path().join("node.creds");
    std::fs::write(&credentials, include_str!("jwt/node.creds")).unwrap();
    let plain = settings(&server.url());
    let right = match proof {
        Proof::Password => config::Nats { user: "lapse".to_owned(), password: Secret::new("pw-4711"), ..plain.clone() },
        Proof::Token => config::Nats { token: Secret::new("tk-4711"), ..plain.clone() },
        Proof::Seed => config::Nats { seed, ..plain.clone() },
        Proof::Credentials => config::Nats { credentials, ..plain.clone() },
    };
    let stranger = Node::start(plain, "stranger", &["stranger"], Habit::Done).await;
    until("the stranger keeps the time by itself", async || stranger.mode() == Mode::Local).await;
    let said = stranger.jetstream.status().error.unwrap();
    assert!(said.to_lowercase().contains("authorization"), "{said}");

    let nodes = Nodes::start(&right, 1).await;
    nodes.covered(second_from_now(2)..second_from_now(3)).await;
    assert_eq!(nodes.0[0].mode(), Mode::Broker);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_each_side_proves_who_it_is() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(vec![]).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = write("ca.pem", ca.self_signed(&ca_key).unwrap().pem());
    let ca = Issuer::new(ca, ca_key);
    let issue = |name: &str, host: &str| {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
        (write(&format!("{name}.pem"), cert.pem()), write(&format!("{name}.key"), key.serialize_pem()))
    };
    let (server_cert, server_key) = issue("server", "127.0.0.1");
    let (tls_cert, tls_key) = issue("client", "lapse");
    let server = Nats::with(&format!(
        "tls {{ cert_file: {server_cert:?}, key_file: {server_key:?}, ca_file: {ca_pem:?}, verify: true }}"
    ))
    .await;
    let plain = config::Nats { tls_required: true, ..settings(&server.url()) };
    let without_certificate = config::Nats { tls_ca: ca_pem.clone(), ..plain.clone() };
    let distrusts = config::Nats { tls_cert: tls_cert.clone(), tls_key: tls_key.clone(), ..plain.clone() };
    for (name, config) in [("without", without_certificate), ("distrusts", distrusts)] {
        assert!(inspect(&config).await.is_err(), "{name}");
        let node = Node::start(config, name, &[name], Habit::Done).await;
        until("it keeps the time by itself", async || node.mode() == Mode::Local).await;
    }
    let nodes = Nodes::start(&config::Nats { tls_ca: ca_pem, tls_cert, tls_key, ..plain }, 1).await;
    nodes.covered(second_from_now(2)..second_from_now(3)).await;
    assert_eq!(nodes.0[0].mode(), Mode::Broker);
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_said_at_the_start() {
    let start = async |config: config::Nats| inspect(&config).await.unwrap_err();
    assert!(matches!(start(settings(" , ")).await, Error::NoAddress));
    let wrong = start(settings("http://me:4711@a")).await;
    assert!(matches!(wrong, Error::Address { .. }) && !wrong.to_string().contains("4711"), "{wrong}");
    let missing = config::Nats { credentials: "/nowhere/nats.creds".into(), ..settings("nats://127.0.0.1:1") };
    assert!(start(missing).await.to_string().contains("/nowhere/nats.creds"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_brokers_metrics_show_real_values() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let scrape = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        // Tests that share a process share its recorder; each has its own under nextest.
        return;
    }
    let server = Nats::start().await;
    let node = Node::start(settings(&server.url()), "n0", &["n0"], Habit::Done).await;
    let context = server.jetstream().await;
    let value = |name: &str| -> Option<f64> {
        scrape.render().lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    until("slots are acknowledged", async || value("lapse_broker_acked_total").is_some_and(|n| n >= 32.0)).await;
    context.publish("lapse.slots.1", "1 5".into()).await.unwrap().await.unwrap();
    until("a message that came too late is counted", async || {
        value("lapse_broker_dead_letters").is_some_and(|n| n >= 1.0)
    })
    .await;
    until("the broker's own counts are shown", async || {
        value("lapse_broker_unacked_messages").is_some_and(|n| n >= 100.0)
    })
    .await;
    assert_eq!(value("lapse_broker_connected"), Some(1.0));
    assert_eq!(value("lapse_broker_consumers"), Some(1.0));
    assert_eq!(value("lapse_broker_degraded"), Some(0.0));
    assert_eq!(value("lapse_broker_settings_changed"), Some(0.0));
    assert!(value("lapse_broker_ready_messages").is_some_and(|n| n <= 16.0));
    let last = context.get_stream(STREAM).await.unwrap().cached_info().state.last_sequence;
    let published = value("lapse_broker_published_total").unwrap();
    let at_most = f64::from(u32::try_from(last).unwrap());
    assert!((160.0..=at_most).contains(&published), "{published} of {last}");
    drop(server);
    until("the loss is shown", async || value("lapse_broker_connected") == Some(0.0)).await;
    until("so is the mode", async || value("lapse_broker_degraded") == Some(1.0)).await;
    drop(node);
}
