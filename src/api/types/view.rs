//! Types and revisions as callers see them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{
    backoff,
    plugin::{self, TypeRow},
    time::Timestamp,
};

use super::{
    super::{
        Inner,
        model::{Raw, page},
        pauses::Pause,
        plugins::payload_schema,
        problem::{Error, Result},
    },
    LeftBehind,
};

page!(
    /// Types, by name.
    TypePage of Type
);
page!(
    /// Revisions, newest first.
    RevisionPage of Revision
);

/// How often something is tried, and how long it waits in between: full jitter, doubling from `initial` up to `max`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"attempts": 4, "initial": "1s", "max": "5m"}))]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    #[schema(minimum = 1, maximum = 100)]
    pub attempts: u32,
    /// The longest wait before the second attempt, as a duration.
    pub initial: String,
    /// What no wait exceeds.
    pub max: String,
}

impl From<backoff::RetryPolicy> for RetryPolicy {
    fn from(policy: backoff::RetryPolicy) -> Self {
        Self { attempts: policy.attempts, initial: policy.initial.to_string(), max: policy.max.to_string() }
    }
}

/// The plugin of a type.
#[derive(Serialize, ToSchema)]
pub struct TypePlugin {
    name: String,
    version: String,
}

/// A timer type, with the content of its active revision.
#[derive(Serialize, ToSchema)]
pub struct Type {
    namespace: String,
    name: String,
    /// The active revision.
    revision: i64,
    digest: String,
    plugin: TypePlugin,
    #[schema(value_type = Value)]
    config: Raw,
    grants: Vec<String>,
    /// Rights that were taken from the type, whatever the revision and whatever it was granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    revoked: Vec<String>,
    /// The delay of a timer that says none; left out if it must say one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    default_delay: Option<String>,
    retry: RetryPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    rate: Option<u32>,
    /// In the answer to a change of the active revision, where a revision before it has another payload schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) left_behind: Option<LeftBehind>,
    /// Whether its decisions cannot have done anything by themselves: `on-expire` has no effectful right.
    pure: bool,
    /// What keeps its timers from firing: the narrowest pause, if there are several. Left out while they fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    paused: Option<Pause>,
    /// JSON Schema (2020-12) of a timer's payload.
    #[schema(value_type = Value)]
    payload_schema: Raw,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// One immutable version of a type.
#[derive(Serialize, ToSchema)]
pub struct Revision {
    /// From 1.
    number: i64,
    /// Whether it is the one that serves.
    active: bool,
    digest: String,
    #[schema(value_type = Value)]
    config: Raw,
    grants: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    default_delay: Option<String>,
    retry: RetryPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    rate: Option<u32>,
    pure: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    created_by: String,
}

impl Revision {
    pub fn of(revision: &plugin::Revision, active: i64) -> Self {
        Self {
            number: revision.number,
            active: revision.number == active,
            digest: revision.digest.to_string(),
            config: Raw::of(revision.config.clone()),
            grants: revision.grants.iter().map(ToString::to_string).collect(),
            default_delay: revision.default_delay.map(|d| d.to_string()),
            retry: revision.retry.into(),
            concurrency: revision.concurrency,
            rate: revision.rate,
            pure: revision.is_pure(),
            created_at: revision.created_at,
            created_by: revision.created_by.clone(),
        }
    }
}

impl Inner {
    /// A type as the store has it, whether or not this node can run it.
    pub(in crate::api) fn show_type(&self, row: &TypeRow) -> Result<Type> {
        let snapshot = self.catalog.snapshot();
        let revisions = &snapshot.catalogue.revisions;
        let revision = revisions.iter().find(|(id, r)| *id == row.id && r.number == row.active).map(|(_, r)| r);
        let plugin = revision.and_then(|r| snapshot.plugin(row.namespace_id, r.digest));
        let (Some(revision), Some(plugin)) = (revision, plugin) else {
            return Err(Error::internal(format!("type {} has no active revision or no plugin", row.name)));
        };
        let manifest = &plugin.manifest;
        let shown = Revision::of(revision, row.active);
        Ok(Type {
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
            revision: shown.number,
            digest: shown.digest,
            plugin: TypePlugin { name: manifest.name.to_string(), version: manifest.version.clone() },
            config: shown.config,
            grants: shown.grants,
            revoked: self.catalog.revoked(row.id).iter().map(ToString::to_string).collect(),
            default_delay: revision.default_delay.or(manifest.default_delay).map(|d| d.to_string()),
            retry: shown.retry,
            concurrency: shown.concurrency,
            rate: shown.rate,
            left_behind: None,
            pure: shown.pure,
            paused: self.paused(row.namespace_id, row.id),
            payload_schema: payload_schema(manifest),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}
