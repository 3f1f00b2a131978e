//! Requests to the hosts that an operator has granted.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Compensation, Failure,
    bindings::lapse::plugin::http::{self as wit, Header},
};
pub use wit::{HttpError, Method};

/// A request. Lapse adds `Idempotency-Key` with the call's own key.
#[derive(Debug)]
pub struct Request {
    request: wit::Request,
    secrets: Vec<wit::SecretHeader>,
}

#[derive(Debug)]
pub struct Response(wit::Response);

impl Request {
    pub fn new(method: Method, url: &str) -> Self {
        let request = wit::Request { method, url: url.into(), headers: vec![], body: None, timeout_ms: None };
        Self { request, secrets: vec![] }
    }

    pub fn get(url: &str) -> Self {
        Self::new(Method::Get, url)
    }

    pub fn post(url: &str) -> Self {
        Self::new(Method::Post, url)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request.headers.push(Header { name: name.into(), value: value.into() });
        self
    }

    /// A header with a secret in it, behind `prefix` (such as `Bearer `). The host puts it in; the plugin never sees it.
    /// It needs a grant of its own, `secret:NAME`.
    pub fn secret_header(mut self, name: &str, prefix: &str, secret: &str) -> Self {
        self.secrets.push(wit::SecretHeader { name: name.into(), prefix: prefix.into(), secret: secret.into() });
        self
    }

    /// A JSON body, with its content type.
    pub fn json(self, body: &impl Serialize) -> Self {
        let bytes = serde_json::to_vec(body).unwrap_or_else(|e| panic!("a body that is to be JSON cannot be: {e}"));
        self.header("content-type", "application/json").body(bytes)
    }

    pub fn body(mut self, body: Vec<u8>) -> Self {
        self.request.body = Some(body);
        self
    }

    /// For the whole exchange; the host has a bound of its own.
    pub fn timeout_ms(mut self, timeout_ms: u32) -> Self {
        self.request.timeout_ms = Some(timeout_ms);
        self
    }

    pub fn send(&self) -> Result<Response, HttpError> {
        if self.secrets.is_empty() {
            return wit::send(&self.request).map(Response);
        }
        wit::send_with_secrets(&self.request, &self.secrets).map(Response)
    }
}

impl Response {
    pub fn status(&self) -> u16 {
        self.0.status
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.0.status)
    }

    /// The first value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.iter().find(|h| h.name == name).map(|h| h.value.as_str())
    }

    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// How long `Retry-After` asks to wait, whether in seconds or as a date (RFC 9110, 10.2.3).
    pub fn retry_after_ms(&self, now_ms: u64) -> Option<u64> {
        let value = self.header("retry-after")?.trim();
        match value.parse::<u64>() {
            Ok(seconds) => seconds.checked_mul(1000),
            Err(_) => Some(http_date_ms(value)?.saturating_sub(now_ms)),
        }
    }

    /// The usual reading of a status that is no success: 409 is a conflict; 408, 425, 429 and 5xx are worth another
    /// try, when `Retry-After` says if it does; anything else will not get better by itself.
    pub fn failure(&self, what: &str, now_ms: u64) -> Failure {
        let status = self.0.status;
        let code = format!("http_{status}");
        let message = format!("{what} was answered {status}");
        match status {
            409 => Failure::conflict(&code, message),
            408 | 425 | 429 | 500.. => Failure::downstream(&code, message).retry_after_ms(self.retry_after_ms(now_ms)),
            _ => Failure::permanent(&code, message),
        }
    }
}

/// What may stand in a path segment as it is (RFC 3986, 2.3).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The address of something below `base`, such as `{base}/{id}/close`, whatever stands in the id. An id of dots alone is
/// refused: it would be taken for a step in the path, however it is escaped.
pub fn below(base: &str, id: &str, action: &str) -> Result<String, Failure> {
    if matches!(id, "." | "..") {
        return Err(Failure::permanent("id_invalid", "an id of dots alone cannot stand in a path"));
    }
    Ok(format!("{}/{}/{action}", base.trim_end_matches('/'), utf8_percent_encode(id, SEGMENT)))
}

/// Carries out a compensation by posting its payload as it is; the answer is read as [`Response::failure`] says.
pub fn post_task(url: &str, task: &Compensation) -> Result<Value, Failure> {
    let body = task.payload.clone().into_bytes();
    let response = Request::post(url).header("content-type", "application/json").body(body).send()?;
    if response.is_success() {
        return Ok(json!({"status": response.status()}));
    }
    Err(response.failure(&task.kind, task.now))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7) in milliseconds since 1970; the obsolete forms are not read.
fn http_date_ms(value: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = value.split_once(", ")?.1.split([' ', ':']);
    let mut next = || parts.next();
    let day: u64 = next()?.parse().ok().filter(|d| (1..=31).contains(d))?;
    let month_name = next()?;
    let month = u64::try_from(MONTHS.iter().position(|m| *m == month_name)?).ok()? + 1;
    let year: u64 = next()?.parse().ok().filter(|y| (1970..=9999).contains(y))?;
    let mut clock = [0u64; 3];
    for slot in &mut clock {
        *slot = next()?.parse().ok().filter(|n| *n <= 60)?;
    }
    // Days from 1970-01-01 by the civil calendar, with years that start in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2]) * 1000)
}
