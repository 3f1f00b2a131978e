//! Pausing and resuming, and who may.

use lapse::{domain::time::DurationMs, store::admin::Role};
use serde_json::json;

use crate::support::app::{TestApp, order};

#[tokio::test]
async fn a_pause_is_shown_where_it_is_met_until_it_ends() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    let body = json!({ "reason": "the provider is down", "until": "30m" });
    let paused = app.post("/v1/types/order-timeout/pause").key("operator").json(&body).send().await;
    assert_eq!(paused.status, 200, "{paused:?}");
    let shown = json!({
        "scope": "type", "namespace": "default", "type": "order-timeout", "reason": "the provider is down",
        "since": "2026-03-01T12:00:00.000Z", "until": "2026-03-01T12:30:00.000Z", "by": "key:operator"
    });
    assert_eq!(paused.json["paused"], shown);
    assert_eq!(app.get("/v1/types/order-timeout").key("reader").send().await.json["paused"], shown);
    assert_eq!(app.get("/v1/types").send().await.items()[0]["paused"], shown);
    assert_eq!(app.get("/v1/pauses").key("reader").send().await.items(), [shown]);

    let fire = format!("/v1/timers/{}/fire", timer["id"].as_str().unwrap());
    for path in [fire.as_str(), "/v1/types/order-timeout/timers/A/fire"] {
        let refused = app.post(path).send().await;
        assert_eq!(refused.says(), (409, "paused"), "{refused:?}");
        assert!(refused.json["detail"].as_str().unwrap().contains("the provider is down"));
        assert_eq!(refused.json["timer"]["version"], 1, "nothing of it has changed");
    }
    assert_eq!(app.post("/v1/types/order-timeout/timers/B/fire").send().await.says(), (404, "not_found"));
    // Everything else goes on.
    app.register("C").await;
    let by_key = |key: &str, verb: &str| format!("/v1/types/order-timeout/timers/{key}/{verb}");
    let later = app.post(&by_key("C", "reschedule")).json(&json!({ "delay": "2h" })).send().await;
    assert_eq!(later.status, 200, "{later:?}");
    assert_eq!(app.post(&by_key("C", "cancel")).send().await.json["state"], "cancelled");
    assert_eq!(app.post(&by_key("C", "fire")).send().await.says(), (409, "too_late"), "what it is goes before");

    // Pausing again changes the reason and the end, and not since when.
    app.clock.advance(DurationMs::from_secs(60));
    let until = json!({ "reason": "longer", "until": "2026-03-01T13:00:00Z" });
    let again = app.post("/v1/types/order-timeout/pause").json(&until).send().await.json["paused"].clone();
    assert_eq!(
        (&again["since"], &again["reason"], &again["by"]),
        (&json!("2026-03-01T12:00:00.000Z"), &json!("longer"), &json!("key:admin"))
    );
    app.clock.advance(DurationMs::from_secs(58 * 60));
    assert_eq!(app.get("/v1/pauses").send().await.items().len(), 1);
    app.clock.advance(DurationMs::from_secs(60));
    assert_eq!(app.get("/v1/pauses").send().await.items().len(), 0, "it has ended by itself");
    assert!(app.get("/v1/types/order-timeout").send().await.json.get("paused").is_none());
    assert_eq!(app.post(&fire).send().await.status, 200);
    for _ in 0..2 {
        let resumed = app.post("/v1/types/order-timeout/resume").send().await;
        assert_eq!((resumed.status.as_u16(), resumed.json.get("paused")), (200, None));
    }
}

#[tokio::test]
async fn the_narrowest_pause_is_shown_and_each_is_resumed_by_itself() {
    let app = TestApp::with_type().await;
    let reason = |why: &str| json!({ "reason": why });
    let all = app.post("/v1/pause").json(&reason("all")).send().await;
    assert_eq!((&all.json["paused"]["scope"], &all.json["paused"]["by"]), (&json!("all"), &json!("key:admin")));
    let namespace = app.post("/v1/namespaces/default/pause").key("operator").json(&reason("ns")).send().await;
    assert_eq!(namespace.json["paused"]["scope"], "namespace", "{namespace:?}");
    app.post("/v1/types/order-timeout/pause").json(&reason("type")).send().await;
    let list = app.get("/v1/pauses").send().await;
    let scopes: Vec<_> = list.items().iter().map(|pause| pause["scope"].as_str().unwrap()).collect();
    assert_eq!(scopes, ["all", "namespace", "type"]);
    let shown = async || app.get("/v1/types/order-timeout").send().await.json["paused"]["scope"].clone();
    assert_eq!(shown().await, "type");
    app.post("/v1/types/order-timeout/resume").send().await;
    assert_eq!(shown().await, "namespace");
    app.post("/v1/namespaces/default/resume").send().await;
    assert_eq!(shown().await, "all");
    assert_eq!(app.get("/v1/namespaces").send().await.items()[0]["paused"]["scope"], "all");
    let resumed = app.post("/v1/resume").send().await;
    assert_eq!((resumed.status.as_u16(), &resumed.json), (200, &json!({})));
    assert_eq!(shown().await, json!(null));
}

