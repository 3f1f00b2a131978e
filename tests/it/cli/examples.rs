//! The example orders.

use std::{path::Path, process::Command};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

/// What is checked in is what the generator makes.
#[test]
fn the_example_orders_are_current() {
    let made = Command::new("python3").arg("make_orders.py").current_dir(FOLDER).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let kept = std::fs::read(Path::new(FOLDER).join("orders.ndjson")).unwrap();
    assert!(made.stdout == kept, "run: python3 examples/make_orders.py > examples/orders.ndjson");
}
