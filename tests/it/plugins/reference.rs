//! A reference plugin on a real server: pushed as a team would push it, and run to its end.

use lapse::domain::decision::Decision;
use serde_json::Value;

use crate::support::dev::{Dev, DevOptions, eventually};

/// A timer of a type that the plugin is pushed as, due at once.
pub struct Given<'a> {
    pub plugin: &'a str,
    pub config: Value,
    pub grants: &'a [String],
    pub key: &'a str,
    pub payload: Value,
}

/// What became of it.
pub struct End {
    pub timer: Value,
    pub compensations: Vec<Value>,
    /// What happened to it, in order.
    pub kinds: Vec<String>,
    /// The server's metrics.
    pub metrics: String,
}

/// Kind and payload of each compensation that was decided, in order.
pub fn payloads(decision: &Decision) -> Vec<(&str, &str)> {
    decision.effects.compensations.iter().map(|c| (c.kind.as_str(), c.payload.as_str())).collect()
}

/// Waits until the timer is settled and its compensations are through.
pub fn run_to_the_end(given: Given) -> End {
    run_to_the_end_with(given, |_, _| {})
}

/// The same, with what an operator does before: on the server, with a folder for files.
pub fn run_to_the_end_with(given: Given, before: impl FnOnce(&Dev, &std::path::Path)) -> End {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions {
        folder: folder.path().to_owned(),
        env: [("INITIAL", "10ms"), ("MAX", "20ms")]
            .map(|(name, value)| (format!("LAPSE_COMPENSATION__{name}"), value.to_owned()))
            .into(),
        args: vec!["--no-demo".into()],
        ..DevOptions::default()
    });
    before(&dev, folder.path());
    let file = format!("{}/plugins/dist/{}.wasm", env!("CARGO_MANIFEST_DIR"), given.plugin);
    let mut push: Vec<String> = ["plugin", "push", &file, "--type", given.plugin].map(Into::into).into();
    for (name, value) in given.config.as_object().unwrap() {
        push.extend(["--config".to_owned(), format!("{name}={value}")]);
    }
    push.extend(given.grants.iter().flat_map(|grant| ["--grant".to_owned(), grant.clone()]));
    dev.json(&push.iter().map(String::as_str).collect::<Vec<_>>());

    let payload = given.payload.to_string();
    let register = ["timer", "register", "--type", given.plugin, "--key", given.key, "--delay", "0s", "--payload"];
    let id = dev.json(&[&register[..], &[&payload]].concat())["id"].as_str().unwrap().to_owned();
    let timer = || dev.json(&["timer", "get", &id]);
    eventually("the timer is settled", || timer()["run_at"].is_null());
    let compensations = || dev.json(&["compensation", "list", "--timer", &id])["items"].as_array().unwrap().clone();
    eventually("its compensations are through", || {
        compensations().iter().all(|c| c["state"] != "pending" && c["state"] != "running")
    });
    let events = dev.json(&["timer", "events", &id]);
    let kinds = events["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap().to_owned()).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Another test of this process may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!("{}/metrics", dev.url);
    let metrics = runtime.block_on(async { reqwest::get(url).await.unwrap().text().await.unwrap() });
    End { timer: timer(), compensations: compensations(), kinds, metrics }
}