#[tokio::test]
async fn another_namespace_can_neither_pause_nor_see() {
    let app = TestApp::with_type().await;
    app.namespace("other").await;
    app.put_type("other", "order-timeout").await;
    app.add_key("other", "their-operator", Role::Operator, "their-operator").await;
    let body = json!({ "reason": "theirs" });
    let paused = app.post("/v1/types/order-timeout/pause").key("their-operator").json(&body).send().await;
    assert_eq!(paused.json["paused"]["namespace"], "other");
    assert!(app.get("/v1/types/order-timeout").send().await.json.get("paused").is_none(), "of the same name");
    let theirs = app.post("/v1/namespaces/other/pause").key("their-operator").json(&body).send().await;
    assert_eq!(theirs.status, 200);
    assert_eq!(app.get("/v1/pauses").key("operator").send().await.items().len(), 0);
    for (path, key) in [("/v1/namespaces/default/pause", "their-operator"), ("/v1/namespaces/other/resume", "operator")]
    {
        assert_eq!(app.post(path).key(key).json(&body).send().await.says(), (404, "not_found"), "{path} as {key}");
    }
    let timer = app.register_with(json!({ "type": "order-timeout", "key": "A", "payload": order("A") })).await;
    let fire = format!("/v1/timers/{}/fire", timer["id"].as_str().unwrap());
    assert_eq!(app.post(&fire).key("their-operator").send().await.says(), (404, "not_found"));
    assert_eq!(app.post(&fire).send().await.status, 200);
    // Everybody meets a pause of everything; whose key it was is for administrators.
    app.post("/v1/pause").json(&json!({ "reason": "maintenance" })).send().await;
    let met = app.get("/v1/pauses").key("their-operator").send().await;
    assert_eq!((&met.items()[0]["reason"], &met.items()[0]["by"]), (&json!("maintenance"), &json!("an administrator")));
    assert!(!met.text.contains("key:admin"));
    // An administrator may name any namespace.
    assert_eq!(app.post("/v1/namespaces/other/resume").send().await.json["name"], "other");
    assert_eq!(app.post("/v1/namespaces/nowhere/pause").json(&body).send().await.says(), (404, "not_found"));
}

#[tokio::test]
async fn a_pause_says_why_and_ends_in_the_future() {
    let app = TestApp::with_type().await;
    for (body, code, pointer) in [
        (json!({}), (400, "malformed"), ""),
        (json!({ "reason": " " }), (422, "payload_invalid"), "/reason"),
        (json!({ "reason": "r".repeat(1001) }), (422, "payload_invalid"), "/reason"),
        (json!({ "reason": "a\u{0}b" }), (422, "payload_invalid"), "/reason"),
        (json!({ "reason": "x", "until": "soon" }), (422, "time_invalid"), "/until"),
        (json!({ "reason": "x", "until": "0s" }), (422, "time_invalid"), "/until"),
        (json!({ "reason": "x", "until": "2026-03-01T12:00:00Z" }), (422, "time_invalid"), "/until"),
        (json!({ "reason": "x", "until": "3000000d" }), (422, "time_invalid"), "/until"),
        (json!({ "reason": "x", "until": null }), (400, "malformed"), "/until"),
        (json!({ "reason": "x", "for": "1h" }), (400, "unknown_field"), "/for"),
    ] {
        for path in ["/v1/types/order-timeout/pause", "/v1/namespaces/default/pause", "/v1/pause"] {
            let refused = app.post(path).json(&body).send().await;
            assert_eq!(refused.says(), code, "{path} {body}: {refused:?}");
            assert_eq!(refused.pointers().first().copied(), Some(pointer), "{path} {body}: {refused:?}");
        }
    }
    assert_eq!(app.get("/v1/pauses").send().await.items().len(), 0);
}
