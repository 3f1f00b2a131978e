//! What comes in: bodies, paths, queries and headers, each refused as a problem that names the place.

use std::{error::Error as _, fmt, marker::PhantomData, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Query as AxumQuery, Request, rejection::PathRejection},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IntoDeserializer as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use utoipa::{IntoParams, ToSchema};

use crate::domain::{
    time::{DurationMs, Timestamp},
    timer::Due,
};

use super::problem::{Code, Error, Result};

/// The largest JSON body of a call, in bytes: room for a payload of 64 KiB, a key and labels, escaped.
pub(super) const MAX_BODY_BYTES: usize = 512 * 1024;
/// The largest body of a batch, in bytes.
pub(super) const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;
/// How long a JSON body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest text that a person gives as a reason or a note, in bytes.
pub(super) const MAX_NOTE_BYTES: usize = 1000;
/// The longest `Idempotency-Key`, in bytes.
const MAX_MESSAGE_ID_BYTES: usize = 255;

/// A JSON body.
pub(super) struct Json<T>(pub T);

/// A JSON body that may be left out.
pub(super) struct OptionalJson<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        check_json_type(request.headers())?;
        parse(&read(request.into_body(), MAX_BODY_BYTES, BODY_TIMEOUT).await?, "").map(Self)
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, MAX_BODY_BYTES, BODY_TIMEOUT).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        check_json_type(&parts.headers)?;
        parse(&bytes, "").map(Self)
    }
}

/// The whole body of a batch, unread.
pub(super) struct BatchJson<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for BatchJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        check_json_type(request.headers())?;
        parse(&read(request.into_body(), MAX_BATCH_BYTES, BODY_TIMEOUT).await?, "").map(Self)
    }
}

fn check_json_type(headers: &HeaderMap) -> Result<()> {
    let given = headers.get(header::CONTENT_TYPE).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    let essence = given.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let json = essence.eq_ignore_ascii_case("application/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if json {
        return Ok(());
    }
    let found = if essence.is_empty() { "none".to_owned() } else { format!("{essence:?}") };
    Err(Error::new(
        Code::UnsupportedMediaType,
        format!("send the body as Content-Type: application/json; the request has {found}"),
    ))
}

/// Reads a body of at most `limit` bytes, within `time`.
pub(super) async fn read(body: Body, limit: usize, time: Duration) -> Result<Bytes> {
    use axum::body::HttpBody as _;
    let too_large = || Error::new(Code::TooLarge, format!("the body is over the limit of {limit} bytes"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(time, axum::body::to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if error.source().is_some_and(|s| s.to_string().contains("length limit")) => Err(too_large()),
        Ok(Err(_)) => Err(Error::new(Code::Malformed, "the body broke off")),
        Err(_) => {
            Err(Error::new(Code::Malformed, format!("the body did not arrive within {} seconds", time.as_secs())))
        }
    }
}

/// Reads JSON; a fault is named with its place below `base`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], base: &str) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize::<_, Object<T>>(&mut reader);
    let Object(value) = read.map_err(|fault| {
        let pointer = format!("{base}{}", pointer(fault.path()));
        let error = fault.into_inner();
        if error.is_data() {
            let (code, detail) = (data_fault_code(&error), without_position(&error));
            Error::at(code, pointer, detail)
        } else {
            Error::at(Code::Malformed, base, format!("the body is not JSON: {error}"))
        }
    })?;
    reader.end().map_err(|e| Error::at(Code::Malformed, base, format!("the body is not JSON: {e}")))?;
    Ok(value)
}

fn data_fault_code(error: &serde_json::Error) -> Code {
    if error.to_string().starts_with("unknown field") { Code::UnknownField } else { Code::Malformed }
}

fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// RFC 6901.
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut out = String::new();
    for segment in path {
        out.push('/');
        match segment {
            Segment::Seq { index } => out.push_str(&index.to_string()),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                out.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Unknown => out.push('?'),
        }
    }
    out
}

/// What is written as a JSON object. A derived reader would take an array of the fields' values too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        d.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// For an optional field that is an object.
pub(super) fn given_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    d: D,
) -> std::result::Result<Option<T>, D::Error> {
    Object::deserialize(d).map(|Object(value)| Some(value))
}

/// For a field that is one of some words. A derived reader would take `{"word": null}` too.
pub(super) fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> std::result::Result<T, D::Error> {
    T::deserialize(String::deserialize(d)?.into_deserializer())
}

/// For an optional field: it may be left out, but not be null.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// Path parameters. What is not of the form that the thing's name has does not exist.
pub(super) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        use axum::extract::path::ErrorKind;
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(fault)) => Err(match fault.kind() {
                ErrorKind::InvalidUtf8InPathParam { .. } => {
                    Error::new(Code::Malformed, "the path is not percent-encoded UTF-8")
                }
                _ => Error::new(Code::NotFound, "nothing has such an id"),
            }),
            Err(other) => Err(Error::internal(other)),
        }
    }
}

/// Query parameters.
pub(super) struct Query<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let raw = parts.uri.query().unwrap_or_default();
        if percent_encoding::percent_decode_str(raw).decode_utf8().is_err() {
            return Err(Error::new(Code::Malformed, "the query is not percent-encoded UTF-8"));
        }
        let uri = together(&parts.uri);
        AxumQuery::<T>::try_from_uri(&uri).map(|AxumQuery(value)| Self(value)).map_err(|rejection| {
            let text = rejection.body_text();
            let fault = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            match fault.split_once(": ") {
                Some((name, detail)) if detail.starts_with("unknown field") => {
                    Error::at(Code::UnknownField, format!("?{name}"), detail)
                }
                Some((name, detail)) => Error::at(Code::Malformed, format!("?{name}"), detail),
                None if fault.starts_with("unknown field") => {
                    let name = fault.split('`').nth(1).unwrap_or_default();
                    Error::at(Code::UnknownField, format!("?{name}"), fault)
                }
                None => Error::new(Code::Malformed, format!("the query does not fit: {fault}")),
            }
        })
    }
}

