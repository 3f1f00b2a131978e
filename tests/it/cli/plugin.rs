//! Plugins, migrations and a server by hand.

use std::{fs, io::BufRead as _, path::PathBuf, process::Stdio};

use serde_json::{Value, json};

use crate::support::dev::{Dev, DevOptions, eventually, lapse, run};

fn component() -> String {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/plugins/dist/order-timeout.wasm"));
    assert!(file.is_file(), "{} is missing: make plugins", file.display());
    file.display().to_string()
}

fn order() -> String {
    json!({ "order_id": "P", "user_id": "u", "total_amount": 5, "payment_method": "online",
        "items": [{ "sku": "tea", "quantity": 2 }], "coupon_ids": ["c1", "c2"] })
    .to_string()
}

const CONFIG: [&str; 4] = ["--config", "inventory_url=http://i", "--config", "coupon_url=http://c"];

#[test]
fn check_says_what_a_component_is_decides_and_costs() {
    let folder = tempfile::tempdir().unwrap();
    let component = component();
    let order = order();
    let check = |more: &[&str]| run(folder.path(), &[&["plugin", "check", &component, "--json"], more].concat());
    let output = check(&[&["--payload", &order, "--runs", "5"], &CONFIG[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["manifest"]["name"], "order-timeout");
    assert_eq!(report["size"], fs::metadata(&component).unwrap().len());
    assert!(report["purity"].as_str().unwrap().starts_with("pure, unless"));
    let sample = &report["sample"];
    assert_eq!(sample["decision"]["outcome"], "close");
    let kinds: Vec<_> = sample["decision"]["compensations"].as_array().unwrap().iter().map(|c| &c["kind"]).collect();
    assert_eq!(kinds, ["release_inventory", "return_coupon", "return_coupon"]);
    assert!(sample["cpu_us_p50"].as_u64().unwrap() > 0 && sample["memory_bytes"].as_u64().unwrap() > 0);

    // Checked against an order service, it wants to call it: which a check denies.
    let acting = [&["--payload", &order, "--config", "order_url=http://o", "--runs", "1"], &CONFIG[..]].concat();
    let output = check(&acting);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["sample"]["failure"].is_object() && !report["sample"]["denied"].as_array().unwrap().is_empty());

    let output = check(&["--payload", "{\"order_id\": 5}"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("/order_id"));
    fs::write(folder.path().join("no.wasm"), b"no component").unwrap();
    let output = run(folder.path(), &["plugin", "check", "no.wasm"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: no.wasm: "));
}

#[test]
fn build_says_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["plugin", "build", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere"));
}

#[test]
fn push_makes_a_type_of_a_component() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions {
        folder: folder.path().to_owned(),
        args: vec!["--no-demo".into()],
        ..DevOptions::default()
    });
    let component = component();
    // What it cannot do without is asked for.
    let push = [&["plugin", "push", &component, "--type", "mine"], &CONFIG[..]].concat();
    let refused = dev.run(&push);
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(stderr.contains("(grant_missing)") && stderr.contains("--grant"), "{stderr}");
    let granted = [&push[..], &["--grant", "http:127.0.0.1:9", "--default-delay", "1h"]].concat();
    let first = dev.json(&granted);
    assert_eq!(
        (&first["name"], &first["revision"], &first["default_delay"]),
        (&json!("mine"), &json!(1), &json!("1h"))
    );
    assert_eq!(first["grants"], json!(["compensate:http:127.0.0.1:9"]));
    assert_eq!(dev.json(&granted)["revision"], 1, "the same again changes nothing");
    // A right that was taken away stays so, whatever is pushed, and the push says it.
    let said = |args: &[&str]| String::from_utf8(dev.run(args).stdout).unwrap();
    dev.json(&["type", "revoke", "mine", "http:127.0.0.1:9"]);
    let warned = said(&granted);
    let advice = "`lapse type restore mine compensate:http:127.0.0.1:9` gives them back";
    assert!(warned.contains(advice), "{warned}");
    dev.json(&["type", "restore", "mine", "compensate:http:127.0.0.1:9"]);
    assert!(!said(&granted).contains("revoked"));
    assert_eq!(dev.json(&["plugin", "list"])["items"].as_array().unwrap().len(), 1);
    let timer = dev.json(&["timer", "register", "--type", "mine", "--key", "k", "--payload", &order()]);
    assert_eq!(timer["state"], "scheduled");
    let shown = String::from_utf8(dev.run(&["type", "show", "mine"]).stdout).unwrap();
    assert!(shown.contains("inventory_url") && shown.contains("compensate:http:127.0.0.1:9"), "{shown}");
}

/// A dead compensation is listed, shown with its error, and sent back by hand.
#[test]
fn a_dead_compensation_is_redriven_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions {
        folder: folder.path().to_owned(),
        env: [("ATTEMPTS", "2"), ("INITIAL", "10ms"), ("MAX", "20ms")]
            .map(|(name, value)| (format!("LAPSE_COMPENSATION__{name}"), value.to_owned()))
            .into(),
        ..DevOptions::default()
    });
    let shop = lapse::client::Client::new(&dev.shop, None).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fail = json!({ "fail_next": 2, "status": 503 });
    let _: Value = runtime.block_on(shop.post("faults", &fail)).unwrap();
    let payload = json!({ "order_id": "D", "user_id": "u", "total_amount": 5, "payment_method": "online",
        "items": [{ "sku": "tea", "quantity": 2 }] })
    .to_string();
    let register = ["timer", "register", "--type", "order-timeout", "--key", "D", "--delay", "0s", "--payload"];
    dev.json(&[&register[..], &[&payload]].concat());
    let dead = || dev.json(&["compensation", "list", "--state", "dead"])["items"].as_array().unwrap().clone();
    eventually("the compensation is dead", || !dead().is_empty());
    let id = dead()[0]["id"].as_str().unwrap().to_owned();
    let shown = String::from_utf8(dev.run(&["compensation", "show", &id]).stdout).unwrap();
    assert!(shown.contains("last error") && shown.contains("503"), "{shown}");
    dev.json(&["compensation", "redrive", &id, "--note", "the shop is back"]);
    eventually("the compensation is done", || dev.json(&["compensation", "show", &id])["state"] == "done");
    let calls: Value = runtime.block_on(shop.get("calls", &[])).unwrap();
    assert_eq!((&calls[&id]["calls"], &calls[&id]["effects"]), (&json!(3), &json!(1)), "one key over all attempts");
}

