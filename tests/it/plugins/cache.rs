//! The cache of compiled code: believed only where this server wrote it.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::host::{expiry, host_with, load, settings};
use crate::support::guest::component;

/// Starts a host on the folder, and has it load the component and run it.
async fn start(dir: &Path, name: &str) {
    let plugin = load(&host_with(&settings(), Some(dir.to_owned())), component(name)).await;
    let run = plugin.decide(&expiry(&json!({"do": "close"}), &json!({})));
    assert!(run.result.is_ok() || name != "hostile", "{run:?}");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|f| f.unwrap().path());
    files.filter(|p| p.extension().is_some_and(|e| e == "compiled")).collect()
}

#[tokio::test]
async fn an_entry_is_used_again_and_a_tampered_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    start(dir.path(), "hostile").await;
    let key = fs::metadata(dir.path().join("key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let [entry] = &entries(dir.path())[..] else { panic!("one entry") };
    let (written, inode) = (fs::read(entry).unwrap(), fs::metadata(entry).unwrap().ino());

    start(dir.path(), "hostile").await;
    assert_eq!(fs::metadata(entry).unwrap().ino(), inode, "compiled again for nothing");

    for at in [0, 40, written.len() / 2, written.len() - 1] {
        let mut tampered = written.clone();
        tampered[at] ^= 1;
        fs::write(entry, &tampered).unwrap();
        start(dir.path(), "hostile").await;
        assert_ne!(fs::read(entry).unwrap(), tampered, "byte {at}");
    }
    fs::write(entry, &written[..20]).unwrap();
    start(dir.path(), "hostile").await;
    assert!(fs::read(entry).unwrap().len() > 20);
}

#[tokio::test]
async fn an_entry_is_good_for_its_own_component_and_key_only() {
    let dir = tempfile::tempdir().unwrap();
    start(dir.path(), "hostile").await;
    let [hostile] = &entries(dir.path())[..] else { panic!("one entry") };
    start(dir.path(), "order-timeout").await;
    let other = entries(dir.path()).into_iter().find(|p| p != hostile).unwrap();
    fs::copy(&other, hostile).unwrap();
    start(dir.path(), "hostile").await;
    assert_ne!(fs::read(hostile).unwrap(), fs::read(&other).unwrap());

    // A key that others could have read is made anew, and with it every entry.
    let (key, before) = (dir.path().join("key"), fs::read(hostile).unwrap());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    start(dir.path(), "hostile").await;
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(fs::read(hostile).unwrap()[..32], before[..32]);
}
