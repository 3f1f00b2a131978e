//! What the API answers, as far as the commands look into it. What they do not know is kept, and printed with `--json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::{
    compensation::CompensationState,
    time::{DurationMs, Timestamp},
    timer::State,
};

use super::Problem;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timer {
    pub id: String,
    #[serde(rename = "type")]
    pub timer_type: String,
    pub key: String,
    pub state: State,
    pub due_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    pub attempt: u32,
    pub version: i64,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    pub seq: i64,
    pub at: Timestamp,
    pub kind: String,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_before: Option<State>,
    pub state_after: State,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compensation {
    pub id: String,
    pub timer_id: String,
    pub kind: String,
    pub state: CompensationState,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub last_error: Value,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plugin {
    pub digest: String,
    pub size: u64,
    pub manifest: Value,
    #[serde(default)]
    pub imports: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_ms: Option<u64>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimerType {
    pub name: String,
    #[serde(default)]
    pub revision: i64,
    #[serde(default)]
    pub digest: String,
    #[serde(default)]
    pub grants: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_delay: Option<DurationMs>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A key that was just made: the only time that its secret is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreatedKey {
    pub id: String,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What became of a batch, in its order.
#[derive(Clone, Debug, Deserialize)]
pub struct BatchAnswer {
    pub results: Vec<BatchItem>,
}

/// What became of one registration of a batch.
#[derive(Clone, Debug, Deserialize)]
pub struct BatchItem {
    pub status: u16,
    #[serde(default)]
    pub timer: Option<Timer>,
    #[serde(default)]
    pub problem: Option<Problem>,
}

/// The name of an API key in a row of `/v1/keys`.
pub fn key_name(row: &Value) -> &str {
    row.get("name").and_then(Value::as_str).unwrap_or_default()
}
