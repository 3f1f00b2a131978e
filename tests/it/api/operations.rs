//! `/healthz`, `/readyz`, `/metrics`, `/openapi.json`, `/docs`

use std::sync::atomic::Ordering;

use crate::support::app::TestApp;

#[tokio::test]
async fn readiness_follows_the_dispatcher_the_store_and_draining() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/healthz").no_key().send().await.json["status"], "ok");
    let ready = app.get("/readyz").no_key().send().await;
    assert_eq!((ready.status.as_u16(), ready.json["status"].as_str()), (200, Some("ready")));
    app.health.stalled.store(true, Ordering::SeqCst);
    assert_eq!(app.get("/readyz").no_key().send().await.says(), (503, "unavailable"));
    app.health.stalled.store(false, Ordering::SeqCst);
    app.health.draining.store(true, Ordering::SeqCst);
    assert_eq!(app.get("/readyz").no_key().send().await.says(), (503, "unavailable"));
    assert_eq!(app.get("/healthz").no_key().send().await.status, 200, "a node that drains still lives");
    app.health.draining.store(false, Ordering::SeqCst);
    // One write answers for half a second.
    tokio::time::sleep(std::time::Duration::from_millis(550)).await;
    app.store.close().await;
    assert_eq!(app.get("/readyz").no_key().send().await.says(), (503, "unavailable"));
}

#[tokio::test]
async fn metrics_show_what_was_called_and_registered() {
    let app = TestApp::with_type().await;
    app.register("A").await;
    app.get("/v1/timers/17").send().await;
    let metrics = app.get("/metrics").no_key().send().await;
    assert!(metrics.header("content-type").starts_with("text/plain"));
    for line in [
        r#"lapse_timer_message_sent_total{namespace="default",type="order-timeout"}"#,
        r#"lapse_http_requests_total{method="POST",route="/v1/timers",status="201"}"#,
        r#"lapse_http_requests_total{method="GET",route="/v1/timers/{id}",status="404"}"#,
        r#"lapse_http_request_seconds_bucket{method="POST",route="/v1/timers",le="0.005"}"#,
        "# HELP lapse_timer_message_sent_total Timers scheduled",
    ] {
        assert!(metrics.text.contains(line), "{line} is not in\n{}", metrics.text);
    }
}

/// The metrics' names that a source speaks of.
fn names(source: &str) -> impl Iterator<Item = &str> {
    // A module of a guest's is called `lapse_plugin`: a metric's name has three words at least.
    let is_name = |s: &&str| {
        let words = s.starts_with("lapse_") && s.matches('_').count() > 1;
        words && s.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    source.split('"').filter(is_name)
}

#[test]
fn every_metric_is_described() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut used, mut described) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let mut folders = vec![src];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                let is_list = path.ends_with("telemetry/measures.rs");
                for line in source.lines() {
                    let describes = is_list || line.trim_start().starts_with("describe_");
                    let all = if describes { &mut described } else { &mut used };
                    all.extend(names(line).map(str::to_owned));
                }
            }
        }
    }
    let bare: Vec<_> = used.difference(&described).collect();
    assert!(bare.is_empty(), "nobody says what these mean: {bare:?}");
    assert!(used.len() > 20, "the names are found: {used:?}");
}

#[tokio::test]
async fn the_document_and_its_page_need_nothing_from_elsewhere() {
    let app = TestApp::start().await;
    let served = app.get("/openapi.json").no_key().send().await;
    assert_eq!(served.json["openapi"], "3.1.0");
    assert_eq!(served.text, lapse::api::document().to_pretty_json().unwrap());
    let page = app.get("/docs").no_key().send().await;
    assert!(page.header("content-type").starts_with("text/html"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    for id in ["register_timer", "put_type", "schema-Problem"] {
        assert!(page.text.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for outside in ["<script", "http://", "https://", "src=", "@import", "style=\""] {
        assert!(
            !page
                .text
                .replace("https://inventory.example.com", "")
                .replace("https://coupons.example.com", "")
                .contains(outside),
            "{outside}"
        );
    }
}
