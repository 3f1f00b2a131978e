//! The console: the web app that `web/` builds, embedded, at `/`.
//!
//! Its files' names carry a hash of their content, so that they may be kept for ever; its one page is made anew for each
//! answer, with a nonce of its own, and is what every address of the console gets. What is neither is the API's.

use std::convert::Infallible;

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tower::ServiceExt as _;
use tower_http::compression::CompressionLayer;

/// Every file of the built console, by its path; empty if it was not built.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

const PAGE: &str = "/index.html";
/// What the build leaves in the page where the nonce belongs.
const NONCE: &str = "__CSP_NONCE__";
/// The first parts of the addresses that the console's router knows.
const ADDRESSES: &[&str] = &["", "timers", "types", "compensations"];
/// Where the API's own pages are, besides everything under `/v1/`.
const API: &[&str] = &["healthz", "readyz", "metrics", "openapi.json", "docs"];

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Lapse</title>\
    <h1>The console was not built</h1>\
    <p>This server was compiled without it. With Node.js 20 or later, run <code>make console</code> in the repository, \
    compile again, and start the server anew.</p><p>The API is here all the same: see <a href=\"/docs\">its \
    documentation</a>.</p></html>";

/// Whether the console is in this binary.
pub fn is_built() -> bool {
    file(PAGE).is_some()
}

/// Puts the console before an API: what is the console's is answered here, and the rest goes on.
pub fn before(api: Router) -> Router {
    let console =
        Router::new().fallback(async |request: Request| answer(&request)).layer(CompressionLayer::new().gzip(true));
    api.layer(from_fn(move |request: Request, next: Next| {
        let console = console.clone();
        async move {
            if !is_ours(&request) {
                return next.run(request).await;
            }
            let answer: Result<Response, Infallible> = console.oneshot(request).await;
            answer.unwrap_or_else(|never| match never {})
        }
    }))
}

fn file(path: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(name, _)| *name == path).map(|(_, bytes)| *bytes)
}

fn is_ours(request: &Request) -> bool {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return false;
    }
    let path = request.uri().path();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    if first == "v1" || API.contains(&first) {
        return false;
    }
    ADDRESSES.contains(&first) || first == "assets" || file(path).is_some() || wants_page(request.headers())
}

fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).is_some_and(|v| v.contains("text/html"))
}

fn answer(request: &Request) -> Response {
    let path = request.uri().path();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match file(path) {
        Some(bytes) if path != PAGE => asset(path, bytes),
        // A file of another version's page: the page itself would be taken for a script.
        _ if first == "assets" => (StatusCode::NOT_FOUND, [(header::CACHE_CONTROL, "no-store")]).into_response(),
        _ if ADDRESSES.contains(&first) || path == PAGE => page(StatusCode::OK),
        _ => page(StatusCode::NOT_FOUND),
    }
}

fn asset(path: &str, bytes: &'static [u8]) -> Response {
    let kind = match path.rsplit('.').next().unwrap_or_default() {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    };
    // Only what stands under `assets/` has its content's hash in its name.
    let cache =
        if path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "public, max-age=3600" };
    let headers =
        [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, cache), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, Body::from(bytes)).into_response()
}

fn page(status: StatusCode) -> Response {
    let nonce = STANDARD.encode(rand::random::<[u8; 16]>());
    let (status, html) = match file(PAGE) {
        Some(bytes) => (status, String::from_utf8_lossy(bytes).replace(NONCE, &nonce)),
        None => (StatusCode::SERVICE_UNAVAILABLE, NOT_BUILT.to_owned()),
    };
    // Nothing from elsewhere, no inline script, no evaluation; styles that the components insert carry the nonce.
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (status, headers, html).into_response();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
