//! A guest's request, checked before anything is sent.

use bytes::Bytes;
use reqwest::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use url::{Host, Url};

use crate::{
    domain::plugin::{Export, Right},
    plugin::{
        Rights, Standing,
        abi::v1::http::{HttpError, Method as Verb, Request},
        text::cut,
    },
};

const URL_BYTES: usize = 8 * 1024;
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 16 * 1024;
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request that can be sent, if the rights allow.
pub struct Outgoing {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
    /// Headers that go to the first host only.
    pub secret_headers: Vec<HeaderName>,
}

impl Outgoing {
    pub fn check(request: Request, idempotency_key: &str, body_limit: usize) -> Result<Self, HttpError> {
        let body = request.body.map(Bytes::from);
        if body.as_ref().is_some_and(|b| b.len() > body_limit) {
            return Err(HttpError::TooLarge(u64::try_from(body_limit).unwrap_or(u64::MAX)));
        }
        let mut headers = check_headers(&request.headers.into_iter().map(|h| (h.name, h.value)).collect::<Vec<_>>())?;
        if !headers.contains_key(&IDEMPOTENCY_KEY)
            && let Ok(key) = HeaderValue::from_str(idempotency_key)
        {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        Ok(Self {
            method: verb(request.method),
            url: check_url(&request.url)?,
            headers,
            body,
            secret_headers: Vec::new(),
        })
    }

    /// Marks the headers that hold secrets: never logged, never sent on.
    pub fn keep_secret(&mut self, names: &[String]) {
        for name in names.iter().filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()) {
            for (_, value) in self.headers.iter_mut().filter(|(n, _)| **n == name) {
                value.set_sensitive(true);
            }
            self.secret_headers.push(name);
        }
    }
}

fn invalid(why: impl Into<String>) -> HttpError {
    HttpError::Invalid(why.into())
}

fn verb(method: Verb) -> Method {
    match method {
        Verb::Get => Method::GET,
        Verb::Head => Method::HEAD,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete => Method::DELETE,
    }
}

pub fn check_url(given: &str) -> Result<Url, HttpError> {
    if given.len() > URL_BYTES {
        return Err(invalid(format!("the URL has more than {URL_BYTES} bytes")));
    }
    let mut url = Url::parse(given).map_err(|e| invalid(format!("the URL is not one: {e}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("a URL starts with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("a URL carries no user or password here"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// The header types themselves refuse line breaks, so nothing can be injected; what frames or routes the message is the
/// host's.
fn check_headers(given: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    if given.len() > HEADERS || given.iter().map(|(n, v)| n.len() + v.len()).sum::<usize>() > HEADER_BYTES {
        return Err(invalid(format!(
            "there are more than {HEADERS} headers, or more than {HEADER_BYTES} bytes of them"
        )));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let shown = cut(name, 80);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("{shown:?} is not a header's name")))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| invalid(format!("the value of header {shown:?} has characters that it may not have")))?;
        if is_hosts_own(&name) {
            return Err(invalid(format!("header {shown:?} is set by the host alone")));
        }
        headers.append(name, value);
    }
    Ok(headers)
}

fn is_hosts_own(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::HOST
            | header::CONTENT_LENGTH
            | header::TRANSFER_ENCODING
            | header::CONNECTION
            | header::TE
            | header::TRAILER
            | header::UPGRADE
            | header::EXPECT
            | header::PROXY_AUTHORIZATION
            | header::PROXY_AUTHENTICATE
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "forwarded")
        || name.as_str().starts_with("x-forwarded-")
}

/// Whether the rights of this export name the URL's host and port. An address has to be named as an address.
pub fn standing(rights: &Rights, export: Export, url: &Url) -> Standing {
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return Standing::NotGranted };
    rights.standing(export, |right| {
        let Right::Http { host: granted, port: granted_port } = right else { return false };
        let named = match &host {
            Host::Domain(name) => name == granted,
            Host::Ipv4(v4) => granted.parse() == Ok(*v4),
            Host::Ipv6(v6) => granted.parse() == Ok(*v6),
        };
        let default = if url.scheme() == "https" { 443 } else { 80 };
        named && port == granted_port.unwrap_or(default)
    })
}

/// The URL's host and port, for people.
pub fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or("");
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
