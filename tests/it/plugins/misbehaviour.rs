//! Plugins that misbehave: each is stopped, its failure is classified, and nothing else notices.

use std::{sync::Arc, thread};

use lapse::{
    domain::{
        decision::{FailureClass, Verdict},
        time::DurationMs,
    },
    plugin::{Plugin, Run},
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings, task},
    purity::closed_with,
};
use crate::support::guest::component;

async fn hostile() -> Arc<dyn Plugin> {
    let mut settings = settings();
    settings.cpu = DurationMs::from_millis(200);
    load(&host(&settings), component("hostile")).await
}

fn decide(plugin: &dyn Plugin, payload: &Value) -> Run<lapse::domain::decision::Decision> {
    plugin.decide(&expiry(payload, &json!({})))
}

#[rstest]
#[case::endless_loop(json!({"do": "loop"}), FailureClass::Transient, "timeout")]
#[case::memory_bomb(json!({"do": "memory_bomb"}), FailureClass::Permanent, "out_of_memory")]
#[case::deep_recursion(json!({"do": "recursion"}), FailureClass::Permanent, "stack_overflow")]
#[case::fifty_megabytes(json!({"do": "huge", "bytes": 50_000_000}), FailureClass::Permanent, "output_too_large")]
#[case::just_too_much(json!({"do": "huge", "bytes": 1_048_577}), FailureClass::Permanent, "output_too_large")]
#[case::panic(json!({"do": "panic"}), FailureClass::Permanent, "panic")]
#[case::wild_read(json!({"do": "wild_read"}), FailureClass::Permanent, "trap")]
#[case::bad_json(json!({"do": "bad_json"}), FailureClass::Permanent, "contract")]
#[case::two_values(json!({"do": "close_with", "result": "1 2"}), FailureClass::Permanent, "contract")]
#[case::compensations(json!({"do": "compensations", "count": 201}), FailureClass::Permanent, "contract")]
#[case::kind(json!({"do": "compensations", "count": 1, "kind": "Not A Name"}), FailureClass::Permanent, "contract")]
#[case::payload(json!({"do": "compensations", "count": 1, "payload": "nul"}), FailureClass::Permanent, "contract")]
#[case::long_payload(json!({"do": "compensations", "count": 1, "payload": format!("\"{}\"", "x".repeat(65_536))}), FailureClass::Permanent, "contract")]
#[case::follow_ups(json!({"do": "follow_ups", "count": 17}), FailureClass::Permanent, "contract")]
#[case::follow_up_key(json!({"do": "follow_ups", "count": 1, "key": "a\nb"}), FailureClass::Permanent, "contract")]
#[case::follow_up_year_10000(json!({"do": "follow_ups", "count": 1, "at_ms": 253_402_300_800_000_u64}), FailureClass::Permanent, "contract")]
#[case::events(json!({"do": "events", "count": 17}), FailureClass::Permanent, "contract")]
#[case::event_data(json!({"do": "events", "count": 1, "data": "{"}), FailureClass::Permanent, "contract")]
#[case::counters(json!({"do": "counters", "count": 17}), FailureClass::Permanent, "contract")]
#[case::skip_with_effects(json!({"do": "skip_with_effects"}), FailureClass::Permanent, "contract")]
#[case::retry_beyond_time(json!({"do": "retry", "after_ms": u64::MAX}), FailureClass::Permanent, "contract")]
#[case::code(json!({"do": "fail", "class": "transient", "code": "no good"}), FailureClass::Permanent, "contract")]
#[case::its_own_failure(json!({"do": "fail", "class": "conflict", "code": "taken"}), FailureClass::Conflict, "taken")]
#[tokio::test]
async fn is_classified_and_the_next_call_runs(#[case] payload: Value, #[case] class: FailureClass, #[case] code: &str) {
    let plugin = hostile().await;
    let failure = decide(&*plugin, &payload).result.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure:?}");
    assert!(matches!(decide(&*plugin, &json!({"do": "close"})).result.unwrap().verdict, Verdict::Close { .. }));
    // The same on the way that has effects.
    let run = plugin.decide_with_effects(&expiry(&payload, &json!({})), &rights(&[])).await;
    let failure = run.result.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (class, code), "{failure:?}");
}

#[tokio::test]
async fn what_is_within_bounds_is_carried_over() {
    let plugin = hostile().await;
    let follow = decide(&*plugin, &json!({"do": "follow_ups", "count": 16, "at_ms": 1_900_000_000_000_u64}));
    let effects = follow.result.unwrap().effects;
    assert_eq!(effects.follow_ups.len(), 16);
    assert_eq!(
        (effects.follow_ups[3].timer_type.as_str(), effects.follow_ups[3].key.as_str()),
        ("hostile", "follow-3")
    );
    let events =
        decide(&*plugin, &json!({"do": "events", "count": 16, "data": "{\"a\": 1}"})).result.unwrap().effects.events;
    assert_eq!((events.len(), events[0].data.get()), (16, "{\"a\": 1}"));
    let counters = decide(&*plugin, &json!({"do": "counters", "count": 16})).result.unwrap().effects.counters;
    assert_eq!((counters.len(), counters[0].value), (16, 2));
    let made = decide(&*plugin, &json!({"do": "compensations", "count": 200})).result.unwrap().effects.compensations;
    assert_eq!(made.len(), 200);
    let retry = decide(&*plugin, &json!({"do": "retry", "after_ms": 1500})).result.unwrap().verdict;
    assert!(matches!(retry, Verdict::Retry { after: Some(ms), .. } if ms.as_millis() == 1500));
}

