//! From a schema to shapes that both languages have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::names::{pascal, unique};

type Object = Map<String, Value>;

/// How deep shapes nest; deeper is anything.
const MAX_DEPTH: usize = 32;
/// Declarations of one type; what more there is is anything.
const MAX_DECLARATIONS: usize = 500;
/// Schemas of one type that are put together from several: what refers to itself ends here.
const MAX_MERGES: usize = 1_000;
/// Schemas of one type that are read: alternatives of alternatives double and double again.
const MAX_READS: usize = 10_000;
const MAX_ALTERNATIVES: usize = 50;
const MAX_LITERALS: usize = 500;
/// How many references to references are followed.
const MAX_HOPS: usize = 16;
/// What a double holds exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Any,
    Null,
    Boolean,
    Integer {
        /// Whether it may be beyond what a double holds.
        wide: bool,
    },
    Number,
    Text,
    /// Booleans, numbers, texts and null.
    Literals(Vec<Value>),
    Array(Box<Shape>),
    Map(Box<Shape>),
    Named(String),
    Union(Vec<Shape>),
}

#[derive(Clone, Debug)]
pub struct Declaration {
    pub name: String,
    pub description: Option<String>,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    Object {
        fields: Vec<Field>,
        /// Whether it may have others.
        is_open: bool,
    },
    Alias(Shape),
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub description: Option<String>,
    pub is_required: bool,
    pub shape: Shape,
}

/// Declares a schema under a name like the wanted one, which is given back, with all that it needs.
pub fn declare(schema: &Value, wanted: &str, taken: &mut BTreeSet<String>) -> (String, Vec<Declaration>) {
    let name = unique(wanted, taken);
    let mut reader = Reader {
        root: schema,
        prefix: wanted,
        taken,
        references: BTreeMap::new(),
        declarations: Vec::new(),
        merges: 0,
        reads: 0,
    };
    reader.references.insert("#".to_owned(), Reference::Named(name.clone()));
    reader.declare(schema, &name, 0);
    (name, reader.declarations)
}

/// What a `$ref` stands for.
enum Reference {
    Named(String),
    /// It is being read and has no name of its own yet: what refers to itself without an object in between.
    Open,
}

struct Reader<'a> {
    root: &'a Value,
    prefix: &'a str,
    taken: &'a mut BTreeSet<String>,
    references: BTreeMap<String, Reference>,
    declarations: Vec<Declaration>,
    merges: usize,
    reads: usize,
}

