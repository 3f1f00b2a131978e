//! What this binary carries of the repository: the interface, the guest SDKs and the templates. `build.rs` lists them.

/// A file, by its path in the repository.
pub struct File {
    pub path: &'static str,
    pub bytes: &'static [u8],
}

impl File {
    /// Its path below this one.
    pub fn name(&self, below: &str) -> &'static str {
        self.path.strip_prefix(below).unwrap_or(self.path)
    }

    pub fn text(&self) -> &'static str {
        std::str::from_utf8(self.bytes).unwrap_or_default()
    }
}

static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/guest_files.rs"));

/// All files whose path begins with this.
pub fn under(prefix: &'static str) -> impl Iterator<Item = File> {
    FILES.iter().filter(move |(path, _)| path.starts_with(prefix)).map(|&(path, bytes)| File { path, bytes })
}

/// The file of this path, which is one that there is.
pub fn text(path: &'static str) -> &'static str {
    under(path).next().map_or("", |file| file.text())
}
