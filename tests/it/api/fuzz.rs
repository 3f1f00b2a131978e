//! Random calls made from the document, right and wrong: no answer is a 5xx, each is documented, and each body is what
//! the document says. `LAPSE_FUZZ_SEED` repeats a run, `LAPSE_FUZZ_CALLS` makes it longer.

use axum::http::Method;
use lapse::{api, schema::Schema};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Map, Value, json};

use super::compensations::{closed_with, kill};
use crate::support::{
    app::{ROLES, TestApp, order},
    fake_host::component,
};

const CALLS: u32 = 1500;
/// How deep a made-up value nests.
const MAX_DEPTH: u32 = 4;

struct Fuzz {
    random: StdRng,
    document: Value,
    /// Things that exist, by the name of the parameter or field that may name them.
    things: Vec<(&'static str, String)>,
}

impl Fuzz {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.random_range(0..of.len())]
    }

    fn text(&mut self) -> String {
        let odd = [
            "",
            "a",
            "A17",
            "订单",
            "e\u{301}",
            "👩‍👩‍👧",
            "\u{202e}x",
            "a/b",
            "..",
            "%",
            "%2F",
            "a b",
            "\0",
            "\n",
            "\u{7f}",
            "null",
            "-1",
            "0",
            "1e999",
            "2026-03-01T12:00:00Z",
            "9999-12-31T23:59:59.999Z",
            "0000-01-01T00:00:00Z",
            "30m",
            "P1D",
            "-5s",
            "99999999999999999999d",
            "'; DROP TABLE timers; --",
            "<script>",
            "{}",
            "sha256:",
            "http:a.example",
            "\"",
            "\\",
        ];
        match self.random.random_range(0..20) {
            0 => "x".repeat(self.random.random_range(1..400)),
            1 => "ü".repeat(self.random.random_range(1..140)),
            2 => self.random.random_range(i64::MIN..i64::MAX).to_string(),
            _ => (*self.pick(&odd)).to_owned(),
        }
    }

    /// Any JSON at all.
    fn anything(&mut self, depth: u32) -> Value {
        match self.random.random_range(0..if depth < MAX_DEPTH { 8 } else { 6 }) {
            0 => Value::Null,
            1 => json!(self.chance(50)),
            2 => json!(self.random.random_range(-3..1000)),
            3 => (*self.pick(&[json!(i64::MIN), json!(u64::MAX), json!(1.5), json!(-0.0), json!(1e300)])).clone(),
            4 | 5 => json!(self.text()),
            6 => (0..self.random.random_range(0..4)).map(|_| self.anything(depth + 1)).collect(),
            _ => {
                let members = (0..self.random.random_range(0..4)).map(|_| (self.text(), self.anything(depth + 1)));
                Value::Object(members.collect())
            }
        }
    }

    /// A value for a field or parameter of this name and schema; mostly a right one.
    fn value(&mut self, name: &str, schema: &Value, depth: u32) -> Value {
        if self.chance(6) {
            return self.anything(depth);
        }
        if let Some(known) = self.known(name) {
            return known;
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(&reference[1..]).unwrap().clone();
            return self.value(name, &target, depth + 1);
        }
        if let Some(words) = schema["enum"].as_array() {
            return self.pick(words).clone();
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => {
                let count = self.random.random_range(0..4);
                (0..count).map(|_| self.value(name, &schema["items"], depth + 1)).collect()
            }
            Some("integer") => {
                let edges = [schema["minimum"].as_i64().unwrap_or(0), schema["maximum"].as_i64().unwrap_or(1000), 1, 2];
                json!(*self.pick(&edges) + if self.chance(10) { self.random.random_range(-1..2) } else { 0 })
            }
            Some("boolean") => json!(self.chance(50)),
            Some("string") => match schema["format"].as_str() {
                Some("date-time") if self.chance(80) => {
                    let ms = self.random.random_range(0..253_402_300_799_999_i64);
                    json!(lapse::domain::time::Timestamp::from_millis(ms).unwrap().to_string())
                }
                _ => json!(self.text()),
            },
            _ => self.anything(depth),
        }
    }

    fn object(&mut self, schema: &Value, depth: u32) -> Value {
        let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().cloned().unwrap_or_default() {
            let wanted = required.contains(&json!(name));
            if self.chance(if wanted { 97 } else { 35 }) {
                let value = self.value(&name, &property, depth + 1);
                object.insert(name, value);
            }
        }
        if schema["additionalProperties"].is_object() || self.chance(4) {
            let (name, value) = (self.text(), self.text());
            object.insert(name, json!(value));
        }
        Value::Object(object)
    }

    /// Something that is there, for a name that refers to things.
    fn known(&mut self, name: &str) -> Option<Value> {
        if name == "payload" && self.chance(80) {
            let id = self.text();
            return Some(order(&if id.is_empty() { "A".to_owned() } else { id }));
        }
        if (name == "delay" || name == "default_delay") && self.chance(70) {
            return Some(json!(*self.pick(&["1s", "1ms", "0s", "30m", "P1DT2H", "7d"])));
        }
        let fitting: Vec<String> = self.things.iter().filter(|(n, _)| *n == name).map(|(_, t)| t.clone()).collect();
        (!fitting.is_empty() && self.chance(75)).then(|| json!(self.pick(&fitting)))
    }

    fn parameter(&mut self, parameter: &Value) -> String {
        let name = parameter["name"].as_str().unwrap();
        match self.value(name, &parameter["schema"], MAX_DEPTH) {
            Value::String(text) => text,
            Value::Array(items) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        }
    }
}

