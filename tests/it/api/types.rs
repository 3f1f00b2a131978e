//! `/v1/types`

use serde_json::{Value, json};

use crate::support::{
    app::{TestApp, order},
    fake_host::{component, component_that},
};

async fn upload(app: &TestApp, bytes: Vec<u8>) -> String {
    let reply = app.post("/v1/plugins").octets(bytes).send().await;
    assert!(reply.status.is_success(), "{reply:?}");
    reply.json["digest"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_type_is_live_when_the_answer_is_given() {
    let app = TestApp::start().await;
    let digest = upload(&app, component("order-timeout", json!({}))).await;
    let body = json!({
        "digest": digest, "config": {"url": "https://x.example"}, "default_delay": "90m", "concurrency": 4, "rate": 100,
        "retry": {"attempts": 2, "initial": "1s", "max": "1m"}
    });
    let new = app.put("/v1/types/order-timeout").key("publisher").json(&body).send().await;
    assert_eq!(new.status, 201, "{new:?}");
    for (field, value) in [
        ("revision", json!(1)),
        ("digest", json!(digest)),
        ("config", body["config"].clone()),
        ("grants", json!([])),
        ("default_delay", json!("90m")),
        ("retry", body["retry"].clone()),
        ("concurrency", json!(4)),
        ("rate", json!(100)),
        ("pure", json!(true)),
        ("plugin", json!({ "name": "order-timeout", "version": "1.0.0" })),
    ] {
        assert_eq!(new.json[field], value, "{field}");
    }
    app.register("A").await;
    let same = app.put("/v1/types/order-timeout").key("publisher").json(&body).send().await;
    assert_eq!((same.status.as_u16(), &same.json["revision"]), (200, &json!(1)));

    // A second plugin with another schema takes over at once; the first revision can be pinned, and brought back.
    let strict = json!({ "payload_schema": { "type": "object", "required": ["shop"] } });
    let digest = upload(&app, component("order-timeout", strict)).await;
    let second = app.put("/v1/types/order-timeout").json(&json!({ "digest": digest })).send().await;
    assert_eq!((second.status.as_u16(), &second.json["revision"]), (200, &json!(2)));
    let register = |more: Value| {
        let mut body = json!({ "type": "order-timeout", "key": more.to_string(), "payload": order("A") });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let call = app.post("/v1/timers").json(&body).send();
        async { call.await.status.as_u16() }
    };
    assert_eq!(register(json!({})).await, 422);
    assert_eq!(register(json!({ "revision": 1 })).await, 201);
    let back =
        app.post("/v1/types/order-timeout/activate").key("publisher").json(&json!({ "revision": 1 })).send().await;
    assert_eq!((back.status.as_u16(), &back.json["revision"], &back.json["rate"]), (200, &json!(1), &json!(100)));
    assert_eq!(register(json!({})).await, 201);
    let revisions = app.get("/v1/types/order-timeout/revisions").send().await;
    let states: Vec<_> = revisions.items().iter().map(|r| (r["number"].clone(), r["active"].clone())).collect();
    assert_eq!(states, [(json!(2), json!(false)), (json!(1), json!(true))]);
    for missing in [0, 3, -1, i64::MAX] {
        let reply = app.post("/v1/types/order-timeout/activate").json(&json!({ "revision": missing })).send().await;
        assert_eq!(reply.says(), (404, "not_found"), "{missing}");
    }
}

#[tokio::test]
async fn bad_types_are_refused() {
    let app = TestApp::start().await;
    let digest = upload(&app, component("order-timeout", json!({}))).await;
    let cases: Vec<(Value, u16, &str, &str)> = vec![
        (json!({ "digest": "sha256:17" }), 422, "payload_invalid", "/digest"),
        (json!({ "digest": format!("sha256:{}", "0".repeat(64)) }), 422, "plugin_invalid", "/digest"),
        (json!({ "digest": 1 }), 400, "malformed", "/digest"),
        (json!({ "config": { "url": 1 } }), 422, "payload_invalid", "/config/url"),
        (json!({ "config": { "uri": "x" } }), 422, "payload_invalid", "/config"),
        (json!({ "config": { "url": "\0" } }), 422, "payload_invalid", "/config"),
        (json!({ "config": { "url": "x".repeat(70_000) } }), 413, "too_large", "/config"),
        (json!({ "grants": ["http"] }), 422, "payload_invalid", "/grants/0"),
        (json!({ "grants": ["http:a.example", "https:b.example"] }), 422, "payload_invalid", "/grants/1"),
        (json!({ "grants": ["sql:orders"] }), 422, "payload_invalid", "/grants/0"),
        (json!({ "grants": ["secret:token"] }), 422, "payload_invalid", "/grants/0"),
        (json!({ "grants": ["on-remind:http:a.example"] }), 422, "payload_invalid", "/grants/0"),
        (json!({ "grants": [1] }), 400, "malformed", "/grants/0"),
        (json!({ "default_delay": "1 hour" }), 422, "time_invalid", "/default_delay"),
        (
            json!({ "retry": { "attempts": 0, "initial": "1s", "max": "1m" } }),
            422,
            "payload_invalid",
            "/retry/attempts",
        ),
        (
            json!({ "retry": { "attempts": 101, "initial": "1s", "max": "1m" } }),
            422,
            "payload_invalid",
            "/retry/attempts",
        ),
        (json!({ "retry": { "attempts": 1, "initial": "-1s", "max": "1m" } }), 422, "time_invalid", "/retry/initial"),
        (json!({ "retry": { "attempts": 1, "initial": "2m", "max": "1m" } }), 422, "time_invalid", "/retry/initial"),
        (json!({ "retry": { "attempts": 1, "initial": "1s", "max": "1m", "x": 1 } }), 400, "unknown_field", "/retry/x"),
        (json!({ "retry": [1, "1s", "1m"] }), 400, "malformed", "/retry"),
        (json!({ "concurrency": 0 }), 422, "payload_invalid", "/concurrency"),
        (json!({ "concurrency": 10_001 }), 422, "payload_invalid", "/concurrency"),
        (json!({ "rate": 0 }), 422, "payload_invalid", "/rate"),
        (json!({ "rate": -1 }), 400, "malformed", "/rate"),
        (json!({ "name": "x" }), 400, "unknown_field", "/name"),
    ];
    for (more, status, code, pointer) in cases {
        let mut body = json!({ "digest": digest });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = app.put("/v1/types/order-timeout").json(&body).send().await;
        assert_eq!((reply.says(), reply.pointers()), ((status, code), vec![pointer]), "{more}: {reply:?}");
    }
    for name in ["Order", "1st", "a%20b", &"x".repeat(64), "%C3%BC"] {
        let reply = app.put(&format!("/v1/types/{name}")).json(&json!({ "digest": digest })).send().await;
        assert_eq!(reply.says(), (422, "payload_invalid"), "{name}");
    }
    assert_eq!(app.get("/v1/types").send().await.items().len(), 0, "nothing was stored");
}

#[tokio::test]
async fn required_rights_must_be_granted_and_only_operators_grant_new_ones() {
    let app = TestApp::start().await;
    let exports =
        json!({ "exports": { "on-expire": { "required": ["http"] }, "compensate": { "optional": ["http"] } } });
    let digest = upload(&app, component("order-timeout", exports)).await;
    let put = |role: &str, grants: &[&str]| {
        let body = json!({ "digest": digest, "grants": grants });
        app.put("/v1/types/order-timeout").key(role).json(&body).send()
    };
    let missing = put("operator", &["http:a.example"]).await;
    assert_eq!(missing.says(), (422, "grant_missing"));
    assert!(missing.json["errors"][0]["detail"].as_str().unwrap().contains("http in on-expire"), "{missing:?}");

    let (needed, more) = ("on-expire:http:a.example:8443", "http:b.example");
    let refused = put("publisher", &[needed]).await;
    assert_eq!(refused.says(), (403, "forbidden"));
    assert!(refused.json["detail"].as_str().unwrap().contains(needed), "it names the right: {refused:?}");
    let granted = put("operator", &[needed]).await;
    assert_eq!((granted.status.as_u16(), &granted.json["pure"]), (201, &json!(false)), "{granted:?}");
    // What is there may be kept or given up by a publisher, but not added to, and not brought back.
    assert_eq!(put("publisher", &[needed]).await.status, 200);
    assert_eq!(put("publisher", &[needed, more]).await.says(), (403, "forbidden"));
    assert_eq!(put("operator", &[needed, more]).await.json["revision"], 2);
    assert_eq!(put("publisher", &[needed]).await.json["revision"], 3);
    let activate = |role: &str, revision: u64| {
        app.post("/v1/types/order-timeout/activate").key(role).json(&json!({ "revision": revision })).send()
    };
    assert_eq!(activate("publisher", 2).await.says(), (403, "forbidden"));
    assert_eq!(activate("publisher", 1).await.status, 200);
    assert_eq!(activate("operator", 2).await.status, 200);
    let shown = app.get("/v1/types/order-timeout").send().await.json;
    assert_eq!(shown["grants"], json!(["on-expire:http:a.example:8443", "compensate:http:b.example"]));
}

#[tokio::test]
async fn a_dry_run_shows_the_decision_and_does_nothing() {
    let app = TestApp::with_type().await;
    let body = json!({ "key": "A17", "payload": order("A17"), "due_at": "2026-03-01T13:00:00Z", "attempt": 3 });
    let run = |body: Value| app.post("/v1/types/order-timeout/dry-run").key("publisher").json(&body.clone()).send();
    let first = run(body.clone()).await;
    assert_eq!(first.status, 200, "{first:?}");
    let decision = &first.json["decision"];
    assert_eq!((&decision["outcome"], &decision["result"]["attempt"]), (&json!("close"), &json!(3)));
    assert_eq!(decision["compensations"], json!([{ "kind": "release", "payload": { "sku": "S1" } }]));
    let follow_up = json!([{ "type": "order-timeout", "key": "next", "payload": {}, "delay": "1m" }]);
    assert_eq!(decision["follow_ups"], follow_up);
    assert_eq!(decision["counters"], json!([{ "name": "closed", "value": 1 }]));
    assert_eq!(first.json["logs"], json!([{ "level": "info", "message": "deciding" }]));
    assert_eq!((&first.json["denied"], &first.json["cpu_us"]), (&json!(["http is denied"]), &json!(12)));
    assert_eq!((&first.json["memory_bytes"], first.json.get("failure")), (&json!(65_536), None));
    app.clock.advance("1h".parse().unwrap());
    assert_eq!(run(body).await.json, first.json, "the same request, the same decision");
    assert_eq!(app.count().await, 0);
    assert_eq!(app.get("/v1/compensations").send().await.items().len(), 0);

    for (body, status, code) in [
        (json!({ "key": "A", "payload": {} }), 422, "payload_invalid"),
        (json!({ "key": "", "payload": order("A") }), 422, "payload_invalid"),
        (json!({ "key": "A", "payload": order("A"), "attempt": 0 }), 422, "payload_invalid"),
        (json!({ "key": "A", "payload": order("A"), "revision": 9 }), 422, "unknown_type"),
        (json!({ "key": "A", "payload": order("A"), "due_at": "x" }), 422, "time_invalid"),
        (json!({ "key": "A" }), 400, "malformed"),
    ] {
        assert_eq!(run(body.clone()).await.says(), (status, code), "{body}");
    }
}

#[tokio::test]
async fn a_dry_run_shows_skips_and_failures_and_survives_a_panic() {
    let app = TestApp::start().await;
    for decide in ["skip", "fail", "panic"] {
        let digest = upload(&app, component_that(decide, decide, json!({}))).await;
        app.put(&format!("/v1/types/{decide}")).json(&json!({ "digest": digest })).send().await;
    }
    let run = |name: &str| {
        app.post(&format!("/v1/types/{name}/dry-run")).json(&json!({ "key": "A", "payload": order("A") })).send()
    };
    let skip = run("skip").await.json;
    assert_eq!((&skip["decision"]["outcome"], &skip["decision"]["reason"]), (&json!("skip"), &json!("paid already")));
    let fail = run("fail").await.json;
    assert_eq!((&fail["failure"]["class"], fail.get("decision")), (&json!("permanent"), None));
    let panic = run("panic").await;
    assert_eq!(panic.says(), (500, "internal"));
    assert!(!panic.text.contains("the host itself broke"), "internals are not told: {panic:?}");
    assert_eq!(run("skip").await.status, 200);
}
