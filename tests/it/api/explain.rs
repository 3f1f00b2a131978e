//! Every reason that a timer can be given for not having fired.

use lapse::{
    domain::{
        decision::{Failure, FailureClass},
        machine::Settle,
        time::DurationMs,
        timer::{Timer, Trigger},
    },
    stats::{Broker, Lane},
    store::op::{Claim, Claimed, Settlement},
};
use serde_json::{Value, json};

use crate::support::app::TestApp;

const ORDER: [&str; 10] = [
    "not_due",
    "paused",
    "lane_full",
    "rate_limited",
    "breaker_open",
    "waiting_to_retry",
    "claimed",
    "awaiting_backlog",
    "broker_away",
    "plugin_unavailable",
];

fn secs(s: u64) -> DurationMs {
    DurationMs::from_secs(s)
}

/// A timer that was due so long ago.
async fn overdue(app: &TestApp, key: &str, by: u64) -> Timer {
    let body =
        json!({ "type": "order-timeout", "key": key, "payload": crate::support::app::order(key), "delay": "1s" });
    let timer = app.register_with(body).await;
    app.clock.advance(secs(1 + by));
    row(app, &timer).await
}

async fn row(app: &TestApp, timer: &Value) -> Timer {
    app.store.read().timer(timer["id"].as_str().unwrap().parse().unwrap()).await.unwrap().unwrap()
}

async fn explain(app: &TestApp, timer: &Timer) -> Value {
    let reply = app.get(&format!("/v1/timers/{}/explain", timer.id)).key("reader").send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let codes: Vec<_> = reply.json["checks"].as_array().unwrap().iter().map(|c| c["code"].clone()).collect();
    if reply.json["code"] != "settled" {
        assert_eq!(codes, ORDER, "every reason, in order");
    }
    let deciding = check(&reply.json, reply.json["code"].as_str().unwrap());
    assert_eq!(deciding["sentence"], reply.json["sentence"]);
    reply.json
}

fn check<'a>(explanation: &'a Value, code: &str) -> &'a Value {
    let found = explanation["checks"].as_array().unwrap().iter().find(|c| c["code"] == code);
    found.unwrap_or_else(|| panic!("no check {code}: {explanation}"))
}

async fn settle(app: &TestApp, timer: &Timer, settle: Settle) {
    let settlement = Settlement {
        id: timer.id,
        version: timer.version,
        settle,
        trigger: Trigger::Slot,
        digest: None,
        actor: "plugin:order-timeout".to_owned(),
        detail: json!({}),
        revision: 1,
        compensations: Vec::new(),
        follow_ups: Vec::new(),
        events: Vec::new(),
        counters: Vec::new(),
    };
    app.store.settle(settlement).await.unwrap();
}

#[tokio::test]
async fn what_is_not_due_says_when() {
    let app = TestApp::with_type().await;
    let timer = row(&app, &app.register("A").await).await;
    app.clock.advance(secs(26 * 60));
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "not_due");
    assert_eq!(explained["sentence"], "It is due in 4 minutes.");
    assert_eq!(check(&explained, "not_due")["until"], "2026-03-01T12:30:00.000Z");
    // A pause is said, and does not decide before its time.
    let pause = json!({ "reason": "the bank is shut" });
    assert_eq!(app.post("/v1/types/order-timeout/pause").json(&pause).send().await.status, 200);
    app.catalog.refresh_at_once().await.unwrap();
    let explained = explain(&app, &timer).await;
    assert_eq!((&explained["code"], &check(&explained, "paused")["status"]), (&json!("not_due"), &json!("blocking")));
    app.clock.advance(secs(5 * 60));
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "paused");
    assert_eq!(explained["sentence"], "Its type order-timeout is paused: the bank is shut");
    assert_eq!(check(&explained, "paused")["fix"]["action"], "resume");
    assert_eq!(check(&explained, "paused")["evidence"]["by"], "key:admin");
}

