//! Figures, forecasts, and who one is.

use lapse::{
    domain::{machine::Command, time::DurationMs},
    stats::Broker,
    store::op::{Act, Target},
};
use serde_json::{Value, json};

use super::compensations::{closed_with, kill};
use crate::support::app::{NOON, ROLES, TestApp, order};

fn secs(s: u64) -> DurationMs {
    DurationMs::from_secs(s)
}

#[tokio::test]
async fn a_key_is_told_what_it_is() {
    let app = TestApp::start().await;
    app.namespace("other").await;
    for (_, role) in ROLES {
        let me = app.get("/v1/self").key(role).send().await;
        assert_eq!(me.json["role"], role);
        assert_eq!(me.json["key_name"], role);
        assert_eq!((&me.json["namespace"], &me.json["node_id"]), (&json!("default"), &json!("node-1")));
        assert_eq!(me.json["now"], NOON);
    }
    assert_eq!(app.get("/v1/self").namespace("other").send().await.json["namespace"], "other");
}

#[tokio::test]
async fn figures_are_of_what_was_written_and_counts_of_what_is_there() {
    let app = TestApp::with_type().await;
    app.namespace("other").await;
    app.put_type("other", "theirs").await;
    for n in 0..4 {
        app.register(&format!("k{n}")).await;
    }
    let cancel = json!({ "reason": "withdrawn" });
    assert_eq!(app.post("/v1/types/order-timeout/timers/k0/cancel").json(&cancel).send().await.status, 200);
    // A second time changes nothing.
    assert_eq!(app.post("/v1/types/order-timeout/timers/k0/cancel").json(&cancel).send().await.status, 200);
    let stats = app.get("/v1/stats").send().await.json;
    assert_eq!((&stats["rates"]["registered"], &stats["rates"]["cancelled"]), (&json!(4.0), &json!(1.0)), "{stats}");
    // Half an hour later.
    closed_with(&app, "closed", &["release", "coupon"]).await;
    kill(&app, "release").await;
    tokio::time::sleep(std::time::Duration::from_millis(1_050)).await;
    let stats = app.get("/v1/stats").send().await.json;
    assert_eq!((&stats["rates"]["registered"], &stats["rates"]["closed"]), (&json!(0.0), &json!(0.017)), "{stats}");
    assert_eq!(stats["node_id"], "node-1");
    assert_eq!(stats["since"], NOON);
    assert_eq!(stats["broker"], json!({ "state": "none" }));
    assert_eq!(stats["compensations"]["dead"], json!({ "count": 1, "capped": false }));
    assert_eq!(stats["compensations"]["pending"], json!({ "count": 1, "capped": false }));
    assert!(stats["compensations"]["oldest_dead_at"].is_string());
    let types = stats["types"].as_array().unwrap();
    assert_eq!(types.len(), 1, "another namespace's types are not there");
    assert_eq!(types[0]["type"], "order-timeout");
    assert_eq!(types[0]["dead"], json!({ "count": 1, "capped": false }));
    assert!(types[0].get("lateness_p50_ms").is_none(), "nothing fired here");

    let theirs = app.get("/v1/stats").namespace("other").send().await.json;
    assert_eq!(theirs["rates"]["registered"], 0.0);
    assert_eq!(theirs["scheduled"], json!({ "count": 0, "capped": false }));
}

#[tokio::test]
async fn what_is_overdue_is_counted_and_the_oldest_named() {
    let app = TestApp::with_type().await;
    for (key, delay) in [("second", "20s"), ("first", "10s"), ("later", "2h")] {
        let body = json!({ "type": "order-timeout", "key": key, "payload": order(key), "delay": delay });
        app.register_with(body).await;
    }
    app.clock.advance(secs(25));
    let stats = app.get("/v1/stats").send().await.json;
    assert_eq!(stats["overdue"], json!({ "count": 2, "capped": false }));
    assert_eq!(stats["scheduled"], json!({ "count": 3, "capped": false }));
    assert_eq!(stats["oldest_overdue"]["key"], "first");
    assert_eq!(stats["oldest_overdue"]["state"], "scheduled");
    assert_eq!(stats["counted_at"], stats["now"]);
    *app.engine.broker.lock() = Some(Broker::Away { for_at_least: secs(5) });
    let stats = app.get("/v1/stats").send().await.json;
    assert_eq!(stats["broker"], json!({ "state": "away", "since": "2026-03-01T12:00:20.000Z" }));
}

