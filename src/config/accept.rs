//! What each setting takes. Its kind is that of its default; its bounds stand here.

use std::{fmt, net::SocketAddr};

use serde_json::Value;

use super::secret::STARS;
use crate::domain::time::DurationMs;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accept {
    Address,
    Path,
    Filter,
    OneOf(&'static [&'static str]),
    Switch,
    /// At least, at most.
    Count(u64, u64),
    /// From 0 to 1.
    Share,
    /// Milliseconds, at least and at most.
    Duration(u64, u64),
    /// Addresses with commas between them, or nothing. What stands before an `@` is never shown.
    Urls,
    /// A URL of PostgreSQL, or nothing. Shown without user and password.
    Postgres,
    /// So many hex digits, or nothing. Never shown.
    HexSecret(usize),
    /// Letters, digits, `-` and `_`.
    Token,
    /// Never shown.
    Secret,
    Text,
}

/// What `setting` takes.
#[expect(clippy::match_same_arms, reason = "a line a setting, in the order of default.toml")]
pub(super) fn accept(setting: &str, default: &Value) -> Accept {
    match setting {
        "server.listen" => Accept::Address,
        "server.rate_limit" => Accept::Count(0, 1_000_000),
        "server.firing_wait" => Accept::Duration(0, MINUTE),
        "server.header_timeout" => Accept::Duration(100, HOUR),
        "server.drain" => Accept::Duration(SECOND, HOUR),
        "store.data" => Accept::Path,
        "store.database" => Accept::Postgres,
        "store.key" => Accept::HexSecret(64),
        "store.queue" => Accept::Count(1, 10_000_000),
        "store.batch" => Accept::Count(1, 10_000),
        "store.readers" => Accept::Count(1, 64),
        "nats.url" => Accept::Urls,
        "nats.prefix" => Accept::Token,
        "nats.replicas" => Accept::Count(1, 5),
        "nats.password" | "nats.token" => Accept::Secret,
        "dispatch.holder" => Accept::Count(1, 10_000_000),
        "dispatch.threads" => Accept::Count(0, 1024),
        "dispatch.concurrency" => Accept::Count(1, 100_000),
        "dispatch.lease" | "compensation.lease" => Accept::Duration(SECOND, DAY),
        "dispatch.drain_rate" => Accept::Count(0, 10_000_000),
        "dispatch.pause_failed_share" => Accept::Share,
        "dispatch.pause_window" => Accept::Duration(SECOND, DAY),
        "dispatch.pause_min" => Accept::Count(1, 1_000_000),
        "compensation.concurrency" => Accept::Count(1, 10_000),
        "compensation.attempts" => Accept::Count(1, 1000),
        "compensation.initial" | "compensation.max" => Accept::Duration(1, 7 * DAY),
        "breaker.failures" => Accept::Count(0, 10_000),
        "breaker.window" | "breaker.open" | "breaker.max" | "breaker.ramp" => Accept::Duration(100, DAY),
        "breaker.probes" => Accept::Count(1, 1000),
        "breaker.drain_rate" => Accept::Count(1, 100_000),
        "plugin.max_component_bytes" => Accept::Count(KIB, GIB),
        "plugin.compile_timeout" => Accept::Duration(SECOND, HOUR),
        "plugin.cpu" | "plugin.wall" => Accept::Duration(1, 10 * MINUTE),
        "plugin.effect_wall" | "plugin.http_timeout" => Accept::Duration(1, HOUR),
        "plugin.memory_bytes" => Accept::Count(MIB, 4 * GIB),
        "plugin.output_bytes" | "plugin.http_body_bytes" => Accept::Count(KIB, 64 * MIB),
        "plugin.host_calls" | "plugin.log_lines" => Accept::Count(0, 100_000),
        "plugin.log_line_bytes" => Accept::Count(16, MIB),
        "log.filter" => Accept::Filter,
        "log.format" => Accept::OneOf(&["text", "json"]),
        _ => match default {
            Value::Bool(_) => Accept::Switch,
            Value::Number(_) => Accept::Count(0, u64::from(u32::MAX)),
            Value::String(s) if s.parse::<DurationMs>().is_ok() => Accept::Duration(0, 7 * DAY),
            _ => Accept::Text,
        },
    }
}

