//! The small tables: namespaces, API keys, plugins, types and their revisions, pauses.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::domain::{
    backoff::RetryPolicy,
    id::{ApiKeyId, Digest, Name, NamespaceId},
    pause::{Pause, Scope},
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

/// What a sealed row holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SealedKind {
    Secret,
    DataSource,
}

impl SealedKind {
    pub fn code(self) -> i64 {
        match self {
            Self::Secret => 1,
            Self::DataSource => 2,
        }
    }

    pub fn from_code(code: i64) -> Option<Self> {
        [Self::Secret, Self::DataSource].into_iter().find(|k| k.code() == code)
    }
}

/// Something that only the server's key opens. The store knows what it is called, and nothing of what is in it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedRow {
    pub namespace_id: NamespaceId,
    pub kind: SealedKind,
    pub name: Name,
    /// What may be read of it, as JSON; nothing of a secret.
    pub open: String,
    /// Another at each write, also of the same content.
    pub sealed: Vec<u8>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub updated_by: String,
}

/// Without the sealed bytes: they are nobody's to read, and what is open of them may be long.
impl std::fmt::Debug for SealedRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedRow").field("kind", &self.kind).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What is to be kept sealed.
#[derive(Clone)]
pub struct PutSealed {
    pub namespace_id: NamespaceId,
    pub kind: SealedKind,
    pub name: Name,
    pub open: String,
    pub sealed: Vec<u8>,
    pub updated_by: String,
}

impl std::fmt::Debug for PutSealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutSealed").field("kind", &self.kind).field("name", &self.name).finish_non_exhaustive()
    }
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
    /// Keeps timers from firing. Pausing what is paused changes the reason and the end.
    Pause(PutPause),
    /// Ends a pause, if there is one.
    Resume(Scope),
    /// Takes rights from a type, whatever the revision, or gives them back.
    Revoke(Revoke),
    /// Makes an existing revision the active one.
    Activate {
        namespace_id: NamespaceId,
        name: Name,
        number: i64,
    },
    /// Puts a secret or a data source in the place of the one of its name. Not a change of the catalogue: who needs it
    /// reads it at each use.
    PutSealed(PutSealed),
    DeleteSealed {
        namespace_id: NamespaceId,
        kind: SealedKind,
        name: Name,
    },
    /// Takes a revision out of use that nothing needs.
    DeleteRevision {
        namespace_id: NamespaceId,
        name: Name,
        number: i64,
    },
    /// Removes a plugin that no revision uses, not even a deleted one that something registered late still needs.
    DeletePlugin {
        namespace_id: NamespaceId,
        digest: Digest,
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
pub struct PutPause {
    pub scope: Scope,
    pub reason: String,
    pub until: Option<Timestamp>,
    pub by: String,
    /// A pause that holds already stays as it is.
    pub only_first: bool,
}

impl PutPause {
    /// What is to stand there, where `before` holds now; `None` if that is to stay.
    pub(super) fn over(&self, before: Option<&Pause>, now: Timestamp) -> Option<Pause> {
        let pause = Pause {
            scope: self.scope,
            reason: self.reason.clone(),
            since: before.map_or(now, |pause| pause.since),
            until: self.until,
            by: self.by.clone(),
        };
        let stays = before.is_some_and(|before| self.only_first || *before == pause);
        (!stays).then_some(pause)
    }
}

/// Rights that a type is to do without, and those that it is to have again.
#[derive(Clone, Debug)]
pub struct Revoke {
    pub namespace_id: NamespaceId,
    pub name: Name,
    pub revoke: Vec<Grant>,
    pub restore: Vec<Grant>,
}

impl Revoke {
    /// What is revoked then, where `before` is now.
    pub(super) fn over(&self, before: &BTreeSet<Grant>) -> BTreeSet<Grant> {
        before.iter().filter(|grant| !self.restore.contains(grant)).chain(&self.revoke).cloned().collect()
    }
}

/// A scope's key: namespace and type, 0 for any.
pub(super) fn scope_key(scope: Scope) -> (i64, i64) {
    match scope {
        Scope::All => (0, 0),
        Scope::Namespace(id) => (id.0, 0),
        Scope::Type(id) => (0, id.0),
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
    /// As it now stands; `changed` says whether this call made it so.
    Paused {
        pause: Pause,
        changed: bool,
    },
    /// What held until now, if anything did.
    Resumed(Option<Pause>),
    /// All that is now revoked for the type.
    Revoked(BTreeSet<Grant>),
    /// As it is now, or as it was before it was deleted.
    Sealed {
        row: SealedRow,
        created: bool,
    },
    /// It is deleted; or was already.
    Deleted,
    /// It is the one that serves, or something that is not over stands under it. Counted up to [`MAX_COUNTED`] each.
    RevisionInUse {
        active: bool,
        timers: u64,
        compensations: u64,
    },
    /// Some of the revisions that use it.
    PluginInUse(Vec<Holder>),
    NotFound,
}

/// A revision that holds on to a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    pub timer_type: Name,
    pub number: i64,
    /// When it was deleted, if it was: less than [`DELETED_FOR`] ago, or with something that came late under it.
    pub deleted_at: Option<Timestamp>,
}

impl Holder {
    /// Whether it holds on to its plugin whatever stands under it.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        self.deleted_at.is_none_or(|at| now < at.saturating_add(DELETED_FOR))
    }
}

/// How long the plugin of a deleted revision is kept at least: a node that has not yet heard of the deletion may register
/// a timer under it.
pub const DELETED_FOR: DurationMs = DurationMs::from_secs(60);
/// What is counted in one answer.
pub const MAX_COUNTED: u64 = 1_000;
/// Revisions that one refusal names.
pub const MAX_HOLDERS: usize = 10;