#[tokio::test]
async fn a_pause_of_more_than_the_type_is_named_and_what_was_taken_up_before_it_goes_on() {
    let app = TestApp::with_type().await;
    let (timer, taken) = (overdue(&app, "A", 1).await, overdue(&app, "B", 1).await);
    let claim =
        Claim { id: taken.id, version: taken.version, lease: secs(60), trigger: Trigger::Slot, node: "node-7".into() };
    assert!(matches!(app.store.claim(claim).await.unwrap(), Claimed::Done(_)));
    for (path, says) in [
        ("/v1/namespaces/default/pause", "Its namespace is paused: the sale is over"),
        ("/v1/pause", "All firing is paused: the sale is over"),
    ] {
        let paused = app.post(path).json(&json!({ "reason": "the sale is over", "until": "2h" })).send().await;
        assert_eq!(paused.status, 200, "{paused:?}");
        app.catalog.refresh_at_once().await.unwrap();
        let explained = explain(&app, &timer).await;
        assert_eq!((&explained["code"], &explained["sentence"]), (&json!("paused"), &json!(says)));
        assert!(check(&explained, "paused")["until"].is_string(), "{explained}");
        let explained = explain(&app, &taken).await;
        assert_eq!((&explained["code"], &check(&explained, "paused")["status"]), (&json!("claimed"), &json!("pass")));
        assert_eq!(app.post(&path.replace("pause", "resume")).send().await.status, 200);
    }
}

#[tokio::test]
async fn what_is_due_is_held_up_by_its_lane_its_rate_the_backlog_or_the_broker() {
    let app = TestApp::with_type().await;
    let digest = app.get("/v1/types/order-timeout").send().await.json["digest"].clone();
    let timer = overdue(&app, "A", 2).await;
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "awaiting_backlog", "about to be decided");
    assert_eq!(check(&explained, "awaiting_backlog")["status"], "unknown");
    assert_eq!(check(&explained, "rate_limited")["status"], "pass");

    *app.engine.broker.lock() = Some(Broker::Away { for_at_least: secs(12) });
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "broker_away");
    assert!(explained["sentence"].as_str().unwrap().contains("away for 12 seconds"), "{explained}");
    *app.engine.broker.lock() = Some(Broker::Up);

    let lane = Lane { queued: 7, room: 20_000, running: 4, width: 4, is_rated: false };
    *app.engine.lane.lock() = Some(lane);
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "lane_full");
    assert_eq!(check(&explained, "lane_full")["evidence"], json!({ "queued": 7, "running": 4, "width": 4 }));
    *app.engine.lane.lock() = Some(Lane { queued: 20_000, running: 1, ..lane });
    assert_eq!(explain(&app, &timer).await["code"], "lane_full", "it takes no more");

    let body = json!({ "digest": digest, "rate": 5 });
    assert_eq!(app.put("/v1/types/order-timeout").json(&body).send().await.status, 200);
    app.catalog.refresh().await.unwrap();
    *app.engine.lane.lock() = Some(Lane { running: 0, is_rated: true, ..lane });
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "rate_limited");
    assert_eq!(check(&explained, "rate_limited")["evidence"], json!({ "rate": 5 }));
    *app.engine.lane.lock() = None;

    app.clock.advance(secs(10));
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "awaiting_backlog");
    assert_eq!(explained["sentence"], "It should have run 12 seconds ago: it waits for the backlog, oldest first.");
    assert_eq!(check(&explained, "awaiting_backlog")["evidence"]["late_ms"], 12_000);
}

#[tokio::test]
async fn a_lease_says_whose_it_is_and_a_lapsed_one_who_takes_over() {
    let app = TestApp::with_type().await;
    let timer = overdue(&app, "A", 1).await;
    let claim =
        Claim { id: timer.id, version: timer.version, lease: secs(60), trigger: Trigger::Slot, node: "node-7".into() };
    assert!(matches!(app.store.claim(claim).await.unwrap(), Claimed::Done(_)));
    app.clock.advance(secs(20));
    let explained = explain(&app, &timer).await;
    assert_eq!((&explained["code"], &explained["state"]), (&json!("claimed"), &json!("firing")));
    assert_eq!(explained["sentence"], "node-7 is deciding it; its lease ends in 40 seconds.");
    assert_eq!(check(&explained, "claimed")["evidence"]["node"], "node-7");
    app.clock.advance(secs(41));
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "awaiting_backlog");
    assert!(explained["sentence"].as_str().unwrap().starts_with("Its lease lapsed"), "{explained}");
}

