//! What can go wrong with a call.

use std::{fmt, time::Duration};

use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{given:?} is not a server's address: {why}")]
    Address { given: String, why: String },
    /// Nothing listens there.
    #[error("no server at {base}")]
    Unreachable { base: String },
    #[error("{base} did not answer in time")]
    TimedOut { base: String },
    #[error("the connection to {base} broke: {why}")]
    Broken { base: String, why: String },
    #[error("{0}")]
    Problem(Box<Problem>),
    /// Something else than Lapse answers there.
    #[error("{base} answered {status} and not as a Lapse server does")]
    NotLapse { base: String, status: StatusCode },
    #[error("{base} gave an answer that this version does not understand: {why}")]
    Answer { base: String, why: String },
    #[error("the answer is over {limit} bytes")]
    TooLarge { limit: usize },
}

/// An RFC 9457 problem.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Problem {
    pub title: String,
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// The timer as it is, where one is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Value>,
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// One fault in what was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fault {
    #[serde(default)]
    pub pointer: String,
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub detail: String,
}

impl Problem {
    /// Nothing was done, and asking again later may help.
    pub fn is_busy(&self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail.as_deref().unwrap_or(&self.title), self.code)?;
        for fault in &self.errors {
            write!(f, "\n  {}: {}", if fault.pointer.is_empty() { "/" } else { &fault.pointer }, fault.detail)?;
        }
        Ok(())
    }
}

impl Error {
    pub(super) fn from_transport(base: &str, source: reqwest::Error) -> Self {
        let base = base.to_owned();
        if source.is_connect() {
            Self::Unreachable { base }
        } else if source.is_timeout() {
            Self::TimedOut { base }
        } else {
            let mut why = source.to_string();
            let mut cause = std::error::Error::source(&source);
            while let Some(error) = cause {
                why = error.to_string();
                cause = error.source();
            }
            Self::Broken { base, why }
        }
    }

    pub(super) fn from_answer(base: &str, status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Self {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => Self::Problem(Box::new(Problem { retry_after, ..problem })),
            Err(_) => Self::NotLapse { base: base.to_owned(), status },
        }
    }

    /// The problem's code, if it is one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }
}
