//! How punctual the slots are, and what they cost the broker. Reported, not asserted, beyond what any machine does.

use std::time::{Duration, Instant};

use super::rig::{Nodes, STREAM, second_from_now, settings};
use crate::support::nats::Nats;

/// Ten seconds, and two minutes in the long run.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "figures are for whoever runs it")]
async fn soak_lateness_with_three_nodes() {
    let seconds = if std::env::var_os("LAPSE_SOAK").is_some() { 120 } else { 10 };
    let server = Nats::start().await;
    let nodes = Nodes::start(&settings(&server.url()), 3).await;
    let first = second_from_now(4);
    nodes.covered(first - 1..first).await;
    let (before, begun) = (server.usage(), Instant::now());
    nodes.covered(first..first + seconds).await;
    let (after, took) = (server.usage(), begun.elapsed());

    let mut late: Vec<u64> = Vec::new();
    for node in &nodes.0 {
        let given = node.given.lock();
        let watched = given.iter().filter(|g| (first..first + seconds).contains(&g.slot.second));
        late.extend(watched.map(|g| g.at.since(g.slot.opens()).as_millis()));
    }
    late.sort_unstable();
    let at = |part: usize| late[(late.len() * part / 1000).min(late.len() - 1)];
    let state = server.jetstream().await.get_stream(STREAM).await.unwrap().cached_info().state.clone();
    eprintln!(
        "{} slots over {seconds} s, three nodes: late by p50 {} ms, p99 {} ms, p99.9 {} ms, max {} ms; \
         nats-server: {:.1}% of a core, {} MiB; {} messages, {} bytes",
        late.len(),
        at(500),
        at(990),
        at(999),
        at(1000),
        after.cpu.saturating_sub(before.cpu).as_secs_f64() / took.as_secs_f64() * 100.0,
        after.memory_bytes / 1024 / 1024,
        state.messages,
        state.bytes,
    );
    assert!(
        at(500) < u64::try_from(Duration::from_secs(1).as_millis()).unwrap(),
        "half of them are over a second late"
    );
}
