//! Every node chains the audit with the same key.

use std::process::Stdio;

use super::rig::{KEY, TOKEN};
use crate::support::{dev::lapse, postgres};

/// Starts a server that is to refuse, and returns what it says.
fn refusal(folder: &std::path::Path, env: &[(&str, &str)]) -> String {
    let output = lapse()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .current_dir(folder)
        .env("LAPSE_BOOTSTRAP_TOKEN", TOKEN)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_key_is_refused_by_either_database() {
    let database = postgres::database().await;
    let folder = tempfile::tempdir().unwrap();
    let other = "ef".repeat(32);
    for url in [database.url.as_str(), ""] {
        // A migrated database takes the key of its first node.
        let first = super::rig::Node::start(folder.path(), 0, &[("LAPSE_STORE__DATABASE".into(), url.into())]);
        drop(first);
        let env =
            [("LAPSE_STORE__DATABASE", url), ("LAPSE_STORE__KEY", other.as_str()), ("LAPSE_STORE__DATA", "node-0")];
        let said = refusal(folder.path(), &env);
        assert!(said.contains("chained with another key"), "{said}");
        assert!(!said.contains(&other) && !said.contains(KEY), "{said}");
    }
}

/// A password never shows, however the database is written.
#[test]
fn the_database_is_shown_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["postgres://u:hidden@h:1/d", "postgresql://h/d?user=u&password=hidden", "mysql://u:hidden@h/d"] {
        let output = lapse().args(["config", "--database", url]).current_dir(folder.path()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains("hidden"), "{url}: {}", String::from_utf8_lossy(&said));
    }
}
