//! From `plugin new` to a live type that closes a timer, in each language, as a user would.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::dev::{Dev, DevOptions, lapse, run};

/// In the project's folder. Rust's standard library is not built for the target once more.
fn call(dir: &Path, args: &[&str]) -> Output {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/plugins/target");
    lapse().args(args).current_dir(dir).env("CARGO_TARGET_DIR", target).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn new(folder: &Path, lang: &str) -> PathBuf {
    let made = run(folder, &["plugin", "new", "my-plugin", "--lang", lang, "--json"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let again = run(folder, &["plugin", "new", "my-plugin", "--lang", lang]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is there already"));
    folder.join("my-plugin")
}

/// Pushed to a server of its own, as the type `mine`, with what a check of it said.
fn close_a_timer(folder: &Path, dir: &Path, checked: &Value) -> Dev {
    let dev = Dev::start(DevOptions {
        folder: folder.to_owned(),
        args: vec!["--no-demo".into()],
        env: vec![("LAPSE_PLUGIN__COMPILE_TIMEOUT".into(), "10m".into())],
        ..DevOptions::default()
    });
    let server = ["--server", &dev.url, "--token", &dev.token];
    // The same again changes nothing.
    for _ in 0..2 {
        let pushed = json_of(&call(dir, &[&["plugin", "push", "--type", "mine", "--json"], &server[..]].concat()));
        assert_eq!((&pushed["revision"], &pushed["digest"]), (&json!(1), &checked["digest"]), "what was checked");
    }
    let payload = r#"{"reservation_id": "R1", "item": "table 4"}"#;
    dev.json(&["timer", "register", "--type", "mine", "--key", "R1", "--delay", "1s", "--payload", payload]);
    let timer = dev.json(&["timer", "get", "--type", "mine", "--key", "R1", "--wait", "30s"]);
    assert_eq!((&timer["state"], &timer["outcome"]["result"]["released"]), (&json!("closed"), &json!("table 4")));
    dev
}

/// By itself, since a Python in WebAssembly takes its time to be compiled: once to check it, once on the server.
#[test]
fn a_new_plugin_in_python_is_checked_pushed_and_closes_a_timer() {
    let folder = tempfile::tempdir().unwrap();
    let dir = new(folder.path(), "python");
    // The one that the plugins here are built with, if it was made: else the project makes its own.
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/.venv");
    if made.is_dir() {
        std::os::unix::fs::symlink(made, folder.path().join(".venv")).unwrap();
    }
    let checked = call(&dir, &["plugin", "check", "--json"]);
    let report = json_of(&checked);
    assert!(checked.status.success(), "{report}");
    assert_eq!((&report["manifest"]["name"], report["samples"].as_array().unwrap().len()), (&json!("my-plugin"), 2));
    close_a_timer(folder.path(), &dir, &report);
}

#[rstest]
#[case::rust("rust", "src/lib.rs")]
#[case::typescript("ts", "src/plugin.ts")]
fn a_new_plugin_is_checked_pushed_and_closes_a_timer(#[case] lang: &str, #[case] source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let dir = new(folder.path(), lang);
    let checked = call(&dir, &["plugin", "check", "--json"]);
    let report = json_of(&checked);
    assert!(checked.status.success(), "{report}");
    assert_eq!((&report["manifest"]["name"], report["samples"].as_array().unwrap().len()), (&json!("my-plugin"), 2));
    assert_eq!(report["purity"], "pure, always: its decision is one write");
    assert!(report["samples"][0]["cpu_us"].as_u64().unwrap() > 0 && report["size"].as_u64().unwrap() > 0);
    if lang == "ts" {
        let tested = std::process::Command::new("npm").arg("test").current_dir(&dir).output().unwrap();
        assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
    }

    let dev = close_a_timer(folder.path(), &dir, &report);
    let payload = r#"{"reservation_id": "R1", "item": "table 4"}"#;
    let dry = dev.json(&["type", "dry-run", "mine", "--payload", payload, "--attempt", "2"]);
    assert_eq!(dry["decision"]["result"]["released"], "table 4");

    // A mistake in its source is caught by its samples, and said where.
    let path = dir.join(source);
    let text = fs::read_to_string(&path).unwrap();
    let broken =
        text.replace("\"released\": payload.item", "\"released\": 4").replace("released: payload.item", "released: 4");
    assert_ne!(broken, text);
    fs::write(&path, broken).unwrap();
    let checked = call(&dir, &["plugin", "check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(
        said.contains("/decision/result/released\n  - \"table 4\"\n  + 4\n") && said.contains("1 of 2 samples"),
        "{said}"
    );
}

#[test]
fn a_sample_that_is_none_is_refused_where_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let component = concat!(env!("CARGO_MANIFEST_DIR"), "/plugins/dist/hostile.wasm");
    let check = |sample: Value| {
        fs::write(folder.path().join("s.json"), sample.to_string()).unwrap();
        let output = run(folder.path(), &["plugin", "check", component, "--samples", "s.json"]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let sample =
        |expect: Value| json!({"name": "n", "expiry": {"key": "k", "payload": {"do": "close"}}, "expect": expect});
    assert!(check(json!({"name": "n"})).contains("s.json is not a sample"));
    assert!(check(sample(json!({"decison": {}}))).contains("expect.decison"));
    // An expectation that names nothing would always hold.
    assert!(check(sample(json!({}))).contains("/expect"));
    let said = check(sample(json!({"failure": {"code": "x"}})));
    assert!(said.contains("/failure") && said.contains("\"outcome\":\"close\""), "{said}");
}
