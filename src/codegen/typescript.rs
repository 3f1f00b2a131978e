//! Helpers for `@lapse/client`.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    Named,
    names::{comment, is_identifier, pascal, quoted},
    shape::{Content, Declaration, Shape},
};

pub const RESERVED: &[&str] = &[
    "ActionRequest",
    "CallOptions",
    "Client",
    "Payloads",
    "RegisterTimer",
    "Registration",
    "ResolveRequest",
    "Timer",
    "Typed",
];

const HEAD: &str = r#"// Made by `lapse type generate` from the schemas of timer types; not to be edited.

import type { ActionRequest, CallOptions, Client, RegisterTimer, ResolveRequest, Timer } from "@lapse/client";

/** What a registration says, but for the type, with its payload. */
export type Registration<P> = Omit<RegisterTimer, "type" | "payload"> & { payload: P };

/** A timer of one type. */
export type Typed<Name extends string, P> = Omit<Timer, "type" | "payload"> & { type: Name; payload: P };
"#;

pub fn write(types: &[Named]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n/** The payload of each type. */\nexport interface Payloads {\n");
    for one in types {
        let _ = writeln!(text, "  {}: {};", quoted(&one.name), one.payload);
    }
    text.push_str("}\n");
    for one in types {
        for declaration in &one.declarations {
            text.push('\n');
            declare(declaration, &mut text);
        }
        text.push_str(&helpers(one));
    }
    text
}

fn declare(declaration: &Declaration, text: &mut String) {
    describe(declaration.description.as_ref(), "", text);
    let name = &declaration.name;
    match &declaration.content {
        Content::Alias(shape) => {
            let _ = writeln!(text, "export type {name} = {};", written(shape));
        }
        Content::Object { fields, is_open } => {
            let _ = writeln!(text, "export interface {name} {{");
            for field in fields {
                describe(field.description.as_ref(), "  ", text);
                let name = if is_identifier(&field.name) { field.name.clone() } else { quoted(&field.name) };
                let mark = if field.is_required { "" } else { "?" };
                let _ = writeln!(text, "  {name}{mark}: {};", written(&field.shape));
            }
            if *is_open {
                text.push_str("  [more: string]: unknown;\n");
            }
            text.push_str("}\n");
        }
    }
}

fn describe(description: Option<&String>, indent: &str, text: &mut String) {
    if let Some(description) = description.map(|d| comment(d)).filter(|d| !d.is_empty()) {
        let _ = writeln!(text, "{indent}/** {description} */");
    }
}

fn written(shape: &Shape) -> String {
    match shape {
        Shape::Any => "unknown".to_owned(),
        Shape::Null => "null".to_owned(),
        Shape::Boolean => "boolean".to_owned(),
        Shape::Integer { wide: true } => "number | bigint".to_owned(),
        Shape::Integer { wide: false } | Shape::Number => "number".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Literals(values) => {
            let each: Vec<String> = values.iter().map(literal).collect();
            each.join(" | ")
        }
        Shape::Array(of) => match written(of) {
            of if of.contains(' ') => format!("({of})[]"),
            of => format!("{of}[]"),
        },
        Shape::Map(of) => format!("{{ [name: string]: {} }}", written(of)),
        Shape::Named(name) => name.clone(),
        Shape::Union(shapes) => {
            let each: Vec<String> = shapes.iter().map(written).collect();
            each.join(" | ")
        }
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) if number.is_i64() || number.is_u64() || number.is_f64() => number.to_string(),
        Value::Bool(_) | Value::Null => value.to_string(),
        _ => "unknown".to_owned(),
    }
}

fn helpers(one: &Named) -> String {
    let (name, function, payload) = (quoted(&one.name), pascal(&one.words), &one.payload);
    let typed = format!("Typed<{name}, {payload}>");
    let shown = comment(&one.name);
    format!(
        r"
/** Registers a timer of the type `{shown}`. The same again changes nothing. */
export async function register{function}(lapse: Client, timer: Registration<{payload}>, options?: CallOptions): Promise<{typed}> {{
  return (await lapse.registerTimer({{ ...timer, type: {name} }}, options)) as {typed};
}}

/** A timer of the type `{shown}`, by its key. */
export async function get{function}(lapse: Client, key: string, options?: CallOptions): Promise<{typed}> {{
  return (await lapse.getTimerByKey({{ type: {name}, key }}, options)) as {typed};
}}

/** Says that the business got there first. */
export async function resolve{function}(lapse: Client, key: string, body: ResolveRequest = {{}}, options?: CallOptions): Promise<{typed}> {{
  return (await lapse.resolveTimerByKey({{ type: {name}, key }}, body, options)) as {typed};
}}

/** Withdraws a timer of the type `{shown}`. */
export async function cancel{function}(lapse: Client, key: string, body: ActionRequest = {{}}, options?: CallOptions): Promise<{typed}> {{
  return (await lapse.cancelTimerByKey({{ type: {name}, key }}, body, options)) as {typed};
}}
"
    )
}