#[test]
fn migrations_go_up_and_down() {
    let folder = tempfile::tempdir().unwrap();
    let migrate = |args: &[&str]| {
        let output = run(folder.path(), &[&["migrate"], args, &["--data", "data", "--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        rows
    };
    let all = migrate(&["status"]).len();
    assert!(migrate(&["status"]).iter().all(|m| m["applied_at"].is_null()));
    assert_eq!(migrate(&["up"]).len(), all);
    assert_eq!(migrate(&["up"]).len(), 0);
    assert!(migrate(&["status"]).iter().all(|m| m["applied_at"].is_string()));
    assert_eq!(migrate(&["down", "--to", "0", "--yes"]).len(), all);
    assert!(migrate(&["status"]).iter().all(|m| m["applied_at"].is_null()));
}

#[test]
fn the_printed_document_is_the_one_that_is_checked_in() {
    let output = run(&std::env::temp_dir(), &["openapi"]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json"));
    assert_eq!(printed, serde_json::from_str::<Value>(kept).unwrap());
}

#[test]
fn a_server_starts_with_a_key_from_a_file_and_stops_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), "a-key-of-my-own-choice\n").unwrap();
    let mut child = lapse()
        .args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--bootstrap-token-file", "key"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("Lapse listens on ").unwrap_or_else(|| panic!("it said {line:?}"));
    let output = run(folder.path(), &["key", "list", "--server", url, "--token", "a-key-of-my-own-choice"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("bootstrap"));
    let output = run(folder.path(), &["key", "list", "--server", url, "--token", "another"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--token"));
    // SAFETY: it is our own child, and has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
