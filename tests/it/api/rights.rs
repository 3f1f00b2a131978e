//! Every route against every role, no key, a revoked key, and another namespace; from the document, so that a route
//! that nobody thought of fails.

use std::collections::BTreeMap;

use axum::http::Method;
use lapse::{
    api,
    store::admin::{AdminOp, Role},
};
use serde_json::{Value, json};

use super::compensations::closed_with;
use crate::support::app::{Call, ROLES, TestApp, order};

const ALL: &str = "reader producer publisher operator admin";
const PRODUCERS: &str = "producer operator admin";
const PUBLISHERS: &str = "publisher operator admin";
const OPERATORS: &str = "operator admin";

/// Who may call what, written down a second time.
const EXPECTED: &[(&str, &str)] = &[
    ("register_timer", PRODUCERS),
    ("register_timers", PRODUCERS),
    ("list_timers", ALL),
    ("get_timer", ALL),
    ("get_timer_by_key", ALL),
    ("list_timer_events", ALL),
    ("resolve_timer", PRODUCERS),
    ("resolve_timer_by_key", PRODUCERS),
    ("cancel_timer", PRODUCERS),
    ("cancel_timer_by_key", PRODUCERS),
    ("reschedule_timer", PRODUCERS),
    ("reschedule_timer_by_key", PRODUCERS),
    ("fire_timer", OPERATORS),
    ("fire_timer_by_key", OPERATORS),
    ("retry_timer", OPERATORS),
    ("retry_timer_by_key", OPERATORS),
    ("upload_plugin", PUBLISHERS),
    ("list_plugins", ALL),
    ("get_plugin", ALL),
    ("delete_plugin", PUBLISHERS),
    ("put_type", PUBLISHERS),
    ("get_type", ALL),
    ("list_types", ALL),
    ("list_revisions", ALL),
    ("activate_revision", PUBLISHERS),
    ("delete_revision", PUBLISHERS),
    ("get_type_costs", ALL),
    ("dry_run_type", PUBLISHERS),
    ("revoke_grants", OPERATORS),
    ("restore_grants", OPERATORS),
    ("pause_type", OPERATORS),
    ("resume_type", OPERATORS),
    ("pause_namespace", OPERATORS),
    ("resume_namespace", OPERATORS),
    ("pause_all", "admin"),
    ("resume_all", "admin"),
    ("list_pauses", ALL),
    ("list_compensations", ALL),
    ("get_compensation", ALL),
    ("redrive_compensation", OPERATORS),
    ("redrive_compensations", OPERATORS),
    ("get_self", ALL),
    ("get_stats", ALL),
    ("get_forecast", ALL),
    ("put_secret", OPERATORS),
    ("list_secrets", ALL),
    ("delete_secret", OPERATORS),
    ("put_datasource", OPERATORS),
    ("list_datasources", ALL),
    ("delete_datasource", OPERATORS),
    ("check_datasource", OPERATORS),
    ("explain_timer", ALL),
    ("stream_events", ALL),
    ("create_key", "admin"),
    ("list_keys", "admin"),
    ("delete_key", "admin"),
    ("create_namespace", "admin"),
    ("list_namespaces", ALL),
    ("get_health", "public"),
    ("get_readiness", "public"),
    ("get_metrics", "public"),
    ("get_openapi", "public"),
    ("get_docs", "public"),
];

struct Operation {
    id: String,
    method: Method,
    path: String,
    roles: String,
}

fn operations() -> Vec<Operation> {
    let document = serde_json::to_value(api::document()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let roles = operation["x-lapse"]["roles"].as_array().unwrap().iter().map(|r| r.as_str().unwrap());
            all.push(Operation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                roles: roles.collect::<Vec<_>>().join(" "),
            });
        }
    }
    all
}

/// What stands in the namespace `other`, by the parameter that names it.
struct Things(BTreeMap<&'static str, String>);

impl Things {
    async fn of_another_namespace(app: &TestApp) -> Self {
        let digest = app.put_type("other", "theirs").await;
        let body = json!({ "type": "theirs", "key": "secret-order", "payload": order("A") });
        let timer = app.post("/v1/timers").namespace("other").json(&body).send().await;
        let key = app.add_key("other", "their-key", Role::Admin, "their-admin").await;
        let things = [
            ("timers", timer.json["id"].as_str().unwrap().to_owned()),
            ("keys", key.to_string()),
            ("digest", digest),
            ("type", "theirs".to_owned()),
            ("key", "secret-order".to_owned()),
            ("namespace", "other".to_owned()),
            ("name", "theirs".to_owned()),
        ];
        let secret = app.put("/v1/secrets/theirs").namespace("other").json(&json!({ "value": "secret-order" }));
        assert_eq!(secret.send().await.status, 201);
        let url = json!({ "url": "postgres://secret-order@127.0.0.1:1/theirs" });
        let source = app.put("/v1/datasources/theirs").namespace("other").json(&url);
        assert_eq!(source.send().await.status, 201);
        Self(things.into())
    }

    fn fill(&self, path: &str) -> String {
        let id = path.split('/').nth(2).and_then(|resource| self.0.get(resource));
        let path = path.replace("{id}", id.map_or("0198c0de-0000-7000-8000-000000000001", String::as_str));
        ["digest", "type", "key", "namespace", "name"]
            .iter()
            .fold(path, |p, name| p.replace(&format!("{{{name}}}"), &self.0[name]))
    }
}

/// A call with a body that says nothing.
fn call<'a>(app: &'a TestApp, operation: &Operation, path: &str) -> Call<'a> {
    let call = app.call(operation.method.clone(), path);
    match operation.id.as_str() {
        "upload_plugin" => call.octets(b"nothing".to_vec()),
        _ if operation.method == Method::GET || operation.method == Method::DELETE => call,
        _ => call.json(&json!({})),
    }
}

