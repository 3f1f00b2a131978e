//! Compiled code on disk, so that a start does not compile again.
//!
//! Compiled code is run as it is, so only what this server wrote is believed: each entry carries an HMAC under a key
//! that stands beside it with mode 0600, over the engine's version and settings, the component's digest and the code.
//! An entry that does not fit is compiled again. Uploads never come near this format.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use wasmtime::{Engine, component::Component};

use crate::domain::id::Digest;

/// Entries that are kept; the oldest make way.
const ENTRIES: usize = 256;
const TAG_BYTES: usize = 32;
const KEY_BYTES: usize = 32;

pub struct Cache {
    dir: PathBuf,
    key: [u8; KEY_BYTES],
    /// Names the engine's version and settings.
    settings: String,
}

/// What was found.
pub enum Found {
    Hit(Component),
    Miss,
    /// Not what this server wrote, or not whole.
    Tampered,
}

impl Cache {
    /// Opens or makes the folder and its key.
    pub fn open(dir: &Path, engine: &Engine) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        Ok(Self { dir: dir.to_owned(), key: key(&dir.join("key"))?, settings: settings(engine) })
    }

    pub fn read(&self, engine: &Engine, digest: Digest) -> Found {
        let Ok(bytes) = fs::read(self.path(digest)) else { return Found::Miss };
        let Some((tag, code)) = bytes.split_at_checked(TAG_BYTES) else { return Found::Tampered };
        if self.mac(digest, code).verify_slice(tag).is_err() {
            return Found::Tampered;
        }
        // SAFETY: the code is, byte for byte, what `Component::serialize` gave this server for an engine of this version
        // and these settings: the tag that was just verified covers all of that, under a key only this server holds.
        match unsafe { Component::deserialize(engine, code) } {
            Ok(component) => Found::Hit(component),
            Err(_) => Found::Tampered,
        }
    }

    /// Whole or not at all.
    pub fn write(&self, digest: Digest, code: &[u8]) -> io::Result<()> {
        self.make_room()?;
        let path = self.path(digest);
        let draft = path.with_extension(format!("{:016x}", rand::random::<u64>()));
        let tag = self.mac(digest, code).finalize().into_bytes();
        let written = (|| {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(&tag)?;
            file.write_all(code)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn mac(&self, digest: Digest, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).unwrap_or_else(|_| unreachable!("any length is a key"));
        mac.update(self.settings.as_bytes());
        mac.update(&digest.0);
        mac.update(code);
        mac
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.dir.join(format!("{}.{}.compiled", hex::encode(digest.0), self.settings))
    }

    fn make_room(&self) -> io::Result<()> {
        let mut entries: Vec<(SystemTime, PathBuf)> = fs::read_dir(&self.dir)?
            .filter_map(Result::ok)
            .filter(|e| e.file_name() != "key")
            .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
            .collect();
        if entries.len() < ENTRIES {
            return Ok(());
        }
        entries.sort();
        let surplus = entries.len() + 1 - ENTRIES;
        entries.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
    }
}

/// The engine's version and settings, as 16 hex digits.
fn settings(engine: &Engine) -> String {
    use std::hash::{Hash as _, Hasher as _};

    /// Feeds what is hashed to SHA-256, which is the same in every build.
    struct Stable(Sha256);

    impl std::hash::Hasher for Stable {
        fn write(&mut self, bytes: &[u8]) {
            sha2::Digest::update(&mut self.0, bytes);
        }

        fn finish(&self) -> u64 {
            let digest: [u8; 32] = sha2::Digest::finalize(self.0.clone()).into();
            u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
        }
    }

    let mut stable = Stable(<Sha256 as sha2::Digest>::new());
    engine.precompile_compatibility_hash().hash(&mut stable);
    format!("{:016x}", stable.finish())
}

/// The key, made if there is none. One that others can read is no key, and is made anew: all entries are then void.
fn key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    if let Ok(meta) = fs::metadata(path) {
        let for_others = meta.permissions().mode() & 0o077;
        if for_others == 0
            && let Ok(key) = <[u8; KEY_BYTES]>::try_from(fs::read(path)?)
        {
            return Ok(key);
        }
        tracing::warn!(path = %path.display(), "the compile cache's key could be read by others or is not whole; it is made anew");
        fs::remove_file(path)?;
    }
    let key: [u8; KEY_BYTES] = rand::random();
    // Linked into place: of two that start at once, one makes the key and both use it.
    let draft = path.with_extension(format!("{:016x}", rand::random::<u64>()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(&key)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Ok(()) => Ok(key),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            <[u8; KEY_BYTES]>::try_from(fs::read(path)?).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
        }
        Err(e) => Err(e),
    }
}
