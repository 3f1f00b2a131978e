//! Typed helpers for a caller's own timer types, made of their payloads' schemas: what a schema cannot say in a language's
//! types (patterns, bounds, conditions) the server still checks, and what is beyond a bound here is anything.
//!
//! ```text
//!  schema (JSON Schema 2020-12) ─► shapes, and declarations with names (shape) ─► text (typescript, python)
//! ```
//!
//! Schemas come from a server and are not trusted: no name, description or value of theirs can end a comment or a literal.

mod names;
mod python;
mod shape;
mod typescript;

use std::collections::BTreeSet;

use serde_json::Value;

use self::{
    names::{pascal, snake},
    shape::Declaration,
};

/// A timer type, as far as its helpers need it.
#[derive(Clone, Debug)]
pub struct TimerType {
    pub name: String,
    /// JSON Schema (2020-12) of a timer's payload.
    pub payload_schema: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    TypeScript,
    Python,
}

/// A type with its names in the text, and what its payload is made of.
struct Named {
    name: String,
    /// Words of the name, which no other type has.
    words: String,
    payload: String,
    declarations: Vec<Declaration>,
}

/// A module for the client library of this language. The same types give the same text.
pub fn generate(language: Language, types: &[TimerType]) -> String {
    let mut taken: BTreeSet<String> = reserved(language).iter().map(|name| (*name).to_owned()).collect();
    let mut words_taken = BTreeSet::new();
    let mut named = Vec::new();
    for one in types {
        let words = own_words(&one.name, &mut words_taken);
        let wanted = format!("{}Payload", pascal(&words));
        let (payload, declarations) = shape::declare(&one.payload_schema, &wanted, &mut taken);
        named.push(Named { name: one.name.clone(), words, payload, declarations });
    }
    match language {
        Language::TypeScript => typescript::write(&named),
        Language::Python => python::write(&named),
    }
}

/// The words of a name, with a number if others come to the same in either language.
fn own_words(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut words = snake(name);
    let mut number = 1;
    while !taken.insert(pascal(&words)) {
        number += 1;
        words = format!("{}_n{number}", snake(name));
    }
    words
}

/// Names that the modules use themselves.
fn reserved(language: Language) -> &'static [&'static str] {
    match language {
        Language::TypeScript => typescript::RESERVED,
        Language::Python => python::RESERVED,
    }
}
