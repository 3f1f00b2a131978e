//! What went wrong, in the terms that decide what happens next.

use crate::{
    FailureClass,
    bindings::lapse::plugin::{http::HttpError, types as wit},
};

/// Why a plugin could not do what it was asked.
#[derive(Debug)]
pub struct Failure(wit::Failure);

impl Failure {
    /// `code` is a short stable word, `message` a sentence for a person.
    pub fn new(class: FailureClass, code: &str, message: impl Into<String>) -> Self {
        Self(wit::Failure { class, code: code.into(), message: message.into(), retry_after: None })
    }

    /// A passing fault: tried again soon.
    pub fn transient(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Transient, code, message)
    }

    /// The business says otherwise: skipped, and recorded.
    pub fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Conflict, code, message)
    }

    /// A service that is called is away: tried again with longer waits.
    pub fn downstream(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Downstream, code, message)
    }

    /// It will not get better by itself: failed, for a person to see.
    pub fn permanent(code: &str, message: impl Into<String>) -> Self {
        Self::new(FailureClass::Permanent, code, message)
    }

    /// No attempt before so many milliseconds have passed.
    pub fn retry_after_ms(mut self, after_ms: Option<u64>) -> Self {
        self.0.retry_after = after_ms;
        self
    }
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

/// What is the service's fault is worth another try; what is the plugin's or its grants' is not.
impl From<HttpError> for Failure {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Timeout => Self::downstream("http_timeout", "there was no answer in time"),
            HttpError::Connection(why) => Self::downstream("http_connection", why),
            HttpError::Denied(why) => Self::permanent("http_denied", why),
            HttpError::Invalid(why) => Self::permanent("http_invalid", why),
            HttpError::TooLarge(limit) => {
                Self::permanent("http_too_large", format!("the request or its answer is over {limit} bytes"))
            }
            HttpError::TooManyCalls => Self::permanent("too_many_calls", "the call has used up its host calls"),
            HttpError::TooManyRedirects => Self::downstream("http_redirects", "there were too many redirects"),
        }
    }
}
