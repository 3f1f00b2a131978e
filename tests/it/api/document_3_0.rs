//! The 3.0.3 document is the one that is derived from the 3.1 one, and the pickiest generator of clients, progenitor,
//! can read it.

use std::collections::BTreeSet;

use lapse::api;
use serde_json::{Value, json};

#[test]
fn the_checked_in_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi-3.0.json");
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    let made = serde_json::to_string_pretty(&api::document_3_0()).unwrap() + "\n";
    assert!(
        checked_in == made,
        "openapi/openapi-3.0.json is not current: write both documents anew with `make openapi`"
    );
}

/// Every keyword that a Schema Object of 3.0.3 may have, in the specification's order.
const KEYWORDS: &str = "title multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern \
    maxItems minItems uniqueItems maxProperties minProperties required enum type allOf oneOf anyOf not items properties \
    additionalProperties description format default nullable discriminator readOnly writeOnly xml externalDocs example \
    deprecated";

/// What is wrong with a schema, with its place.
fn odd(schema: &Value, place: &str, found: &mut Vec<String>) {
    let Some(schema) = schema.as_object() else {
        return found.push(format!("{place} is no object"));
    };
    if schema.contains_key("$ref") {
        if schema.len() > 1 {
            found.push(format!("{place}: what stands beside a $ref is ignored"));
        }
        return;
    }
    let known: BTreeSet<&str> = KEYWORDS.split_whitespace().collect();
    for keyword in schema.keys().filter(|k| !known.contains(k.as_str()) && !k.starts_with("x-")) {
        found.push(format!("{place}: 3.0.3 has no keyword {keyword}"));
    }
    if !schema.get("type").is_none_or(Value::is_string) {
        found.push(format!("{place}: several types"));
    }
    for alternative in ["oneOf", "anyOf", "nullable"].into_iter().filter(|k| schema.contains_key(*k)) {
        found.push(format!("{place}: {alternative}"));
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        odd(property, &format!("{place}/properties/{name}"), found);
    }
    for (i, part) in schema.get("allOf").and_then(Value::as_array).into_iter().flatten().enumerate() {
        odd(part, &format!("{place}/allOf/{i}"), found);
    }
    let rest = schema.get("additionalProperties").filter(|s| !s.is_boolean());
    for nested in schema.get("items").into_iter().chain(rest) {
        odd(nested, &format!("{place}/…"), found);
    }
}

/// The bodies of an operation's answers whose status begins with one of these digits.
fn bodies(operation: &Value, digits: &[char]) -> BTreeSet<String> {
    let responses = operation["responses"].as_object().unwrap();
    let these = responses.iter().filter(|(status, _)| status.starts_with(digits));
    these.map(|(_, response)| response["content"].to_string()).collect()
}

#[test]
fn the_document_keeps_to_what_progenitor_reads() {
    let document = api::document_3_0();
    assert_eq!(document["openapi"], "3.0.3");
    assert!(document["info"]["license"].get("identifier").is_none());
    let mut found = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        odd(schema, name, &mut found);
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no id"));
            assert_eq!(bodies(operation, &['2']).len(), 1, "{id} has one body of success");
            assert_eq!(bodies(operation, &['4', '5']).len(), 1, "{id} has one body of failure");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert_ne!(parameter["in"], "cookie", "{id}");
                odd(&parameter["schema"], &format!("{id} {}", parameter["name"]), &mut found);
            }
            let media = |of: &Value| of["content"].as_object().cloned().unwrap_or_default();
            for (kind, content) in media(&operation["requestBody"]) {
                assert!(["application/json", "application/octet-stream"].contains(&kind.as_str()), "{id}: {kind}");
                odd(&content["schema"], &format!("{id} body"), &mut found);
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                for (_, content) in media(response) {
                    odd(&content["schema"], &format!("{id} {status}"), &mut found);
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Each difference between the two versions, and what must not be taken for one.
#[test]
fn what_3_0_says_otherwise_is_said_so() {
    for (newer, older) in [
        (
            json!({"type": ["string", "null"], "maxLength": 3}),
            json!({"type": "string", "nullable": true, "maxLength": 3}),
        ),
        (json!({"type": ["string", "integer"]}), json!({"anyOf": [{"type": "string"}, {"type": "integer"}]})),
        (json!({"type": "null"}), json!({"nullable": true, "enum": [null]})),
        (json!({"const": "a"}), json!({"enum": ["a"]})),
        (json!({"exclusiveMinimum": 0}), json!({"minimum": 0, "exclusiveMinimum": true})),
        (json!({"exclusiveMinimum": 0, "minimum": 1}), json!({"minimum": 1})),
        (json!({"exclusiveMaximum": 9, "maximum": 9}), json!({"maximum": 9, "exclusiveMaximum": true})),
        (json!({"examples": ["a", "b"]}), json!({"example": "a"})),
        (json!({"$ref": "#/components/schemas/A"}), json!({"$ref": "#/components/schemas/A"})),
        (
            json!({"$ref": "#/components/schemas/A", "description": "d"}),
            json!({"allOf": [{"$ref": "#/components/schemas/A"}], "description": "d"}),
        ),
        (json!({"contentEncoding": "base64"}), json!({"type": "string", "format": "byte"})),
        (json!({"contentMediaType": "application/octet-stream"}), json!({"type": "string", "format": "binary"})),
        (json!({"type": "array", "prefixItems": [true]}), json!({"type": "array", "items": {}})),
        (json!({"items": true, "not": false}), json!({"items": {}, "not": {"not": {}}})),
        (
            json!({"properties": {"const": {"const": 1}, "type": true}, "additionalProperties": {"type": "null"}}),
            json!({"properties": {"const": {"enum": [1]}, "type": {}},
                "additionalProperties": {"nullable": true, "enum": [null]}}),
        ),
        (
            json!({"example": {"const": 1, "type": ["a"]}, "default": {"examples": []}, "propertyNames": {}}),
            json!({"example": {"const": 1, "type": ["a"]}, "default": {"examples": []}}),
        ),
    ] {
        let place = |schema: &Value| {
            json!({"a": {"post": {
                "parameters": [{"schema": schema}],
                "requestBody": {"content": {"x": {"schema": schema, "example": {"const": 1}}}},
                "responses": {"200": {"headers": {"h": {"schema": schema}}, "content": {"x": {"schema": schema}}}},
            }}})
        };
        let document = |version: &str, schema: &Value| {
            json!({"openapi": version, "info": {"title": "t"}, "paths": place(schema),
                "components": {"schemas": {"type": schema}}})
        };
        assert_eq!(api::to_3_0(document("3.1.0", &newer)), document("3.0.3", &older), "{newer}");
    }
}

/// A schema without an end would be one.
#[test]
fn nesting_has_a_bound() {
    let mut schema = json!({"const": 1});
    for _ in 0..100 {
        schema = json!({"not": schema});
    }
    let derived = api::to_3_0(json!({"components": {"schemas": {"deep": schema}}}));
    assert!(!derived.to_string().contains("const"));
}
