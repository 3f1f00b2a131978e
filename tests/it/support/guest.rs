//! The components that `make plugins` builds.

use bytes::Bytes;

/// The component `plugins/dist/<name>.wasm`.
pub fn component(name: &str) -> Bytes {
    let path = format!("{}/plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    let read = std::fs::read(&path);
    read.unwrap_or_else(|e| panic!("{path} cannot be read ({e}): run `make plugins` first")).into()
}
