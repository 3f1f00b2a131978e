//! What can go wrong, and what may be done about it.

use std::time::Duration;

/// What a statement may take beyond its own time before the client gives up on the server's telling.
const GRACE: Duration = Duration::from_millis(500);
/// The longest message of a database that is passed on, in bytes.
const MESSAGE_BYTES: usize = 500;

/// What a database says of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 0. At a commit: as many as there are statements.
    pub statement: usize,
    pub message: String,
}

/// Nothing was done, but for [`Error::OutcomeUnknown`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("statement {} is not taken: {}", .0.statement, .0.message)]
    Invalid(Fault),
    #[error("statement {statement} had {actual} rows, where {expected} were expected")]
    Guard { statement: usize, expected: u64, actual: u64 },
    #[error("statement {} breaks a unique key: {}", .0.statement, .0.message)]
    Unique(Fault),
    #[error("statement {} breaks a constraint: {}", .0.statement, .0.message)]
    Constraint(Fault),
    /// Others were in the way, and still were after some tries.
    #[error("statement {} got in the way of another transaction: {}", .0.statement, .0.message)]
    Busy(Fault),
    #[error("the batch did not end in time")]
    Timeout,
    #[error("{0}")]
    TooLarge(String),
    #[error("the data source cannot be reached: {0}")]
    Unavailable(String),
    /// The data source cannot be used as it is set.
    #[error("the data source cannot be used: {0}")]
    Misplaced(String),
    #[error("the connection broke while the batch was being committed, which may have happened: {0}")]
    OutcomeUnknown(String),
}

impl Error {
    pub(super) fn fault(statement: usize, message: impl AsRef<str>) -> Fault {
        Fault { statement, message: cut(message.as_ref()) }
    }

    pub(super) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::Unavailable(cut(&why.to_string()))
    }
}

/// A batch's end that is an error.
#[derive(Debug)]
pub(super) struct Fail {
    pub error: Error,
    /// The whole batch may succeed another time.
    pub again: bool,
    /// The session is as it was before.
    pub keep: bool,
}

impl Fail {
    /// The session is not to be used again.
    pub fn broken(error: Error) -> Self {
        Self { error, again: false, keep: false }
    }

    /// Where the session stands is said later, once it was rolled back.
    pub fn of(error: Error) -> Self {
        let again = matches!(error, Error::Busy(_));
        Self { error, again, keep: false }
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

/// Why a statement gave no outcome: what the driver said, or what is to be said in its place.
pub(super) enum Stopped<E> {
    Said(E),
    Error(Error),
}

impl<E> From<E> for Stopped<E> {
    fn from(error: E) -> Self {
        Self::Said(error)
    }
}

/// The server's own limit ends a statement; this one, where a batch has talked the server out of it.
pub(super) async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Result<T, Fail> {
    tokio::time::timeout(time + GRACE, work).await.map_err(|_| Fail::broken(Error::Timeout))
}

/// The first so many bytes of a text.
fn cut(text: &str) -> String {
    let mut end = text.len().min(MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', " ")
}
