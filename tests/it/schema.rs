//! Schemas that others write: what they mean, and what they may cost.

use lapse::schema::Schema;
use rstest::rstest;
use serde_json::{Value, json};

/// A chain of definitions, each of which refers to the next twice.
fn doubling(keyword: &str, links: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for n in 0..links {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        defs.insert(format!("d{n}"), json!({ keyword: [next, next] }));
    }
    defs.insert(format!("d{links}"), json!({ "type": "string" }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

/// Definitions that each lead to the next by a property.
fn long(links: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for n in 0..links {
        defs.insert(format!("d{n}"), json!({ "properties": { "p": { "$ref": format!("#/$defs/d{}", n + 1) } } }));
    }
    defs.insert(format!("d{links}"), json!({}));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

fn nested(inner: Value, levels: usize) -> Value {
    (0..levels).fold(inner, |inner, _| json!({ "allOf": [inner] }))
}

#[rstest]
#[case::any_of(doubling("anyOf", 40), "multiply")]
#[case::one_of(doubling("oneOf", 40), "multiply")]
#[case::all_of(doubling("allOf", 14), "multiply")]
#[case::behind_a_property(json!({ "properties": { "p": { "$ref": "#/$defs/d0" } }, "$defs": doubling("anyOf", 40)["$defs"] }), "multiply")]
#[case::behind_a_name_that_moves(json!({ "$id": "https://x.example/a", "$ref": "b#/$defs/d0",
    "$defs": { "b": { "$id": "b", "$defs": doubling("anyOf", 40)["$defs"] } } }), "multiply")]
#[case::what_is_left_over((0..20).fold(json!({ "properties": { "p": {} } }), |inner, _| json!({ "allOf": [inner], "unevaluatedProperties": false })), "multiply")]
#[case::a_loop(json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] }), "leads back")]
#[case::a_loop_of_two(json!({ "$ref": "#/$defs/a", "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "$ref": "#/$defs/a" } } }), "leads back")]
#[case::too_many(long(5_000), "2000 subschemas")]
#[case::elsewhere(json!({ "$ref": "https://example.com/other.json" }), "example.com")]
#[case::nowhere(json!({ "$ref": "#/$defs/none" }), "none")]
#[case::dynamic(json!({ "$dynamicRef": "#node" }), "$dynamicRef")]
#[case::no_schema(json!({ "type": "strin" }), "not valid")]
#[case::looks_ahead(json!({ "pattern": "^(?=a)b" }), "pattern")]
#[case::a_huge_pattern(json!({ "pattern": "((\\p{L}{1,100}){1,100}){1,100}" }), "pattern")]
fn what_could_cost_without_end_is_refused(#[case] schema: Value, #[case] why: &str) {
    let said = Schema::compile(&schema).expect_err("it was taken");
    assert!(said.contains(why), "{said}");
}

#[rstest]
#[case::a_tree(
    json!({ "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } }, "additionalProperties": false }),
    json!({ "left": { "left": {}, "right": { "right": {} } } }),
    json!({ "left": { "middle": {} } })
)]
#[case::by_a_name_of_its_own(
    json!({ "$id": "T0", "type": "object", "properties": { "next": { "$ref": "T0" } }, "required": ["n"] }),
    json!({ "n": 1, "next": { "n": 2 } }),
    json!({ "n": 1, "next": {} })
)]
#[case::by_an_anchor(
    json!({ "items": { "$ref": "#line" }, "$defs": { "a": { "$anchor": "line", "type": "integer" } } }),
    json!([1, 2]),
    json!([1, "two"])
)]
#[case::an_expression(
    json!({ "anyOf": [{ "type": "integer" }, { "type": "array", "items": { "$ref": "#" } }, { "type": "object", "additionalProperties": { "$ref": "#" } }] }),
    json!([1, [2, { "a": [3] }]]),
    json!([1, ["x"]])
)]
#[case::wide(
    json!({ "properties": (0..500).map(|n| (format!("p{n}"), json!({ "type": "integer", "minimum": n }))).collect::<serde_json::Map<_, _>>() }),
    json!({ "p499": 499 }),
    json!({ "p499": 498 })
)]
#[case::a_pattern(json!({ "pattern": "^(a+)+$" }), json!("a".repeat(60_000)), json!("a".repeat(60_000) + "!"))]
fn what_schemas_say_is_checked(#[case] schema: Value, #[case] fits: Value, #[case] does_not: Value) {
    let schema = Schema::compile(&schema).unwrap();
    assert_eq!(schema.check(&fits, "/payload"), Ok(()));
    assert!(schema.takes(&fits) && !schema.takes(&does_not));
    let faults = schema.check(&does_not, "/payload").unwrap_err();
    assert!(faults[0].pointer.starts_with("/payload"), "{faults:?}");
}

/// Each level of the value doubles what has to be looked at.
#[test]
fn a_value_that_would_take_too_long_is_refused_unchecked() {
    let branch = json!({ "items": { "$ref": "#" }, "minItems": 1 });
    let schema = Schema::compile(&json!({ "anyOf": [branch, branch] })).unwrap();
    let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(schema.check(&deep(8), ""), Ok(()));
    let faults = schema.check(&deep(100), "/payload").unwrap_err();
    assert_eq!((faults.len(), faults[0].pointer.as_str(), faults[0].code.as_str()), (1, "/payload", "too_costly"));
    assert!(!schema.takes(&deep(100)));
}

#[test]
fn a_value_with_very_many_faults_has_few_of_them_named() {
    let branches: Vec<Value> = (0..20).map(|n| json!({ "type": "string", "minLength": n + 1 })).collect();
    let schema = Schema::compile(&json!({ "items": { "anyOf": branches } })).unwrap();
    let few = schema.check(&json!(vec![0; 100]), "").unwrap_err();
    assert_eq!((few.len(), few[0].pointer.as_str()), (50, "/0"));
    let many = schema.check(&json!(vec![0; 30_000]), "/payload").unwrap_err();
    assert_eq!((many.len(), many[0].pointer.as_str(), many[0].code.as_str()), (1, "/payload", "schema"));
    assert_eq!(schema.check(&json!(vec!["x".repeat(20); 1_000]), ""), Ok(()));
}

/// On a stack as the server's threads have it, in the deepest way that is let through.
#[test]
fn the_deepest_value_fits_on_the_stack() {
    let check = || {
        let schema = json!({ "properties": { "next": { "allOf": [{ "$ref": "#" }] } }, "required": ["n"] });
        let schema = Schema::compile(&schema).unwrap();
        let list = |end: Value| (0..120).fold(end, |next, n| json!({ "n": n, "next": next }));
        assert_eq!(schema.check(&list(json!({ "n": 0 })), ""), Ok(()));
        assert_eq!(schema.check(&list(json!({})), "").unwrap_err()[0].code, "required");
        drop(schema);
        let widest = Schema::compile(&nested(json!({ "type": "integer" }), 100)).unwrap();
        assert_eq!(widest.check(&json!(1), ""), Ok(()));
        drop(Schema::compile(&long(900)).unwrap());
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
}
