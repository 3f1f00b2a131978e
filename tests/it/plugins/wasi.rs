//! What a guest finds in WASI: nothing, a time that stands still, and randomness that is its call's own.

use std::sync::Arc;

use lapse::{
    domain::{decision::FailureClass, time::DurationMs},
    plugin::{Host as _, Plugin},
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings, task},
    purity::closed_with,
};
use crate::support::guest::component;

async fn guest() -> Arc<dyn Plugin> {
    let mut settings = settings();
    settings.cpu = DurationMs::from_millis(200);
    settings.wall = DurationMs::from_millis(1500);
    settings.effect_wall = DurationMs::from_millis(1500);
    load(&host(&settings), component("wasi")).await
}

/// What it finds when it decides, and the same when it compensates.
async fn found(look: &Value) -> Value {
    let plugin = guest().await;
    let (decided, compensated) = both(&*plugin, look).await;
    let mut decided: Value = serde_json::from_str(&closed_with(&decided)).unwrap();
    let compensated: Value = serde_json::from_str(&compensated.result.unwrap().unwrap()).unwrap();
    if look["look"] == "time" {
        // They are made a second apart, less some.
        assert_eq!(compensated["stands_still"], true);
        decided["compensated_at"] = compensated["seconds"].clone();
    } else if look["look"] != "random" {
        assert_eq!(decided, compensated);
    }
    decided
}

async fn both(
    plugin: &dyn Plugin,
    look: &Value,
) -> (lapse::plugin::Run<lapse::domain::decision::Decision>, lapse::plugin::Run<Option<String>>) {
    let decided = plugin.decide(&expiry(look, &json!({})));
    (decided, plugin.compensate(&task("look", look, &json!({})), &rights(&[])).await)
}

#[tokio::test]
async fn it_is_imported_and_said_so() {
    let inspection = host(&settings()).inspect(component("wasi")).await.unwrap();
    assert!(inspection.imports.iter().any(|i| i.starts_with("wasi:clocks/monotonic-clock@0.2.")), "{inspection:?}");
}

#[rstest]
#[case::environment("environment", json!({"variables": [], "arguments": [], "folder": null, "terminal": false}))]
#[case::files("files", json!(0))]
#[case::sockets("sockets", json!({"tcp": "access-denied", "udp": "access-denied", "name": "permanent-resolver-failure"}))]
#[case::input("input", json!({"Err": "StreamError::Closed"}))]
#[case::time("time", json!({
    "seconds": 1_772_368_200, "nanoseconds": 4_000_000, "monotonic": 1_772_368_200_004_000_000_u64,
    "stands_still": true, "compensated_at": 1_772_368_201,
}))]
#[tokio::test]
async fn there_is_nothing_to_find(#[case] look: &str, #[case] expected: Value) {
    assert_eq!(found(&json!({ "look": look })).await, expected);
}

#[rstest]
#[case::sleep_for_ever("sleep_for_ever", FailureClass::Transient, "timeout")]
#[case::await_the_clock("await_the_clock", FailureClass::Transient, "timeout")]
#[case::handles("handles", FailureClass::Permanent, "contract")]
#[case::random_flood("random_flood", FailureClass::Permanent, "contract")]
#[case::exit("exit", FailureClass::Permanent, "exit")]
#[case::panic("panic", FailureClass::Permanent, "panic")]
#[tokio::test]
async fn it_is_stopped_and_the_next_call_runs(#[case] look: &str, #[case] class: FailureClass, #[case] code: &str) {
    let plugin = guest().await;
    let (decided, compensated) = both(&*plugin, &json!({ "look": look })).await;
    for failure in [decided.result.unwrap_err(), compensated.result.unwrap_err()] {
        assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure:?}");
        assert!(code != "panic" || failure.message.contains("it is broken"), "{failure:?}");
    }
    assert!(plugin.decide(&expiry(&json!({"look": "files"}), &json!({}))).result.is_ok());
}

#[tokio::test]
async fn a_sleep_passes_and_the_clock_does_not() {
    let began = std::time::Instant::now();
    assert_eq!(found(&json!({"look": "sleep", "ms": 300})).await, json!({"woken_by": [1], "moved": 0}));
    assert!(began.elapsed().as_millis() >= 600, "both of its calls have slept");
}

#[tokio::test]
async fn the_same_call_sees_the_same_randomness() {
    let plugin = guest().await;
    let mut expiry = expiry(&json!({"look": "random"}), &json!({}));
    let first = closed_with(&plugin.decide(&expiry));
    assert_eq!(closed_with(&plugin.decide(&expiry)), first);
    // With effects too, and on another host.
    assert_eq!(closed_with(&guest().await.decide_with_effects(&expiry, &rights(&[])).await), first);
    expiry.attempt = 2;
    let second = closed_with(&plugin.decide(&expiry));
    expiry.idempotency_key = "another".into();
    let third = closed_with(&plugin.decide(&expiry));
    assert!(first != second && second != third && first != third);
    // What was seen once must be seen again after every change to the host.
    let bytes: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(
        bytes[0].as_array().unwrap().iter().take(4).collect::<Vec<_>>(),
        FIRST_BYTES.map(|b| json!(b)).iter().collect::<Vec<_>>()
    );
}

const FIRST_BYTES: [u8; 4] = [141, 161, 173, 237];

#[tokio::test]
async fn what_it_prints_is_in_the_log() {
    let run = guest().await.decide(&expiry(&json!({"look": "print"}), &json!({})));
    let lines: Vec<_> = run.logs.iter().map(|l| (l.level.as_str(), l.message.as_str())).collect();
    assert_eq!(
        lines,
        [
            ("info", "a line, and more of it"),
            ("info", "another"),
            ("info", "between"),
            ("error", "a complaint"),
            ("info", "without an end"),
        ]
    );
}

#[tokio::test]
async fn a_flood_of_print_is_cut_off() {
    let run = guest().await.decide(&expiry(&json!({"look": "print_flood", "lines": 300, "bytes": 9000}), &json!({})));
    assert!(run.result.is_ok(), "{:?}", run.result);
    assert_eq!(run.logs.len(), 101);
    assert!(run.logs.iter().all(|l| l.message.len() <= 4096));
    assert!(run.logs[100].message.ends_with("more lines were not kept"), "{:?}", run.logs[100]);
}