struct Operation {
    id: String,
    method: Method,
    path: String,
    described: Value,
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, described) in item.as_object().unwrap() {
            all.push(Operation {
                id: described["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                described: described.clone(),
            });
        }
    }
    all
}

/// The response that the document has for a status.
fn documented(operation: &Operation, status: u16) -> Option<Value> {
    let responses = operation.described["responses"].as_object().unwrap();
    let range = format!("{}XX", status / 100);
    responses.get(&status.to_string()).or_else(|| responses.get(&range)).cloned()
}

#[expect(clippy::print_stdout, reason = "the test's output is where its seed is looked for")]
fn say(seed: u64) {
    println!("LAPSE_FUZZ_SEED={seed}");
}

#[tokio::test]
async fn no_call_made_from_the_document_breaks_it() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
    let seed = number("LAPSE_FUZZ_SEED").unwrap_or_else(rand::random::<u64>);
    let calls = number("LAPSE_FUZZ_CALLS").map_or(CALLS, |n| u32::try_from(n).unwrap());
    say(seed);

    let app = TestApp::with_type().await;
    let digest = app.put_type("default", "other").await;
    let timer = app.register("A17").await["id"].as_str().unwrap().to_owned();
    let compensations = closed_with(&app, "closed", &["release", "coupon"]).await;
    kill(&app, "release").await;
    let document = serde_json::to_value(api::document()).unwrap();
    let mut things = vec![
        ("type", "order-timeout".to_owned()),
        ("type", "other".to_owned()),
        ("key", "A17".to_owned()),
        ("key", "closed".to_owned()),
        ("id", timer),
        ("digest", digest),
        ("revision", "1".to_owned()),
        ("kind", "release".to_owned()),
        ("Lapse-Namespace", "default".to_owned()),
        ("If-Match", "\"1\"".to_owned()),
        ("If-Match", "*".to_owned()),
        ("grants", "http:a.example".to_owned()),
        ("label", "a=b".to_owned()),
        ("name", "made".to_owned()),
    ];
    things.extend(compensations.iter().map(|c| ("id", c.to_string())));
    let mut fuzz = Fuzz { random: StdRng::seed_from_u64(seed), document, things };
    let operations = operations(&fuzz.document);
    let components = fuzz.document["components"].clone();
    let mut statuses = std::collections::BTreeMap::<u16, u32>::new();

    for n in 0..calls {
        let operation = fuzz.pick(&operations);
        let mut path = operation.path.clone();
        let mut query = Vec::new();
        let mut headers = Vec::new();
        for parameter in operation.described["parameters"].as_array().cloned().unwrap_or_default() {
            let name = parameter["name"].as_str().unwrap().to_owned();
            let given = parameter["required"] == true || fuzz.chance(30);
            if !given {
                continue;
            }
            let value = fuzz.parameter(&parameter);
            let encoded = utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string();
            match parameter["in"].as_str().unwrap() {
                // An empty segment is another path.
                "path" => {
                    path = path.replace(&format!("{{{name}}}"), if encoded.is_empty() { "%20" } else { &encoded });
                }
                "query" => query.push(format!("{name}={encoded}")),
                _ if value.bytes().all(|b| (b' '..0x7f).contains(&b)) => headers.push((name, value)),
                _ => {}
            }
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let role = if fuzz.chance(85) { "admin" } else { fuzz.pick(&ROLES).1 };
        let mut call = app.call(operation.method.clone(), &path).key(role);
        for (name, value) in &headers {
            call = call.header(name, value);
        }
        let mut sent = Value::Null;
        if let Some(content) = operation.described["requestBody"]["content"].as_object() {
            if content.contains_key("application/octet-stream") {
                let bytes = if fuzz.chance(50) {
                    component(if fuzz.chance(50) { "a" } else { "b" }, json!({}))
                } else {
                    fuzz.text().into_bytes()
                };
                call = call.octets(bytes);
            } else if operation.described["requestBody"]["required"] == true || fuzz.chance(70) {
                sent = fuzz.value("", &content["application/json"]["schema"], 0);
                let mut text = sent.to_string();
                if fuzz.chance(3) {
                    text.truncate(text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at));
                }
                call = call.text(&text);
            }
        }
        let reply = call.send().await;
        let status = reply.status.as_u16();
        *statuses.entry(status).or_default() += 1;
        let what = || format!("seed {seed}, call {n}: {} {path} {headers:?} {sent} as {role}\n{reply:?}", operation.id);
        assert!(status < 500, "{}", what());
        let response =
            documented(operation, status).unwrap_or_else(|| panic!("{status} is not documented: {}", what()));
        for (content_type, content) in response["content"].as_object().unwrap() {
            assert!(reply.header("content-type").starts_with(content_type.as_str()), "{}", what());
            if content_type.contains("json") {
                let mut schema = content["schema"].clone();
                schema["components"] = components.clone();
                if let Err(faults) = Schema::compile(&schema).unwrap().check(&reply.json, "") {
                    panic!("the body is not as documented: {faults:?}\n{}", what());
                }
            }
        }
    }
    let good = statuses.iter().filter(|(s, _)| **s < 300).map(|(_, n)| n).sum::<u32>();
    assert!(good * 4 > calls, "too few of the calls got through to mean anything: {statuses:?}");
}
