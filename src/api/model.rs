//! What the resources share: words of the domain as the document names them, and JSON kept as it is.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{domain, store::admin};

/// A word of the domain, with the document's name for it. The match makes sure that none is forgotten.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident = $domain:ty { $($variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($variant),+ }

        impl From<$domain> for $name {
            fn from(word: $domain) -> Self {
                type Word = $domain;
                match word { $(Word::$variant => Self::$variant),+ }
            }
        }

        impl From<$name> for $domain {
            fn from(word: $name) -> Self {
                type Word = $domain;
                match word { $($name::$variant => Word::$variant),+ }
            }
        }
    };
}

word!(
    /// A timer's state. `closed`, `skipped`, `resolved` and `cancelled` are final.
    TimerState = domain::timer::State { Scheduled, Firing, Closed, Skipped, Resolved, Cancelled, Failed }
);
word!(
    /// What made a timer fire.
    Trigger = domain::timer::Trigger { Slot, Near, Backlog, Manual }
);
word!(
    /// What happened to a timer.
    EventKind = domain::audit::EventKind {
        Registered, Rescheduled, FireRequested, Reminded, Claimed, LeaseLapsed, RetryScheduled, Closed, Skipped, Failed,
        Resolved, Cancelled, Retried, CompensationCreated, CompensationRetried, CompensationDone, CompensationDead,
        CompensationRedriven,
    }
);
word!(
    /// A compensation's state. A dead one waits for a person's redrive.
    CompensationState = domain::compensation::CompensationState { Pending, Running, Done, Dead }
);
word!(
    /// How a failure is to be treated.
    FailureClass = domain::decision::FailureClass { Transient, Conflict, Downstream, Permanent, Poison }
);
word!(
    /// What an API key may do. reader: read; producer: also register, resolve, cancel and reschedule; publisher: reader,
    /// and plugins, types and dry runs; operator: all of these, and fire, retry, redrive and grants; admin: everything.
    Role = admin::Role { Reader, Producer, Publisher, Operator, Admin }
);

/// What went wrong in a plugin.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Failure {
    class: FailureClass,
    /// A short stable word.
    #[schema(example = "inventory_unreachable")]
    code: String,
    message: String,
    /// When to try again, as a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retry_after: Option<String>,
    /// The last downstream that the failed call turned to: `HOST:PORT`, or `sql:NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    host: Option<String>,
}

impl From<domain::decision::Failure> for Failure {
    fn from(failure: domain::decision::Failure) -> Self {
        Self {
            class: failure.class.into(),
            code: failure.code,
            message: failure.message,
            retry_after: failure.retry_after.map(|d| d.to_string()),
            host: failure.host,
        }
    }
}

/// JSON text, written out as it is.
#[derive(Clone, Debug)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Text of the store's, which was checked when it came in.
    pub fn of(json: String) -> Self {
        Self(RawValue::from_string(json).unwrap_or_else(|error| {
            tracing::error!(%error, "the store holds text that is not JSON");
            RawValue::NULL.to_owned()
        }))
    }

    pub fn value(value: &serde_json::Value) -> Self {
        Self::of(value.to_string())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}

/// A page of a list; `next_cursor` is there while there is more.
macro_rules! page {
    ($(#[$doc:meta])* $name:ident of $item:ty) => {
        $(#[$doc])*
        #[derive(serde::Serialize, utoipa::ToSchema)]
        pub struct $name {
            pub(super) items: Vec<$item>,
            /// Give it as `cursor` to read on; left out at the end.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(nullable = false)]
            pub(super) next_cursor: Option<String>,
        }
    };
}
pub(super) use page;
