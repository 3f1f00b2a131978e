//! What it may take to check an instance, known before it is checked.
//!
//! The validator has no limit of its own, and a small schema can ask for endless work: a chain of `anyOf` whose branches
//! refer to the same next link doubles with each. So each schema's *load* is worked out when it is compiled: how often,
//! at most, one node of an instance is looked at, by how deep it lies. A node that lies deeper than the schema has levels
//! is reached over references that lead back; branches that exclude each other (two properties, two items) do not add up.
//! The instance's nodes, counted by depth, then tell the whole.

use std::collections::HashMap;

use referencing::{Draft, Registry, Resolver, uri};
use serde_json::{Map, Value};

/// How deep an instance is: JSON that is read has no more levels.
const DEPTHS: usize = 128;
/// The most subschemas of one schema: as deep may the calls be that compile it, or let go of it.
const MAX_NODES: usize = 2_000;
/// The most that the root of an instance, or a child of it, may be looked at.
const MAX_LOAD: u64 = 10_000;
/// How deep the calls of a check may be within one another; a thread's stack takes several times as many.
const MAX_NESTING: u32 = 500;

/// Applied to the same node of the instance; the values are schemas, lists of them, or maps of them.
const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
const IN_PLACE_BY_NAME: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Of these one applies to a node's child.
const MEMBERS: [&str; 2] = ["properties", "additionalProperties"];
const ITEMS: [&str; 3] = ["prefixItems", "items", "additionalItems"];
/// These apply beside them.
const ALSO_MEMBERS: [&str; 3] = ["patternProperties", "propertyNames", "unevaluatedProperties"];
const ALSO_ITEMS: [&str; 2] = ["contains", "unevaluatedItems"];
/// Keywords whose value is a map of schemas, not one.
const MAPS: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];
/// Their target is known only while an instance is checked.
const DYNAMIC: [&str; 2] = ["$dynamicRef", "$recursiveRef"];
/// Each of their entries is looked at for a node.
const LISTED: [&str; 4] = ["required", "enum", "properties", "dependentRequired"];

/// By depth: the most that one node at this depth below the root is looked at.
#[derive(Debug)]
pub(super) struct Load {
    by_depth: Vec<u64>,
    /// The calls within one another for an instance of this depth.
    nesting: Vec<u32>,
}

impl Load {
    pub fn of(schema: &Value) -> Result<Self, String> {
        Graph::of(schema)?.load()
    }

    /// How many looks an instance takes at most, and whether the calls within one another stay within bounds.
    pub fn looks(&self, instance: &Value) -> Option<u64> {
        let mut nodes = [0_u64; DEPTHS];
        let mut deepest = 0;
        let mut open = vec![(instance, 0)];
        while let Some((value, depth)) = open.pop() {
            *nodes.get_mut(depth)? += 1;
            deepest = deepest.max(depth);
            match value {
                Value::Array(items) => open.extend(items.iter().map(|v| (v, depth + 1))),
                Value::Object(members) => open.extend(members.values().map(|v| (v, depth + 1))),
                _ => {}
            }
        }
        if self.nesting[deepest] > MAX_NESTING {
            return None;
        }
        let looks = nodes.iter().zip(&self.by_depth).map(|(nodes, load)| nodes.saturating_mul(*load));
        Some(looks.fold(0, u64::saturating_add))
    }
}

/// A subschema, by what it leads to: positions in the graph.
#[derive(Default)]
struct Node {
    weight: u64,
    in_place: Vec<usize>,
    /// One of them for each member, and all of these for each; likewise for items.
    members: Vec<usize>,
    also_members: Vec<usize>,
    items: Vec<usize>,
    also_items: Vec<usize>,
    /// What it evaluates is looked at again to know what is left.
    again: bool,
}

struct Graph {
    nodes: Vec<Node>,
}

/// Takes subschemas in, each once.
struct Taking<'r> {
    places: HashMap<*const Value, usize>,
    open: Vec<(&'r Value, Resolver<'r>)>,
}

impl<'r> Taking<'r> {
    fn place(&mut self, schema: &'r Value, resolver: &Resolver<'r>) -> Result<usize, String> {
        let next = self.places.len();
        let place = *self.places.entry(std::ptr::from_ref(schema)).or_insert(next);
        if place == next {
            if next >= MAX_NODES {
                return Err(format!("it has more than {MAX_NODES} subschemas"));
            }
            let inner = resolver.in_subresource(Draft::Draft202012.create_resource_ref(schema));
            self.open.push((schema, inner.map_err(|e| e.to_string())?));
        }
        Ok(place)
    }

    /// The schemas that a keyword's value holds.
    fn places(&mut self, keyword: &str, value: &'r Value, resolver: &Resolver<'r>) -> Result<Vec<usize>, String> {
        match value {
            Value::Array(all) => all.iter().map(|schema| self.place(schema, resolver)).collect(),
            Value::Object(all) if MAPS.contains(&keyword) => {
                all.values().filter(|v| is_schema(v)).map(|schema| self.place(schema, resolver)).collect()
            }
            schema => Ok(vec![self.place(schema, resolver)?]),
        }
    }
}

/// `dependencies` may hold lists of names as well.
fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

