//! The one error of the API: an RFC 9457 problem.
//!
//! Handlers answer with [`Error`]; it travels in the response's extensions to the outermost layer, which alone knows the
//! request's id and writes the body.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{catalog, schema::Fault, store};

use super::timers::Timer;

/// Seconds after which a refused call may be tried again, where nothing better is known.
const RETRY_AFTER_S: u64 = 1;

/// What went wrong, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    Malformed,
    UnknownField,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    UnsupportedMediaType,
    UnknownType,
    KeyConflict,
    TooLate,
    Firing,
    WrongState,
    RevisionInUse,
    VersionConflict,
    PayloadInvalid,
    TimeInvalid,
    TooLarge,
    RateLimited,
    PluginInvalid,
    PluginOverLimit,
    GrantMissing,
    Paused,
    Unavailable,
    Internal,
}

impl Code {
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed | Self::UnknownField => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::KeyConflict
            | Self::TooLate
            | Self::Firing
            | Self::WrongState
            | Self::RevisionInUse
            | Self::Paused => StatusCode::CONFLICT,
            Self::VersionConflict => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownType
            | Self::PayloadInvalid
            | Self::TimeInvalid
            | Self::PluginInvalid
            | Self::PluginOverLimit
            | Self::GrantMissing => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed",
            Self::UnknownField => "The request has a field that is not known",
            Self::Unauthorized => "A valid API key is needed",
            Self::Forbidden => "The API key may not do this",
            Self::NotFound => "There is no such thing",
            Self::MethodNotAllowed => "The path does not take this method",
            Self::UnsupportedMediaType => "The body's media type is not taken",
            Self::UnknownType => "The timer type is not known",
            Self::KeyConflict => "The key is taken by another registration",
            Self::TooLate => "The timer has already ended otherwise",
            Self::Firing => "The timer is being decided at this moment",
            Self::WrongState => "The state does not allow this",
            Self::RevisionInUse => "It is still in use",
            Self::VersionConflict => "The timer has changed since that version",
            Self::PayloadInvalid => "The content does not fit",
            Self::TimeInvalid => "The time or duration is not valid",
            Self::TooLarge => "The content is too large",
            Self::RateLimited => "Too many requests",
            Self::PluginInvalid => "The plugin is not valid",
            Self::PluginOverLimit => "The plugin is over a limit",
            Self::GrantMissing => "The plugin needs a right that is not granted",
            Self::Paused => "Firing is paused",
            Self::Unavailable => "Not available at this moment",
            Self::Internal => "The server failed",
        }
    }

    fn as_str(self) -> String {
        serde_json::to_value(self).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Every error's body (RFC 9457, `application/problem+json`).
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// A URI that stands for the code.
    #[schema(example = "urn:lapse:problem:too_late")]
    r#type: String,
    title: String,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong with this request, for people.
    detail: String,
    code: Code,
    /// The same as in the header `X-Request-Id`.
    request_id: String,
    /// Each fault by itself, where there can be several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<Fault>,
    /// The timer as it is, where the call was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timer: Option<Timer>,
}

pub(super) type Result<T> = std::result::Result<T, Error>;

#[derive(Clone)]
pub(super) struct Error(Box<Parts>);

#[derive(Clone)]
struct Parts {
    code: Code,
    status: StatusCode,
    detail: String,
    errors: Vec<Fault>,
    timer: Option<Timer>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Error {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let (errors, headers) = (Vec::new(), Vec::new());
        Self(Box::new(Parts { code, status: code.status(), detail: detail.into(), errors, timer: None, headers }))
    }

    /// One fault at one place.
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let fault = Fault { pointer: pointer.into(), code: code.as_str(), detail: detail.clone() };
        let detail = if fault.pointer.is_empty() { detail } else { format!("{}: {detail}", fault.pointer) };
        Self::new(code, detail).with_errors(vec![fault])
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what} in this namespace"))
    }

    /// Something that must not happen did: logged here, and told to nobody.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        tracing::error!(error = %why, "a request failed inside the server");
        Self::new(Code::Internal, "the server failed; the log has the reason under this request's id")
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, detail).retry_after(RETRY_AFTER_S)
    }

    pub fn with_errors(mut self, errors: Vec<Fault>) -> Self {
        self.0.errors = errors;
        self
    }

    pub fn with_timer(mut self, timer: Timer) -> Self {
        self.0.timer = Some(timer);
        self
    }

    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    pub fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// The pointers of its faults, below `base`: for an item of a batch.
    pub fn below(mut self, base: &str) -> Self {
        for fault in &mut self.0.errors {
            fault.pointer.insert_str(0, base);
        }
        self
    }

    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    pub fn into_problem(self, request_id: &str) -> Problem {
        let parts = *self.0;
        Problem {
            r#type: format!("urn:lapse:problem:{}", parts.code.as_str()),
            title: parts.code.title().to_owned(),
            status: parts.status.as_u16(),
            detail: parts.detail,
            code: parts.code,
            request_id: request_id.to_owned(),
            errors: parts.errors,
            timer: parts.timer,
        }
    }

    /// The response with its body; for the outermost layer.
    pub fn write(self, request_id: &str) -> Response {
        let (status, headers) = (self.0.status, self.0.headers.clone());
        let body = serde_json::to_vec(&self.into_problem(request_id)).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        for (name, value) in headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Full => Self::unavailable("too much is waiting to be written; nothing was stored"),
            store::Error::Stopped => Self::unavailable("the server is stopping; nothing was stored"),
            store::Error::Unavailable(why) => {
                tracing::error!(error = %why, "the store is unavailable");
                Self::unavailable("the store cannot be reached; nothing was stored")
            }
            store::Error::OutcomeUnknown(why) => {
                tracing::error!(error = %why, "whether a write was committed is unknown");
                Self::unavailable("whether this was stored is not known; send it again, it is done once")
            }
            store::Error::Data(why) => {
                tracing::warn!(error = %why, "the store refused a request's data");
                Self::new(Code::PayloadInvalid, "the content cannot be stored")
            }
        }
    }
}

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Self {
        match error {
            catalog::Error::Store(error) => error.into(),
            catalog::Error::NoRevision { number, .. } => {
                Self::at(Code::UnknownType, "/revision", format!("the type has no revision {number}"))
            }
            other => {
                tracing::error!(error = %other, "a revision cannot be loaded");
                Self::unavailable("the revision cannot be loaded on this node")
            }
        }
    }
}
