//! `lapse dev`, from start to stop.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::dev::{Dev, DevOptions, LAPSE, eventually, lapse, run};

const README: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));

/// The first block of shell lines after a marker of the README.
fn lines_after(marker: &str) -> String {
    let (_, rest) = README.split_once(marker).unwrap_or_else(|| panic!("the README has no {marker}"));
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Pastes lines into a shell that finds this binary, a server and its shop.
fn paste(lines: &str, dev: &Dev) -> String {
    let bin = Path::new(LAPSE).parent().unwrap().display();
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &lines.replace("http://127.0.0.1:8081", &dev.shop)])
        .current_dir(dev.folder())
        .env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()))
        .env("LAPSE_SERVER_URL", &dev.url)
        .env_remove("LAPSE_TOKEN")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{lines}\n{stdout}\n{stderr}\n{}", dev.log());
    stdout.into_owned()
}

#[test]
fn the_readmes_lines_close_an_order_and_sigterm_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    // The key is found in the folder: the lines name none.
    let said = paste(&lines_after("<!-- try -->"), &dev);
    assert!(said.contains("\"state\":\"closed\""), "the shop's order is closed: {said}");
    assert!(said.contains("\"tea\":{\"available\":100,\"released\":2}"), "its stock is back: {said}");

    let timer = dev.json(&["timer", "get", "--type", "order-timeout-checked", "--key", "A17"]);
    assert_eq!(timer["state"], "closed");
    let id = timer["id"].as_str().unwrap();
    let events = dev.json(&["timer", "events", id]);
    let kinds: Vec<_> = events["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "registered");
    assert!(kinds.contains(&"claimed") && kinds.contains(&"closed"), "{kinds:?}");
    eventually("its compensation is done", || {
        let page = dev.json(&["compensation", "list", "--timer", id]);
        page["items"].as_array().unwrap().iter().all(|c| c["state"] == "done" && c["kind"] == "release_inventory")
    });
    let status = dev.terminate();
    assert_eq!(status.code(), Some(0), "{}", dev.log());
}

#[test]
fn everything_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    let token = dev.token.clone();
    let file = folder.path().join("lapse-data/token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let payload = json!({ "order_id": "K", "user_id": "u", "total_amount": 1, "payment_method": "online",
        "items": [{ "sku": "tea", "quantity": 1 }] })
    .to_string();
    let args = ["timer", "register", "--type", "order-timeout", "--key", "K", "--payload", &payload, "--delay", "1h"];
    let before = dev.json(&args);
    dev.restart();
    assert_eq!(dev.token, token, "the key is the same");
    let after = dev.json(&args);
    assert_eq!(
        (&after["id"], &after["due_at"], &after["version"]),
        (&before["id"], &before["due_at"], &before["version"])
    );
    // The shop has another port now, and the types know it.
    let shown = dev.json(&["type", "show", "order-timeout"]);
    assert!(shown["config"]["inventory_url"].as_str().unwrap().starts_with(&dev.shop), "{shown}");
}

#[test]
fn a_second_one_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    for more in [&["--demo-shop", "127.0.0.1:0"][..], &["--no-demo"]] {
        let args = [&["dev", "--listen", "127.0.0.1:0"], more].concat();
        let output = run(folder.path(), &args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains("in use by another process") || stderr.contains("another `lapse dev` runs"),
            "{stderr}"
        );
        assert!(stderr.contains("data"), "{stderr}");
    }
    assert_eq!(dev.json(&["type", "list"])["items"].as_array().unwrap().len(), 2, "the first one is unharmed");
}

#[test]
fn what_is_missing_or_wrong_at_the_start_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--plugins", "nowhere"], "order-timeout.wasm, which is not in nowhere"),
        (&["--token", "short"], "at least 16 visible ASCII characters"),
        (&["--demo-shop", "127.0.0.1:0", "--no-demo"], "cannot be used with"),
        (&["--shop-url", "tea"], "is not an address like"),
    ];
    for (args, said) in cases {
        let output = run(folder.path(), &[&["dev", "--listen", "127.0.0.1:0"], args].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(said), "{args:?} said {stderr}");
    }
}