impl Graph {
    fn of(schema: &Value) -> Result<Self, String> {
        const ROOT: &str = "json-schema:///";
        let told = |e: referencing::Error| e.to_string();
        let root = Draft::Draft202012.create_resource_ref(schema);
        let base = uri::from_str(root.id().unwrap_or(ROOT)).map_err(told)?;
        let registry = Registry::new()
            .draft(Draft::Draft202012)
            .retrieve_known_draft_meta_schemas(false)
            .add(base.as_str(), root)
            .and_then(referencing::RegistryBuilder::prepare)
            .map_err(told)?;
        let resolver = registry.resolver(base);
        let mut taking = Taking { places: HashMap::new(), open: Vec::new() };
        taking.place(schema, &resolver)?;
        let mut nodes: HashMap<usize, Node> = HashMap::new();
        while let Some((schema, resolver)) = taking.open.pop() {
            let node = match schema {
                Value::Object(keywords) => Node::of(keywords, &resolver, &mut taking)?,
                _ => Node { weight: 1, ..Node::default() },
            };
            nodes.insert(taking.places[&std::ptr::from_ref(schema)], node);
        }
        let nodes = (0..nodes.len()).filter_map(|place| nodes.remove(&place)).collect();
        Ok(Self { nodes })
    }

    fn load(&self) -> Result<Load, String> {
        let order = self.inner_first()?;
        let mut load = Load { by_depth: Vec::with_capacity(DEPTHS), nesting: Vec::with_capacity(DEPTHS) };
        let (mut below, mut nested_below) = (vec![0_u64; self.nodes.len()], vec![0_u32; self.nodes.len()]);
        for depth in 0..DEPTHS {
            let (mut here, mut nested) = (below.clone(), nested_below.clone());
            for &place in &order {
                let node = &self.nodes[place];
                let own = if depth == 0 { node.weight } else { 0 };
                let sum = |of: &[usize], from: &[u64]| of.iter().fold(0_u64, |sum, n| sum.saturating_add(from[*n]));
                let one = |of: &[usize]| of.iter().map(|n| below[*n]).max().unwrap_or(0);
                let members = one(&node.members).saturating_add(sum(&node.also_members, &below));
                let items = one(&node.items).saturating_add(sum(&node.also_items, &below));
                let looks = own.saturating_add(sum(&node.in_place, &here)).saturating_add(members.max(items));
                here[place] = if node.again { looks.saturating_mul(2) } else { looks };
                let children = [&node.members, &node.also_members, &node.items, &node.also_items];
                let children = children.into_iter().flatten().map(|n| nested_below[*n]);
                let inner = node.in_place.iter().map(|n| nested[*n]).chain(children).max().unwrap_or(0);
                nested[place] = inner.saturating_add(1);
            }
            load.by_depth.push(here[0]);
            load.nesting.push(nested[0]);
            (below, nested_below) = (here, nested);
        }
        let flat = load.by_depth[0].max(load.by_depth[1]);
        if flat > MAX_LOAD {
            return Err(format!(
                "one value may be checked against {flat} subschemas, more than the {MAX_LOAD} that are allowed: \
                 branches (anyOf, oneOf, allOf) that refer to the same schema multiply"
            ));
        }
        if load.nesting[0] > MAX_NESTING {
            return Err(format!("more than {MAX_NESTING} subschemas stand within one another"));
        }
        Ok(load)
    }

    /// Every node after those that it applies to the same node of an instance.
    fn inner_first(&self) -> Result<Vec<usize>, String> {
        let mut waits_for: Vec<usize> = self.nodes.iter().map(|node| node.in_place.len()).collect();
        let mut outer: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            for inner in &node.in_place {
                outer[*inner].push(place);
            }
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(|place| waits_for[*place] == 0).collect();
        let mut done = 0;
        while let Some(&place) = order.get(done) {
            done += 1;
            for &out in &outer[place] {
                waits_for[out] -= 1;
                if waits_for[out] == 0 {
                    order.push(out);
                }
            }
        }
        if order.len() < self.nodes.len() {
            return Err("a $ref leads back to its own schema without going down into the value".to_owned());
        }
        Ok(order)
    }
}

impl Node {
    fn of<'r>(
        keywords: &'r Map<String, Value>,
        resolver: &Resolver<'r>,
        taking: &mut Taking<'r>,
    ) -> Result<Self, String> {
        let mut node = Self { weight: 1, ..Self::default() };
        for (keyword, value) in keywords {
            let name = keyword.as_str();
            if LISTED.contains(&name) {
                node.weight += entries(value);
            }
            if DYNAMIC.contains(&name) {
                return Err(format!("{name} is not taken here; write $ref"));
            }
            if name == "$ref" {
                let Value::String(reference) = value else { continue };
                let found = resolver.lookup(reference).map_err(|e| e.to_string())?;
                node.in_place.push(taking.place(found.contents(), found.resolver())?);
                continue;
            }
            let group = if IN_PLACE.contains(&name) || IN_PLACE_BY_NAME.contains(&name) {
                &mut node.in_place
            } else if MEMBERS.contains(&name) {
                &mut node.members
            } else if ALSO_MEMBERS.contains(&name) {
                &mut node.also_members
            } else if ITEMS.contains(&name) {
                &mut node.items
            } else if ALSO_ITEMS.contains(&name) {
                &mut node.also_items
            } else {
                continue;
            };
            group.extend(taking.places(name, value, resolver)?);
            node.again |= name.starts_with("unevaluated");
        }
        Ok(node)
    }
}

fn entries(value: &Value) -> u64 {
    let n = match value {
        Value::Array(all) => all.len(),
        Value::Object(all) => all.len(),
        _ => 0,
    };
    n as u64
}
