//! `POST /v1/timers/{id}/…` and `POST /v1/types/{type}/timers/{key}/…`

use std::sync::Arc;

use lapse::{
    domain::{
        decision::{Failure, FailureClass},
        id::TimerId,
        machine::Settle,
        timer::{Timer, Trigger},
    },
    store::op::{Claim, Settlement},
};
use serde_json::{Value, json};

use crate::support::app::{AppOptions, Reply, TestApp};

fn id_of(timer: &Value) -> TimerId {
    timer["id"].as_str().unwrap().parse().unwrap()
}

async fn row(app: &TestApp, timer: &Value) -> Timer {
    app.store.read().timer(id_of(timer)).await.unwrap().unwrap()
}

/// Moves the clock to the timer's due time and claims it, as a node does.
async fn claim(app: &TestApp, timer: &Value) -> Timer {
    let row = row(app, timer).await;
    app.clock.set(app.now().max(row.due_at));
    let lease = "60s".parse().unwrap();
    let claim = Claim { id: row.id, version: row.version, lease, trigger: Trigger::Slot, node: "n1".to_owned() };
    app.store.claim(claim).await.unwrap();
    self::row(app, timer).await
}

async fn settle(app: &TestApp, timer: &Timer, settle: Settle) {
    let settlement = Settlement {
        id: timer.id,
        version: timer.version,
        settle,
        trigger: Trigger::Slot,
        digest: None,
        actor: "plugin:order-timeout".to_owned(),
        detail: Value::Null,
        revision: 1,
        compensations: Vec::new(),
        follow_ups: Vec::new(),
        events: Vec::new(),
        counters: Vec::new(),
    };
    app.store.settle(settlement).await.unwrap();
}

fn close() -> Settle {
    Settle::Close { result: Some(r#"{"order":"closed"}"#.to_owned()) }
}

/// A timer of this state.
async fn in_state(app: &TestApp, key: &str, state: &str) -> Value {
    let timer = app.register(key).await;
    match state {
        "scheduled" => {}
        "firing" => drop(claim(app, &timer).await),
        "closed" => {
            let claimed = claim(app, &timer).await;
            settle(app, &claimed, close()).await;
        }
        "failed" => {
            let claimed = claim(app, &timer).await;
            let failure = Failure::new(FailureClass::Permanent, "no_such_order", "there is no such order");
            settle(app, &claimed, Settle::Fail { failure }).await;
        }
        verb => {
            let verb = if verb == "resolved" { "resolve" } else { "cancel" };
            app.post(&format!("/v1/timers/{}/{verb}", id_of(&timer))).send().await;
        }
    }
    let shown = app.get(&format!("/v1/timers/{}", id_of(&timer))).send().await.json;
    assert_eq!(shown["state"], state);
    shown
}

#[tokio::test]
async fn every_action_on_every_state_says_what_the_contract_says() {
    let app = TestApp::with_type().await;
    let states = ["scheduled", "firing", "closed", "resolved", "cancelled", "failed"];
    let (ok, late, firing, wrong) = ((200, ""), (409, "too_late"), (409, "firing"), (409, "wrong_state"));
    let table = [
        ("resolve", [ok, firing, late, ok, late, ok]),
        ("cancel", [ok, firing, late, late, ok, ok]),
        ("reschedule", [ok, firing, late, late, late, wrong]),
        ("fire", [ok, firing, late, late, late, wrong]),
        ("retry", [wrong, firing, late, late, late, ok]),
    ];
    for by_key in [false, true] {
        for (verb, expected) in table {
            for (state, expected) in states.into_iter().zip(expected) {
                let key = format!("{verb} {state} {by_key}");
                let before = in_state(&app, &key, state).await;
                let path = if by_key {
                    format!("/v1/types/order-timeout/timers/{}/{verb}", key.replace(' ', "%20"))
                } else {
                    format!("/v1/timers/{}/{verb}", id_of(&before))
                };
                let call = app.post(&path);
                let call = if verb == "reschedule" { call.json(&json!({ "delay": "1h" })) } else { call };
                let reply = call.send().await;
                assert_eq!(reply.says(), expected, "{key}: {reply:?}");
                let timer = if expected == ok { &reply.json } else { &reply.json["timer"] };
                assert_eq!(timer["id"], before["id"], "{key}: the timer is shown");
                let changes =
                    expected == ok && !matches!((verb, state), ("resolve", "resolved") | ("cancel", "cancelled"));
                let version = before["version"].as_i64().unwrap() + i64::from(changes);
                assert_eq!(timer["version"], version, "{key}");
                if expected == ok {
                    assert_eq!(reply.header("etag"), format!("\"{version}\""));
                }
            }
        }
    }
}

#[tokio::test]
async fn what_an_action_does_is_in_the_answer_and_the_audit() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    let path = format!("/v1/timers/{}", id_of(&timer));
    let body = json!({ "delay": "2h", "reason": "the customer asked" });
    let moved = app.post(&format!("{path}/reschedule")).key("producer").header("idempotency-key", "m-2").json(&body);
    let moved = moved.send().await.json;
    assert_eq!(
        (&moved["due_at"], &moved["run_at"]),
        (&json!("2026-03-01T14:00:00.000Z"), &json!("2026-03-01T14:00:00.000Z"))
    );
    let past =
        app.post(&format!("{path}/reschedule")).json(&json!({ "due_at": "2020-01-01T00:00:00Z" })).send().await.json;
    assert_eq!((&past["due_at"], &past["expired"]), (&json!("2020-01-01T00:00:00.000Z"), &json!(true)));
    let fired = app.post(&format!("{path}/fire")).key("operator").send().await.json;
    assert_eq!(fired["due_at"], "2026-03-01T12:00:00.000Z");
    let resolved = app.post(&format!("{path}/resolve")).json(&json!({ "reason": "paid" })).send().await.json;
    assert_eq!((resolved.get("run_at"), &resolved["settled_at"]), (None, &json!("2026-03-01T12:00:00.000Z")));
    let events = app.get(&format!("{path}/events")).send().await;
    let kinds: Vec<_> = events.items().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["registered", "rescheduled", "rescheduled", "fire_requested", "resolved"]);
    let event = &events.items()[1];
    assert_eq!((&event["actor"], &event["message_id"]), (&json!("key:producer"), &json!("m-2")));
    assert!(event["detail"].to_string().contains("the customer asked"), "{event}");
    assert_eq!(events.items()[4]["state_after"], "resolved");
}

