//! An author's samples: timers, and what is to be decided of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    domain::{decision::Expiry, plugin::Manifest, time::Timestamp},
    plugin::Plugin,
    schema::Schema,
};

use super::{
    super::{error::Error, output::clean},
    Result,
    check::expiry,
    decision::outcome,
    read,
};

/// Samples of one plugin.
const MAX_SAMPLES: usize = 1000;
/// Differences that one sample names.
const MAX_DIFFERENCES: usize = 20;

/// One file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    name: String,
    expiry: Given,
    #[serde(default)]
    config: Map<String, Value>,
    expect: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    key: String,
    payload: Value,
    #[serde(default)]
    due_at: Option<Timestamp>,
    #[serde(default)]
    attempt: Option<u32>,
}

/// What is not named is not compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(default)]
    decision: Option<Map<String, Value>>,
    #[serde(default)]
    failure: Option<Map<String, Value>>,
}

/// What became of one.
#[derive(Serialize)]
pub struct Checked {
    file: PathBuf,
    name: String,
    pub passed: bool,
    differences: Vec<Difference>,
    pub cpu_us: u64,
    pub memory_bytes: u64,
}

#[derive(Serialize)]
struct Difference {
    /// Where, as a JSON pointer.
    pointer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual: Option<Value>,
}

/// Reads a file, or every `*.json` of a folder, in order of their names.
pub fn load(path: &Path) -> Result<Vec<(PathBuf, Sample)>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path)?.filter_map(std::result::Result::ok).map(|entry| entry.path());
        files = entries.filter(|file| file.extension().is_some_and(|e| e == "json")).collect();
        files.sort();
    }
    if files.is_empty() || files.len() > MAX_SAMPLES {
        let message = format!("{} holds {} samples; there can be 1 to {MAX_SAMPLES}", path.display(), files.len());
        return Err(Error::Other(anyhow::anyhow!(message)));
    }
    files
        .into_iter()
        .map(|file| {
            let bytes = read(&file)?;
            let sample = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&bytes))
                .map_err(|e| anyhow::anyhow!("{} is not a sample: at {}: {}", file.display(), e.path(), e.inner()))?;
            Ok((file, sample))
        })
        .collect()
}

impl Sample {
    pub fn check(&self, file: PathBuf, manifest: &Manifest, plugin: &dyn Plugin) -> Checked {
        let mut differences = Vec::new();
        let config = Value::Object(self.config.clone());
        fits("/expiry/payload", Some(&manifest.payload_schema), &self.expiry.payload, &mut differences);
        fits("/config", manifest.config_schema.as_ref(), &config, &mut differences);
        let run = plugin.decide(&self.expiry(manifest, &config));
        self.compare(&outcome(&run.result), &mut differences);
        Checked {
            file,
            name: self.name.clone(),
            passed: differences.is_empty(),
            differences,
            cpu_us: run.cost.cpu_us,
            memory_bytes: run.cost.memory_bytes,
        }
    }

    /// Fired at the moment it was due, so that the sample says all of it.
    fn expiry(&self, manifest: &Manifest, config: &Value) -> Expiry {
        let mut expiry = expiry(manifest, self.expiry.payload.to_string(), config.to_string());
        expiry.key.clone_from(&self.expiry.key);
        if let Some(at) = self.expiry.due_at {
            (expiry.due_at, expiry.fired_at) = (at, at);
        }
        expiry.attempt = self.expiry.attempt.unwrap_or(1);
        expiry
    }

    fn compare(&self, actual: &Value, found: &mut Vec<Difference>) {
        let Expected { decision, failure } = &self.expect;
        for (what, expected) in [("decision", decision), ("failure", failure)] {
            let Some(expected) = expected else { continue };
            let Some(actual) = actual.get(what) else {
                let expected = Some(json!(expected));
                found.push(Difference { pointer: format!("/{what}"), expected, actual: Some(actual.clone()) });
                continue;
            };
            for (name, expected) in expected {
                let pointer = format!("/{what}/{}", escape(name));
                differ(&pointer, Some(expected), actual.get(name), found);
            }
        }
        if decision.is_none() && failure.is_none() {
            found.push(Difference { pointer: "/expect".into(), expected: None, actual: Some(actual.clone()) });
        }
    }
}

fn fits(pointer: &str, schema: Option<&Value>, value: &Value, found: &mut Vec<Difference>) {
    let Some(schema) = schema.map(Schema::compile).and_then(std::result::Result::ok) else { return };
    let Err(faults) = schema.check(value, pointer) else { return };
    found.extend(faults.into_iter().take(MAX_DIFFERENCES).map(|fault| Difference {
        pointer: fault.pointer,
        expected: Some(fault.detail.into()),
        actual: None,
    }));
}

fn differ(pointer: &str, expected: Option<&Value>, actual: Option<&Value>, found: &mut Vec<Difference>) {
    if found.len() >= MAX_DIFFERENCES {
        return;
    }
    match (expected, actual) {
        (Some(Value::Object(expected)), Some(Value::Object(actual))) => {
            let more = actual.keys().filter(|name| !expected.contains_key(*name));
            for name in expected.keys().chain(more) {
                differ(&format!("{pointer}/{}", escape(name)), expected.get(name), actual.get(name), found);
            }
        }
        (Some(Value::Array(expected)), Some(Value::Array(actual))) => {
            for n in 0..expected.len().max(actual.len()) {
                differ(&format!("{pointer}/{n}"), expected.get(n), actual.get(n), found);
            }
        }
        // 1 and 1.0 are one number.
        (Some(Value::Number(a)), Some(Value::Number(b))) if a == b || a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        _ => {
            found.push(Difference {
                pointer: pointer.to_owned(),
                expected: expected.cloned(),
                actual: actual.cloned(),
            });
        }
    }
}

/// A name in a JSON pointer (RFC 6901).
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl Checked {
    pub fn describe(&self) -> String {
        let mark = if self.passed { "ok  " } else { "FAIL" };
        let mut text = format!("{mark} {} ({})\n", clean(&self.name), self.file.display());
        for Difference { pointer, expected, actual } in &self.differences {
            let said = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
            text.push_str(&clean(pointer));
            text.push('\n');
            for line in [format!("  - {}", said(expected)), format!("  + {}", said(actual))] {
                text.push_str(&clean(&line));
                text.push('\n');
            }
        }
        text
    }
}
