//! The document that is checked in is the one that the handlers make.

use lapse::api;

#[test]
fn the_checked_in_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
    let checked_in = std::fs::read_to_string(path).unwrap();
    let made = api::document().to_pretty_json().unwrap() + "\n";
    assert!(
        checked_in == made,
        "openapi/openapi.json is not current: write it anew with `lapse openapi > openapi/openapi.json`"
    );
}