impl Accept {
    /// The value as the configuration holds it, or nothing if it is not one. Text is taken for what the setting is,
    /// since the environment and flags know nothing else.
    pub(super) fn check(self, given: &Value) -> Option<Value> {
        match self {
            Self::Address => given.as_str()?.parse::<SocketAddr>().ok().map(|a| a.to_string().into()),
            Self::Path => given.as_str().filter(|s| !s.is_empty() && !s.contains('\0')).map(Into::into),
            Self::Filter => {
                given.as_str().filter(|s| tracing_subscriber::EnvFilter::try_new(s).is_ok()).map(Into::into)
            }
            Self::OneOf(names) => given.as_str().filter(|s| names.contains(s)).map(Into::into),
            Self::Switch => match given {
                Value::Bool(_) => Some(given.clone()),
                Value::String(s) => s.parse::<bool>().ok().map(Value::Bool),
                _ => None,
            },
            Self::Count(least, most) => {
                let number = match given {
                    Value::String(s) => s.parse::<u64>().ok()?,
                    other => other.as_u64()?,
                };
                (least..=most).contains(&number).then(|| number.into())
            }
            Self::Share => {
                let share = match given {
                    Value::String(s) => s.parse::<f64>().ok()?,
                    other => other.as_f64()?,
                };
                (0.0..=1.0).contains(&share).then(|| share.into())
            }
            Self::Duration(least, most) => {
                let length = given.as_str()?.parse::<DurationMs>().ok()?;
                (least..=most).contains(&length.as_millis()).then(|| length.to_string().into())
            }
            Self::Token => {
                let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                given.as_str().filter(|s| (1..=64).contains(&s.len()) && s.chars().all(fits)).map(Into::into)
            }
            Self::Postgres => given
                .as_str()
                .filter(|s| s.is_empty() || s.starts_with("postgres://") || s.starts_with("postgresql://"))
                .map(Into::into),
            Self::HexSecret(digits) => given
                .as_str()
                .filter(|s| s.is_empty() || (s.len() == digits && s.bytes().all(|b| b.is_ascii_hexdigit())))
                .map(Into::into),
            Self::Urls | Self::Secret | Self::Text => given.as_str().map(Into::into),
        }
    }

    /// The value as it may be shown.
    pub(super) fn shown(self, value: Value) -> Value {
        match (self, &value) {
            (Self::Secret | Self::HexSecret(_) | Self::Postgres, Value::String(s)) if s.is_empty() => value,
            // A password may stand in the parameters too.
            (Self::Postgres, Value::String(s)) if s.contains("://") => {
                without_user(s.split_once('?').map_or(s.as_str(), |(url, _)| url)).into()
            }
            // And in what was mistyped, anywhere.
            (Self::Secret | Self::HexSecret(_) | Self::Postgres, _) => STARS.into(),
            (Self::Urls, Value::String(s)) => s.split(',').map(without_user).collect::<Vec<_>>().join(",").into(),
            _ => value,
        }
    }
}

/// `scheme://user:password@host` as `scheme://***@host`.
fn without_user(url: &str) -> String {
    let at = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(at);
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{STARS}@{host}"),
        None => url.to_owned(),
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("an IP address and a port, like 127.0.0.1:8080"),
            Self::Path => f.write_str("a path"),
            Self::Filter => f.write_str("a level or a filter, like info or info,lapse=debug"),
            Self::OneOf(names) => f.write_str(&names.join(" or ")),
            Self::Switch => f.write_str("true or false"),
            Self::Count(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Share => f.write_str("a share from 0 to 1, like 0.05"),
            Self::Duration(least, most) => write!(
                f,
                "a duration like 500ms, 30s, 15m, 2h or 7d, from {} to {}",
                DurationMs::from_millis(*least),
                DurationMs::from_millis(*most)
            ),
            Self::Urls => f.write_str("addresses with commas between them, like nats://a:4222,nats://b:4222"),
            Self::Postgres => f.write_str("postgres://USER:PASSWORD@HOST:5432/DATABASE, or nothing for SQLite"),
            Self::HexSecret(digits) => write!(f, "{digits} hex digits, or nothing"),
            Self::Token => f.write_str("1 to 64 letters, digits, - and _"),
            Self::Secret => f.write_str("a secret"),
            Self::Text => f.write_str("text"),
        }
    }
}
