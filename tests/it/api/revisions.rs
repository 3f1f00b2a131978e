//! Revisions: what runs which, what stays behind, and what can be deleted.

use axum::http::Method;
use serde_json::{Value, json};

use super::compensations::closed_with;
use crate::support::{
    app::{TestApp, order},
    fake_host::component,
};

async fn upload(app: &TestApp, bytes: Vec<u8>) -> String {
    let reply = app.post("/v1/plugins").octets(bytes).send().await;
    assert!(reply.status.is_success(), "{reply:?}");
    reply.json["digest"].as_str().unwrap().to_owned()
}

/// A plugin whose payloads need these members.
fn needing(required: &[&str]) -> Vec<u8> {
    component("order-timeout", json!({ "payload_schema": { "type": "object", "required": required } }))
}

async fn put(app: &TestApp, digest: &str, config: Value) -> Value {
    let put = app.put("/v1/types/order-timeout").json(&json!({ "digest": digest, "config": config })).send().await;
    assert!(put.status.is_success(), "{put:?}");
    put.json
}

async fn activate(app: &TestApp, revision: i64) -> Value {
    app.post("/v1/types/order-timeout/activate").json(&json!({ "revision": revision })).send().await.json
}

async fn register(app: &TestApp, key: &str, payload: Value, more: Value) {
    let mut body = json!({ "type": "order-timeout", "key": key, "payload": payload });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.register_with(body).await;
}

async fn runs(app: &TestApp, key: &str) -> Value {
    app.get(&format!("/v1/types/order-timeout/timers/{key}")).send().await.json["runs"].clone()
}

#[tokio::test]
async fn a_timer_stays_behind_where_the_active_schema_does_not_take_its_payload() {
    let app = TestApp::start().await;
    let first = upload(&app, needing(&["order_id"])).await;
    assert_eq!(put(&app, &first, json!({})).await.get("left_behind"), None, "there is nothing to be left behind");
    for n in 0..3 {
        register(&app, &format!("old-{n}"), order("A"), json!({})).await;
    }
    register(&app, "fits", json!({ "order_id": "A", "total": 1, "shop": "main" }), json!({})).await;
    register(&app, "pinned", order("A"), json!({ "revision": 1 })).await;
    assert_eq!(runs(&app, "old-0").await, json!({ "revision": 1, "why": "active" }));

    // The same schema: all go along.
    assert_eq!(put(&app, &first, json!({ "url": "https://x.example" })).await.get("left_behind"), None);
    assert_eq!(runs(&app, "old-0").await, json!({ "revision": 2, "why": "active" }));
    assert_eq!(runs(&app, "pinned").await, json!({ "revision": 1, "why": "pinned" }));

    let second = upload(&app, needing(&["order_id", "shop"])).await;
    let strict = put(&app, &second, json!({})).await;
    assert_eq!(strict["left_behind"], json!({ "timers": 3, "more": false }));
    assert_eq!(runs(&app, "old-0").await, json!({ "revision": 1, "why": "payload_not_taken" }));
    assert_eq!(runs(&app, "fits").await, json!({ "revision": 3, "why": "active" }));
    let listed = app.get("/v1/timers?type=order-timeout").send().await;
    let behind = listed.items().iter().filter(|t| t["runs"]["why"] == "payload_not_taken").count();
    assert_eq!(behind, 3);

    // Rolled back, they go along again; those of the second schema would not.
    register(&app, "new", json!({ "order_id": "A", "shop": "main" }), json!({})).await;
    assert_eq!(activate(&app, 1).await["left_behind"], json!({ "timers": 0, "more": false }));
    assert_eq!(runs(&app, "old-0").await, json!({ "revision": 1, "why": "active" }));
    let cancelled = app.post("/v1/types/order-timeout/timers/old-0/cancel").send().await;
    assert_eq!(cancelled.json.get("runs"), None, "it runs nothing any more");
    // More than are looked at for one answer.
    for n in 0..5 {
        let timers: Vec<_> = (0..100)
            .map(|m| json!({ "type": "order-timeout", "key": format!("many-{n}-{m}"), "payload": order("A") }))
            .collect();
        assert_eq!(app.post("/v1/timers/batch").json(&json!({ "timers": timers })).send().await.status, 200);
    }
    let left = activate(&app, 3).await["left_behind"].clone();
    assert_eq!(left["more"], true, "{left}");
    assert!(left["timers"].as_u64().unwrap() >= 490, "{left}");
}

#[tokio::test]
async fn what_is_in_use_cannot_be_deleted() {
    let app = TestApp::with_type().await;
    let plugin = |digest: &str| format!("/v1/plugins/{digest}");
    let first = app.get("/v1/types/order-timeout").send().await.json["digest"].as_str().unwrap().to_owned();
    let delete = |path: String| app.call(Method::DELETE, &path).key("publisher").send();
    let revision = |n: i64| format!("/v1/types/order-timeout/revisions/{n}");

    assert_eq!(delete(revision(1)).await.says(), (409, "revision_in_use"));
    closed_with(&app, "A", &["release"]).await;
    app.register("B").await;
    let second = upload(&app, needing(&["order_id"])).await;
    put(&app, &second, json!({})).await;
    let refused = delete(revision(1)).await;
    assert_eq!(refused.says(), (409, "revision_in_use"));
    let detail = refused.json["detail"].as_str().unwrap();
    assert!(detail.contains("1 timer and 1 compensation"), "{detail}");
    let refused = delete(plugin(&first)).await;
    assert_eq!(refused.says(), (409, "revision_in_use"));
    assert!(refused.json["detail"].as_str().unwrap().contains("revision 1 of order-timeout"), "{refused:?}");

    // Nothing stands under the second.
    activate(&app, 1).await;
    let deleted = delete(revision(2)).await;
    assert_eq!((deleted.status.as_u16(), &deleted.json["number"]), (200, &json!(2)));
    assert_eq!(delete(revision(2)).await.says(), (404, "not_found"));
    let gone = app.post("/v1/types/order-timeout/activate").json(&json!({ "revision": 2 })).send().await;
    assert_eq!(gone.says(), (404, "not_found"));
    let pinned = json!({ "type": "order-timeout", "key": "C", "payload": order("A"), "revision": 2 });
    assert_eq!(app.post("/v1/timers").json(&pinned).send().await.says(), (422, "unknown_type"));
    let dry = json!({ "key": "C", "payload": order("A"), "revision": 2 });
    assert_eq!(app.post("/v1/types/order-timeout/dry-run").json(&dry).send().await.says(), (422, "unknown_type"));
    let listed = app.get("/v1/types/order-timeout/revisions").send().await;
    assert_eq!(listed.items().len(), 1);

    assert_eq!(delete(plugin(&second)).await.says(), (409, "revision_in_use"), "for a minute");
    app.clock.advance("61s".parse().unwrap());
    let deleted = delete(plugin(&second)).await;
    assert_eq!((deleted.status.as_u16(), &deleted.json["digest"]), (200, &json!(second)));
    assert_eq!(delete(plugin(&second)).await.says(), (404, "not_found"));
    assert_eq!(put(&app, &upload(&app, needing(&["order_id"])).await, json!({})).await["revision"], 3);
    for path in ["/v1/types/other/revisions/1", "/v1/types/order-timeout/revisions/99", "/v1/plugins/sha256:17"] {
        assert_eq!(delete(path.to_owned()).await.says(), (404, "not_found"), "{path}");
    }
    assert_eq!(delete("/v1/types/order-timeout/revisions/one".to_owned()).await.status.as_u16() / 100, 4);
}
