//! What must be refused, with its status and code and place, and nothing stored.

use serde_json::{Value, json};

use crate::support::app::{TestApp, order};

/// A registration with these fields instead.
fn with(more: Value) -> String {
    let mut body = json!({ "type": "order-timeout", "key": "A", "payload": order("A") });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string()
}

/// A registration with this payload, as text.
fn payload(text: &str) -> String {
    format!(r#"{{"type":"order-timeout","key":"A","payload":{text}}}"#)
}

#[tokio::test]
async fn bad_registrations_are_refused_and_nothing_is_stored() {
    let app = TestApp::with_type().await;
    let long_label: std::collections::BTreeMap<String, String> =
        (0..33).map(|n| (n.to_string(), String::new())).collect();
    let cases: Vec<(&str, String, u16, &str, Option<&str>)> = vec![
        // Not JSON, or not an object.
        ("an empty body", String::new(), 400, "malformed", None),
        ("broken off", r#"{"type":"order-timeout""#.into(), 400, "malformed", None),
        ("no JSON at all", "type=order-timeout".into(), 400, "malformed", None),
        ("two values", format!("{}{}", with(json!({})), with(json!({}))), 400, "malformed", None),
        ("an array", "[]".into(), 400, "malformed", None),
        (
            "the fields' values in their order",
            r#"["order-timeout","A",{"order_id":"A","total":1}]"#.into(),
            400,
            "malformed",
            None,
        ),
        ("null", "null".into(), 400, "malformed", None),
        ("a byte order mark", format!("\u{feff}{}", with(json!({}))), 400, "malformed", None),
        // Fields.
        ("no type", r#"{"key":"A","payload":{}}"#.into(), 400, "malformed", None),
        ("no payload", r#"{"type":"order-timeout","key":"A"}"#.into(), 400, "malformed", None),
        ("unknown field", with(json!({ "dalay": "1s" })), 400, "unknown_field", Some("/dalay")),
        ("key is a number", with(json!({ "key": 17 })), 400, "malformed", Some("/key")),
        ("type is null", with(json!({ "type": null })), 400, "malformed", Some("/type")),
        ("labels is an array", with(json!({ "labels": [] })), 400, "malformed", Some("/labels")),
        ("a label is a number", with(json!({ "labels": {"a/b": 1} })), 400, "malformed", Some("/labels/a~1b")),
        ("revision is text", with(json!({ "revision": "1" })), 400, "malformed", Some("/revision")),
        ("due_at is a number", with(json!({ "due_at": 1 })), 400, "malformed", Some("/due_at")),
        ("delay is null", with(json!({ "delay": null })), 400, "malformed", Some("/delay")),
        (
            "a field twice",
            r#"{"type":"order-timeout","key":"A","key":"B","payload":{"order_id":"A","total":1}}"#.into(),
            400,
            "malformed",
            None,
        ),
        // Types and revisions.
        ("unknown type", with(json!({ "type": "no-such-type" })), 422, "unknown_type", Some("/type")),
        ("not a type's name", with(json!({ "type": "../x" })), 422, "unknown_type", Some("/type")),
        ("unknown revision", with(json!({ "revision": 7 })), 422, "unknown_type", Some("/revision")),
        ("revision 0", with(json!({ "revision": 0 })), 422, "unknown_type", Some("/revision")),
        // Keys.
        ("an empty key", with(json!({ "key": "" })), 422, "payload_invalid", Some("/key")),
        ("a key of 257 bytes", with(json!({ "key": "k".repeat(257) })), 422, "payload_invalid", Some("/key")),
        ("258 bytes in 129 characters", with(json!({ "key": "ü".repeat(129) })), 422, "payload_invalid", Some("/key")),
        ("a line break in the key", with(json!({ "key": "a\nb" })), 422, "payload_invalid", Some("/key")),
        ("U+0000 in the key", with(json!({ "key": "a\0" })), 422, "payload_invalid", Some("/key")),
        ("U+0085 in the key", with(json!({ "key": "a\u{85}" })), 422, "payload_invalid", Some("/key")),
        ("half a surrogate in the key", with(json!({})).replace(r#""A""#, r#""\ud800""#), 400, "malformed", None),
        // Labels.
        ("too many labels", with(json!({ "labels": long_label })), 422, "payload_invalid", Some("/labels")),
        (
            "a label too long",
            with(json!({ "labels": {"a": "b".repeat(129)} })),
            422,
            "payload_invalid",
            Some("/labels"),
        ),
        ("U+0000 in a label", with(json!({ "labels": {"a": "\0"} })), 422, "payload_invalid", Some("/labels")),
        // Times.
        (
            "both times",
            with(json!({ "delay": "1s", "due_at": "2026-03-02T00:00:00Z" })),
            422,
            "time_invalid",
            Some("/delay"),
        ),
        ("no time at all", with(json!({ "due_at": "tomorrow" })), 422, "time_invalid", Some("/due_at")),
        ("without a zone", with(json!({ "due_at": "2026-03-02T00:00:00" })), 422, "time_invalid", Some("/due_at")),
        ("no such day", with(json!({ "due_at": "2026-02-30T00:00:00Z" })), 422, "time_invalid", Some("/due_at")),
        ("the year 10000", with(json!({ "due_at": "+10000-01-01T00:00:00Z" })), 422, "time_invalid", Some("/due_at")),
        (
            "behind 9999 by its zone",
            with(json!({ "due_at": "9999-12-31T23:59:59.999-00:01" })),
            422,
            "time_invalid",
            Some("/due_at"),
        ),
        ("before 1970", with(json!({ "due_at": "1969-12-31T23:59:59.999Z" })), 422, "time_invalid", Some("/due_at")),
        ("a negative delay", with(json!({ "delay": "-1s" })), 422, "time_invalid", Some("/delay")),
        ("a delay without a unit", with(json!({ "delay": "10" })), 422, "time_invalid", Some("/delay")),
        ("a fraction", with(json!({ "delay": "1.5s" })), 422, "time_invalid", Some("/delay")),
        ("months", with(json!({ "delay": "P1M" })), 422, "time_invalid", Some("/delay")),
        ("an empty delay", with(json!({ "delay": "" })), 422, "time_invalid", Some("/delay")),
        ("behind 9999", with(json!({ "delay": "2912500d" })), 422, "time_invalid", Some("/delay")),
        ("over 64 bits", with(json!({ "delay": "99999999999999999999d" })), 422, "time_invalid", Some("/delay")),
        (
            "over 128 bits",
            with(json!({ "delay": format!("{}s", "9".repeat(60)) })),
            422,
            "time_invalid",
            Some("/delay"),
        ),
        // Payloads.
        (
            "over the schema's bound",
            payload(r#"{"order_id":"A","total":-1}"#),
            422,
            "payload_invalid",
            Some("/payload/total"),
        ),
        (
            "a fault at depth",
            payload(r#"{"order_id":"A","total":1,"items":[{"quantity":1},{"quantity":"2"}]}"#),
            422,
            "payload_invalid",
            Some("/payload/items/1/quantity"),
        ),
        ("a member missing", payload(r#"{"total":1}"#), 422, "payload_invalid", Some("/payload")),
        ("no object", payload("17"), 422, "payload_invalid", Some("/payload")),
        (
            "U+0000 in a string",
            payload(r#"{"order_id":"a\u0000","total":1}"#),
            422,
            "payload_invalid",
            Some("/payload"),
        ),
        (
            "U+0000 in a name",
            payload(r#"{"order_id":"a","total":1,"note":{"\u0000":1}}"#),
            422,
            "payload_invalid",
            Some("/payload"),
        ),
        ("half a surrogate", payload(r#"{"order_id":"\ud800","total":1}"#), 422, "payload_invalid", Some("/payload")),
        (
            "nested 10,000 deep",
            payload(&format!(r#"{{"order_id":"A","total":1,"note":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000))),
            422,
            "payload_invalid",
            Some("/payload"),
        ),
        (
            "a number without bounds",
            payload(r#"{"order_id":"A","total":1,"note":1e999}"#),
            422,
            "payload_invalid",
            Some("/payload"),
        ),
        (
            "a payload of 64 KiB and one",
            payload(&format!(r#"{{"order_id":"A","total":1,"note":"{}"}}"#, "x".repeat(65_537 - 36))),
            413,
            "too_large",
            Some("/payload"),
        ),
        (
            "a body over its limit",
            payload(&format!(r#"{{"order_id":"{}","total":1}}"#, "x".repeat(1024 * 1024))),
            413,
            "too_large",
            None,
        ),
    ];
    for (what, body, status, code, pointer) in cases {
        let reply = app.post("/v1/timers").text(&body).send().await;
        assert_eq!(reply.says(), (status, code), "{what}: {reply:?}");
        if let Some(pointer) = pointer {
            assert_eq!(reply.pointers(), [pointer], "{what}: {reply:?}");
        }
        if status == 413 {
            let detail = reply.json["detail"].as_str().unwrap();
            assert!(
                detail.contains("65536 bytes") || detail.contains("524288 bytes"),
                "{what} names the limit: {detail}"
            );
        }
    }
    assert_eq!(app.count().await, 0, "nothing was stored");
    // `\\u0000` is a backslash and text, and the largest payload fits.
    let fits = payload(r#"{"order_id":"\\u0000","total":1}"#);
    assert_eq!(app.post("/v1/timers").text(&fits).send().await.status, 201);
    let largest = payload(&format!(r#"{{"order_id":"A","total":1,"note":"{}"}}"#, "x".repeat(65_536 - 36)));
    let reply = app.post("/v1/timers").text(&largest.replace(r#""key":"A""#, r#""key":"B""#)).send().await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

#[tokio::test]
async fn every_fault_of_a_payload_is_named() {
    let app = TestApp::with_type().await;
    let body = payload(r#"{"order_id":"","total":"x","items":[{"quantity":1.5}],"more":1}"#);
    let reply = app.post("/v1/timers").text(&body).send().await;
    assert_eq!(reply.says(), (422, "payload_invalid"));
    let mut pointers = reply.pointers();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/payload", "/payload/items/0/quantity", "/payload/order_id", "/payload/total"]);
    assert!(!reply.text.contains("1.5"), "a fault does not repeat the payload: {}", reply.text);
}

#[tokio::test]
async fn a_type_without_a_default_delay_wants_a_time() {
    let app = TestApp::start().await;
    let component = crate::support::fake_host::component("plain", json!({ "default_delay": null }));
    let digest = app.post("/v1/plugins").octets(component).send().await.json["digest"].clone();
    app.put("/v1/types/plain").json(&json!({ "digest": digest })).send().await;
    let reply = app.post("/v1/timers").text(&with(json!({ "type": "plain" }))).send().await;
    assert_eq!(reply.says(), (422, "time_invalid"));
}

#[tokio::test]
async fn bad_actions_are_refused_and_change_nothing() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    let id = timer["id"].as_str().unwrap();
    let cases = [
        ("resolve", "[]", 400, "malformed"),
        ("resolve", r#"{"raeson":"x"}"#, 400, "unknown_field"),
        ("resolve", r#"{"remember":true}"#, 400, "unknown_field"),
        ("cancel", r#"{"reason":1}"#, 400, "malformed"),
        ("cancel", r#"{"reason":"a\u0000"}"#, 422, "payload_invalid"),
        ("fire", r#"{"due_at":"2026-03-02T00:00:00Z"}"#, 400, "unknown_field"),
        ("reschedule", "{}", 422, "time_invalid"),
        ("reschedule", r#"{"delay":"1s","due_at":"2026-03-02T00:00:00Z"}"#, 422, "time_invalid"),
        ("reschedule", r#"{"delay":"2912500d"}"#, 422, "time_invalid"),
        ("reschedule", r#"{"due_at":"yesterday"}"#, 422, "time_invalid"),
    ];
    for path in [format!("/v1/timers/{id}"), "/v1/types/order-timeout/timers/A".to_owned()] {
        for (verb, body, status, code) in cases {
            if body.contains("remember") && !path.contains(id) {
                continue;
            }
            let reply = app.post(&format!("{path}/{verb}")).text(body).send().await;
            assert_eq!(reply.says(), (status, code), "{path} {verb} {body}: {reply:?}");
        }
        let long = json!({ "reason": "x".repeat(1001) });
        assert_eq!(app.post(&format!("{path}/cancel")).json(&long).send().await.says(), (422, "payload_invalid"));
        assert_eq!(app.post(&format!("{path}/reschedule")).send().await.says(), (415, "unsupported_media_type"));
        for tag in ["3", "\"3", "W/3", "\"1\"x", "\"1\",,", ""] {
            let reply = app.post(&format!("{path}/cancel")).header("if-match", tag).send().await;
            assert_eq!(reply.says(), (400, "malformed"), "If-Match: {tag}");
        }
        let id_too_long = app.post(&format!("{path}/cancel")).header("idempotency-key", &"x".repeat(256)).send().await;
        assert_eq!(id_too_long.says(), (400, "malformed"));
    }
    assert_eq!(app.get(&format!("/v1/timers/{id}")).send().await.json, timer);
}

#[tokio::test]
async fn media_types_other_than_json_are_refused() {
    let app = TestApp::with_type().await;
    let body = with(json!({})).into_bytes();
    for given in
        ["text/plain", "application/x-www-form-urlencoded", "application/xml", "multipart/form-data; boundary=x"]
    {
        let reply = app.post("/v1/timers").bytes(given, body.clone()).send().await;
        assert_eq!(reply.says(), (415, "unsupported_media_type"), "{given}");
    }
    let reply = app.post("/v1/timers").bytes("application/json", vec![b'{', 0xff, b'}']).send().await;
    assert_eq!(reply.says(), (400, "malformed"), "not UTF-8");
    assert_eq!(app.count().await, 0);
    let reply = app.post("/v1/timers").bytes("Application/JSON; charset=utf-8", body).send().await;
    assert_eq!(reply.status, 201);
}
