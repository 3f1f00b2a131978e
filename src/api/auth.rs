//! Who calls: API keys, roles and namespaces.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

use axum::{
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
    middleware::Next,
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::{
    domain::{
        id::{ApiKeyId, Name, NamespaceId},
        timer::Timer,
    },
    store::{
        Observer,
        admin::{ApiKeyRow, Role},
    },
};

use super::{
    Api, Inner,
    problem::{Code, Error, Result},
    rights::Access,
};

/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 512;
/// Keys held in memory; beyond it all are looked up anew.
const CACHED_KEYS: usize = 1024;

const NAMESPACE_HEADER: HeaderName = HeaderName::from_static("lapse-namespace");

/// A new key: 256 random bits.
pub fn new_token() -> String {
    let bits: [u8; 32] = rand::random();
    format!("lapse_{}", URL_SAFE_NO_PAD.encode(bits))
}

/// What is stored of a key.
pub fn hash_token(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Who makes the call, for the namespace that it is about.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub role: Role,
    pub namespace_id: NamespaceId,
    pub namespace: Name,
    /// As the audit names it.
    pub actor: String,
    pub key_id: ApiKeyId,
    pub key_name: String,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Error::internal("a handler runs without a caller"))
    }
}

/// Stands before every route: finds the key, counts the call, and lets it pass if the key's role may make it.
pub(super) async fn guard(State(api): State<Api>, mut request: Request, next: Next) -> Result<Response> {
    let path = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_owned()).unwrap_or_default();
    let access = api
        .operations
        .find(request.method(), &path)
        .ok_or_else(|| Error::internal(format!("no right is written down for {path}")))?;
    let Access::Roles(roles) = access else { return Ok(next.run(request).await) };
    let key = api.authenticate(request.headers()).await?;
    let allowance = api.limiter.take(key.id, api.clock.now())?;
    if !roles.contains(&key.role) {
        let needed: Vec<_> = roles.iter().map(|r| role_name(*r)).collect();
        let detail = format!("a {} key may not do this; it needs one of {}", role_name(key.role), needed.join(", "));
        return Err(Error::new(Code::Forbidden, detail));
    }
    let caller = api.caller(&key, request.headers())?;
    request.extensions_mut().insert(caller);
    let mut response = next.run(request).await;
    if let Some(allowance) = allowance {
        allowance.write(response.headers_mut());
    }
    Ok(response)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Reader => "reader",
        Role::Producer => "producer",
        Role::Publisher => "publisher",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

impl Inner {
    async fn authenticate(&self, headers: &HeaderMap) -> Result<ApiKeyRow> {
        let refused = |why: &str| {
            Error::new(Code::Unauthorized, why)
                .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        };
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Err(refused("send an API key as Authorization: Bearer KEY"));
        };
        let token = value
            .to_str()
            .ok()
            .and_then(|v| v.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN_BYTES)
            .ok_or_else(|| refused("the Authorization header is not of the form Bearer KEY"))?;
        let hash = hash_token(token);
        self.keys.follow(self.catalog.snapshot().catalogue.version);
        if let Some(key) = self.keys.get(&hash) {
            return Ok(key);
        }
        let generation = self.keys.generation();
        match self.store.read().api_key_by_hash(hash).await? {
            Some(key) if key.revoked_at.is_none() => {
                self.keys.put(generation, hash, key.clone());
                Ok(key)
            }
            Some(_) => Err(refused("the API key has been revoked")),
            None => Err(refused("the API key is not known")),
        }
    }

    fn caller(&self, key: &ApiKeyRow, headers: &HeaderMap) -> Result<Caller> {
        let snapshot = self.catalog.snapshot();
        let namespaces = &snapshot.catalogue.namespaces;
        let own = namespaces
            .iter()
            .find(|n| n.id == key.namespace_id)
            .ok_or_else(|| Error::unavailable("the key's namespace is not known on this node yet"))?;
        let asked = match headers.get(&NAMESPACE_HEADER) {
            None => own,
            Some(name) if name.as_bytes() == own.name.as_str().as_bytes() => own,
            Some(_) if key.role != Role::Admin => {
                return Err(Error::new(Code::Forbidden, "only an admin key may name another namespace"));
            }
            Some(name) => namespaces
                .iter()
                .find(|n| n.name.as_str().as_bytes() == name.as_bytes())
                .ok_or_else(|| Error::new(Code::NotFound, "there is no namespace of the name in Lapse-Namespace"))?,
        };
        Ok(Caller {
            role: key.role,
            namespace_id: asked.id,
            namespace: asked.name.clone(),
            actor: format!("key:{}", key.name),
            key_id: key.id,
            key_name: key.name.clone(),
        })
    }
}

/// Keys by hash, so that a call costs no query. Forgotten as soon as the catalogue or a key changes through this node,
/// and once this node has seen that it changed through another.
#[derive(Default)]
pub(super) struct KeyCache {
    generation: AtomicU64,
    /// The catalogue's version that the keys were read at, or after.
    version: AtomicI64,
    keys: Mutex<HashMap<[u8; 32], ApiKeyRow>>,
}

impl KeyCache {
    fn get(&self, hash: &[u8; 32]) -> Option<ApiKeyRow> {
        self.keys.lock().get(hash).cloned()
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Forgets all if the catalogue is another than it was.
    fn follow(&self, version: i64) {
        if self.version.swap(version, Ordering::AcqRel) != version {
            self.forget();
        }
    }

    fn forget(&self) {
        let mut keys = self.keys.lock();
        self.generation.fetch_add(1, Ordering::AcqRel);
        keys.clear();
    }

    /// Keeps what was read, unless something has changed since before the reading.
    fn put(&self, generation: u64, hash: [u8; 32], key: ApiKeyRow) {
        let mut keys = self.keys.lock();
        if generation != self.generation() {
            return;
        }
        if keys.len() >= CACHED_KEYS {
            keys.clear();
        }
        keys.insert(hash, key);
    }
}

impl Observer for KeyCache {
    fn timer_written(&self, _: &Timer) {}

    fn compensation_written(&self, _: crate::domain::id::TypeId, _: &Name, _: crate::domain::time::Timestamp) {}

    fn catalogue_written(&self) {
        self.forget();
    }
}