impl Reader<'_> {
    /// Reads a schema, and declares it by this name whatever it is.
    fn declare(&mut self, schema: &Value, name: &str, depth: usize) {
        let description = description(schema);
        let content = match self.object(schema, name, depth) {
            Some(content) => content,
            None => Content::Alias(match self.read(schema, name, depth) {
                // It would stand for itself.
                Shape::Named(other) if other == name => Shape::Any,
                Shape::Union(shapes) => union(shapes.into_iter().filter(|s| *s != Shape::Named(name.into())).collect()),
                shape => shape,
            }),
        };
        self.declarations.push(Declaration { name: name.to_owned(), description, content });
    }

    /// The fields of a schema that is an object with fields, and nothing else.
    fn object(&mut self, schema: &Value, name: &str, depth: usize) -> Option<Content> {
        let schema = self.whole(schema.as_object()?);
        let has_alternatives = ["anyOf", "oneOf", "$ref", "enum", "const"].iter().any(|k| schema.contains_key(*k));
        if has_alternatives || !is_object(&schema) {
            return None;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let required: Vec<&str> = strings(schema.get("required")).collect();
        let mut fields = Vec::new();
        for (field, schema) in properties.into_iter().flatten() {
            fields.push(Field {
                name: field.clone(),
                description: description(schema),
                is_required: required.contains(&field.as_str()),
                shape: self.read(schema, &format!("{name}{}", pascal(field)), depth + 1),
            });
        }
        for field in required.into_iter().filter(|f| properties.is_none_or(|p| !p.contains_key(*f))) {
            let field = Field { name: field.to_owned(), description: None, is_required: true, shape: Shape::Any };
            fields.push(field);
        }
        let is_open = schema.get("additionalProperties") != Some(&Value::Bool(false));
        (!fields.is_empty()).then_some(Content::Object { fields, is_open })
    }

    fn read(&mut self, schema: &Value, hint: &str, depth: usize) -> Shape {
        let Some(schema) = schema.as_object() else { return Shape::Any };
        self.reads += 1;
        if self.reads > MAX_READS || depth > MAX_DEPTH || self.declarations.len() >= MAX_DECLARATIONS {
            return Shape::Any;
        }
        let schema = self.whole(schema);
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, depth);
        }
        for alternatives in ["anyOf", "oneOf"] {
            if let Some(Value::Array(alternatives)) = schema.get(alternatives) {
                return self.alternatives(&schema, alternatives, hint, depth);
            }
        }
        if let Some(value) = schema.get("const") {
            return literals(std::slice::from_ref(value));
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return literals(values);
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.typed(&schema, name, hint, depth),
            Some(Value::Array(several)) => {
                let shapes = several.iter().filter_map(Value::as_str).map(|t| self.typed(&schema, t, hint, depth));
                union(shapes.collect())
            }
            _ if is_object(&schema) => self.typed(&schema, "object", hint, depth),
            _ if schema.contains_key("items") => self.typed(&schema, "array", hint, depth),
            _ => Shape::Any,
        }
    }

    fn typed(&mut self, schema: &Object, name: &str, hint: &str, depth: usize) -> Shape {
        match name {
            "null" => Shape::Null,
            "boolean" => Shape::Boolean,
            "integer" => {
                let within = |bound: &str, exclusive: &str, least: i64| {
                    let bound = schema.get(bound).or_else(|| schema.get(exclusive)).and_then(Value::as_i64);
                    bound.is_some_and(|b| if least < 0 { b >= least } else { b <= least })
                };
                let safe = within("minimum", "exclusiveMinimum", -MAX_SAFE_INTEGER)
                    && within("maximum", "exclusiveMaximum", MAX_SAFE_INTEGER);
                Shape::Integer { wide: !safe }
            }
            "number" => Shape::Number,
            "string" => Shape::Text,
            "array" => {
                let of = schema.get("items").filter(|_| !schema.contains_key("prefixItems"));
                Shape::Array(Box::new(of.map_or(Shape::Any, |of| self.read(of, &format!("{hint}Item"), depth + 1))))
            }
            "object" => {
                let mut alone = schema.clone();
                alone.insert("type".into(), "object".into());
                let alone = Value::Object(alone);
                let before = self.declarations.len();
                let name = unique(hint, self.taken);
                if let Some(content) = self.object(&alone, &name, depth) {
                    // What it needs was declared first.
                    self.declarations.push(Declaration {
                        name: name.clone(),
                        description: description(&alone),
                        content,
                    });
                    return Shape::Named(name);
                }
                self.declarations.truncate(before);
                self.taken.remove(&name);
                let rest = schema.get("additionalProperties").filter(|rest| rest.is_object());
                let rest = rest.map_or(Shape::Any, |rest| self.read(rest, &format!("{hint}Value"), depth + 1));
                Shape::Map(Box::new(rest))
            }
            _ => Shape::Any,
        }
    }

    /// One of several, each with what stands beside them.
    fn alternatives(&mut self, schema: &Object, alternatives: &[Value], hint: &str, depth: usize) -> Shape {
        if alternatives.len() > MAX_ALTERNATIVES {
            return Shape::Any;
        }
        let mut beside = schema.clone();
        beside.retain(|keyword, _| !matches!(keyword.as_str(), "anyOf" | "oneOf" | "description" | "title"));
        let shapes = alternatives.iter().map(|one| {
            let merged = match one {
                Value::Object(one) if !is_structural(&beside) => one.clone(),
                Value::Object(one) => {
                    let one = self.followed(one);
                    merge(beside.clone(), &one)
                }
                _ => beside.clone(),
            };
            self.read(&Value::Object(merged), hint, depth + 1)
        });
        union(shapes.collect())
    }

    /// The schema with what its `allOf` adds, and without a `$ref` beside other content.
    fn whole(&mut self, schema: &Object) -> Object {
        let mut schema = schema.clone();
        while self.merges < MAX_MERGES {
            let parts = match schema.remove("allOf") {
                Some(Value::Array(parts)) => parts,
                _ if schema.contains_key("$ref") && is_structural(&schema) => {
                    vec![Value::Object(schema.remove_entry("$ref").into_iter().collect())]
                }
                _ => break,
            };
            for part in parts.iter().filter_map(Value::as_object) {
                self.merges += 1;
                // One reference and nothing else keeps its name.
                let part = if parts.len() == 1 && !is_structural(&schema) { part.clone() } else { self.followed(part) };
                schema = merge(schema, &part);
            }
        }
        schema
    }

    /// What a reference leads to, for a schema that is put together with others.
    fn followed(&self, schema: &Object) -> Object {
        let mut schema = schema.clone();
        for _ in 0..MAX_HOPS {
            let Some(Value::String(reference)) = schema.remove("$ref") else { break };
            let Some(Value::Object(target)) = self.target(&reference) else { break };
            schema = merge(schema, target);
        }
        schema.remove("$ref");
        schema
    }

    fn target(&self, reference: &str) -> Option<&Value> {
        let pointer = reference.strip_prefix('#')?;
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }

    fn reference(&mut self, reference: &str, depth: usize) -> Shape {
        match self.references.get(reference) {
            Some(Reference::Named(name)) => return Shape::Named(name.clone()),
            Some(Reference::Open) => return Shape::Any,
            None => {}
        }
        let Some(target) = self.target(reference).cloned() else { return Shape::Any };
        let last = reference.rsplit('/').next().unwrap_or_default();
        let wanted = format!("{}{}", self.prefix, pascal(last));
        let merged = target.as_object().map(|target| self.whole(target)).unwrap_or_default();
        let has_fields = is_object(&merged) && !["anyOf", "oneOf", "$ref"].iter().any(|k| merged.contains_key(*k));
        if has_fields && (merged.contains_key("properties") || merged.contains_key("required")) {
            let name = unique(&wanted, self.taken);
            self.references.insert(reference.to_owned(), Reference::Named(name.clone()));
            self.declare(&target, &name, depth + 1);
            return Shape::Named(name);
        }
        // Something small is written out where it is used.
        self.references.insert(reference.to_owned(), Reference::Open);
        let shape = self.read(&target, &wanted, depth + 1);
        self.references.remove(reference);
        shape
    }
}

