//! What stands around every call: its id, its log line, its metrics, its panic, and the writing of its problem.

use std::time::Instant;

use axum::{
    Router,
    extract::{MatchedPath, Request},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use tower_http::catch_panic::CatchPanicLayer;
use uuid::Uuid;

use super::{
    Api, auth,
    problem::{Code, Error},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is taken over from the caller.
const MAX_REQUEST_ID_BYTES: usize = 128;

pub(super) fn around(routes: Router<Api>, api: &Api) -> Router<Api> {
    routes
        .route_layer(from_fn_with_state(api.clone(), auth::guard))
        .fallback(async || Error::new(Code::NotFound, "there is nothing at this path"))
        .method_not_allowed_fallback(async |method: Method| {
            Error::new(Code::MethodNotAllowed, format!("this path does not take {method}"))
        })
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe))
}

/// A call's id: the caller's own if it sent a sensible one.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub String);

impl<S: Sync> axum::extract::FromRequestParts<S> for RequestId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, _: &S) -> Result<Self, Error> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Error::internal("a request has no id"))
    }
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    Error::internal(message).into_response()
}

async fn observe(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let given = request.headers().get(&REQUEST_ID).and_then(|v| v.to_str().ok()).filter(|id| {
        (1..=MAX_REQUEST_ID_BYTES).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    });
    let id = given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    request.extensions_mut().insert(RequestId(id.clone()));
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched".to_owned(), |p| p.as_str().to_owned());

    let mut response = finish(next.run(request).await, &id);

    let status = response.status();
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let seconds = started.elapsed().as_secs_f64();
    metrics::counter!("lapse_http_requests_total", "method" => method, "route" => route.clone(), "status" => status.as_u16().to_string())
        .increment(1);
    metrics::histogram!("lapse_http_request_seconds", "method" => method, "route" => route.clone()).record(seconds);
    log(&Call { method, route: &route, status, ms: seconds * 1000.0, id: &id });
    response
}

struct Call<'a> {
    method: &'static str,
    route: &'a str,
    status: StatusCode,
    ms: f64,
    id: &'a str,
}

/// Successes at debug, since there may be thousands a second; refusals at info; failures at warn.
fn log(call: &Call<'_>) {
    let Call { method, route, status, ms, id } = *call;
    let status = status.as_u16();
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                target: "lapse::http",
                { http.method = method, http.route = route, http.status = status, http.ms = ms, trace_id = id },
                "a request was answered"
            )
        };
    }
    match status {
        500.. => line!(warn),
        400.. => line!(info),
        _ => line!(debug),
    }
}

/// A label of few values, whatever a caller sends.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Writes the problem out. An error that is not ours (a framework's own refusal) becomes one.
fn finish(mut response: Response, id: &str) -> Response {
    let status = response.status();
    let error = match response.extensions_mut().remove::<Error>() {
        Some(error) => error,
        None if status.is_client_error() || status.is_server_error() => {
            let code = match status {
                StatusCode::NOT_FOUND => Code::NotFound,
                StatusCode::METHOD_NOT_ALLOWED => Code::MethodNotAllowed,
                StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
                StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
                s if s.is_client_error() => Code::Malformed,
                _ => Code::Internal,
            };
            Error::new(code, "the request cannot be answered").with_status(status)
        }
        None => return response,
    };
    let mut written = error.write(id);
    // What layers below have added, such as Allow or the rate's headers.
    for (name, value) in response.headers() {
        if !matches!(*name, header::CONTENT_TYPE | header::CONTENT_LENGTH) && !written.headers().contains_key(name) {
            written.headers_mut().insert(name.clone(), value.clone());
        }
    }
    written
}
