//! The `http` capability: requests to granted hosts, bounded in time, size and number.

pub mod address;
mod outgoing;

use std::{error::Error as _, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    Client, Method, StatusCode,
    header::{self, HeaderMap},
};
use tokio::{sync::Semaphore, time::Instant};
use url::Url;

use self::{
    address::{Forbidden, PublicResolver},
    outgoing::{Outgoing, place, standing},
};
use super::{
    Standing,
    abi::v1::http::{Header, HttpError, Request, Response, SecretHeader},
    call::{CallState, NoSecret, Session},
    text::cut,
};
use crate::{
    breaker::{Gate, Permit},
    domain::plugin::Export,
};

/// Exchanges of all plugins that run at once; more wait, within their own time.
const CONNECTIONS: usize = 512;
/// Idle connections kept to one host.
const IDLE_PER_HOST: usize = 32;
const IDLE: Duration = Duration::from_secs(30);
/// Redirects that are followed.
const REDIRECTS: u32 = 5;
const RESPONSE_HEADERS: usize = 100;
/// Secrets in one request.
const SECRETS: usize = 8;

/// What all plugins' requests go through. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    client: Client,
    connections: Arc<Semaphore>,
}

impl Gateway {
    /// An error if the machine gives no TLS set-up at all.
    pub fn new() -> Result<Self, reqwest::Error> {
        // Another room may have been first; it installs the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .dns_resolver(PublicResolver)
                .pool_max_idle_per_host(IDLE_PER_HOST)
                .pool_idle_timeout(IDLE)
                .http1_max_headers(RESPONSE_HEADERS)
                .user_agent(concat!("lapse/", env!("CARGO_PKG_VERSION")))
        };
        let client = builder().build().or_else(|error| {
            tracing::warn!(%error, "the machine has no certificates to trust; plugins can reach no https host");
            builder().tls_certs_only([]).build()
        })?;
        Ok(Self { client, connections: Arc::new(Semaphore::new(CONNECTIONS)) })
    }
}

/// The answer to a request by a call that may make none.
pub fn refuse(state: &mut CallState, request: &Request) -> HttpError {
    if !state.count_http_call() {
        return HttpError::TooManyCalls;
    }
    match outgoing::check_url(&request.url) {
        Ok(url) => denied(state, &url, Standing::NotGranted),
        Err(invalid) => invalid,
    }
}

/// Sends a request, if the rights of the export that runs allow it.
pub async fn send(state: &mut CallState, request: Request, secrets: Vec<SecretHeader>) -> Result<Response, HttpError> {
    let Some(session) = state.session.take() else { return Err(refuse(state, &request)) };
    let sent = send_with(state, &session, request, secrets).await;
    state.session = Some(session);
    sent
}

/// Puts secrets into a request for a host that it may be sent to; the names of their headers.
async fn put_in(
    state: &mut CallState,
    session: &Session,
    request: &mut Request,
    secrets: Vec<SecretHeader>,
) -> Result<Vec<String>, HttpError> {
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    if secrets.len() > SECRETS {
        return Err(HttpError::Invalid(format!("there are more than {SECRETS} secrets")));
    }
    let url = outgoing::check_url(&request.url)?;
    let standing = standing(&session.rights, state.export, &url);
    if standing != Standing::Granted {
        return Err(denied(state, &url, standing));
    }
    let mut names = Vec::with_capacity(secrets.len());
    for SecretHeader { name, prefix, secret } in secrets {
        let value = match session.secret(state, &secret).await {
            Ok(value) => prefix + value.reveal(),
            Err(NoSecret::Denied(why)) => return Err(HttpError::Denied(why)),
            Err(NoSecret::Unavailable(why)) => return Err(HttpError::Connection(why)),
        };
        names.push(name.clone());
        request.headers.push(Header { name, value });
    }
    Ok(names)
}

async fn send_with(
    state: &mut CallState,
    session: &Session,
    mut request: Request,
    secrets: Vec<SecretHeader>,
) -> Result<Response, HttpError> {
    if !state.count_http_call() {
        return Err(HttpError::TooManyCalls);
    }
    let secret_names = put_in(state, session, &mut request, secrets).await?;
    let asked = request.timeout_ms.map_or(Duration::MAX, |ms| Duration::from_millis(ms.into()));
    let time = asked.min(state.limits.http_timeout).min(state.meter.wall_left());
    let body_limit = state.limits.http_body_bytes;
    let mut outgoing = Outgoing::check(request, &session.idempotency_key, body_limit)?;
    outgoing.keep_secret(&secret_names);
    let (method, first) = (outgoing.method.clone(), outgoing.url.clone());
    let began = Instant::now();
    let Some(gate) = state.gate.as_mut() else {
        return Err(denied(state, &first, Standing::NotGranted));
    };
    let mut exchange = Exchange { session, export: state.export, body_limit, gate, permit: None };
    let result =
        tokio::time::timeout(time, exchange.run(outgoing)).await.unwrap_or(Err(Ended::Error(HttpError::Timeout)));
    exchange.report(&result);
    let elapsed_ms = began.elapsed().as_millis();
    let host = place(&first);
    match result {
        Ok(response) => {
            tracing::debug!(http.method = %method, http.host = host, http.status = response.status, elapsed_ms, "a plugin's request was answered");
            Ok(response)
        }
        Err(Ended::Denied(url, standing)) => Err(denied(state, &url, standing)),
        Err(Ended::Forbidden(why)) => {
            state.deny(why.clone());
            Err(HttpError::Denied(why))
        }
        Err(Ended::Refused(why)) => Err(HttpError::Connection(cut(&why, 300).into_owned())),
        Err(Ended::Error(error)) => {
            tracing::debug!(http.method = %method, http.host = host, elapsed_ms, %error, "a plugin's request had no answer");
            Err(error)
        }
    }
}