#[tokio::test]
async fn every_route_keeps_to_the_roles_that_are_written_down() {
    let app = TestApp::start().await;
    app.namespace("other").await;
    let things = Things::of_another_namespace(&app).await;
    let revoked = app.add_key("default", "gone", Role::Admin, "gone").await;
    app.store.admin(AdminOp::RevokeApiKey { namespace_id: None, id: revoked }).await.unwrap();
    let expected: BTreeMap<&str, &str> = EXPECTED.iter().copied().collect();
    let operations = operations();
    let known: Vec<_> = operations.iter().map(|o| o.id.as_str()).collect();
    for (id, _) in EXPECTED {
        assert!(known.contains(id), "{id} is not in the document");
    }
    for operation in &operations {
        let id = operation.id.as_str();
        let roles = *expected.get(id).unwrap_or_else(|| panic!("who may call {id} is not written down here"));
        assert_eq!(operation.roles, roles, "{id}: the document's roles");
        let path = things.fill(&operation.path);
        if roles == "public" {
            assert_eq!(call(&app, operation, &path).no_key().send().await.status, 200, "{id} without a key");
            continue;
        }
        for (what, reply) in [
            ("no key", call(&app, operation, &path).no_key().send().await),
            ("an unknown key", call(&app, operation, &path).key("unknown").send().await),
            ("a revoked key", call(&app, operation, &path).key("gone").send().await),
        ] {
            assert_eq!(reply.says(), (401, "unauthorized"), "{id} with {what}: {reply:?}");
        }
        for (_, role) in ROLES {
            let reply = call(&app, operation, &path).key(role).send().await;
            let may = roles.split(' ').any(|r| r == role);
            assert_eq!(reply.says() == (403, "forbidden"), !may, "{id} as {role}: {reply:?}");
            assert_ne!(reply.status, 401, "{id} as {role}");
            assert!(reply.status.as_u16() < 500, "{id} as {role}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn another_namespaces_things_are_not_there() {
    let app = TestApp::with_type().await;
    app.namespace("other").await;
    // One more of everything in `other`, and a compensation of `default` that `other` must not see.
    let things = Things::of_another_namespace(&app).await;
    let compensation = closed_with(&app, "A", &["release"]).await[0].to_string();
    for operation in &operations() {
        let path = things.fill(&operation.path);
        let named = operation.path.contains('{');
        match operation.id.as_str() {
            "put_type" | "put_secret" | "put_datasource" => {}
            _ if named => {
                let bodies: Vec<Value> = match operation.id.as_str() {
                    id if id.starts_with("reschedule") => vec![json!({ "delay": "1s" })],
                    "resolve_timer_by_key" => vec![json!({}), json!({ "remember": true })],
                    "activate_revision" => vec![json!({ "revision": 1 })],
                    "revoke_grants" | "restore_grants" => vec![json!({ "grants": ["http:a.example"] })],
                    id if id.starts_with("pause_") => vec![json!({ "reason": "because" })],
                    "dry_run_type" => vec![json!({ "key": "secret-order", "payload": order("A") })],
                    _ => vec![json!({})],
                };
                for body in bodies {
                    let mut call = app.call(operation.method.clone(), &path);
                    if operation.id.ends_with("_namespace") {
                        // An administrator may name any.
                        call = call.key("operator");
                    }
                    if operation.method == Method::POST {
                        call = call.json(&body);
                    }
                    let reply = call.send().await;
                    assert_eq!(reply.says(), (404, "not_found"), "{}: {reply:?}", operation.id);
                    assert!(!reply.text.contains("secret-order"), "{}", operation.id);
                }
            }
            _ if operation.id.starts_with("list_") && operation.id != "list_namespaces" => {
                let reply = app.call(Method::GET, &path).send().await;
                for word in ["secret-order", "theirs", "their-key", "\"other\""] {
                    assert!(!reply.text.contains(word), "{} shows {word}: {}", operation.id, reply.text);
                }
            }
            _ => {}
        }
    }
    for path in ["/v1/timers?type=theirs", "/v1/timers?key=secret-order", "/v1/compensations?type=theirs"] {
        assert_eq!(app.get(path).send().await.items().len(), 0, "{path}");
    }
    let theirs = json!({ "digest": things.0["digest"] });
    let borrowed = app.put("/v1/types/mine").json(&theirs).send().await;
    // The fake component's bytes differ by name, so the digest is theirs alone.
    assert_eq!(borrowed.says(), (422, "plugin_invalid"));
    let register = json!({ "type": "theirs", "key": "x", "payload": order("A") });
    assert_eq!(app.post("/v1/timers").json(&register).send().await.says(), (422, "unknown_type"));
    let path = format!("/v1/compensations/{compensation}");
    assert_eq!(app.get(&path).key("their-admin").send().await.says(), (404, "not_found"));
    assert_eq!(app.post(&format!("{path}/redrive")).key("their-admin").send().await.says(), (404, "not_found"));
    let redrive = app.post("/v1/compensations/redrive").key("their-admin").json(&json!({ "type": "order-timeout" }));
    assert_eq!(redrive.send().await.says(), (422, "unknown_type"));
    // Nothing of theirs was touched.
    let timer = app.get(&format!("/v1/timers/{}", things.0["timers"])).key("their-admin").send().await;
    assert_eq!((&timer.json["state"], &timer.json["version"]), (&json!("scheduled"), &json!(1)));
}
