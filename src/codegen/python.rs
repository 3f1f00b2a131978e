//! Helpers for `lapse_client`. Payloads are typed dictionaries, as the client sends and gives them.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    Named,
    names::{comment, is_identifier, quoted},
    shape::{Content, Declaration, Field, Shape},
};

pub const RESERVED: &[&str] = &[
    "ActionRequest",
    "Any",
    "AsyncLapse",
    "False",
    "Lapse",
    "Literal",
    "None",
    "NotRequired",
    "RegisterTimer",
    "RegisterTimerLabels",
    "ResolveRequest",
    "Timer",
    "True",
    "TypeAlias",
    "TypedDict",
    "UNSET",
    "Unset",
];

/// Words that cannot be names of fields.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

const HEAD: &str = r#""""Made by `lapse type generate` from the schemas of timer types; not to be edited."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

from lapse_client import UNSET, AsyncLapse, Lapse, Unset
from lapse_client.models import ActionRequest, RegisterTimer, RegisterTimerLabels, ResolveRequest, Timer

# Not every module needs all of them.
__used__ = (Any, Literal, NotRequired, TypeAlias, TypedDict)


def _labels(labels: dict[str, str] | None) -> RegisterTimerLabels | Unset:
    return UNSET if labels is None else RegisterTimerLabels.from_dict(labels)
"#;

pub fn write(types: &[Named]) -> String {
    let mut text = HEAD.to_owned();
    for one in types {
        for declaration in &one.declarations {
            text.push_str("\n\n");
            declare(declaration, &mut text);
        }
        text.push_str(&helpers(one));
    }
    text
}

fn declare(declaration: &Declaration, text: &mut String) {
    let name = &declaration.name;
    let description = declaration.description.as_ref().map(|d| comment(d)).filter(|d| !d.is_empty());
    match &declaration.content {
        Content::Alias(shape) => {
            // As text, so that it may name what is declared later.
            let _ = writeln!(text, "{name}: TypeAlias = {}", quoted(&written(shape)));
            if let Some(description) = description {
                let _ = writeln!(text, "\"\"\"{description}\"\"\"");
            }
        }
        Content::Object { fields, .. } if fields.iter().all(can_be_named) => {
            let _ = writeln!(text, "class {name}(TypedDict):");
            if let Some(description) = description {
                let _ = writeln!(text, "    \"\"\"{description}\"\"\"\n");
            }
            for field in fields {
                let _ = writeln!(text, "    {}: {}", field.name, written_field(field));
                if let Some(description) = field.description.as_ref().map(|d| comment(d)).filter(|d| !d.is_empty()) {
                    let _ = writeln!(text, "    \"\"\"{description}\"\"\"");
                }
            }
        }
        Content::Object { fields, .. } => {
            let _ = writeln!(text, "{name} = TypedDict(\n    {},\n    {{", quoted(name));
            for field in fields {
                let shape = quoted(&written_field(field));
                let _ = writeln!(text, "        {}: {shape},", quoted(&field.name));
            }
            text.push_str("    },\n)\n");
            if let Some(description) = description {
                let _ = writeln!(text, "\"\"\"{description}\"\"\"");
            }
        }
    }
}

/// A name in a class must be one, and two underscores at its beginning would be changed.
fn can_be_named(field: &Field) -> bool {
    is_identifier(&field.name) && !field.name.starts_with("__") && !KEYWORDS.contains(&field.name.as_str())
}

fn written_field(field: &Field) -> String {
    let shape = written(&field.shape);
    if field.is_required { shape } else { format!("NotRequired[{shape}]") }
}

fn written(shape: &Shape) -> String {
    match shape {
        Shape::Any => "Any".to_owned(),
        Shape::Null => "None".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Integer { .. } => "int".to_owned(),
        Shape::Number => "float".to_owned(),
        Shape::Text => "str".to_owned(),
        Shape::Literals(values) => literals(values),
        Shape::Array(of) => format!("list[{}]", written(of)),
        Shape::Map(of) => format!("dict[str, {}]", written(of)),
        Shape::Named(name) => name.clone(),
        Shape::Union(shapes) => {
            let each: Vec<String> = shapes.iter().map(written).collect();
            each.join(" | ")
        }
    }
}

/// `Literal` takes no number with a point.
fn literals(values: &[Value]) -> String {
    let mut each = Vec::new();
    let mut has_float = false;
    for value in values {
        match value {
            Value::String(text) => each.push(quoted(text)),
            Value::Bool(is) => each.push(if *is { "True" } else { "False" }.to_owned()),
            Value::Number(number) if number.is_f64() => has_float = true,
            Value::Number(number) => each.push(number.to_string()),
            _ => each.push("None".to_owned()),
        }
    }
    match (each.is_empty(), has_float) {
        (true, _) => "float".to_owned(),
        (false, true) => format!("float | Literal[{}]", each.join(", ")),
        (false, false) => format!("Literal[{}]", each.join(", ")),
    }
}

fn helpers(one: &Named) -> String {
    let (name, words, payload) = (quoted(&one.name), &one.words, &one.payload);
    let shown = comment(&one.name);
    let mut text = format!(
        r#"

def payload_of_{words}(timer: Timer) -> {payload}:
    """The payload of a timer of the type `{shown}`."""
    if timer.type_ != {name}:
        raise ValueError(f"the timer is of the type {{timer.type_!r}}")
    return cast("{payload}", timer.payload)
"#
    );
    for (prefix, define, wait, client) in [("", "def", "", "Lapse"), ("a", "async def", "await ", "AsyncLapse")] {
        let _ = write!(
            text,
            r#"

{define} {prefix}register_{words}(
    lapse: {client},
    key: str,
    payload: {payload},
    *,
    delay: str | Unset = UNSET,
    due_at: datetime | Unset = UNSET,
    labels: dict[str, str] | None = None,
    revision: int | Unset = UNSET,
) -> Timer:
    """Registers a timer of the type `{shown}`. The same again changes nothing."""
    timer = RegisterTimer(
        type_={name},
        key=key,
        payload=payload,
        delay=delay,
        due_at=due_at,
        labels=_labels(labels),
        revision=revision,
    )
    return {wait}lapse.register_timer(timer)


{define} {prefix}get_{words}(lapse: {client}, key: str) -> Timer:
    """A timer of the type `{shown}`, by its key."""
    return {wait}lapse.get_timer_by_key({name}, key)


{define} {prefix}resolve_{words}(
    lapse: {client}, key: str, *, reason: str | Unset = UNSET, remember: bool | Unset = UNSET
) -> Timer:
    """Says that the business got there first."""
    return {wait}lapse.resolve_timer_by_key({name}, key, ResolveRequest(reason=reason, remember=remember))


{define} {prefix}cancel_{words}(lapse: {client}, key: str, *, reason: str | Unset = UNSET) -> Timer:
    """Withdraws a timer of the type `{shown}`."""
    return {wait}lapse.cancel_timer_by_key({name}, key, ActionRequest(reason=reason))
"#
        );
    }
    text
}
