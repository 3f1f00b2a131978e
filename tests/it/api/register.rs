//! `POST /v1/timers`

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::app::{AppOptions, NOON, TestApp, order};

#[tokio::test]
async fn a_timer_is_registered_once_and_found_by_id_and_key() {
    let app = TestApp::with_type().await;
    let body = json!({
        "type": "order-timeout", "key": "A17", "payload": order("A17"), "delay": "90s", "labels": {"shop": "main"}
    });
    let new = app.post("/v1/timers").key("producer").json(&body).header("idempotency-key", "m-17").send().await;
    assert_eq!(new.status, StatusCode::CREATED, "{new:?}");
    let timer = &new.json;
    let id = timer["id"].as_str().unwrap();
    assert_eq!(new.header("location"), format!("/v1/timers/{id}"));
    assert_eq!(new.header("etag"), "\"1\"");
    assert_eq!(
        *timer,
        json!({
            "id": id, "namespace": "default", "type": "order-timeout", "key": "A17", "state": "scheduled",
            "payload": order("A17"), "due_at": "2026-03-01T12:01:30.000Z", "run_at": "2026-03-01T12:01:30.000Z",
            "expired": false, "attempt": 1, "version": 1, "revision": 1, "runs": {"revision": 1, "why": "active"},
            "labels": {"shop": "main"}, "created_at": NOON
        })
    );

    // The delay as given counts, not the due time that it leads to.
    app.clock.advance("1m".parse().unwrap());
    let again = app.post("/v1/timers").key("producer").json(&body).send().await;
    assert_eq!((again.status, &again.json), (StatusCode::OK, timer));

    let location = new.header("location").to_owned();
    for path in [location.as_str(), "/v1/types/order-timeout/timers/A17"] {
        let found = app.get(path).key("reader").send().await;
        assert_eq!((found.status, found.header("etag"), &found.json), (StatusCode::OK, "\"1\"", timer));
    }
    let events = app.get(&format!("{location}/events")).key("reader").send().await;
    let event = &events.items()[0];
    assert_eq!(event["kind"], "registered");
    assert_eq!(event["actor"], "key:producer");
    assert_eq!(event["message_id"], "m-17");
    assert_eq!(event["seq"], 1);
}

#[tokio::test]
async fn another_request_for_the_key_conflicts_whatever_became_of_the_timer() {
    let app = TestApp::with_type().await;
    let base = json!({
        "type": "order-timeout", "key": "A", "payload": order("A"), "delay": "1h", "labels": {"a": "b"}
    });
    let timer = app.register_with(base.clone()).await;
    let others = [
        ("payload", order("B")),
        ("delay", json!("2h")),
        ("labels", json!({})),
        ("labels", json!({"a": "c"})),
        ("revision", json!(1)),
    ];
    for settled in [false, true] {
        if settled {
            app.post(&format!("/v1/timers/{}/resolve", timer["id"].as_str().unwrap())).send().await;
        }
        for (field, value) in &others {
            let mut other = base.clone();
            other[field] = value.clone();
            let reply = app.post("/v1/timers").json(&other).send().await;
            assert_eq!(reply.says(), (409, "key_conflict"), "{field}");
            assert_eq!(reply.json["timer"]["id"], timer["id"], "the timer that has the key is shown");
        }
        let same = app.post("/v1/timers").json(&base).send().await;
        assert_eq!(same.status, StatusCode::OK);
        assert_eq!(same.json["state"], if settled { "resolved" } else { "scheduled" });
    }
    // The same delay in other words, and the same object in another order.
    let text = r#"{"labels":{"a":"b"},"delay":"60m","payload":{ "total":1000, "order_id":"\u0041" },"key":"A","type":"order-timeout"}"#;
    assert_eq!(app.post("/v1/timers").text(text).send().await.status, StatusCode::OK);
    assert_eq!(app.count().await, 1);
}

