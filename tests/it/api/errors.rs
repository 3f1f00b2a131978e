//! Errors that no resource makes: unknown paths, methods, broken encodings, panics, a store that is away.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Method;
use bytes::Bytes;
use lapse::{
    domain::id::Digest,
    plugin::{Host, Inspection, Plugin, Refusal},
};
use serde_json::json;

use crate::support::app::{AppOptions, TestApp, order};

#[tokio::test]
async fn unknown_paths_methods_and_broken_encodings_are_problems() {
    let app = TestApp::with_type().await;
    let cases = [
        (Method::GET, "/", 404, "not_found"),
        (Method::GET, "/v1", 404, "not_found"),
        (Method::GET, "/v2/timers", 404, "not_found"),
        (Method::GET, "/v1/timers/", 404, "not_found"),
        (Method::GET, "//v1/timers", 404, "not_found"),
        (Method::GET, "/v1/timers/17", 404, "not_found"),
        (Method::GET, "/v1/timers/0198c0de-0000-7000-8000-000000000001", 404, "not_found"),
        (Method::GET, "/v1/timers/0198c0de-0000-7000-8000-000000000001/events", 404, "not_found"),
        (Method::GET, "/v1/types/none/timers/x", 404, "not_found"),
        (Method::GET, "/v1/types/order-timeout/timers/x", 404, "not_found"),
        (Method::GET, "/v1/types/order-timeout/timers/a%0Ab", 404, "not_found"),
        (Method::POST, "/v1/types/order-timeout/timers/a%00/cancel", 404, "not_found"),
        (Method::GET, "/v1/types/order-timeout/timers/%FF", 400, "malformed"),
        (Method::GET, "/v1/types/%C3/timers/a", 400, "malformed"),
        (Method::GET, "/v1/timers?key=%FF", 400, "malformed"),
        (Method::DELETE, "/v1/timers", 405, "method_not_allowed"),
        (Method::PUT, "/v1/timers/17", 405, "method_not_allowed"),
        (Method::GET, "/v1/timers/batch", 405, "method_not_allowed"),
        (Method::OPTIONS, "/v1/timers", 405, "method_not_allowed"),
        (Method::TRACE, "/healthz", 405, "method_not_allowed"),
    ];
    for (method, path, status, code) in cases {
        let reply = app.call(method.clone(), path).send().await;
        assert_eq!(reply.says(), (status, code), "{method} {path}: {reply:?}");
        if status == 405 {
            assert!(!reply.header("allow").is_empty(), "{method} {path} says what is allowed");
        }
    }
}

#[tokio::test]
async fn a_request_id_of_the_callers_is_kept_if_it_is_sensible() {
    let app = TestApp::start().await;
    let kept = app.get("/v1/timers/17").header("x-request-id", "req-17.a_b").send().await;
    assert_eq!(kept.json["request_id"], "req-17.a_b");
    for odd in ["a b", "<script>", &"x".repeat(129), ""] {
        let reply = app.get("/healthz").header("x-request-id", odd).send().await;
        assert_ne!(reply.header("x-request-id"), odd);
        assert!(!reply.header("x-request-id").is_empty());
    }
}

/// A host that breaks.
struct Broken;

#[async_trait]
impl Host for Broken {
    async fn inspect(&self, component: Bytes) -> Result<Inspection, Refusal> {
        if component.is_empty() {
            return Err(Refusal::Internal("disk /secret/path is full".to_owned()));
        }
        panic!("a secret in a panic");
    }

    async fn load(&self, _: Digest, _: Bytes) -> Result<Arc<dyn Plugin>, Refusal> {
        unreachable!("nothing was uploaded")
    }
}

#[tokio::test]
async fn a_panic_and_an_internal_error_tell_nothing() {
    let app = TestApp::start_with(AppOptions::default(), Arc::new(Broken)).await;
    for body in [b"x".to_vec(), Vec::new()] {
        let reply = app.post("/v1/plugins").octets(body).send().await;
        assert_eq!(reply.says(), (500, "internal"));
        assert!(!reply.text.contains("secret"), "{reply:?}");
    }
    assert_eq!(app.get("/healthz").send().await.status, 200);
}

#[tokio::test]
async fn a_store_that_is_away_is_503_and_comes_again() {
    let app = TestApp::with_type().await;
    let timer = app.register("A").await;
    app.get("/v1/timers").send().await;
    app.store.close().await;
    let id = timer["id"].as_str().unwrap();
    let register = json!({ "type": "order-timeout", "key": "B", "payload": order("B") });
    for reply in [
        app.post("/v1/timers").json(&register).send().await,
        app.post(&format!("/v1/timers/{id}/resolve")).send().await,
        app.post("/v1/namespaces").json(&json!({ "name": "x" })).send().await,
        app.get(&format!("/v1/timers/{id}")).send().await,
        app.get("/v1/timers").send().await,
        // A key that is not in memory has to be looked up.
        app.get("/v1/timers").key("reader").send().await,
    ] {
        assert_eq!(reply.says(), (503, "unavailable"), "{reply:?}");
        assert!(!reply.text.contains("sqlite") && !reply.text.contains(".db"), "{reply:?}");
    }
    let batch = app.post("/v1/timers/batch").json(&json!({ "timers": [register] })).send().await;
    assert_eq!(batch.json["results"][0]["problem"]["code"], "unavailable");
}
