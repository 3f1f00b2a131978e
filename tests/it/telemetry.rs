//! The metrics of a node that nobody asks for them.

use std::time::Duration;

use lapse::{
    app::{App, Bootstrap},
    config::Config,
};

/// Samples recorded in one go, each of eight bytes until it is summed up.
const SAMPLES: usize = 2_000_000;
const ROUNDS: usize = 4;
const MIB: usize = 1024 * 1024;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_nobody_scrapes_do_not_pile_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.store.data = folder.path().join("data");
    let app = App::start(config, Bootstrap::default()).await.unwrap();
    let before = resident_bytes();
    let histogram = metrics::histogram!("lapse_http_request_seconds", "path" => "/scripted");
    for _ in 0..ROUNDS {
        for _ in 0..SAMPLES {
            histogram.record(0.001);
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let grown = resident_bytes().saturating_sub(before);
    let all = ROUNDS * SAMPLES * 8;
    assert!(grown < all * 2 / 3, "{} MiB more for {} MiB of samples", grown / MIB, all / MIB);
    app.stop().await;
}
