//! The document that is checked in is the one that the handlers make, and generators of clients can read it.

use std::collections::BTreeSet;

use lapse::api;
use serde_json::Value;

#[test]
fn the_checked_in_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
    let checked_in = std::fs::read_to_string(path).unwrap();
    let made = api::document().to_pretty_json().unwrap() + "\n";
    assert!(checked_in == made, "openapi/openapi.json is not current: write both documents anew with `make openapi`");
}

/// What generators stumble over, with its place.
fn odd(value: &Value, place: &str, found: &mut Vec<String>) {
    if let Value::Array(items) = value {
        items.iter().enumerate().for_each(|(i, v)| odd(v, &format!("{place}/{i}"), found));
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        let is_alternative = matches!(name.as_str(), "oneOf" | "anyOf" | "allOf" | "nullable");
        if is_alternative || (name == "type" && member.is_array()) {
            found.push(place.clone());
        }
        odd(member, &place, found);
    }
}

#[test]
fn the_document_keeps_to_what_generators_read() {
    let document = serde_json::to_value(api::document()).unwrap();
    let mut found = Vec::new();
    odd(&document, "", &mut found);
    assert!(found.is_empty(), "alternatives and nulls: {found:#?}");
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is there twice");
            let (verb, noun) = id.split_once('_').unwrap();
            assert!(!verb.is_empty() && !noun.is_empty(), "{id} is not a verb and a noun");
            assert!(operation["summary"].as_str().is_some_and(|s| s.ends_with('.')), "{id} is not explained");
            let responses = operation["responses"].as_object().unwrap();
            let bodies: BTreeSet<String> = responses
                .iter()
                .filter(|(status, _)| status.starts_with('2'))
                .map(|(_, r)| r["content"].to_string())
                .collect();
            assert_eq!(bodies.len(), 1, "{id} has one body of success");
            for range in ["4XX", "5XX"] {
                let schema = &responses[range]["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{id} {range}");
            }
            let named: BTreeSet<&str> = path.split('{').skip(1).filter_map(|p| p.split('}').next()).collect();
            let given = operation["parameters"].as_array().into_iter().flatten();
            let given: BTreeSet<&str> =
                given.filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap()).collect();
            assert_eq!(given, named, "{method} {path}");
            let is_public = operation["x-lapse"]["roles"][0] == "public";
            let is_idempotent = operation["x-lapse"]["idempotent"].as_bool().unwrap();
            assert!(is_idempotent || method == "post", "{id}: only a POST may not be repeated");
            assert_eq!(operation["security"][0]["bearer"].is_array(), !is_public, "{id} and its key");
        }
    }
}
