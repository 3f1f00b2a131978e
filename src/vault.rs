//! What is kept sealed: secrets, and the passwords of data sources.
//!
//! Each is encrypted with XChaCha20-Poly1305 under a key derived from the server's own, bound to its namespace, its name
//! and what is open of it: a row that was moved, renamed or pointed at another host does not open. Nothing is cached, so
//! that what is deleted is gone at the next use, on every node.

use std::sync::Arc;

use async_trait::async_trait;
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};
use sha2::{Digest as _, Sha256};

use crate::{
    config::Secret,
    domain::id::{Name, NamespaceId},
    plugin::{Keeper, KeeperError},
    sql::{Definition, Source},
    store::{
        self, Store,
        admin::{AdminAnswer, AdminOp, PutSealed, SealedKind, SealedRow},
    },
};

/// The form of the sealed bytes: this, the key's id, the nonce, the ciphertext with its tag.
const FORM: u8 = 1;
const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(
        "{name} was sealed with the server's key {sealed_with}, and this server's is {ours}: start it with the key that it was sealed with (store.key, or store.key_file), or set it anew"
    )]
    WrongKey { name: Name, sealed_with: String, ours: String },
    #[error("{0} does not open: its row was changed by something outside of this program; set it anew")]
    Broken(Name),
}

/// Something new to keep.
pub struct Keep {
    pub namespace_id: NamespaceId,
    pub name: Name,
    pub by: String,
}

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    cipher: Arc<XChaCha20Poly1305>,
    key_id: [u8; KEY_ID_BYTES],
}

impl Vault {
    /// With a key that serves nothing else.
    pub fn new(store: Store, key: [u8; 32]) -> Self {
        let hash = Sha256::new().chain_update(b"id of a sealing key").chain_update(key).finalize();
        let mut key_id = [0; KEY_ID_BYTES];
        key_id.copy_from_slice(&hash[..KEY_ID_BYTES]);
        Self { store, cipher: Arc::new(XChaCha20Poly1305::new(&key.into())), key_id }
    }

    /// Whether it is new.
    pub async fn put_secret(&self, keep: Keep, value: &Secret) -> Result<(SealedRow, bool), Error> {
        self.put(SealedKind::Secret, keep, String::new(), value.reveal().as_bytes()).await
    }

    /// Whether it is new.
    pub async fn put_source(
        &self,
        keep: Keep,
        definition: &Definition,
        password: &Secret,
    ) -> Result<(SealedRow, bool), Error> {
        let open = serde_json::to_string(definition).unwrap_or_else(|e| unreachable!("plain data: {e}"));
        self.put(SealedKind::DataSource, keep, open, password.reveal().as_bytes()).await
    }

    async fn put(
        &self,
        kind: SealedKind,
        Keep { namespace_id, name, by: updated_by }: Keep,
        open: String,
        plain: &[u8],
    ) -> Result<(SealedRow, bool), Error> {
        let sealed = self.seal(&context(namespace_id, kind, &name, &open), plain);
        let put = PutSealed { namespace_id, kind, name, open, sealed, updated_by };
        match self.store.admin(AdminOp::PutSealed(put)).await? {
            AdminAnswer::Sealed { row, created } => Ok((row, created)),
            other => Err(store::Error::Data(format!("the store answered a sealed row with {other:?}")).into()),
        }
    }

    /// What was deleted, if it was there.
    pub async fn delete(
        &self,
        namespace_id: NamespaceId,
        kind: SealedKind,
        name: Name,
    ) -> Result<Option<SealedRow>, Error> {
        match self.store.admin(AdminOp::DeleteSealed { namespace_id, kind, name }).await? {
            AdminAnswer::Sealed { row, .. } => Ok(Some(row)),
            _ => Ok(None),
        }
    }

    /// A namespace's, by name.
    pub async fn list(&self, namespace_id: NamespaceId, kind: SealedKind) -> Result<Vec<SealedRow>, Error> {
        Ok(self.store.read().sealed(namespace_id, kind).await?)
    }

    async fn get(&self, namespace: &str, kind: SealedKind, name: &Name) -> Result<Option<SealedRow>, Error> {
        Ok(self.store.read().sealed_by_name(namespace.to_owned(), kind, name.clone()).await?)
    }

    pub async fn secret(&self, namespace: &str, name: &Name) -> Result<Option<Secret>, Error> {
        let row = self.get(namespace, SealedKind::Secret, name).await?;
        row.map(|row| self.open(&row)).transpose()
    }

    pub async fn source(&self, namespace: &str, name: &Name) -> Result<Option<Source>, Error> {
        let Some(row) = self.get(namespace, SealedKind::DataSource, name).await? else { return Ok(None) };
        let password = self.open(&row)?;
        let definition = definition(&row)?;
        Ok(Some(Source { namespace: namespace.to_owned(), name: row.name, definition, password, stamp: row.sealed }))
    }

    fn seal(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let sealed = self.cipher.encrypt(XNonce::from_slice(&nonce), Payload { msg: plain, aad: context });
        let sealed = sealed.unwrap_or_else(|_| unreachable!("a few kilobytes are not too many"));
        [&[FORM][..], &self.key_id, &nonce, &sealed].concat()
    }

    fn open(&self, row: &SealedRow) -> Result<Secret, Error> {
        let broken = || Error::Broken(row.name.clone());
        let (form, rest) = row.sealed.split_first().ok_or_else(broken)?;
        let (key_id, rest) = rest.split_at_checked(KEY_ID_BYTES).ok_or_else(broken)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES).ok_or_else(broken)?;
        if *form != FORM {
            return Err(broken());
        }
        if key_id != self.key_id {
            let (sealed_with, ours) = (hex::encode(key_id), hex::encode(self.key_id));
            return Err(Error::WrongKey { name: row.name.clone(), sealed_with, ours });
        }
        let aad = context(row.namespace_id, row.kind, &row.name, &row.open);
        let plain = self.cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: &aad });
        let plain = plain.map_err(|_| broken())?;
        String::from_utf8(plain).map(Secret::new).map_err(|_| broken())
    }
}

/// Whether something stands behind the seal, which the length tells: nothing makes a tag alone.
pub fn has_content(row: &SealedRow) -> bool {
    row.sealed.len() > 1 + KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES
}

/// What is open of a data source.
pub fn definition(row: &SealedRow) -> Result<Definition, Error> {
    serde_json::from_str(&row.open).map_err(|_| Error::Broken(row.name.clone()))
}

/// What the sealed bytes are bound to. The name has no zero byte in it.
fn context(namespace: NamespaceId, kind: SealedKind, name: &Name, open: &str) -> Vec<u8> {
    let (namespace, kind) = (namespace.0.to_be_bytes(), kind.code().to_be_bytes());
    [b"lapse sealed 1", &namespace[..], &kind, name.as_str().as_bytes(), b"\0", open.as_bytes()].concat()
}

#[async_trait]
impl Keeper for Vault {
    async fn secret(&self, namespace: &str, name: &Name) -> Result<Option<Secret>, KeeperError> {
        Self::secret(self, namespace, name).await.map_err(told)
    }

    async fn source(&self, namespace: &str, name: &Name) -> Result<Option<Source>, KeeperError> {
        Self::source(self, namespace, name).await.map_err(told)
    }
}

/// A plugin is told what is wrong; an operator has to mend it.
fn told(error: Error) -> KeeperError {
    if !matches!(error, Error::Store(_)) {
        tracing::error!(%error, "what a plugin's call needs cannot be opened");
    }
    KeeperError(error.to_string())
}