/// Another key than the folder's is not taken, and says so; a key that is given first is kept.
#[test]
fn a_given_key_is_kept_and_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let given = "a-key-of-my-own-choice";
    let options = |args: &[&str]| DevOptions {
        folder: folder.path().to_owned(),
        args: args.iter().map(|a| (*a).to_owned()).collect(),
        ..DevOptions::default()
    };
    let mut dev = Dev::start(options(&["--no-demo", "--token", given]));
    assert_eq!(dev.token, given);
    dev.terminate();
    let output =
        run(folder.path(), &["dev", "--no-demo", "--listen", "127.0.0.1:0", "--token", "another-key-altogether"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("was started with another key than --token"), "{stderr}");
    let dev = Dev::start(options(&["--no-demo"]));
    assert_eq!(dev.token, given);
}

#[test]
fn a_server_without_any_key_does_not_start_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("LAPSE_BOOTSTRAP_TOKEN"), "{stderr}");
}

#[test]
fn keys_types_and_actions_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    // A key that may only look.
    let key = dev.json(&["key", "create", "--name", "eyes", "--role", "reader"]);
    let reader = |args: &[&str]| {
        lapse()
            .args(args)
            .env("LAPSE_SERVER_URL", &dev.url)
            .env("LAPSE_TOKEN", key["secret"].as_str().unwrap())
            .output()
            .unwrap()
    };
    assert!(reader(&["type", "list"]).status.success());
    let payload = json!({ "order_id": "H", "user_id": "u", "total_amount": 1, "payment_method": "wallet",
        "items": [{ "sku": "tea", "quantity": 1 }] })
    .to_string();
    let target = ["--type", "order-timeout", "--key", "H/1 ключ"];
    let register =
        [&["timer", "register"], &target[..], &["--payload", &payload, "--delay", "1h", "--label", "shop=main"]]
            .concat();
    let refused = reader(&register);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("role does not reach so far"));
    dev.json(&["key", "revoke", key["id"].as_str().unwrap()]);
    eventually("the revoked key is refused", || !reader(&["type", "list"]).status.success());

    let timer = dev.json(&register);
    let version = timer["version"].to_string();
    let moved =
        dev.json(&[&["timer", "reschedule"], &target[..], &["--delay", "2h", "--if-version", &version]].concat());
    assert_ne!(moved["due_at"], timer["due_at"]);
    let stale = dev.run(&[&["timer", "cancel"], &target[..], &["--if-version", &version]].concat());
    assert_eq!(stale.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&stale.stderr).contains("version_conflict"));
    let found = dev.json(&["timer", "list", "--label", "shop=main", "--state", "scheduled"]);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let resolved = dev.json(&[&["timer", "resolve"], &target[..], &["--reason", "paid"]].concat());
    assert_eq!(resolved["state"], "resolved");
    let late = dev.run(&[&["timer", "fire"], &target[..], &["--json"]].concat());
    let error: Value = serde_json::from_slice(&late.stderr).unwrap();
    assert_eq!(
        (&error["error"]["problem"]["code"], &error["error"]["problem"]["timer"]["state"]),
        (&json!("too_late"), &json!("resolved"))
    );
    // A payment that overtakes its registration.
    dev.json(&["timer", "resolve", "--type", "order-timeout", "--key", "early", "--remember"]);
    let registered =
        dev.json(&["timer", "register", "--type", "order-timeout", "--key", "early", "--payload", &payload]);
    assert_eq!(registered["state"], "resolved");

    // Tables hold what JSON holds.
    let table = String::from_utf8(dev.run(&["timer", "list"]).stdout).unwrap();
    assert!(table.starts_with("ID") && table.contains("H/1 ключ") && table.contains("resolved"), "{table}");
}

/// Small, since it is the checks that are tested and not the speed.
#[test]
fn bench_measures_and_checks() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    let registered = dev.json(&["bench", "register", "--count", "300", "--concurrency", "16"]);
    assert_eq!((&registered["registered"], &registered["failed"]), (&300.into(), &0.into()));
    let expired = dev.json(&["bench", "expire", "--rate", "100", "--seconds", "2", "--ahead", "4s"]);
    assert_eq!((&expired["closed"], &expired["unsettled"], &expired["early"]), (&200.into(), &0.into(), &0.into()));
    let race = dev.json(&["bench", "race", "--type", "order-timeout-checked", "--count", "60", "--shop", &dev.shop]);
    assert_eq!(race["violations"], 0, "{race}");
    let sides: BTreeMap<_, _> = ["resolved", "too_late"].map(|s| (s, race[s].as_u64().unwrap())).into();
    assert_eq!(sides.values().sum::<u64>(), 60);
}
