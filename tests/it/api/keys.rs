//! `/v1/keys` and `/v1/namespaces`

use serde_json::json;

use crate::support::app::TestApp;

#[tokio::test]
async fn a_key_is_shown_once_works_and_is_revoked_at_once() {
    let app = TestApp::with_type().await;
    let made = app.post("/v1/keys").json(&json!({ "name": "checkout", "role": "producer" })).send().await;
    assert_eq!(made.status, 201, "{made:?}");
    let secret = made.json["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("lapse_") && secret.len() == 6 + 43, "256 bits: {secret}");
    let id = made.json["id"].as_str().unwrap().to_owned();
    // Twice, so that the second call is answered from memory.
    for _ in 0..2 {
        assert_eq!(app.get("/v1/timers").key(&secret).send().await.status, 200);
    }
    let listed = app.get("/v1/keys").send().await;
    assert!(!listed.text.contains(&secret), "the secret is shown once");
    let row = listed.items().iter().find(|k| k["id"] == *id).unwrap();
    assert_eq!(
        (&row["name"], &row["role"], &row["created_by"]),
        (&json!("checkout"), &json!("producer"), &json!("key:admin"))
    );

    let revoked = app.call(axum::http::Method::DELETE, &format!("/v1/keys/{id}")).send().await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    assert!(revoked.json["revoked_at"].is_string());
    let refused = app.get("/v1/timers").key(&secret).send().await;
    assert_eq!((refused.says(), refused.header("www-authenticate")), ((401, "unauthorized"), "Bearer"));
    let unknown = app.call(axum::http::Method::DELETE, "/v1/keys/0198c0de-0000-7000-8000-000000000001").send().await;
    assert_eq!(unknown.says(), (404, "not_found"));
}

#[tokio::test]
async fn what_is_not_a_key_is_refused() {
    let app = TestApp::start().await;
    let long = format!("Bearer {}", "x".repeat(600));
    for given in ["", "Bearer", "Bearer ", "Basic YWRtaW46", "admin", "Bearer Admin", "Bearer admin2", long.as_str()] {
        let reply = app.get("/v1/timers").no_key().header("authorization", given).send().await;
        assert_eq!(reply.says(), (401, "unauthorized"), "{given:?}");
    }
    assert_eq!(app.get("/v1/timers").header("authorization", "bearer admin").send().await.status, 200);
}

#[tokio::test]
async fn bad_keys_and_namespaces_are_not_made() {
    let app = TestApp::start().await;
    let cases = [
        ("/v1/keys", json!({ "name": "", "role": "reader" }), 422, "payload_invalid"),
        ("/v1/keys", json!({ "name": "x".repeat(101), "role": "reader" }), 422, "payload_invalid"),
        ("/v1/keys", json!({ "name": "a\nb", "role": "reader" }), 422, "payload_invalid"),
        ("/v1/keys", json!({ "name": "a", "role": "root" }), 400, "malformed"),
        ("/v1/keys", json!({ "name": "a", "role": { "reader": null } }), 400, "malformed"),
        ("/v1/keys", json!({ "name": "a" }), 400, "malformed"),
        ("/v1/keys", json!({ "name": "a", "role": "reader", "secret": "x" }), 400, "unknown_field"),
        ("/v1/namespaces", json!({ "name": "Shop Two" }), 422, "payload_invalid"),
        ("/v1/namespaces", json!({ "name": "" }), 422, "payload_invalid"),
        ("/v1/namespaces", json!({}), 400, "malformed"),
    ];
    for (path, body, status, code) in cases {
        let reply = app.post(path).json(&body).send().await;
        assert_eq!(reply.says(), (status, code), "{path} {body}: {reply:?}");
    }
    assert_eq!(app.get("/v1/keys").send().await.items().len(), 5);
    assert_eq!(app.get("/v1/namespaces").send().await.items().len(), 1);
}

#[tokio::test]
async fn namespaces_are_made_once_and_entered_by_administrators() {
    let app = TestApp::with_type().await;
    let body = json!({ "name": "shop-two" });
    assert_eq!(app.post("/v1/namespaces").json(&body).send().await.status, 201);
    assert_eq!(app.post("/v1/namespaces").json(&body).send().await.status, 200);
    let names = |key: &str| app.get("/v1/namespaces").key(key).send();
    assert_eq!(names("admin").await.items().len(), 2);
    assert_eq!(names("operator").await.items()[0]["name"], "default");
    assert_eq!(names("operator").await.items().len(), 1, "others see their own");

    assert_eq!(app.get("/v1/types").namespace("shop-two").send().await.items().len(), 0);
    assert_eq!(app.get("/v1/types").namespace("default").key("reader").send().await.items().len(), 1);
    assert_eq!(app.get("/v1/types").namespace("no-such").send().await.says(), (404, "not_found"));
    for role in ["reader", "producer", "publisher", "operator"] {
        for name in ["shop-two", "no-such"] {
            let reply = app.get("/v1/types").namespace(name).key(role).send().await;
            assert_eq!(reply.says(), (403, "forbidden"), "{role} in {name}");
        }
    }
    let made = app.post("/v1/keys").namespace("shop-two").json(&json!({ "name": "x", "role": "reader" })).send().await;
    assert_eq!(made.json["namespace"], "shop-two");
    let secret = made.json["secret"].as_str().unwrap();
    assert_eq!(app.get("/v1/types").key(secret).send().await.items().len(), 0, "it is that namespace's key");
}