#[tokio::test]
async fn of_a_hundred_at_once_one_creates() {
    let app = TestApp::with_type().await;
    let body = json!({ "type": "order-timeout", "key": "A", "payload": order("A") });
    let calls = (0..100).map(|_| app.post("/v1/timers").json(&body).send());
    let replies = futures_util::future::join_all(calls).await;
    let created = replies.iter().filter(|r| r.status == StatusCode::CREATED).count();
    let same = replies.iter().filter(|r| r.status == StatusCode::OK).count();
    assert_eq!((created, same), (1, 99));
    assert!(replies.iter().all(|r| r.json["id"] == replies[0].json["id"]));
    assert_eq!(app.count().await, 1);
}

#[tokio::test]
async fn due_times_keep_their_milliseconds_at_any_distance() {
    let app = TestApp::with_type().await;
    // 2^31 and 2^32 milliseconds, a year and ten, each with its neighbours; and the last instant there is.
    let noon = app.now().as_millis();
    for ms in [1 << 31, 1 << 32, 365 * 86_400_000, 3652 * 86_400_000_i64] {
        for ms in [ms - 1, ms, ms + 1] {
            let at = lapse::domain::time::Timestamp::from_millis(noon + ms).unwrap().to_string();
            for (field, value) in [("delay", format!("{ms}ms")), ("due_at", at.clone())] {
                let body = json!({
                    "type": "order-timeout", "key": format!("{field}{ms}"), "payload": order("A"), field: value
                });
                let timer = app.register_with(body).await;
                assert_eq!((&timer["due_at"], &timer["run_at"]), (&json!(at), &json!(at)));
                assert_eq!(timer["expired"], false);
            }
        }
    }
    let last = "9999-12-31T23:59:59.999Z";
    let body = json!({ "type": "order-timeout", "key": "last", "payload": order("A"), "due_at": last });
    assert_eq!(app.register_with(body).await["due_at"], last);
}

#[tokio::test]
async fn a_past_due_time_is_taken_and_due_at_once() {
    let app = TestApp::with_type().await;
    for due in ["1970-01-01T00:00:00Z", "2026-03-01T11:59:59.999+00:00", "2026-03-01T20:00:00+08:00"] {
        let body = json!({ "type": "order-timeout", "key": due, "payload": order("A"), "due_at": due });
        let timer = app.register_with(body).await;
        assert_eq!(timer["expired"], true);
        assert_eq!(timer["run_at"], NOON, "what has passed runs now, never in the past");
    }
    // Parts finer than a millisecond are never early.
    let body = json!({
        "type": "order-timeout", "key": "fine", "payload": order("A"), "due_at": "2026-03-01T12:00:00.000000001Z"
    });
    assert_eq!(app.register_with(body).await["due_at"], "2026-03-01T12:00:00.001Z");
}

#[tokio::test]
async fn the_default_delay_is_the_types_and_else_the_plugins() {
    let app = TestApp::with_type().await;
    assert_eq!(app.register("plugin").await["due_at"], "2026-03-01T12:30:00.000Z");
    let digest = app.get("/v1/types/order-timeout").send().await.json["digest"].clone();
    let put =
        app.put("/v1/types/order-timeout").json(&json!({ "digest": digest, "default_delay": "PT5M" })).send().await;
    assert_eq!(put.json["default_delay"], "5m");
    assert_eq!(app.register("type").await["due_at"], "2026-03-01T12:05:00.000Z");
    // Pinned to the first revision.
    let body = json!({ "type": "order-timeout", "key": "pinned", "payload": order("A"), "revision": 1 });
    let pinned = app.register_with(body).await;
    assert_eq!((&pinned["due_at"], &pinned["revision"]), (&json!("2026-03-01T12:30:00.000Z"), &json!(1)));
}

