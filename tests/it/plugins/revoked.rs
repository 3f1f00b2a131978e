//! A right that is taken from a type is taken from every revision: from a compensation that an older one decided, from a
//! pinned timer, from a call that has begun, and on every node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::StatusCode as Answer;
use lapse::{config::Config, domain::decision::FailureClass, plugin::Rights};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    host::{host, load, rights, settings, task},
    node::{self, Api},
    server::Server,
};
use crate::support::{guest::component, postgres};

/// Until a node has heard of what was revoked on another.
const HEARD: Duration = Duration::from_millis(1500);

fn order(key: &str, more: &Value) -> Value {
    let payload = json!({
        "order_id": key, "user_id": "u1", "total_amount": 100, "payment_method": "online",
        "items": [{ "sku": "S1", "quantity": 1 }]
    });
    let mut timer = json!({ "type": "order-timeout", "key": key, "payload": payload, "delay": "0s" });
    timer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    timer
}

/// The one compensation of the order, once it is in this state.
async fn compensation(api: &Api, state: &str) -> Value {
    let began = Instant::now();
    loop {
        let (_, page) = api.call(Method::GET, "/v1/compensations?type=order-timeout", None).await;
        if let [only] = &page["items"].as_array().unwrap()[..]
            && only["state"] == state
        {
            return only.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "not {state}: {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn settled(api: &Api, key: &str) -> Value {
    let began = Instant::now();
    loop {
        let (_, timer) = api.call(Method::GET, &format!("/v1/types/order-timeout/timers/{key}"), None).await;
        if timer.get("run_at").is_none() {
            return timer;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "not settled: {timer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_revoked_is_gone_from_older_revisions_on_every_node_until_it_is_restored() {
    let status = Arc::new(AtomicU16::new(503));
    let told = Arc::clone(&status);
    let server = Server::start(move |_| Answer::from_u16(told.load(Ordering::Relaxed)).unwrap()).await;
    let database = postgres::database().await;
    let folder = tempfile::tempdir().unwrap();
    let quick = |config: &mut Config| {
        config.store.key = lapse::config::Secret::new("07".repeat(32));
        config.compensation.initial = "20ms".parse().unwrap();
        config.compensation.max = "40ms".parse().unwrap();
        config.compensation.attempts = 1000;
        config.breaker.failures = 1000;
    };
    let (first, api) = node::start(&folder.path().join("a"), Some(database.url.clone()), quick).await;
    let (second, other) = node::start(&folder.path().join("b"), Some(database.url.clone()), quick).await;

    let digest = api.upload(component("order-timeout").to_vec()).await;
    let (compensate, close) = (server.grant(), format!("on-expire:{}", server.grant()));
    let put = |grants: Value, closes: bool| {
        let mut config = json!({ "inventory_url": server.url("/stock"), "coupon_url": server.url("/coupons") });
        if closes {
            config["order_url"] = json!(server.url("/orders"));
        }
        json!({ "digest": digest, "config": config, "grants": grants })
    };
    for body in [put(json!([compensate]), false), put(json!([compensate, close]), true)] {
        let (status, answer) = api.call(Method::PUT, "/v1/types/order-timeout", Some(body)).await;
        assert!(status.is_success(), "{answer}");
    }
    // Decided by the first revision, and tried again and again.
    let (_, timer) = api.call(Method::POST, "/v1/timers", Some(order("A", &json!({ "revision": 1 })))).await;
    assert_eq!(timer["revision"], 1, "{timer}");
    compensation(&api, "pending").await;

    let change = |to: &'static str, grant: &str| {
        let (path, body) = (format!("/v1/types/order-timeout/{to}"), json!({ "grants": [grant] }));
        let api = &api;
        async move { api.call(Method::POST, &path, Some(body)).await }
    };
    // Another than were ever granted must not pass for done.
    let (refused, problem) = change("revoke", "http:elsewhere.example").await;
    assert_eq!((refused, &problem["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("payload_invalid")));
    assert!(problem["detail"].as_str().unwrap().contains(&format!("compensate:{compensate}")), "{problem}");

    let (revoked, shown) = change("revoke", &compensate).await;
    assert_eq!((revoked, &shown["revoked"]), (StatusCode::OK, &json!([format!("compensate:{compensate}")])));
    assert_eq!(shown["grants"].as_array().unwrap().len(), 2, "the revision stays as it is: {shown}");
    let dead = compensation(&other, "dead").await;
    let error = &dead["last_error"];
    assert_eq!((&error["class"], &error["code"]), (&json!("permanent"), &json!("grant_revoked")), "{dead}");
    let advice = format!("`lapse type restore order-timeout compensate:{compensate}`: then redrive this");
    assert!(error["message"].as_str().unwrap().ends_with(&advice), "{dead}");

    // Whichever node takes it up: no more requests, however often it is redriven.
    tokio::time::sleep(HEARD).await;
    let asked = server.asked().len();
    status.store(200, Ordering::Relaxed);
    for _ in 0..4 {
        let redrive = format!("/v1/compensations/{}/redrive", dead["id"].as_str().unwrap());
        let (status, answer) = api.call(Method::POST, &redrive, Some(json!({}))).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        compensation(&api, "dead").await;
    }
    assert_eq!(server.asked().len(), asked);

    // A decision that is refused its right fails, and says what to do.
    let (status, _) = change("revoke", &close).await;
    assert_eq!(status, StatusCode::OK);
    tokio::time::sleep(HEARD).await;
    api.call(Method::POST, "/v1/timers", Some(order("B", &json!({})))).await;
    let failed = settled(&other, "B").await;
    assert_eq!(
        (&failed["state"], &failed["outcome"]["failure"]["code"]),
        (&json!("failed"), &json!("grant_revoked")),
        "{failed}"
    );
    assert_eq!(server.asked().len(), asked);

    // A revision that is granted it anew has it no more than the others.
    let (_, again) = api.call(Method::PUT, "/v1/types/order-timeout", Some(put(json!([compensate]), false))).await;
    assert_eq!((&again["revision"], again["revoked"].as_array().unwrap().len()), (&json!(3), 2), "{again}");

    for grant in [&compensate, &close] {
        let (status, _) = change("restore", grant).await;
        assert_eq!(status, StatusCode::OK);
    }
    tokio::time::sleep(HEARD).await;
    let (_, shown) = other.call(Method::GET, "/v1/types/order-timeout", None).await;
    assert_eq!(shown.get("revoked"), None, "{shown}");
    let redrive = format!("/v1/compensations/{}/redrive", dead["id"].as_str().unwrap());
    api.call(Method::POST, &redrive, Some(json!({}))).await;
    compensation(&api, "done").await;
    let keys: Vec<_> = server.asked().iter().map(|a| a.header("idempotency-key").unwrap().to_owned()).collect();
    assert!(keys.iter().all(|key| *key == dead["id"]), "one key over all attempts: {keys:?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_call_that_has_begun_is_refused_what_it_asks_for_next() {
    let held = Rights::default();
    let revoked = held.revoked.clone();
    let server = Server::start(move |asked| {
        revoked.set(
            ["http:127.0.0.1".to_owned() + ":" + asked.header("host").unwrap().split_once(':').unwrap().1]
                .iter()
                .map(|grant| grant.parse().unwrap())
                .collect(),
        );
        (Answer::TEMPORARY_REDIRECT, [("location", "/again")])
    })
    .await;
    let plugin = load(&host(&settings()), component("hostile")).await;
    let granted = Rights { grants: rights(&[&server.grant()]).grants, ..held };
    let payload = json!({ "do": "http", "url": server.url("/") });
    let run = plugin.compensate(&task("undo", &payload, &json!({})), &granted).await;
    assert_eq!(server.asked().len(), 1, "not where it was sent on to");
    assert_eq!(run.denied, [format!("http to {} was revoked for compensate", server.address)]);
    // One that copes with it stands; one that fails, fails for it.
    assert_eq!(run.result.unwrap().unwrap(), "\"denied\"");
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    let config = json!({ "inventory_url": server.url("/"), "coupon_url": server.url("/") });
    let run = plugin.compensate(&task("return_coupon", &json!({}), &config), &granted).await;
    let failure = run.result.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "grant_revoked"));
    assert_eq!(server.asked().len(), 1);
}
