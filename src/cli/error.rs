//! How a command fails: a sentence, and what to do about it.

use std::process::ExitCode;

use serde_json::json;

use crate::{client, config};

use super::output::{Out, to_stderr};

#[derive(Debug)]
pub enum Error {
    /// The call makes no sense: exit code 2.
    Usage {
        message: String,
    },
    Client(client::Error),
    Config(config::Error),
    /// Said with what to do about it.
    Hinted {
        message: String,
        hint: String,
    },
    Other(anyhow::Error),
    Output(std::io::Error),
    /// All has been said on standard output.
    Said,
}

impl Error {
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

    pub fn hinted(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Hinted { message: message.into(), hint: hint.into() }
    }

    /// Prints it, and says how the process is to end.
    pub fn report(self, out: &Out) -> ExitCode {
        let code = if matches!(self, Self::Usage { .. } | Self::Config(_)) { 2 } else { 1 };
        match self {
            Self::Said => return ExitCode::FAILURE,
            // Whoever read the output has read enough.
            Self::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            _ => {}
        }
        let message = self.message();
        let hint = self.hint();
        if out.is_json() {
            let mut error = json!({ "message": message });
            if let Some(hint) = hint {
                error["hint"] = hint.into();
            }
            if let Self::Client(client::Error::Problem(problem)) = &self {
                error["problem"] = json!(problem);
            }
            to_stderr(&json!({ "error": error }).to_string());
        } else {
            to_stderr(&format!("error: {message}"));
            if let Some(hint) = hint {
                to_stderr(&format!("hint: {hint}"));
            }
        }
        ExitCode::from(code)
    }

    fn message(&self) -> String {
        match self {
            Self::Usage { message } | Self::Hinted { message, .. } => message.clone(),
            Self::Client(error) => error.to_string(),
            Self::Config(error) => error.to_string(),
            Self::Other(error) => format!("{error:#}"),
            Self::Output(error) => format!("cannot write: {error}"),
            Self::Said => String::new(),
        }
    }

    fn hint(&self) -> Option<String> {
        let problem = match self {
            Self::Hinted { hint, .. } => return Some(hint.clone()),
            Self::Client(client::Error::Unreachable { .. }) => {
                return Some("start one with `lapse dev`, or give --server (or set LAPSE_SERVER_URL)".into());
            }
            Self::Client(client::Error::NotLapse { .. } | client::Error::Answer { .. }) => {
                return Some(
                    "is that address the one of a Lapse server of this version? Give another with --server".into(),
                );
            }
            Self::Client(client::Error::Problem(problem)) => problem,
            _ => return None,
        };
        let hint = match problem.code.as_str() {
            "unauthorized" => {
                "give a key with --token (or set LAPSE_TOKEN); `lapse dev` keeps its own in ./lapse-data/token"
            }
            "forbidden" => "this key's role does not reach so far; `lapse key list` shows the keys and their roles",
            "unknown_type" => "`lapse type list` shows the types that there are; `lapse plugin push` makes one",
            "key_conflict" => "the key stands for another registration, for good: use a new key for a new timer",
            "firing" => "it is being decided at this moment; ask again in a second",
            "grant_missing" => {
                "grant what it needs with --grant [EXPORT:]http:HOST:PORT, [EXPORT:]sql:NAME or [EXPORT:]secret:NAME"
            }
            "rate_limited" | "unavailable" => "nothing was done; try again in a moment",
            _ => return None,
        };
        Some(hint.into())
    }
}

impl From<client::Error> for Error {
    fn from(error: client::Error) -> Self {
        Self::Client(error)
    }
}

impl From<config::Error> for Error {
    fn from(error: config::Error) -> Self {
        Self::Config(error)
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}