#[tokio::test]
async fn a_resolve_waits_for_a_decision_that_is_under_way() {
    let options = AppOptions { firing_wait: "5s".parse().unwrap(), ..AppOptions::default() };
    let app = Arc::new(TestApp::start_with(options, Arc::new(crate::support::fake_host::FakeHost)).await);
    app.put_type("default", "order-timeout").await;
    // Decided to close: the resolve is told so. Given up for a later try: the resolve gets there first.
    let retry_at = "2026-03-01T15:00:00Z".parse().unwrap();
    let outcomes = [
        ("closes", close(), (409, "too_late")),
        ("retries", Settle::Retry { at: retry_at, reason: "later".to_owned(), failure: None }, (200, "")),
    ];
    for (key, outcome, expected) in outcomes {
        let timer = app.register(key).await;
        let claimed = claim(&app, &timer).await;
        let caller = Arc::clone(&app);
        let path = format!("/v1/types/order-timeout/timers/{key}/resolve");
        let waiting: tokio::task::JoinHandle<Reply> = tokio::spawn(async move { caller.post(&path).send().await });
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        assert!(!waiting.is_finished(), "it waits while the timer is firing");
        settle(&app, &claimed, outcome).await;
        assert_eq!(waiting.await.unwrap().says(), expected, "{key}");
    }
}

#[tokio::test]
async fn a_stale_if_match_changes_nothing() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    let path = format!("/v1/timers/{}/reschedule", id_of(&timer));
    let body = json!({ "delay": "1h" });
    let with = |tag: &str| app.post(&path).header("if-match", tag).json(&body);
    for tag in ["\"2\"", "W/\"1\"", "\"x\"", "\"01\"", "\"2\", \"3\"", "\"-1\""] {
        let reply = with(tag).send().await;
        assert_eq!(reply.says(), (412, "version_conflict"), "{tag}");
        assert_eq!(reply.json["timer"]["version"], 1);
    }
    for (tag, version) in [("\"1\"", 2), ("*", 3), ("\"7\", \"3\"", 4), ("W/\"1\", \"4\"", 5)] {
        let reply = with(tag).send().await;
        assert_eq!((reply.status.as_u16(), &reply.json["version"]), (200, &json!(version)), "{tag}");
    }
    // A key that was never seen has no version that could match.
    let unseen = app.post("/v1/types/order-timeout/timers/B/resolve").header("if-match", "\"1\"");
    assert_eq!(unseen.json(&json!({ "remember": true })).send().await.says(), (404, "not_found"));
}

#[tokio::test]
async fn of_many_conditional_actions_one_gets_through() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    let path = format!("/v1/timers/{}", id_of(&timer));
    let calls = (1..=50).map(|n| {
        let body = json!({ "delay": format!("{n}h") });
        app.post(&format!("{path}/reschedule")).header("if-match", "\"1\"").json(&body).send()
    });
    let replies = futures_util::future::join_all(calls).await;
    assert_eq!(replies.iter().filter(|r| r.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|r| r.says() == (412, "version_conflict")).count(), 49);
}
