//! Registering a file against a real server.

use std::fs;

use serde_json::Value;

use crate::support::dev::{Dev, DevOptions};

const ORDERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/orders.ndjson");

fn summary(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn the_example_orders_load_and_each_refusal_has_its_line_and_code() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    let load = ["timer", "register", "--type", "order-timeout", "--file", ORDERS, "--json"];
    let output = dev.run(&load);
    assert_eq!(output.status.code(), Some(1), "some are refused");
    let first = summary(&output);
    assert_eq!(
        (&first["lines"], &first["registered"], &first["already"], &first["refused"]),
        (&1000.into(), &967.into(), &1.into(), &32.into())
    );
    let refusals: Vec<String> = first["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| format!("{} {} {}", r["line"], r["code"].as_str().unwrap(), r["detail"].as_str().unwrap()))
        .collect();
    insta::assert_snapshot!(refusals.join("\n"));

    // Again: nothing new, the same refusals.
    let second = summary(&dev.run(&load));
    assert_eq!((&second["registered"], &second["already"]), (&0.into(), &968.into()));
    assert_eq!(second["refusals"], first["refusals"]);

    // What was registered is there, byte for byte, however odd its key.
    for line in fs::read_to_string(ORDERS).unwrap().lines().take(16) {
        let line: Value = serde_json::from_str(line).unwrap();
        let timer = dev.json(&["timer", "get", "--type", "order-timeout", "--key", line["key"].as_str().unwrap()]);
        assert_eq!(timer["key"], line["key"]);
        assert_eq!(timer["payload"], line["payload"]);
    }
}

#[test]
fn a_file_may_be_a_stream_name_its_types_and_hold_what_is_no_json() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(DevOptions { folder: folder.path().to_owned(), ..DevOptions::default() });
    let order = |id: &str| {
        format!(
            r#"{{"order_id":"{id}","user_id":"u","total_amount":1,"payment_method":"online","items":[{{"sku":"s","quantity":1}}]}}"#
        )
    };
    let mut input = Vec::new();
    let mut line = |text: &[u8]| {
        input.extend_from_slice(text);
        input.push(b'\n');
    };
    line(format!(r#"{{"type":"order-timeout","key":".","payload":{},"delay":"1h"}}"#, order("dot")).as_bytes());
    line(b"");
    line(b"\xff\xfe");
    line(format!(r#"{{"key":"no type","payload":{}}}"#, order("x")).as_bytes());
    line("x".repeat(2 * 1024 * 1024).as_bytes());
    line(b"[]");
    // The last line needs no end.
    input.extend_from_slice(
        format!(r#"{{"type":"order-timeout","key":"last","payload":{},"delay":"1h"}}"#, order("last")).as_bytes(),
    );
    let output = dev.run_with_input(&["timer", "register", "--file", "-", "--json"], &input);
    let summary = summary(&output);
    let told: Vec<_> = summary["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["line"].as_u64().unwrap(), r["code"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(3, "malformed"), (4, "malformed"), (5, "too_large"), (6, "malformed")]);
    assert_eq!(summary["registered"], 2);
    // No path can hold this key, and yet it is reached.
    let timer = dev.json(&["timer", "cancel", "--type", "order-timeout", "--key", "."]);
    assert_eq!((&timer["key"], &timer["state"]), (&".".into(), &"cancelled".into()));
}
