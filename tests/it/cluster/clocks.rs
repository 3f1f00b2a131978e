//! Nodes whose machines' clocks are off by an hour: the database's clock is what counts, so none fires early or late.

use std::{path::Path, process::Command, time::Duration};

use rand::RngExt as _;

use super::rig::{Cluster, ClusterParams, Load, load};
use crate::{
    faults::{ledger::instant, ledger::now_ms, rounds, seeded},
    support::nats::Nats,
};

/// Before the C library in each process that is told to load it: the wall clock is off by `CLOCK_OFF_BY` seconds. The
/// monotonic clocks are left alone, as they are on a machine whose wall clock is wrong.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t off(void) {
    const char *by = getenv("CLOCK_OFF_BY");
    return by ? (time_t)atol(by) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += off();
    return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec at;
    if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
    if (now) *now = at.tv_sec;
    return at.tv_sec;
}
"#;

/// Compiles it with the C compiler that linking needs anyway.
fn shim(folder: &Path) -> String {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, SHIM).unwrap();
    let mut cc = Command::new("cc");
    let output = cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_clocks_are_an_hour_off_fire_none_early_and_none_late() {
    let mut random = seeded();
    let folder = tempfile::tempdir().unwrap();
    let library = shim(folder.path());
    let broker = Nats::start().await;
    let settings = [("LAPSE_DISPATCH__BACKLOG", "false"), ("LD_PRELOAD", library.as_str())];
    let own = vec![(0, "CLOCK_OFF_BY", "3600".to_owned()), (1, "CLOCK_OFF_BY", "-3600".to_owned())];
    let mut cluster = Cluster::of(ClusterParams {
        size: 3,
        nats: broker.url(),
        settings: &settings,
        own,
        ..ClusterParams::default()
    })
    .await;
    // What a line of the log is dated with is the machine's own clock: they are off indeed.
    for (nth, hours) in [(0, 1), (1, -1), (2, 0)] {
        let hour = &instant(now_ms() + hours * 3_600_000)[..13];
        let last = &instant(now_ms() + hours * 3_600_000 - 60_000)[..13];
        let log = cluster.log(nth);
        assert!(log.contains(hour) || log.contains(last), "node {nth} is not off by {hours} h: {log}");
    }
    let seconds = rounds(10, 60);
    let load_of = Load { seconds: seconds as u64, per_second: 500, seed: random.random(), name: "off".into() };
    let promises = load(cluster.apis(), load_of).await;
    assert_eq!(promises.len(), 500 * seconds, "every registration was taken");

    // A delay counts from the database's clock, whichever node takes it.
    for (nth, api) in cluster.apis().iter().enumerate() {
        let body = serde_json::json!({
            "type": "order-timeout", "key": format!("delay-{nth}"), "delay": "2500ms",
            "payload": crate::faults::ledger::order(&format!("delay-{nth}"), 1, 0),
        });
        let before = now_ms();
        let (status, timer) = api.post("/v1/timers", &body).await.unwrap();
        assert_eq!(status, 201, "{timer}");
        let due_in = crate::faults::ledger::millis(timer["due_at"].as_str().unwrap()) - before;
        assert!((2500..60_000).contains(&due_in), "node {nth}: due in {due_in} ms");
    }
    let verdict = cluster.verdict(&promises, Duration::from_mins(1)).await;
    verdict.assert_undisturbed("");
    assert!(verdict.fired.iter().all(|f| f.late_ms >= 0), "none early");
    // An hour off would show; a busy machine does not come near it.
    let most = verdict.fired.iter().map(|f| f.late_ms).max().unwrap();
    assert!(most < 60_000, "one was {most} ms late");
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}
