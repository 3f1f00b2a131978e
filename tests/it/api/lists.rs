//! Lists: filters, pages and their cursors.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::app::{TestApp, order};

async fn keys(app: &TestApp, query: &str) -> Vec<String> {
    let reply = app.get(&format!("/v1/timers?{query}")).key("reader").send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.items().iter().map(|t| t["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn timers_are_filtered_and_newest_due_comes_first() {
    let app = TestApp::with_type().await;
    app.put_type("default", "other").await;
    for (key, kind, delay, shop) in [
        ("a", "order-timeout", "1h", "main"),
        ("b", "order-timeout", "2h", "side"),
        ("c", "other", "3h", "main"),
        ("d", "order-timeout", "1ms", "main"),
    ] {
        let labels = json!({ "shop": shop, "a=b": "c=d" });
        app.register_with(json!({ "type": kind, "key": key, "payload": order(key), "delay": delay, "labels": labels }))
            .await;
    }
    app.post("/v1/types/order-timeout/timers/b/cancel").send().await;
    app.clock.advance("1s".parse().unwrap());
    let table: &[(&str, &[&str])] = &[
        ("", &["c", "b", "a", "d"]),
        ("type=order-timeout", &["b", "a", "d"]),
        ("type=no-such-type", &[]),
        ("state=scheduled", &["c", "a", "d"]),
        ("state=cancelled", &["b"]),
        ("key=a", &["a"]),
        ("key=a&type=other", &[]),
        ("key=a%00", &[]),
        ("label=a%00=b", &[]),
        ("label=shop%3Dmain", &["c", "a", "d"]),
        ("label=shop=side", &["b"]),
        ("label=shop%3D", &[]),
        ("expired=true", &["d"]),
        ("expired=false", &["c", "b", "a"]),
        ("due_before=2026-03-01T13:00:00Z", &["d"]),
        ("due_after=2026-03-01T13:00:00Z", &["c", "b", "a"]),
        ("due_after=2026-03-01T13:00:00%2B00:00&due_before=2026-03-01T14:00:00.001Z&state=scheduled", &["a"]),
        ("limit=2", &["c", "b"]),
        ("state=scheduled,failed&type=order-timeout", &["a", "d"]),
        ("state=cancelled&state=scheduled&type=order-timeout", &["b", "a", "d"]),
        ("order=due_asc", &["d", "a", "b", "c"]),
        ("order=due_asc&state=scheduled&expired=false", &["a", "c"]),
        ("order=due_desc", &["c", "b", "a", "d"]),
        ("key_prefix=a&payload=false", &["a"]),
        ("key_prefix=c&type=order-timeout", &[]),
    ];
    for (query, expected) in table {
        assert_eq!(keys(&app, query).await, *expected, "{query}");
    }
}

#[tokio::test]
async fn pages_are_stable_while_timers_come_and_go() {
    let app = TestApp::with_type().await;
    let mut first = BTreeSet::new();
    for n in 0..25 {
        // Five share each due time, so that pages break within one.
        let due = format!("2026-03-02T00:00:0{}Z", n / 5);
        let key = format!("k{n}");
        app.register_with(json!({ "type": "order-timeout", "key": key, "payload": order("x"), "due_at": due })).await;
        first.insert(key);
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let more = cursor.map(|c| format!("&cursor={c}")).unwrap_or_default();
        let page = app.get(&format!("/v1/timers?limit=4{more}")).send().await;
        seen.extend(page.items().iter().map(|t| t["key"].as_str().unwrap().to_owned()));
        pages += 1;
        assert!(pages < 20, "it ends");
        // Between pages one comes in front and one behind, and one that was seen is settled.
        let body =
            json!({ "type": "order-timeout", "key": format!("front{pages}"), "payload": order("x"), "delay": "9d" });
        app.register_with(body).await;
        app.post(&format!("/v1/types/order-timeout/timers/{}/cancel", seen[0])).send().await;
        match page.json["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let unique: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "none twice: {seen:?}");
    assert!(first.is_subset(&unique), "none left out: {seen:?}");
}

#[tokio::test]
async fn every_list_pages_through_all_it_has() {
    let app = TestApp::start().await;
    for n in 0..7 {
        app.put_type("default", &format!("type-{n}")).await;
        app.namespace(&format!("space-{n}")).await;
        app.clock.advance("1ms".parse().unwrap());
    }
    app.register_with(json!({ "type": "type-0", "key": "A", "payload": order("A") })).await;
    let timer = app.get("/v1/types/type-0/timers/A").send().await.json["id"].as_str().unwrap().to_owned();
    for n in 1..7 {
        let body = json!({ "delay": format!("{n}h") });
        app.post(&format!("/v1/timers/{timer}/reschedule")).json(&body).send().await;
        let digest = app.get("/v1/types/type-0").send().await.json["digest"].clone();
        app.put("/v1/types/type-0").json(&json!({ "digest": digest, "rate": n })).send().await;
    }
    let events = format!("/v1/timers/{timer}/events");
    let lists = [
        ("/v1/types", "name", 7),
        ("/v1/plugins", "digest", 7),
        ("/v1/types/type-0/revisions", "number", 7),
        (events.as_str(), "seq", 7),
        ("/v1/namespaces", "name", 8),
        ("/v1/keys", "id", 5),
    ];
    for (path, field, count) in lists {
        let whole: Vec<Value> = app.get(path).send().await.items().iter().map(|i| i[field].clone()).collect();
        assert_eq!(whole.len(), count, "{path}");
        let (mut paged, mut more) = (Vec::new(), String::new());
        loop {
            let page = app.get(&format!("{path}?limit=3{more}")).send().await;
            assert!(page.items().len() <= 3);
            paged.extend(page.items().iter().map(|i| i[field].clone()));
            match page.json["next_cursor"].as_str() {
                Some(next) => more = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(paged, whole, "{path}");
    }
}

#[tokio::test]
async fn bad_queries_are_refused() {
    let app = TestApp::with_type().await;
    app.register("a").await;
    app.register("b").await;
    let good = app.get("/v1/timers?limit=1").send().await.json["next_cursor"].as_str().unwrap().to_owned();
    let timer = app.get("/v1/timers").send().await.json["items"][0]["id"].as_str().unwrap().to_owned();
    let events = format!("/v1/timers/{timer}/events");
    for path in
        ["/v1/timers", "/v1/types", "/v1/plugins", "/v1/keys", "/v1/namespaces", "/v1/compensations", events.as_str()]
    {
        for query in [
            "limit=0",
            "limit=501",
            "limit=-1",
            "limit=x",
            "limit=99999999999999999999",
            "limit=",
            "cursor=x",
            "cursor=",
            "cursor=%FF",
            "cursor=AAAA",
            "limit=1&limit=2",
        ] {
            let reply = app.get(&format!("{path}?{query}")).send().await;
            assert_eq!(reply.says(), (400, "malformed"), "{path}?{query}: {reply:?}");
        }
        let reply = app.get(&format!("{path}?nonsense=1")).send().await;
        assert_eq!((reply.says(), reply.pointers()), ((400, "unknown_field"), vec!["?nonsense"]), "{path}: {reply:?}");
        if path != "/v1/timers" {
            let reply = app.get(&format!("{path}?cursor={good}")).send().await;
            assert_eq!(reply.says(), (400, "malformed"), "another list's cursor at {path}");
        }
    }
    for query in [
        "state=done",
        "due_before=now",
        "due_after=2026",
        "expired=1",
        "label=shop",
        "state=scheduled,done",
        "state=",
        "type=a&type=b",
        "order=newest",
        "order=due_asc&key_prefix=a",
        "key=a&key_prefix=a",
        "key_prefix=",
    ] {
        let reply = app.get(&format!("/v1/timers?{query}")).send().await;
        assert_eq!(reply.says(), (400, "malformed"), "{query}: {reply:?}");
    }
    for query in ["state=resolved", "timer_id=17"] {
        assert_eq!(app.get(&format!("/v1/compensations?{query}")).send().await.says(), (400, "malformed"), "{query}");
    }
}

#[tokio::test]
async fn a_list_goes_on_in_its_own_order_and_can_leave_payloads_out() {
    let app = TestApp::with_type().await;
    for (key, delay) in [("A1", "3h"), ("A2", "1h"), ("A3", "2h"), ("B", "4h")] {
        app.register_with(json!({ "type": "order-timeout", "key": key, "payload": order(key), "delay": delay })).await;
    }
    for (query, expected) in [
        ("order=due_asc", ["A2", "A3", "A1", "B"].as_slice()),
        ("order=due_desc", &["B", "A1", "A3", "A2"]),
        ("key_prefix=A", &["A1", "A2", "A3"]),
    ] {
        let mut found = Vec::new();
        let mut cursor = String::new();
        for _ in 0..10 {
            let page = app.get(&format!("/v1/timers?{query}&payload=false&limit=1{cursor}")).send().await;
            found.extend(page.items().iter().map(|t| t["key"].as_str().unwrap().to_owned()));
            assert!(page.items().iter().all(|t| t.get("payload").is_none()), "{page:?}");
            let Some(next) = page.json["next_cursor"].as_str() else { break };
            // It belongs to its order.
            for other in ["order=due_asc", "order=due_desc", "key_prefix=A"].iter().filter(|o| **o != query) {
                let refused = app.get(&format!("/v1/timers?{other}&cursor={next}")).send().await;
                assert_eq!(refused.says(), (400, "malformed"), "{query} then {other}");
            }
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, expected, "{query}");
    }
    assert!(app.get("/v1/timers").send().await.items().iter().all(|t| t["payload"]["total"] == 1000));
}
