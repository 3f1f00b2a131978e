//! The components that `make plugins` builds.

use bytes::Bytes;

/// The component `plugins/dist/<name>.wasm`.
pub fn component(name: &str) -> Bytes {
    let path = format!("{}/plugins/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
    let read = std::fs::read(&path);
    read.unwrap_or_else(|e| panic!("{path} cannot be read ({e}): run `make plugins` first")).into()
}

/// A component, with another text in the same place of its manifest.
pub fn rewritten(name: &str, from: &str, to: &str) -> Vec<u8> {
    let mut bytes = component(name).to_vec();
    let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).expect("the manifest has that text");
    let mut text = to.as_bytes().to_vec();
    assert!(text.len() <= from.len());
    text.resize(from.len(), b' ');
    bytes[at..at + from.len()].copy_from_slice(&text);
    bytes
}