#[tokio::test]
async fn keys_and_payloads_are_kept_byte_for_byte() {
    let app = TestApp::with_type().await;
    let keys = [
        "订单-17",
        "e\u{301}",
        "\u{e9}",
        "שלום",
        "👩‍👩‍👧‍👦",
        "a/b",
        "..",
        ".",
        "a b",
        " a",
        "100%",
        "a%2Fb",
        "?q#f",
        "a\\b",
        "\u{202e}abc",
        "\"quoted\"",
        "UPPER.lower_1",
        "+",
    ];
    for key in keys {
        let timer = app.register_with(json!({ "type": "order-timeout", "key": key, "payload": order("A") })).await;
        assert_eq!(timer["key"], key);
        let encoded = percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC);
        let by_path = app.get(&format!("/v1/types/order-timeout/timers/{encoded}")).send().await;
        assert_eq!(by_path.json["id"], timer["id"], "{key:?} by its path");
        let by_filter = app.get(&format!("/v1/timers?key={encoded}")).send().await;
        assert_eq!(by_filter.items().len(), 1, "{key:?} by its filter");
        assert_eq!(by_filter.items()[0]["id"], timer["id"]);
    }
    assert_eq!(app.count().await, keys.len(), "no two of them are the same");
    let longest = "ü".repeat(128);
    app.register_with(json!({ "type": "order-timeout", "key": longest, "payload": order("A") })).await;

    // Members in their order, white space, escapes, and numbers that no float holds.
    let payload = r#"{ "total" : 9007199254740993,"order_id":"\u00e9é\/", "note":[1.0, 1e2,-0, 0.1000, 123456789012345678901234567890, "\ud83d\ude00"] }"#;
    let text = format!(r#"{{"type":"order-timeout","key":"exact","payload":{payload}}}"#);
    let reply = app.post("/v1/timers").text(&text).send().await;
    assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
    assert!(reply.text.contains(payload), "{}", reply.text);
    let shown = app.get(reply.header("location")).send().await;
    assert!(shown.text.contains(payload), "{}", shown.text);
}

#[tokio::test]
async fn resolving_a_key_before_its_registration_is_remembered() {
    let app = TestApp::with_type().await;
    let path = "/v1/types/order-timeout/timers/A17/resolve";
    let forgotten = app.post(path).key("producer").send().await;
    assert_eq!(forgotten.says(), (404, "not_found"));
    let paid = app.post(path).key("producer").json(&json!({ "remember": true, "reason": "paid" })).send().await;
    assert_eq!((paid.status, &paid.json["state"]), (StatusCode::OK, &json!("resolved")), "{paid:?}");
    let late = app.post("/v1/timers").json(&json!({ "type": "order-timeout", "key": "A17", "payload": order("A17") }));
    let late = late.send().await;
    assert_eq!((late.status, &late.json["state"]), (StatusCode::OK, &json!("resolved")), "{late:?}");
    assert_eq!(late.json["id"], paid.json["id"]);
}

#[tokio::test]
async fn a_key_makes_so_many_calls_a_second() {
    let options = AppOptions { rate_limit: 2, ..AppOptions::default() };
    let app = TestApp::start_with(options, std::sync::Arc::new(crate::support::fake_host::FakeHost)).await;
    let mut left = Vec::new();
    for _ in 0..2 {
        let reply = app.get("/v1/timers").key("reader").send().await;
        assert_eq!((reply.status, reply.header("ratelimit-limit")), (StatusCode::OK, "2"));
        left.push(reply.header("ratelimit-remaining").to_owned());
    }
    assert_eq!(left, ["1", "0"]);
    let refused = app.get("/v1/timers").key("reader").send().await;
    assert_eq!(refused.says(), (429, "rate_limited"));
    assert_eq!((refused.header("ratelimit-remaining"), refused.header("ratelimit-reset")), ("0", "1"));
    assert_eq!(app.get("/v1/timers").key("producer").send().await.status, StatusCode::OK, "another key has its own");
    app.clock.advance("499ms".parse().unwrap());
    assert_eq!(app.get("/v1/timers").key("reader").send().await.says().0, 429);
    app.clock.advance("1ms".parse().unwrap());
    assert_eq!(app.get("/v1/timers").key("reader").send().await.status, StatusCode::OK);
    // A clock that is put back stops nobody for longer.
    app.clock.set("2026-02-01T00:00:00Z".parse().unwrap());
    app.get("/v1/timers").key("reader").send().await;
    app.clock.advance("1s".parse().unwrap());
    assert_eq!(app.get("/v1/timers").key("reader").send().await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_unset_is_left_out() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    let fields = timer.as_object().unwrap();
    assert!(!fields.values().any(Value::is_null), "{timer}");
    assert!(!fields.contains_key("settled_at") && !fields.contains_key("outcome"), "{timer}");
}
