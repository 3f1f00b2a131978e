//! The OpenAPI 3.0.3 document, derived from the 3.1 one: for generators of clients that read nothing newer.
//!
//! Only schemas differ by much. They are walked where the specification has schemas, and nowhere else: an example that
//! has a member `type`, or a property that is called `const`, is data and stays as it is.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// Keywords of JSON Schema 2020-12 that 3.0.3 does not have and that only narrow what fits: left out.
const UNKNOWN_KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$schema",
    "$vocabulary",
    "contains",
    "contentSchema",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// How deep a schema may nest; deeper is anything.
const MAX_DEPTH: usize = 64;

/// Derives the 3.0.3 document.
pub fn to_3_0(mut document: Value) -> Value {
    let Some(root) = document.as_object_mut() else { return document };
    root.insert("openapi".into(), "3.0.3".into());
    root.remove("jsonSchemaDialect");
    root.remove("webhooks");
    if let Some(info) = object(root, "info") {
        info.remove("summary");
        if let Some(license) = object(info, "license") {
            license.remove("identifier");
        }
    }
    if let Some(components) = object(root, "components") {
        components.remove("pathItems");
        members(components, "schemas", |s| schema(s, 0));
        members(components, "parameters", parameter);
        members(components, "headers", parameter);
        members(components, "requestBodies", contents);
        members(components, "responses", response);
    }
    // Required by 3.0, if only empty.
    root.entry("paths").or_insert_with(|| json!({}));
    members(root, "paths", |item| {
        let Some(item) = item.as_object_mut() else { return };
        items(item, "parameters", parameter);
        for (_, operation) in item.iter_mut().filter(|(name, _)| is_method(name)) {
            let Some(operation) = operation.as_object_mut() else { continue };
            items(operation, "parameters", parameter);
            if let Some(body) = operation.get_mut("requestBody") {
                contents(body);
            }
            members(operation, "responses", response);
        }
    });
    document
}

fn is_method(name: &str) -> bool {
    matches!(name, "get" | "put" | "post" | "delete" | "options" | "head" | "patch" | "trace")
}

fn object<'a>(parent: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    parent.get_mut(name)?.as_object_mut()
}

fn members(parent: &mut Object, name: &str, change: impl FnMut(&mut Value)) {
    object(parent, name).into_iter().flat_map(Map::values_mut).for_each(change);
}

fn items(parent: &mut Object, name: &str, change: impl FnMut(&mut Value)) {
    parent.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().for_each(change);
}

/// A parameter or a header.
fn parameter(parameter: &mut Value) {
    if let Some(schema_of_it) = parameter.get_mut("schema") {
        schema(schema_of_it, 0);
    }
    contents(parameter);
}

fn response(response: &mut Value) {
    if let Some(response) = response.as_object_mut() {
        members(response, "headers", parameter);
    }
    contents(response);
}

/// The media types of a body.
fn contents(body: &mut Value) {
    let Some(body) = body.as_object_mut() else { return };
    members(body, "content", |media| {
        if let Some(schema_of_it) = media.get_mut("schema") {
            schema(schema_of_it, 0);
        }
    });
}

fn schema(value: &mut Value, depth: usize) {
    let nested = match value {
        // 3.1 has schemas that are nothing but true or false.
        Value::Bool(anything) => {
            *value = if *anything { json!({}) } else { json!({"not": {}}) };
            return;
        }
        Value::Object(_) if depth > MAX_DEPTH => {
            *value = json!({});
            return;
        }
        Value::Object(nested) => nested,
        _ => return,
    };
    reference_with_siblings(nested);
    types(nested);
    limit(nested, "exclusiveMinimum", "minimum", f64::max);
    limit(nested, "exclusiveMaximum", "maximum", f64::min);
    examples(nested);
    encoding(nested);
    if let Some(only) = nested.remove("const") {
        nested.insert("enum".into(), json!([only]));
    }
    nested.retain(|keyword, _| !UNKNOWN_KEYWORDS.contains(&keyword.as_str()));
    members(nested, "properties", |s| schema(s, depth + 1));
    for list in ["allOf", "anyOf", "oneOf"] {
        items(nested, list, |s| schema(s, depth + 1));
    }
    for one in ["items", "not"] {
        if let Some(one) = nested.get_mut(one) {
            schema(one, depth + 1);
        }
    }
    if let Some(rest @ Value::Object(_)) = nested.get_mut("additionalProperties") {
        schema(rest, depth + 1);
    }
    if nested.get("type").is_some_and(|t| t == "array") {
        nested.entry("items").or_insert_with(|| json!({}));
    }
}

/// 3.0 ignores what stands beside a `$ref`.
fn reference_with_siblings(schema: &mut Object) {
    if schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        let mut all = vec![json!({"$ref": reference})];
        if let Some(Value::Array(others)) = schema.remove("allOf") {
            all.extend(others);
        }
        schema.insert("allOf".into(), all.into());
    }
}

/// 3.0 has one type, and `nullable` instead of the type `null`.
fn types(schema: &mut Object) {
    let named = match schema.get("type") {
        Some(Value::Array(named)) => named.clone(),
        Some(Value::String(one)) if one == "null" => vec![json!("null")],
        _ => return,
    };
    let (nulls, others): (Vec<_>, Vec<_>) = named.into_iter().partition(|t| t == "null");
    if !nulls.is_empty() {
        schema.insert("nullable".into(), true.into());
    }
    schema.remove("type");
    match others.as_slice() {
        [] => {
            schema.insert("enum".into(), json!([null]));
        }
        [one] => {
            schema.insert("type".into(), one.clone());
        }
        several => {
            let several: Vec<_> = several.iter().map(|t| json!({"type": t})).collect();
            // An array has to say of what.
            schema.insert("anyOf".into(), several.into());
        }
    }
}

/// A bound that excludes itself is a number in 3.1, and a flag beside the bound in 3.0. The tighter of two stays.
fn limit(schema: &mut Object, exclusive: &str, inclusive: &str, tighter: fn(f64, f64) -> f64) {
    let Some(bound) = schema.get(exclusive).and_then(Value::as_f64) else { return };
    let other = schema.get(inclusive).and_then(Value::as_f64);
    let excludes = other.is_none_or(|other| tighter(other, bound) <= bound && tighter(other, bound) >= bound);
    let number = schema.remove(exclusive);
    if excludes && let Some(number) = number {
        schema.insert(inclusive.into(), number);
        schema.insert(exclusive.into(), true.into());
    }
}

fn examples(schema: &mut Object) {
    if let Some(Value::Array(examples)) = schema.remove("examples")
        && let Some(first) = examples.into_iter().next()
    {
        schema.entry("example").or_insert(first);
    }
}

/// Bytes, in JSON or by themselves, are formats in 3.0.
fn encoding(schema: &mut Object) {
    let format = match (schema.remove("contentEncoding"), schema.remove("contentMediaType")) {
        (Some(encoding), _) if encoding == "base64" => "byte",
        (None, Some(media)) if media == "application/octet-stream" => "binary",
        _ => return,
    };
    schema.insert("type".into(), "string".into());
    schema.insert("format".into(), format.into());
}
