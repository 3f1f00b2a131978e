//! A small client of the HTTP API. A problem comes back as an error with its code.

mod error;
mod model;

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

pub use self::{
    error::{Error, Fault, Problem},
    model::{BatchAnswer, BatchItem, Compensation, CreatedKey, Event, Page, Plugin, Timer, TimerType, key_name},
};

/// How long one call may take. A registration waits for a commit, and an action up to two seconds for a decision.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer that is read: a page of 500 timers with payloads of 64 KiB.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How often a call that is safe to repeat is tried, when the server says that it is busy.
const BUSY_TRIES: u32 = 6;
const LONGEST_BUSY_WAIT: Duration = Duration::from_secs(10);

/// What a path segment keeps: the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One server, and the key to it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    base: Url,
    token: Option<String>,
    http: reqwest::Client,
}

impl Client {
    /// `base` is the server's address, such as `http://127.0.0.1:8080`.
    pub fn new(base: &str, token: Option<String>) -> Result<Self, Error> {
        let bad = |why: String| Error::Address { given: base.to_owned(), why };
        let mut url = Url::parse(base).map_err(|e| bad(e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(bad("it is not an http or https address".into()));
        }
        url.set_fragment(None);
        url.set_query(None);
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        // One provider for the process; another room may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(CALL_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("lapse-cli/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| bad(e.to_string()))?;
        Ok(Self { base: url, token, http })
    }

    /// The server's address, without a slash at its end.
    pub fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Result<T, Error> {
        self.send(self.request(Method::GET, path)?.query(query)).await
    }

    /// An answer that is plain text, such as the metrics.
    pub async fn text(&self, path: &str) -> Result<String, Error> {
        let lost = |source: reqwest::Error| Error::from_transport(self.base(), source);
        self.request(Method::GET, path)?.send().await.map_err(lost)?.text().await.map_err(lost)
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.send(self.request(Method::POST, path)?.json(body)).await
    }

    /// For what may be there already: whether this call made it, and what is there.
    pub async fn create<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<(bool, T), Error> {
        let (status, value) = self.answer(self.request(Method::POST, path)?.json(body)).await?;
        Ok((status == StatusCode::CREATED, value))
    }

    /// An action, which is refused if the timer no longer has the version that the caller has seen.
    pub async fn act<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        if_version: Option<i64>,
    ) -> Result<T, Error> {
        let mut request = self.request(Method::POST, path)?.json(body);
        if let Some(version) = if_version {
            request = request.header(header::IF_MATCH, format!("\"{version}\""));
        }
        self.send(request).await
    }

    pub async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.send(self.request(Method::PUT, path)?.json(body)).await
    }

    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.send(self.request(Method::DELETE, path)?).await
    }

    /// Sends bytes as they are.
    pub async fn upload<T: DeserializeOwned>(&self, path: &str, body: Vec<u8>) -> Result<T, Error> {
        let request = self.request(Method::POST, path)?.header(header::CONTENT_TYPE, "application/octet-stream");
        // Compiling is part of the answer.
        self.send(request.body(body).timeout(Duration::from_mins(3))).await
    }

    /// Like [`Client::post`], for a call that is safe to repeat: waits and tries again while the server is busy.
    pub async fn post_patiently<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let mut tries = 1;
        loop {
            match self.post(path, body).await {
                Err(Error::Problem(problem)) if problem.is_busy() && tries < BUSY_TRIES => {
                    tries += 1;
                    tokio::time::sleep(problem.retry_after.unwrap_or_default().clamp(FIRST_WAIT, LONGEST_BUSY_WAIT))
                        .await;
                }
                other => return other,
            }
        }
    }

    /// Registers up to 1,000 timers, each with an answer of its own. Safe to repeat.
    pub async fn register_batch<T: Serialize>(&self, timers: &[T]) -> Result<BatchAnswer, Error> {
        #[derive(Serialize)]
        struct Batch<'a, T> {
            timers: &'a [T],
        }
        self.post_patiently("v1/timers/batch", &Batch { timers }).await
    }

    /// Whether the server answers that it is ready.
    pub async fn is_ready(&self) -> bool {
        match self.request(Method::GET, "readyz") {
            Ok(request) => request.send().await.is_ok_and(|answer| answer.status().is_success()),
            Err(_) => false,
        }
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, Error> {
        let url = self.base.join(path).map_err(|e| Error::Address { given: path.to_owned(), why: e.to_string() })?;
        let request = self.http.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn send<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, Error> {
        Ok(self.answer(request).await?.1)
    }

    async fn answer<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<(StatusCode, T), Error> {
        let lost = |source: reqwest::Error| Error::from_transport(self.base(), source);
        let mut answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        let retry_after = answer
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.parse().ok())
            .map(Duration::from_secs);
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(lost)? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(Error::TooLarge { limit: MAX_ANSWER_BYTES });
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(Error::from_answer(self.base(), status, retry_after, &body));
        }
        let body: &[u8] = if status == StatusCode::NO_CONTENT || body.is_empty() { b"null" } else { &body };
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = serde_path_to_error::deserialize(&mut json)
            .map_err(|e| Error::Answer { base: self.base().to_owned(), why: e.to_string() })?;
        Ok((status, value))
    }
}

/// The shortest wait before a busy server is asked again.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// A value as one segment of a path.
pub fn segment(value: &str) -> String {
    utf8_percent_encode(value, SEGMENT).to_string()
}

/// Whether a key can stand in a path at all: every URL parser takes these two for steps, however they are encoded.
pub fn fits_a_path(key: &str) -> bool {
    !matches!(key, "." | "..")
}