fn description(schema: &Value) -> Option<String> {
    let said = schema.get("description").or_else(|| schema.get("title"))?.as_str()?;
    Some(said.to_owned())
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn is_object(schema: &Object) -> bool {
    match schema.get("type") {
        Some(named) => named == "object",
        None => ["properties", "required", "additionalProperties", "patternProperties"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword)),
    }
}

/// Whether it says anything of a shape.
fn is_structural(schema: &Object) -> bool {
    const STRUCTURE: [&str; 10] =
        ["type", "properties", "required", "additionalProperties", "items", "enum", "const", "allOf", "anyOf", "oneOf"];
    STRUCTURE.iter().any(|keyword| schema.contains_key(*keyword))
}

/// Both hold: fields of either, required by either, and otherwise what the first one says.
fn merge(mut first: Object, second: &Object) -> Object {
    for (keyword, said) in second {
        match (keyword.as_str(), first.get_mut(keyword), said) {
            (_, None, _) => {
                first.insert(keyword.clone(), said.clone());
            }
            ("properties", Some(Value::Object(fields)), Value::Object(more)) => {
                for (name, schema) in more {
                    let merged = match (fields.remove(name), schema) {
                        (Some(Value::Object(one)), Value::Object(other)) => Value::Object(merge(one, other)),
                        (Some(one), _) => one,
                        (None, other) => other.clone(),
                    };
                    fields.insert(name.clone(), merged);
                }
            }
            ("required" | "allOf", Some(Value::Array(all)), Value::Array(more)) => {
                let new: Vec<_> = more.iter().filter(|one| !all.contains(one)).cloned().collect();
                all.extend(new);
            }
            ("additionalProperties", Some(rest), Value::Bool(false)) => *rest = Value::Bool(false),
            _ => {}
        }
    }
    first
}

fn literals(values: &[Value]) -> Shape {
    let is_simple = |value: &Value| !value.is_object() && !value.is_array();
    if values.is_empty() || values.len() > MAX_LITERALS || !values.iter().all(is_simple) {
        return Shape::Any;
    }
    Shape::Literals(values.to_vec())
}

/// Each once; one that is anything makes all of it anything.
fn union(shapes: Vec<Shape>) -> Shape {
    let mut each: Vec<Shape> = Vec::new();
    for shape in shapes {
        let parts = if let Shape::Union(parts) = shape { parts } else { vec![shape] };
        for part in parts {
            if !each.contains(&part) {
                each.push(part);
            }
        }
    }
    match each.len() {
        0 => Shape::Any,
        1 => each.remove(0),
        _ if each.contains(&Shape::Any) => Shape::Any,
        _ => Shape::Union(each),
    }
}
