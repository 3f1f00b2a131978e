//! The small tables: namespaces, API keys, plugins, types and their revisions.

use serde::{Deserialize, Serialize};

use crate::domain::{
    backoff::RetryPolicy,
    id::{ApiKeyId, Digest, Name, NamespaceId},
    plugin::{Grant, Manifest, PluginRow, Revision, TypeRow},
    time::{DurationMs, Timestamp},
};

/// What a key may do; each role may also do all that the ones before it may, but for `producer` and `publisher`, which
/// stand side by side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Reader,
    Producer,
    Publisher,
    Operator,
    Admin,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceRow {
    pub id: NamespaceId,
    pub name: Name,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ApiKeyRow {
    pub id: ApiKeyId,
    pub namespace_id: NamespaceId,
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub created_by: String,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub enum AdminOp {
    CreateNamespace {
        name: Name,
    },
    CreateApiKey {
        id: ApiKeyId,
        namespace_id: NamespaceId,
        name: String,
        role: Role,
        /// SHA-256 of the key; the key itself is nowhere.
        hash: [u8; 32],
        created_by: String,
        /// Only while there is no key at all: the first start's.
        only_first: bool,
    },
    RevokeApiKey {
        /// `None`: whatever the namespace.
        namespace_id: Option<NamespaceId>,
        id: ApiKeyId,
    },
    PutPlugin {
        namespace_id: NamespaceId,
        digest: Digest,
        bytes: bytes::Bytes,
        manifest: Box<Manifest>,
        imports: Vec<String>,
        created_by: String,
    },
    /// A new revision of a type (made if it is new), activated. Refused as [`AdminAnswer::NotFound`] if the namespace
    /// has no such plugin.
    PutType(PutType),
    /// Makes an existing revision the active one.
    Activate {
        namespace_id: NamespaceId,
        name: Name,
        number: i64,
    },
}

#[derive(Clone, Debug)]
pub struct PutType {
    pub namespace_id: NamespaceId,
    pub name: Name,
    pub digest: Digest,
    pub config: String,
    pub grants: Vec<Grant>,
    pub default_delay: Option<DurationMs>,
    pub retry: RetryPolicy,
    pub concurrency: Option<u32>,
    pub rate: Option<u32>,
    pub created_by: String,
}

impl PutType {
    /// Whether the type as it runs is what is asked for already.
    pub(super) fn is_same_as(&self, active: &Revision) -> bool {
        active.digest == self.digest
            && active.config == self.config
            && active.grants == self.grants
            && active.default_delay == self.default_delay
            && active.retry == self.retry
            && active.concurrency == self.concurrency
            && active.rate == self.rate
    }
}

#[derive(Clone, Debug)]
pub enum AdminAnswer {
    Namespace {
        row: NamespaceRow,
        created: bool,
    },
    ApiKey(ApiKeyRow),
    /// `only_first`, and there already is one.
    NotFirst,
    Plugin {
        row: PluginRow,
        created: bool,
    },
    /// `created` says whether the type is new. The same definition as the active revision's makes no new one.
    Type {
        row: TypeRow,
        revision: Revision,
        created: bool,
    },
    NotFound,
}
