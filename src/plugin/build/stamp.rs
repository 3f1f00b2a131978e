//! Whether a project was built already, as it is. The tools that put an interpreter into a component make other bytes of
//! the same source each time: without this, every push of a project would be a new revision of its type, and what was
//! checked would not be what is pushed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::{BuildError, above, files};

/// What a project may have in files and in bytes; one that has more is built each time.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How deep its folders may lie.
const MAX_DEPTH: usize = 32;
/// Folders that no component is made of.
const OTHERS: [&str; 7] = ["node_modules", "target", "dist", "__pycache__", "samples", "test", "tests"];

/// A project's sources at one moment.
#[derive(PartialEq, Eq)]
pub struct Stamp {
    file: PathBuf,
    sources: String,
}

impl Stamp {
    /// Of the project in `dir`, and of what else goes into its component: files and folders at or above it. `None` if
    /// that is too much, or cannot be read.
    pub fn of(dir: &Path, also: &[&str]) -> Option<Self> {
        let mut taken = Taken { hash: Sha256::new(), files: 0, bytes: 0 };
        taken.hash.update(env!("CARGO_PKG_VERSION"));
        for file in files::under("wit/v1/") {
            taken.hash.update(file.bytes);
        }
        taken.folder(dir, Path::new(""), 0)?;
        for name in also {
            let Some(path) = above(dir, name).map(|root| root.join(name)) else { continue };
            if path.is_dir() {
                taken.folder(&path, Path::new(name), 0)?;
            } else {
                taken.file(&path, Path::new(name))?;
            }
        }
        let sources = hex::encode(taken.hash.finalize());
        Some(Self { file: dir.join("dist").join("build").join("stamp"), sources })
    }

    /// The component in `path`, if it is what was made of these sources.
    pub fn made(&self, path: PathBuf) -> Option<PathBuf> {
        let (sources, component) = (fs::read_to_string(&self.file).ok()?, fs::read(&path).ok()?);
        (sources == self.line(&component)).then_some(path)
    }

    /// Notes that this component was made of them.
    pub fn note(&self, path: &Path) -> Result<(), BuildError> {
        let component = fs::read(path).map_err(|e| BuildError::file(path, e))?;
        fs::write(&self.file, self.line(&component)).map_err(|e| BuildError::file(&self.file, e))
    }

    fn line(&self, component: &[u8]) -> String {
        format!("{} {}\n", self.sources, hex::encode(Sha256::digest(component)))
    }
}

struct Taken {
    hash: Sha256,
    files: usize,
    bytes: u64,
}

impl Taken {
    fn folder(&mut self, dir: &Path, name: &Path, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut entries: Vec<_> = fs::read_dir(dir).ok()?.collect::<Result<_, _>>().ok()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (file, path) = (entry.file_name(), entry.path());
            let is_other = file.to_str().is_some_and(|f| f.starts_with('.') || OTHERS.contains(&f));
            if is_other {
                continue;
            }
            if path.is_dir() {
                self.folder(&path, &name.join(file), depth + 1)?;
            } else {
                self.file(&path, &name.join(file))?;
            }
        }
        Some(())
    }

    fn file(&mut self, path: &Path, name: &Path) -> Option<()> {
        let content = fs::read(path).ok()?;
        self.files += 1;
        self.bytes += u64::try_from(content.len()).ok()?;
        // Lengths before what they are of: no two projects are one text.
        self.hash.update(name.as_os_str().len().to_le_bytes());
        self.hash.update(name.as_os_str().as_encoded_bytes());
        self.hash.update(content.len().to_le_bytes());
        self.hash.update(&content);
        (self.files <= MAX_FILES && self.bytes <= MAX_BYTES).then_some(())
    }
}
