//! `lapse doctor`: what is missing before the first start, what is there after it, and what was changed since.

use std::{path::Path, time::Duration};

use serde_json::Value;

use super::rig::Node;
use crate::support::{dev::lapse, nats::Nats, postgres};

pub struct Said {
    pub ok: bool,
    pub findings: Vec<Value>,
}

impl Said {
    pub fn verdict(&self, of: &str, what: &str) -> Option<&str> {
        let finding = self.findings.iter().find(|f| f["of"] == of && f["what"] == what)?;
        finding["verdict"].as_str()
    }

    /// What was found of the first thing whose name begins so.
    pub fn found(&self, what: &str) -> &str {
        let finding = self.findings.iter().find(|f| f["what"].as_str().unwrap().starts_with(what));
        finding.unwrap()["found"].as_str().unwrap()
    }
}

pub fn ask(folder: &Path, env: &[(String, String)]) -> Said {
    let mut command = lapse();
    let output = command.args(["doctor", "--json"]).current_dir(folder).envs(env.iter().cloned()).output().unwrap();
    let findings = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    Said { ok: output.status.success(), findings }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_is_missing_there_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let database = postgres::database().await;
    let nats = Nats::start().await;
    let env = [("LAPSE_STORE__DATABASE".to_owned(), database.url.clone()), ("LAPSE_NATS__URL".to_owned(), nats.url())];

    let before = ask(folder.path(), &env);
    assert!(before.ok, "what the first start makes is no fault: {:#?}", before.findings);
    assert_eq!(before.verdict("database", "migrations"), Some("remark"));
    assert_eq!(before.verdict("broker", "stream"), Some("remark"));
    assert_eq!(before.verdict("database", "fsync"), Some("ok"));

    let _node = Node::start(folder.path(), 0, &env);
    let context = nats.jetstream().await;
    let stream = loop {
        match context.get_stream("lapse-slots").await {
            Ok(stream) if stream.cached_info().state.consumer_count > 0 => break stream,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let running = ask(folder.path(), &env);
    assert!(running.ok, "{:#?}", running.findings);
    assert_eq!(running.verdict("database", "migrations"), Some("ok"));
    assert_eq!(running.verdict("broker", "stream"), None);
    assert_eq!(running.verdict("broker", "slots"), Some("ok"));
    let nodes = running.findings.iter().filter(|f| f["what"].as_str().unwrap().starts_with("node ")).count();
    assert_eq!(nodes, 1, "{:#?}", running.findings);
    assert!(running.found("node ").starts_with("fires; said that it lives"));

    let mut config = stream.cached_info().config.clone();
    config.max_age *= 2;
    context.update_stream(config).await.unwrap();
    let changed = ask(folder.path(), &env);
    assert!(!changed.ok, "{:#?}", changed.findings);
    assert_eq!(changed.verdict("broker", "stream.max_age"), Some("fault"));

    drop(nats);
    let gone = ask(folder.path(), &env);
    assert!(!gone.ok);
    assert_eq!(gone.verdict("broker", "connection"), Some("fault"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_that_no_node_fires() {
    let folder = tempfile::tempdir().unwrap();
    let database = postgres::database().await;
    let env = [("LAPSE_STORE__DATABASE".to_owned(), database.url.clone())];
    let registers = [env.clone(), [("LAPSE_DISPATCH__FIRE".to_owned(), "false".to_owned())]].concat();
    let _registers = Node::start(folder.path(), 0, &registers);
    let said = ask(folder.path(), &env);
    assert!(!said.ok);
    assert_eq!(said.verdict("database", "nodes that fire"), Some("fault"));
    assert!(said.found("node ").starts_with("only registers; said that it lives"));

    let _fires = Node::start(folder.path(), 1, &env);
    let said = ask(folder.path(), &env);
    assert!(said.ok, "{:#?}", said.findings);
    assert_eq!(said.verdict("database", "nodes that fire"), None);
}