#[tokio::test]
async fn the_history_has_a_step_for_every_five_seconds_since_the_start() {
    let app = TestApp::with_type().await;
    app.clock.advance(secs(7));
    app.register("a").await;
    let timer = app.register("b").await;
    app.clock.advance(secs(11));
    let target = Target::Id { namespace_id: app.namespace("default").await, id: id(&timer) };
    let act = Act {
        target,
        command: Command::Resolve,
        expected_version: None,
        actor: "key:test".into(),
        reason: None,
        message_id: None,
        remember: None,
    };
    app.store.act(act).await.unwrap();
    app.clock.advance(secs(5));
    let stats = app.get("/v1/stats").send().await.json;
    let steps: Vec<_> = stats["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["at"].as_str().unwrap().to_owned(), p["registered"].as_u64(), p["resolved"].as_u64()))
        .collect();
    let at = |second: u64, registered, resolved| {
        (format!("2026-03-01T12:00:{second:02}.000Z"), Some(registered), Some(resolved))
    };
    assert_eq!(steps, [at(0, 0, 0), at(5, 2, 0), at(10, 0, 0), at(15, 0, 1)]);
    // An hour of stillness later all is long past.
    app.clock.advance(secs(3600));
    let stats = app.get("/v1/stats").send().await.json;
    assert_eq!(stats["rates"]["registered"], 0.0);
    let history = stats["history"].as_array().unwrap();
    assert_eq!(history.len(), 120);
    assert!(history.iter().all(|p| p["registered"] == 0));
}

fn id(timer: &Value) -> lapse::domain::id::TimerId {
    lapse::domain::id::TimerId(timer["id"].as_str().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_forecast_is_by_type_and_step() {
    let app = TestApp::with_type().await;
    app.put_type("default", "another").await;
    for (n, delay) in ["30s", "59s", "61s", "59m", "61m"].iter().enumerate() {
        let body = json!({ "type": "order-timeout", "key": n.to_string(), "payload": order("x"), "delay": delay });
        app.register_with(body).await;
    }
    let forecast = app.get("/v1/forecast").send().await.json;
    assert_eq!((&forecast["step_ms"], &forecast["partial"]), (&json!(60_000), &json!(false)));
    assert_eq!(forecast["until"], "2026-03-01T13:00:00.000Z");
    let series = forecast["series"].as_array().unwrap();
    assert_eq!(series.len(), 1, "only what has something: {forecast}");
    let counts = series[0]["counts"].as_array().unwrap();
    assert_eq!(counts.len(), 60);
    assert_eq!((&counts[0], &counts[1], &counts[59]), (&json!(2), &json!(1), &json!(1)));

    let coarse = "/v1/forecast?from=2026-03-01T12:00:00Z&until=2026-03-01T14:00:00Z&step=1h&type=order-timeout";
    assert_eq!(app.get(coarse).send().await.json["series"][0]["counts"], json!([4, 1]));
    assert_eq!(app.get("/v1/forecast?type=nothing").send().await.json["series"], json!([]));
    for (query, place) in [
        ("step=0s", "?step"),
        ("step=soon", "?step"),
        ("step=1s", "?step"),
        ("until=2026-03-01T11:00:00Z", "?until"),
        ("from=tomorrow", "?from"),
    ] {
        let refused = app.get(&format!("/v1/forecast?{query}")).send().await;
        assert_eq!(refused.says(), (400, "malformed"), "{query}");
        assert_eq!(refused.pointers(), [place], "{query}");
    }
}
