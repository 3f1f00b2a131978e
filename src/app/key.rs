//! The server's own key: what the audit chain and the compile cache are keyed with.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::config;

/// 256 random bits in a file that only its owner reads. Losing it makes the audit unverifiable, not the timers.
#[derive(Clone)]
pub struct ServerKey([u8; 32]);

impl ServerKey {
    /// The key that the settings give; otherwise that in the data folder, made there if there is none.
    pub fn find(config: &config::Store) -> anyhow::Result<Self> {
        let given = config.key.reveal();
        if !given.is_empty() {
            return Self::parse(given).context("store.key is not 64 hex digits");
        }
        if config.key_file.as_os_str().is_empty() {
            return Self::load_or_create(&config.data.join("server.key"));
        }
        let path = &config.key_file;
        Self::load(path)?.with_context(|| {
            format!(
                "there is no key in {}; make one with `openssl rand -hex 32`, the same for every node",
                path.display()
            )
        })
    }

    /// Reads the key in `path`, or makes one there.
    fn load_or_create(path: &Path) -> anyhow::Result<Self> {
        match Self::load(path) {
            Ok(Some(key)) => Ok(key),
            Ok(None) => {
                Self::create(path).with_context(|| format!("cannot make the server's key in {}", path.display()))
            }
            Err(error) => Err(error),
        }
    }

    fn load(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the server's key in {}", path.display()));
            }
        };
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!("{} can be read by others (mode {:o}); run `chmod 600` on it", path.display(), mode & 0o777);
        }
        let key = Self::parse(text.trim())
            .with_context(|| format!("{} does not hold 64 hex digits; restore it from a backup", path.display()))?;
        Ok(Some(key))
    }

    fn parse(text: &str) -> Result<Self, hex::FromHexError> {
        let mut key = [0; 32];
        hex::decode_to_slice(text, &mut key)?;
        Ok(Self(key))
    }

    /// Written whole under another name first: a crash never leaves half a key behind.
    fn create(path: &Path) -> anyhow::Result<Self> {
        let key: [u8; 32] = rand::random();
        let partial = path.with_extension("partial");
        let _ = fs::remove_file(&partial);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        writeln!(file, "{}", hex::encode(key))?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        if let Some(folder) = path.parent() {
            fs::File::open(folder)?.sync_all()?;
        }
        Ok(Self(key))
    }

    /// A key for one purpose, which tells nothing of the others.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.0).chain_update(purpose.as_bytes()).finalize().into()
    }
}
