//! What a plugin says of itself.

use serde::Serialize;
use serde_json::{Map, Value};

/// Who a plugin is and what it wants.
#[derive(Debug, Serialize)]
pub struct Manifest {
    name: String,
    version: String,
    abi: &'static str,
    payload_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_schema: Option<Value>,
    exports: Map<String, Value>,
}

/// How often an expiry is tried, and how long it waits in between (durations such as `30s`).
#[derive(Debug, Serialize)]
pub struct Retry {
    /// In all, the first included.
    pub attempts: u32,
    /// The longest wait before the second attempt; doubled for each one after.
    pub initial: String,
    pub max: String,
}

#[derive(Clone, Copy, Debug)]
pub enum Export {
    OnExpire,
    OnRemind,
    Compensate,
}

#[derive(Clone, Copy, Debug)]
pub enum Capability {
    Http,
    Sql,
    Secret,
}

impl Manifest {
    /// `version` is semantic, for people; usually `env!("CARGO_PKG_VERSION")`. Any payload fits until a schema is set.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            abi: "lapse:plugin@1.0.0",
            payload_schema: Value::Bool(true),
            default_delay: None,
            retry: None,
            config_schema: None,
            exports: Map::new(),
        }
    }

    /// JSON Schema (2020-12) of a timer's payload.
    pub fn payload_schema(mut self, schema: &str) -> Self {
        self.payload_schema = parse(schema);
        self
    }

    /// JSON Schema (2020-12) of the type's configuration.
    pub fn config_schema(mut self, schema: &str) -> Self {
        self.config_schema = Some(parse(schema));
        self
    }

    /// A duration such as `30m`, for timers that say neither when they are due nor after how long.
    pub fn default_delay(mut self, delay: &str) -> Self {
        self.default_delay = Some(delay.into());
        self
    }

    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Without a grant of this for the export, a type of this plugin is refused.
    pub fn requires(self, export: Export, capability: Capability) -> Self {
        self.wants(export, capability, "required")
    }

    /// Used if granted.
    pub fn uses(self, export: Export, capability: Capability) -> Self {
        self.wants(export, capability, "optional")
    }

    fn wants(mut self, export: Export, capability: Capability, how: &str) -> Self {
        let export = match export {
            Export::OnExpire => "on-expire",
            Export::OnRemind => "on-remind",
            Export::Compensate => "compensate",
        };
        let capability = match capability {
            Capability::Http => "http",
            Capability::Sql => "sql",
            Capability::Secret => "secret",
        };
        let wanted = self.exports.entry(export).or_insert_with(|| serde_json::json!({"required": [], "optional": []}));
        if let Some(list) = wanted[how].as_array_mut() {
            list.push(capability.into());
        }
        self
    }

    pub(crate) fn into_json(self) -> String {
        serde_json::to_string(&self).unwrap_or_else(|e| panic!("the manifest cannot be written as JSON: {e}"))
    }
}

fn parse(schema: &str) -> Value {
    serde_json::from_str(schema).unwrap_or_else(|e| panic!("a schema is not JSON: {e}"))
}