#[tokio::test]
async fn a_flood_of_lines_is_cut_off() {
    let run = decide(&*hostile().await, &json!({"do": "log_flood", "lines": 1000, "bytes": 10_001}));
    assert!(run.result.is_ok());
    assert_eq!(run.logs.len(), 101);
    assert!(run.logs.iter().all(|l| l.message.len() <= 4096));
    assert_eq!(run.logs[100].message, "900 more lines were not kept");
}

#[tokio::test]
async fn host_calls_are_counted_and_bounded() {
    let payload = json!({"do": "http", "url": "http://shop.test/", "times": 101});
    let run = decide(&*hostile().await, &payload);
    assert_eq!(closed_with(&run), r#""too-many-calls""#);
    assert_eq!((run.cost.host_calls, run.denied.len()), (101, 20));
}

#[tokio::test]
async fn a_panic_is_told_with_its_message() {
    let failure = decide(&*hostile().await, &json!({"do": "panic"})).result.unwrap_err();
    assert!(failure.message.contains("asked to"), "{failure:?}");
}

/// Calls that loop, on both ways, while an innocent plugin on the same host is called again and again.
#[tokio::test]
async fn others_go_on_while_some_loop() {
    let mut settings = settings();
    settings.cpu = DurationMs::from_millis(300);
    let host = host(&settings);
    let (hostile, innocent) = (load(&host, component("hostile")).await, load(&host, component("hostile")).await);
    let looping = expiry(&json!({"do": "loop"}), &json!({}));
    let blocking = {
        let (hostile, looping) = (Arc::clone(&hostile), looping.clone());
        thread::spawn(move || hostile.decide(&looping).result.unwrap_err().code)
    };
    let asynchronous: Vec<_> = (0..4)
        .map(|_| {
            let (hostile, task) = (Arc::clone(&hostile), task("undo", &json!({"do": "loop"}), &json!({})));
            tokio::spawn(async move { hostile.compensate(&task, &rights(&[])).await.result.unwrap_err().code })
        })
        .collect();
    let mut calls = 0;
    while !(blocking.is_finished() && asynchronous.iter().all(tokio::task::JoinHandle::is_finished)) {
        assert!(decide(&*innocent, &json!({"do": "close"})).result.is_ok());
        let undo = task("undo", &json!({"do": "close"}), &json!({}));
        assert!(innocent.compensate(&undo, &rights(&[])).await.result.is_ok());
        calls += 1;
    }
    assert!(calls > 10, "{calls}");
    assert_eq!(blocking.join().unwrap(), "timeout");
    for code in asynchronous {
        assert_eq!(code.await.unwrap(), "timeout");
    }
}

/// CPU time is what is bounded: with eight at once on few cores, each takes long on the wall and none is stopped.
#[tokio::test]
async fn a_busy_machine_times_out_no_innocent_plugin() {
    let spin = json!({"do": "spin", "millions": 20});
    let alone = decide(&*load(&host(&settings()), component("hostile")).await, &spin);
    assert!(alone.result.is_ok(), "{alone:?}");
    let mut settings = settings();
    settings.cpu = DurationMs::from_millis((alone.cost.cpu_us / 1000).max(1) * 3);
    settings.wall = DurationMs::from_secs(120);
    let plugin = load(&host(&settings), component("hostile")).await;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (plugin, spin) = (Arc::clone(&plugin), spin.clone());
            thread::spawn(move || decide(&*plugin, &spin))
        })
        .collect();
    for thread in threads {
        let run = thread.join().unwrap();
        assert!(run.result.is_ok(), "{run:?}");
    }
}

#[tokio::test]
async fn a_hard_stop_ends_what_uses_no_cpu_time_too() {
    let mut settings = settings();
    settings.cpu = DurationMs::from_secs(3600);
    settings.wall = DurationMs::from_millis(100);
    settings.effect_wall = DurationMs::from_millis(100);
    let plugin = load(&host(&settings), component("hostile")).await;
    let looping = json!({"do": "loop"});
    assert_eq!(decide(&*plugin, &looping).result.unwrap_err().code, "timeout");
    let run = plugin.compensate(&task("undo", &looping, &json!({})), &rights(&[])).await;
    assert_eq!(run.result.unwrap_err().code, "timeout");
}
