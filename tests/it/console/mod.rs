//! The console's page and files, before an API that stands for the real one.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
    routing::get,
};
use lapse::console;
use tower::ServiceExt as _;

struct Answer {
    status: u16,
    headers: axum::http::HeaderMap,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|v| v.to_str().unwrap()).unwrap_or_default()
    }
}

async fn ask(path: &str, accept: &str) -> Answer {
    let api = Router::new()
        .route("/v1/timers", get(async || "the API"))
        .fallback(async || (StatusCode::NOT_FOUND, "a problem"));
    let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
    let response = console::before(api).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    Answer { status: parts.status.as_u16(), headers: parts.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
}

const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

#[tokio::test]
async fn the_api_is_never_shadowed() {
    assert_eq!(ask("/v1/timers", BROWSER).await.text, "the API");
    for path in ["/v1/nothing", "/healthz", "/metrics", "/docs", "/openapi.json"] {
        assert_eq!(ask(path, BROWSER).await.text, "a problem", "{path}");
    }
    assert_eq!(ask("/nothing", "application/json").await.text, "a problem");
}

#[tokio::test]
async fn each_page_has_a_strict_policy_with_a_nonce_of_its_own() {
    let (one, two) = (ask("/", BROWSER).await, ask("/timers/some-id?x=1", BROWSER).await);
    let nonce = |a: &Answer| {
        let policy = a.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        policy.split("'nonce-").nth(1).and_then(|r| r.split('\'').next()).unwrap().to_owned()
    };
    assert_ne!(nonce(&one), nonce(&two));
    assert_eq!(one.header("cache-control"), "no-store");
    if console::is_built() {
        assert_eq!((one.status, two.status), (200, 200));
        assert!(one.text.contains(&nonce(&one)) && !one.text.contains("__CSP_NONCE__"));
        assert_eq!(ask("/no-such-page", BROWSER).await.status, 404);
    } else {
        assert_eq!(one.status, 503);
        assert!(one.text.contains("make console"));
    }
}

#[tokio::test]
async fn files_are_kept_for_ever_and_a_missing_one_is_not_a_page() {
    let page = ask("/", BROWSER).await;
    let files: Vec<_> = page.text.split('"').filter(|s| s.starts_with("/assets/")).map(str::to_owned).collect();
    assert_eq!(files.is_empty(), !console::is_built());
    for file in files {
        let answer = ask(&file, "*/*").await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.header("cache-control").contains("immutable"), "{file}");
        assert!(!answer.header("content-type").contains("html"), "{file}");
    }
    let missing = ask("/assets/index-gone.js", BROWSER).await;
    assert_eq!((missing.status, missing.header("cache-control")), (404, "no-store"));
}
