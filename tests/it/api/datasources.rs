//! `/v1/datasources`

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{
    app::{Reply, TestApp},
    postgres::database,
};

async fn put(app: &TestApp, name: &str, body: Value) -> Reply {
    app.put(&format!("/v1/datasources/{name}")).key("operator").json(&body).send().await
}

async fn check(app: &TestApp, name: &str) -> Value {
    let reply = app.post(&format!("/v1/datasources/{name}/check")).key("operator").send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json
}

#[tokio::test]
async fn a_data_source_is_shown_without_its_password() {
    let app = TestApp::start().await;
    let made =
        put(&app, "shop", json!({ "url": "postgres://lapse:hu%40sh@db.example:5433/shop?sslmode=require" })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let expected = json!({
        "name": "shop", "kind": "postgres", "url": "postgres://lapse@db.example:5433/shop?sslmode=require",
        "has_password": true, "statement_timeout": "5s", "max_rows": 1000, "max_bytes": 1_048_576, "connections": 4,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&made.json[field], value, "{field}");
    }
    let body =
        json!({ "url": "mariadb://lapse@db.example/shop", "statement_timeout": "2s", "max_rows": 7, "connections": 1 });
    let again = put(&app, "shop", body).await;
    assert_eq!(
        (again.status.as_u16(), &again.json["kind"], &again.json["max_rows"]),
        (200, &json!("mysql"), &json!(7))
    );
    assert_eq!((&again.json["has_password"], &again.json["statement_timeout"]), (&json!(false), &json!("2s")));
    let listed = app.get("/v1/datasources").key("reader").send().await;
    assert_eq!(listed.items().len(), 1);
    let gone = app.call(Method::DELETE, "/v1/datasources/shop").send().await;
    for reply in [&made, &listed, &gone] {
        assert!(!reply.text.contains("hu@sh") && !reply.text.contains("hu%40sh"), "{reply:?}");
    }
    assert_eq!(app.post("/v1/datasources/shop/check").send().await.says(), (404, "not_found"));
}

#[tokio::test]
async fn what_is_no_data_source_is_refused_with_what_would_be() {
    let app = TestApp::start().await;
    let url = |url: &str| json!({ "url": url });
    let good = "postgres://u@h/d";
    let cases = [
        (url(""), "/url"),
        (url("postgres://"), "/url"),
        (url("postgres://u@h"), "/url"),
        (url("postgres://h/d"), "/url"),
        (url("postgres://u@%2Fvar%2Frun/d"), "/url"),
        (url("postgres://u:hush@h/d?sslkey=/etc/shadow"), "/url"),
        (url("postgres://u:hush@h/d?sslmode=maybe"), "/url"),
        (url("http://u:hush@h/d"), "/url"),
        (url("sqlite:"), "/url"),
        (url("sqlite::memory:"), "/url"),
        (url("sqlite:../lapse.db"), "/url"),
        (url("sqlite:none.db"), "/url"),
        (url("sqlite:/etc/passwd"), "/url"),
        (json!({ "url": good, "statement_timeout": "2m" }), "/statement_timeout"),
        (json!({ "url": good, "max_rows": 0 }), "/max_rows"),
        (json!({ "url": good, "max_bytes": 99_999_999 }), "/max_bytes"),
        (json!({ "url": good, "connections": 101 }), "/connections"),
    ];
    for (body, pointer) in cases {
        let reply = put(&app, "shop", body.clone()).await;
        assert_eq!((reply.says(), reply.pointers()), ((422, "payload_invalid"), vec![pointer]), "{body}: {reply:?}");
        assert!(!reply.text.contains("hush"), "{reply:?}");
    }
    assert!(app.get("/v1/datasources").send().await.items().is_empty());
}

#[tokio::test]
async fn a_check_says_what_is_there() {
    let app = TestApp::start().await;
    let database = database().await;
    put(&app, "shop", json!({ "url": database.params().url })).await;
    let found = check(&app, "shop").await;
    assert!(found["ok"] == true && found["server"].as_str().unwrap().starts_with("PostgreSQL "), "{found}");
    // Nothing listens there.
    put(&app, "away", json!({ "url": "mysql://u:hush@127.0.0.1:1/d" })).await;
    let away = check(&app, "away").await;
    assert!(away["ok"] == false && away["error"].as_str().unwrap().contains("cannot be reached"), "{away}");
    assert!(!away.to_string().contains("hush"), "{away}");
}

#[tokio::test]
async fn a_sqlite_file_is_in_its_namespace_s_own_folder() {
    let app = TestApp::start().await;
    app.namespace("other").await;
    let (mine, own) = (app.sqlite_folder("default"), app.own_folder());
    rusqlite::Connection::open(mine.join("shop.db")).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    rusqlite::Connection::open(own.join("lapse.db")).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    std::os::unix::fs::symlink(own.join("lapse.db"), mine.join("link.db")).unwrap();
    let file = |file: &str| json!({ "url": format!("sqlite:{file}") });
    assert_eq!(put(&app, "shop", file("shop.db")).await.status, 201);
    assert!(check(&app, "shop").await["server"].as_str().unwrap().starts_with("SQLite "));
    for refused in ["link.db", own.join("lapse.db").to_str().unwrap(), "."] {
        assert_eq!(put(&app, "bad", file(refused)).await.says(), (422, "payload_invalid"), "{refused}");
    }
    let theirs = file(mine.join("shop.db").to_str().unwrap());
    let reply = app.put("/v1/datasources/shop").namespace("other").json(&theirs).send().await;
    assert_eq!(reply.says(), (422, "payload_invalid"), "another namespace's file");
}
