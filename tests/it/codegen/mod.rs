//! Typed helpers for callers' own timer types. That the text compiles, and works against a server, is held by
//! `make sdk-test`, on the same schemas.

use insta::{assert_snapshot, with_settings};
use lapse::codegen::{Language, TimerType, generate};
use serde_json::{Map, Value, json};

const SCHEMAS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sdk/types/schemas.json"));

fn one(schema: Value) -> [String; 2] {
    let types = [TimerType { name: "t".into(), payload_schema: schema }];
    [Language::TypeScript, Language::Python].map(|language| generate(language, &types))
}

#[test]
fn payloads_become_types() {
    let schemas: Map<String, Value> = serde_json::from_str(SCHEMAS).unwrap();
    let types = schemas.into_iter().map(|(name, payload_schema)| TimerType { name, payload_schema });
    let types: Vec<TimerType> = types.filter(|one| ["alert", "payout"].contains(&one.name.as_str())).collect();
    with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        assert_snapshot!("typescript", generate(Language::TypeScript, &types));
        assert_snapshot!("python", generate(Language::Python, &types));
    });
}

/// Whatever a schema says stays within its comment or literal.
#[test]
fn nothing_of_a_schema_is_code() {
    let evil = "x */ evil() /* \"\"\" \\ \n\r\u{2028} evil() # \u{202e} \" ' ` ${evil()} {evil()}";
    let schema = json!({"description": evil, "properties": {evil: {"description": evil, "const": evil}}});
    for text in one(schema) {
        let lines = text.lines().filter(|line| line.contains("evil()"));
        for line in lines {
            let line = line.trim();
            let is_comment = line.starts_with("/** ") && line.ends_with(" */") && line.matches("*/").count() == 1;
            let is_docstring =
                line.starts_with("\"\"\"") && line.matches("\"\"\"").count() == 2 && line.ends_with("\"\"\"");
            // Within quotes that it does not close: each of its own is escaped.
            let unescaped = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
            assert!(is_comment || is_docstring || unescaped % 2 == 0, "{line}");
            assert!(!line.contains(['\u{2028}', '\u{202e}']), "{line:?}");
        }
        assert!(text.matches("evil()").count() >= 3);
    }
}

/// What refers to itself, nests deep or is large ends somewhere.
#[test]
fn every_schema_has_an_end() {
    let mut deep = json!({"type": "string"});
    for i in 0..50 {
        deep = json!({"type": "object", "properties": {format!("p{i}"): deep}});
    }
    let wide: Map<String, Value> =
        (0..2000).map(|i| (format!("p{i}"), json!({"properties": {"a": {"type": "string"}}}))).collect();
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}], "type": "object", "required": ["a"]}),
        json!({"allOf": [{"$ref": "#/allOf/0"}, {"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {"$ref": "#"}}}),
        json!({"oneOf": [{"properties": {"a": {"anyOf": [{"$ref": "#"}]}}}], "properties": {"b": {"$ref": "#/oneOf/0"}}}),
        json!({"properties": {"a": {"$ref": "https://example.com/schema"}, "b": {"$ref": "#/nowhere"}}}),
        json!({"type": ["object", "array", "elephant"], "items": {"$ref": "#"}, "properties": []}),
        json!(false),
        deep,
        json!({"properties": wide}),
    ] {
        for text in one(schema) {
            assert!(text.len() < 400_000, "{} bytes", text.len());
        }
    }
}
