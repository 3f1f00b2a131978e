//! What a stream tells, and that it stays bounded.

use std::{sync::atomic::Ordering, time::Duration};

use axum::body::BodyDataStream;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::compensations::closed_with;
use crate::support::app::TestApp;

/// The longest that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(20);

struct Listener {
    body: BodyDataStream,
    events: std::collections::VecDeque<(String, Value)>,
}

impl Listener {
    async fn to(app: &TestApp, query: &str) -> Self {
        let body = app.get(&format!("/v1/events/stream{query}")).key("reader").stream().await;
        Self { body, events: [].into() }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        while self.events.is_empty() {
            let chunk = tokio::time::timeout(PATIENCE, self.body.next()).await.expect("an event, or an end")?.unwrap();
            let text = String::from_utf8(chunk.to_vec()).unwrap();
            for frame in text.split("\n\n").filter(|f| !f.is_empty() && !f.starts_with(':')) {
                let (event, data) = frame.split_once('\n').unwrap();
                let event = event.strip_prefix("event: ").unwrap().to_owned();
                let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                self.events.push_back((event, data));
            }
        }
        self.events.pop_front()
    }

    async fn next_of(&mut self, event: &str) -> Value {
        loop {
            let (name, data) = self.next().await.expect("the stream goes on");
            if name == event {
                return data;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_says_hello_and_then_what_changes_in_its_namespace() {
    let app = TestApp::with_type().await;
    app.namespace("other").await;
    app.put_type("other", "theirs").await;
    let mut all = Listener::to(&app, "").await;
    let (first, hello) = all.next().await.unwrap();
    assert_eq!((first.as_str(), &hello["node_id"]), ("hello", &json!("node-1")));
    assert_eq!(all.next().await.unwrap().0, "stats", "at once, too");

    app.register("A").await;
    let theirs = json!({ "type": "theirs", "key": "secret-order", "payload": crate::support::app::order("A") });
    app.post("/v1/timers").namespace("other").json(&theirs).send().await;
    let told = all.next_of("timers").await;
    let changed = told["changed"].as_array().unwrap();
    assert_eq!((changed.len(), &changed[0]["key"], &changed[0]["state"]), (1, &json!("A"), &json!("scheduled")));
    assert!(changed[0].get("payload").is_none() && changed[0].get("labels").is_none());
    let stats = all.next_of("stats").await;
    assert!(stats.get("history").is_none(), "a stream carries no history: {stats}");

    app.post("/v1/types/order-timeout/pause").json(&json!({ "reason": "a test" })).send().await;
    app.catalog.refresh_at_once().await.unwrap();
    assert_eq!(all.next_of("types").await["changed"], json!(["order-timeout"]));
}

#[tokio::test]
async fn topics_are_chosen_and_what_finds_no_room_is_counted() {
    let app = TestApp::with_type().await;
    let mut timers = Listener::to(&app, "?topics=timers,types").await;
    assert_eq!(timers.next().await.unwrap().0, "hello");
    for n in 0..130 {
        app.register(&format!("k{n}")).await;
    }
    let (mut shown, mut dropped) = (0, 0);
    while shown + dropped < 130 {
        let (event, told) = timers.next().await.unwrap();
        assert_eq!(event, "timers", "only what was asked for");
        let changed = told["changed"].as_array().unwrap().len();
        assert!(changed <= 100, "{changed}");
        shown += changed as u64;
        dropped += told["dropped"].as_u64().unwrap();
    }
    assert_eq!(shown + dropped, 130);
    for (query, code) in [("topics=all", 400), ("topics=", 400), ("topics=stats&topics=timers", 200)] {
        assert_eq!(app.get(&format!("/v1/events/stream?{query}")).send().await.status, code, "{query}");
    }
}

#[tokio::test]
async fn a_key_has_so_many_streams_and_no_more_and_a_drain_ends_them() {
    let app = TestApp::with_type().await;
    let mut open = Vec::new();
    for _ in 0..32 {
        open.push(Listener::to(&app, "?topics=timers").await);
    }
    let refused = app.get("/v1/events/stream").key("reader").send().await;
    assert_eq!(refused.says(), (429, "rate_limited"), "{refused:?}");
    let other_key = app.get("/v1/events/stream").key("operator").send().await;
    assert_eq!(other_key.status, 200);
    // Each that closes makes room.
    drop(open.pop());
    let mut last = Listener::to(&app, "?topics=timers").await;
    assert_eq!(last.next().await.unwrap().0, "hello");
    app.health.draining.store(true, Ordering::SeqCst);
    assert!(last.next().await.is_none(), "the stream ends");
    assert_eq!(app.get("/v1/events/stream").key("operator").send().await.says(), (503, "unavailable"));
}

#[tokio::test]
async fn compensations_are_told_only_while_somebody_listens() {
    let app = TestApp::with_type().await;
    let namespace = app.namespace("default").await;
    assert!(app.stats.take_changes(namespace).timers.latest.is_empty());
    closed_with(&app, "A", &["release"]).await;
    assert!(app.stats.take_changes(namespace).timers.latest.is_empty(), "nobody listened");
    app.stats.watch(namespace);
    closed_with(&app, "B", &["release"]).await;
    assert_eq!(app.stats.take_changes(namespace).timers.latest.len(), 1, "the latest of each timer");
    app.stats.unwatch(namespace);
}