fn denied(state: &mut CallState, url: &Url, standing: Standing) -> HttpError {
    HttpError::Denied(state.refuse(&format!("http to {}", cut(&place(url), 300)), standing))
}

/// Why an exchange gave no answer.
enum Ended {
    /// No grant for this URL, or not any more.
    Denied(Box<Url>, Standing),
    /// The host has only addresses that may not be reached.
    Forbidden(String),
    /// Its breaker is open.
    Refused(String),
    Error(HttpError),
}

/// One request with its redirects.
struct Exchange<'a> {
    session: &'a Session,
    export: Export,
    body_limit: usize,
    gate: &'a mut Gate,
    /// Of the request that is under way.
    permit: Option<Permit>,
}

impl Exchange<'_> {
    async fn run(&mut self, mut outgoing: Outgoing) -> Result<Response, Ended> {
        let _connection = self.session.gateway.connections.acquire().await;
        for _ in 0..=REDIRECTS {
            let standing = standing(&self.session.rights, self.export, &outgoing.url);
            if standing != Standing::Granted {
                return Err(Ended::Denied(Box::new(outgoing.url), standing));
            }
            let permit = self.gate.admit(&place(&outgoing.url));
            self.permit = Some(permit.map_err(|refused| Ended::Refused(refused.to_string()))?);
            let response = self.request(&outgoing).await?;
            match redirected(&outgoing, response.status(), response.headers())? {
                Some(next) => {
                    self.answered(response.status().as_u16());
                    outgoing = next;
                }
                None => return self.read(response).await,
            }
        }
        Err(Ended::Error(HttpError::TooManyRedirects))
    }

    /// The request under way was answered.
    fn answered(&mut self, status: u16) {
        match self.permit.take() {
            Some(permit) if status >= 500 => permit.failed(format!("it answered {status}")),
            Some(permit) => permit.succeeded(),
            None => {}
        }
    }

    /// How the last request ended, for its breaker. An answer that is too large is one.
    fn report(&mut self, result: &Result<Response, Ended>) {
        match result {
            Ok(response) => self.answered(response.status),
            Err(Ended::Error(HttpError::Connection(why))) => {
                if let Some(permit) = self.permit.take() {
                    permit.failed(why.clone());
                }
            }
            Err(Ended::Error(HttpError::TooLarge(_))) => self.answered(200),
            // A time so short that it says nothing of the host is the plugin's own.
            Err(_) => drop(self.permit.take()),
        }
    }

    async fn request(&self, outgoing: &Outgoing) -> Result<reqwest::Response, Ended> {
        let mut request = self.session.gateway.client.request(outgoing.method.clone(), outgoing.url.clone());
        request = request.headers(outgoing.headers.clone());
        if let Some(body) = &outgoing.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(read_error)
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<Response, Ended> {
        let limit = u64::try_from(self.body_limit).unwrap_or(u64::MAX);
        let too_large = || Ended::Error(HttpError::TooLarge(limit));
        if response.content_length().is_some_and(|n| n > limit) {
            return Err(too_large());
        }
        let headers = response.headers().iter();
        let headers = headers
            .filter_map(|(n, v)| Some(Header { name: n.as_str().to_owned(), value: v.to_str().ok()?.to_owned() }))
            .collect();
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(read_error)? {
            if body.len() + chunk.len() > self.body_limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status, headers, body })
    }
}

/// The request that a redirect leads to; `None` if the answer is to be read as it is.
///
/// 307 and 308 repeat the request, and 303 asks for the answer elsewhere. A 301 or 302 is followed only for GET and
/// HEAD: clients turn other methods into GET there, and a plugin would take that GET's 200 for its own success.
fn redirected(outgoing: &Outgoing, status: StatusCode, headers: &HeaderMap) -> Result<Option<Outgoing>, Ended> {
    let safe = matches!(outgoing.method, Method::GET | Method::HEAD);
    let (method, body): (Method, Option<Bytes>) = match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
            (outgoing.method.clone(), outgoing.body.clone())
        }
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER if safe => {
            (outgoing.method.clone(), outgoing.body.clone())
        }
        StatusCode::SEE_OTHER => (Method::GET, None),
        _ => return Ok(None),
    };
    let Some(location) = headers.get(header::LOCATION) else { return Ok(None) };
    let bad = || Ended::Error(HttpError::Connection("a redirect leads nowhere".to_owned()));
    let target = outgoing.url.join(location.to_str().map_err(|_| bad())?).map_err(|_| bad())?;
    let url = outgoing::check_url(target.as_str()).map_err(|_| bad())?;
    let mut headers = outgoing.headers.clone();
    if url.origin() != outgoing.url.origin() {
        headers.remove(header::AUTHORIZATION);
        headers.remove(header::COOKIE);
        for secret in &outgoing.secret_headers {
            headers.remove(secret);
        }
    }
    if body.is_none() {
        headers.remove(header::CONTENT_TYPE);
    }
    Ok(Some(Outgoing { method, url, headers, body, secret_headers: outgoing.secret_headers.clone() }))
}

fn read_error(error: reqwest::Error) -> Ended {
    let error = error.without_url();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    let mut last = error.to_string();
    while let Some(inner) = cause {
        if let Some(forbidden) = inner.downcast_ref::<Forbidden>() {
            return Ended::Forbidden(forbidden.to_string());
        }
        last = inner.to_string();
        cause = inner.source();
    }
    if error.is_builder() {
        return Ended::Error(HttpError::Invalid(last));
    }
    Ended::Error(HttpError::Connection(cut(&last, 300).into_owned()))
}