/// Parameters that may be given several times: each means the same as one with commas between its values.
const LISTS: [&str; 2] = ["state", "topics"];

/// The same query with each of [`LISTS`] once.
fn together(uri: &axum::http::Uri) -> std::borrow::Cow<'_, axum::http::Uri> {
    use std::borrow::Cow;
    let raw = uri.query().unwrap_or_default();
    let value = |pair: &str| {
        pair.split_once('=')
            .and_then(|(name, value)| LISTS.iter().find(|l| **l == name).map(|l| (*l, value.to_owned())))
    };
    let mut gathered: Vec<(&str, String)> = Vec::new();
    let mut rest: Vec<&str> = Vec::new();
    let mut repeated = false;
    for pair in raw.split('&') {
        let Some((name, value)) = value(pair) else {
            rest.push(pair);
            continue;
        };
        match gathered.iter_mut().find(|(n, _)| *n == name) {
            Some((_, values)) => {
                repeated = true;
                values.push(',');
                values.push_str(&value);
            }
            None => gathered.push((name, value)),
        }
    }
    if !repeated {
        return Cow::Borrowed(uri);
    }
    let gathered: Vec<String> = gathered.into_iter().map(|(name, values)| format!("{name}={values}")).collect();
    let query = rest.into_iter().map(str::to_owned).chain(gathered).collect::<Vec<_>>().join("&");
    format!("{}?{query}", uri.path()).parse().map_or(Cow::Borrowed(uri), Cow::Owned)
}

/// The paging of a list without filters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Where to go on: the `next_cursor` of the page before.
    #[param(nullable = false)]
    pub cursor: Option<String>,
    /// Items in a page.
    #[param(minimum = 1, maximum = 500, default = 50, nullable = false)]
    pub limit: Option<u32>,
}

/// `Idempotency-Key`: the caller's own id for the message; it goes to the audit.
pub(super) struct MessageId(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for MessageId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        match value.to_str() {
            Ok(id) if (1..=MAX_MESSAGE_ID_BYTES).contains(&id.len()) => Ok(Self(Some(id.to_owned()))),
            _ => Err(Error::new(
                Code::Malformed,
                format!("Idempotency-Key is 1 to {MAX_MESSAGE_ID_BYTES} visible ASCII characters"),
            )),
        }
    }
}

/// `If-Match`, compared strongly (RFC 9110, section 13.1.1): a weak tag matches nothing.
pub(super) enum IfMatch {
    /// No header, or `*`: any version of what is there.
    Any,
    Versions(Vec<i64>),
}

/// Entity tags that one header may list.
const MAX_TAGS: usize = 16;

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let bad =
            || Error::new(Code::Malformed, "If-Match is * or entity tags as ETag gave them, in double quotes: \"3\"");
        let Some(value) = parts.headers.get(header::IF_MATCH) else { return Ok(Self::Any) };
        let value = value.to_str().map_err(|_| bad())?.trim();
        if value == "*" {
            return Ok(Self::Any);
        }
        let tags: Vec<&str> = value.split(',').map(str::trim).collect();
        if tags.len() > MAX_TAGS {
            return Err(bad());
        }
        let mut versions = Vec::new();
        for tag in tags {
            let (weak, quoted) = tag.strip_prefix("W/").map_or((false, tag), |rest| (true, rest));
            let inner = quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"')).ok_or_else(bad)?;
            match inner.parse::<i64>() {
                Ok(version) if !weak && version.to_string() == inner => versions.push(version),
                _ => {}
            }
        }
        Ok(Self::Versions(versions))
    }
}

/// When something is to be due, as a body says it.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub(super) struct DueFields {
    pub due_at: Option<String>,
    pub delay: Option<String>,
}

impl DueFields {
    /// `None` if neither is given.
    pub fn read(&self) -> Result<Option<Due>> {
        match (&self.due_at, &self.delay) {
            (None, None) => Ok(None),
            (Some(at), None) => instant(at, "/due_at").map(|at| Some(Due::At(at))),
            (None, Some(delay)) => duration(delay, "/delay").map(|delay| Some(Due::After(delay))),
            (Some(_), Some(_)) => Err(Error::at(Code::TimeInvalid, "/delay", "give due_at or delay, not both")),
        }
    }
}

pub(super) fn instant(text: &str, pointer: &str) -> Result<Timestamp> {
    text.parse().map_err(|e: crate::domain::time::TimeError| Error::at(Code::TimeInvalid, pointer, e.to_string()))
}

pub(super) fn duration(text: &str, pointer: &str) -> Result<DurationMs> {
    text.parse().map_err(|e: crate::domain::time::TimeError| Error::at(Code::TimeInvalid, pointer, e.to_string()))
}

/// A reason, a note or a name that a person writes.
pub(super) fn check_note(text: &str, pointer: &str) -> Result<()> {
    if text.len() > MAX_NOTE_BYTES {
        let detail = format!("at most {MAX_NOTE_BYTES} bytes; this has {}", text.len());
        return Err(Error::at(Code::PayloadInvalid, pointer, detail));
    }
    if text.contains('\0') {
        return Err(Error::at(Code::PayloadInvalid, pointer, "U+0000 cannot be stored"));
    }
    Ok(())
}

/// The status of a body that does not fit its limit, where the code is another's.
pub(super) const TOO_LARGE: StatusCode = StatusCode::PAYLOAD_TOO_LARGE;
