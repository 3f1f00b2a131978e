//! A plugin's own description, and a timer type: a plugin with its configuration and rights.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use super::{
    backoff::RetryPolicy,
    id::{Digest, Name, NamespaceId, TypeId},
    time::{DurationMs, Timestamp},
};

/// The ABI that this version speaks.
pub const ABI: &str = "lapse:plugin@1.0.0";

/// What a component says of itself (`describe`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub name: Name,
    /// Semantic version, for people.
    pub version: String,
    /// `lapse:plugin@1.0.0`.
    pub abi: String,
    /// JSON Schema (2020-12) of a timer's payload.
    pub payload_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_delay: Option<DurationMs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Reminders before the due time.
    #[serde(default)]
    pub remind_before: Vec<DurationMs>,
    /// JSON Schema of the type's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_schema: Option<Value>,
    /// The capabilities that each export wants.
    #[serde(default)]
    pub exports: BTreeMap<Export, Wanted>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Without a grant for each of these, the type is refused.
    #[serde(default)]
    pub required: Vec<Capability>,
    #[serde(default)]
    pub optional: Vec<Capability>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    OnExpire,
    OnRemind,
    Compensate,
}

impl Export {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnExpire => "on-expire",
            Self::OnRemind => "on-remind",
            Self::Compensate => "compensate",
        }
    }
}

/// What must be granted before a plugin can use it. (`log` is always there.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    Http,
    Sql,
    Secret,
}

/// One right of one export: `[EXPORT:]http:HOST[:PORT] | sql:NAME | secret:NAME`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Grant {
    pub export: Export,
    pub right: Right,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Right {
    /// Requests to this host. Without a port: 80 for http and 443 for https. A host that is, or resolves to, a
    /// private address is reached only when the grant names it literally, as an address or as `localhost`.
    Http {
        host: String,
        port: Option<u16>,
    },
    Sql {
        source: Name,
    },
    Secret {
        name: Name,
    },
}

impl Grant {
    pub fn capability(&self) -> Capability {
        match self.right {
            Right::Http { .. } => Capability::Http,
            Right::Sql { .. } => Capability::Sql,
            Right::Secret { .. } => Capability::Secret,
        }
    }

    /// Whether an export that holds it can have done something when it returns.
    pub fn is_effectful(&self) -> bool {
        matches!(self.capability(), Capability::Http | Capability::Sql)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a grant: {why}; write [EXPORT:]http:HOST[:PORT], [EXPORT:]sql:NAME or [EXPORT:]secret:NAME, where EXPORT is on-expire, on-remind or compensate (the default)"
)]
pub struct GrantError {
    pub given: String,
    pub why: &'static str,
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(s: &str) -> Result<Self, GrantError> {
        let bad = |why| GrantError { given: s.chars().take(300).collect(), why };
        let exports = [Export::OnExpire, Export::OnRemind, Export::Compensate];
        let named =
            exports.into_iter().find_map(|e| s.strip_prefix(e.as_str())?.strip_prefix(':').map(|rest| (e, rest)));
        let (export, rest) = named.unwrap_or((Export::Compensate, s));
        let (capability, what) = rest.split_once(':').ok_or_else(|| bad("it names no capability"))?;
        let name = |what: &str| what.parse::<Name>().map_err(|_| bad("its name is not one"));
        let right = match capability {
            "http" => {
                let (host, port) = split_host(what).ok_or_else(|| bad("its host or port is not one"))?;
                Right::Http { host, port }
            }
            "sql" => Right::Sql { source: name(what)? },
            "secret" => Right::Secret { name: name(what)? },
            _ => return Err(bad("it names no known capability or export")),
        };
        Ok(Self { export, right })
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`; the host in lower case, without brackets.
fn split_host(s: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match s.strip_prefix('[') {
        Some(v6) => {
            let (address, rest) = v6.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match s.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (s, None),
        },
    };
    let port = port.map(|p| p.parse::<u16>().ok().filter(|p| *p != 0)).map_or(Some(None), |p| p.map(Some))?;
    let known = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'_'));
    (!host.is_empty() && host.len() <= 253 && known).then(|| (host.to_ascii_lowercase(), port))
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.export.as_str())?;
        match &self.right {
            Right::Http { host, port } => {
                if host.contains(':') {
                    write!(f, "http:[{host}]")?;
                } else {
                    write!(f, "http:{host}")?;
                }
                port.map_or(Ok(()), |p| write!(f, ":{p}"))
            }
            Right::Sql { source } => write!(f, "sql:{source}"),
            Right::Secret { name } => write!(f, "secret:{name}"),
        }
    }
}

impl Serialize for Grant {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grant {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

/// One immutable version of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// From 1, by type.
    pub number: i64,
    pub digest: Digest,
    /// JSON text.
    pub config: String,
    pub grants: Vec<Grant>,
    pub default_delay: Option<DurationMs>,
    pub retry: RetryPolicy,
    /// The most expiries of the type that run at once, on each node.
    pub concurrency: Option<u32>,
    /// The most expiries of the type started in a second, on each node.
    pub rate: Option<u32>,
    pub created_at: Timestamp,
    pub created_by: String,
    /// Neither activated nor pinned any more; what was registered under it still runs it.
    pub deleted_at: Option<Timestamp>,
}

impl Revision {
    /// Whether its `on-expire` cannot have done anything when it returns.
    pub fn is_pure(&self) -> bool {
        !self.grants.iter().any(|g| g.export == Export::OnExpire && g.is_effectful())
    }
}

/// A timer type's row.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeRow {
    pub id: TypeId,
    pub namespace_id: NamespaceId,
    pub namespace: Name,
    pub name: Name,
    /// The active revision's number.
    pub active: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An uploaded component, without its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginRow {
    pub namespace_id: NamespaceId,
    pub digest: Digest,
    pub size: u64,
    pub manifest: Manifest,
    /// The interfaces it imports.
    pub imports: Vec<String>,
    pub created_at: Timestamp,
    pub created_by: String,
}