#[tokio::test]
async fn a_retry_says_when_and_why_and_a_breaker_that_it_waits_for_decides() {
    let app = TestApp::with_type().await;
    let timer = overdue(&app, "A", 1).await;
    let mut failure = Failure::new(FailureClass::Downstream, "unreachable", "no answer");
    failure.host = Some("shop.example:443".into());
    let at = app.now().saturating_add(secs(90));
    settle(&app, &timer, Settle::Retry { at, reason: "unreachable".into(), failure: Some(failure) }).await;
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "waiting_to_retry");
    assert_eq!(explained["sentence"], "Attempt 2 runs in 1 minute.");
    let evidence = &check(&explained, "waiting_to_retry")["evidence"];
    assert_eq!((&evidence["error_code"], &evidence["host"]), (&json!("unreachable"), &json!("shop.example:443")));
    assert_eq!(check(&explained, "breaker_open")["status"], "pass");

    // The type's decision may now call the shop, which does not answer.
    let digest = app.get("/v1/types/order-timeout").send().await.json["digest"].clone();
    let body = json!({ "digest": digest, "grants": ["on-expire:http:shop.example"] });
    let put = app.put("/v1/types/order-timeout").json(&body).send().await;
    assert_eq!(put.status, 200, "{put:?}");
    app.catalog.refresh().await.unwrap();
    for host in ["shop.example:443", "elsewhere.example:443"] {
        for _ in 0..20 {
            let mut gate = app.breakers.gate("default");
            if let Ok(permit) = gate.admit(host) {
                permit.failed("no connection");
            }
        }
    }
    let explained = explain(&app, &timer).await;
    assert_eq!(explained["code"], "breaker_open");
    let check = check(&explained, "breaker_open");
    assert_eq!(
        (&check["evidence"]["host"], &check["evidence"]["breaker"]),
        (&json!("shop.example:443"), &json!("open"))
    );
    // The revision that runs counts, not the active one: that calls nobody while it decides.
    let pinned = app.register_with(json!({ "type": "order-timeout", "key": "P", "payload": crate::support::app::order("P"), "delay": "0s", "revision": 2 })).await;
    let put = app.put("/v1/types/order-timeout").json(&json!({ "digest": digest, "grants": [] })).send().await;
    assert_eq!(put.json["revision"], 3, "{put:?}");
    let pinned = row(&app, &pinned).await;
    assert_eq!(explain(&app, &pinned).await["code"], "breaker_open");
    assert_eq!(explain(&app, &timer).await["code"], "waiting_to_retry");
    let stats = app.get("/v1/stats").send().await.json;
    let hosts: Vec<_> = stats["breakers"].as_array().unwrap().iter().map(|b| b["host"].clone()).collect();
    assert_eq!(hosts, ["elsewhere.example:443", "shop.example:443"]);
}

#[tokio::test]
async fn a_type_that_cannot_be_loaded_is_said_to_be() {
    let app = TestApp::with_type().await;
    let timer = overdue(&app, "A", 30).await;
    let cold = app.with_no_plugins().await;
    let explained = explain(&cold, &timer).await;
    assert_eq!(explained["code"], "plugin_unavailable");
    assert_eq!(check(&explained, "plugin_unavailable")["fix"]["action"], "operator");
}

#[tokio::test]
async fn what_has_ended_says_how() {
    let app = TestApp::with_type().await;
    let failed = overdue(&app, "failed", 1).await;
    let failure = Failure::new(FailureClass::Permanent, "no_such_order", "there is no such order");
    settle(&app, &failed, Settle::Fail { failure }).await;
    let explained = explain(&app, &failed).await;
    assert_eq!((&explained["code"], explained["checks"].as_array().unwrap().len()), (&json!("settled"), 1));
    assert_eq!(check(&explained, "settled")["status"], "blocking");
    assert_eq!(check(&explained, "settled")["fix"]["action"], "retry_timer");
    assert!(explained["sentence"].as_str().unwrap().ends_with("there is no such order"), "{explained}");

    let closed = overdue(&app, "closed", 1).await;
    settle(&app, &closed, Settle::Close { result: None }).await;
    let skipped = overdue(&app, "skipped", 1).await;
    settle(&app, &skipped, Settle::Skip { reason: "the order is paid".into(), failure: None }).await;
    let resolved = row(&app, &app.register("resolved").await).await;
    app.post(&format!("/v1/timers/{}/resolve", resolved.id)).send().await;
    let cancelled = row(&app, &app.register("cancelled").await).await;
    app.post(&format!("/v1/timers/{}/cancel", cancelled.id)).send().await;
    for (timer, says) in [
        (closed, "It fired, and its plugin closed it."),
        (skipped, "It fired, and its plugin skipped it: the order is paid"),
        (resolved, "The business resolved it before it fired: it will not close."),
        (cancelled, "It was withdrawn: no plugin runs."),
    ] {
        let explained = explain(&app, &timer).await;
        assert_eq!((&explained["code"], &explained["sentence"]), (&json!("settled"), &json!(says)));
        assert_eq!(check(&explained, "settled")["status"], "pass");
        assert!(check(&explained, "settled").get("fix").is_none());
    }
}
