//! A plugin host without Wasm. A "component" is JSON: `{"manifest": …, "decide": …}`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lapse::{
    domain::{
        decision::{
            CompensationSpec, CompensationTask, CounterSpec, Decision, Effects, Expiry, Failure, FailureClass,
            FollowUpSpec, Verdict,
        },
        id::Digest,
        plugin::{ABI, Manifest},
        time::DurationMs,
        timer::Due,
    },
    plugin::{Cost, Host, Inspection, LogLine, Plugin, Refusal, Rights, Run},
};
use serde_json::{Value, json};

/// A component of this name; `more` is laid over its manifest.
pub fn component(name: &str, more: Value) -> Vec<u8> {
    component_that(name, "close", more)
}

/// A component that decides in a given way: `close`, `skip`, `retry`, `fail` or `panic`.
pub fn component_that(name: &str, decide: &str, more: Value) -> Vec<u8> {
    let mut manifest = json!({
        "name": name,
        "version": "1.0.0",
        "abi": ABI,
        "payload_schema": {
            "type": "object",
            "properties": {
                "order_id": { "type": "string", "minLength": 1 },
                "total": { "type": "integer", "minimum": 0 },
                "note": {},
                "items": { "type": "array", "items": { "type": "object", "properties": { "quantity": { "type": "integer" } } } }
            },
            "required": ["order_id", "total"],
            "additionalProperties": false
        },
        "default_delay": "30m",
        "config_schema": { "type": "object", "properties": { "url": { "type": "string" } }, "additionalProperties": false },
        "exports": { "on-expire": { "optional": ["http"] }, "compensate": { "optional": ["http"] } }
    });
    for (name, value) in more.as_object().unwrap() {
        if value.is_null() {
            manifest.as_object_mut().unwrap().remove(name);
        } else {
            manifest[name] = value.clone();
        }
    }
    json!({ "manifest": manifest, "decide": decide }).to_string().into_bytes()
}

pub struct FakeHost;

fn read(component: &[u8]) -> Result<(Manifest, String), Refusal> {
    let value: Value =
        serde_json::from_slice(component).map_err(|_| Refusal::Invalid("this is not a component".to_owned()))?;
    if value["over_limit"] == true {
        return Err(Refusal::OverLimit("it takes too long to compile".to_owned()));
    }
    let manifest = serde_json::from_value(value["manifest"].clone()).map_err(|e| Refusal::Invalid(e.to_string()))?;
    Ok((manifest, value["decide"].as_str().unwrap_or("close").to_owned()))
}

#[async_trait]
impl Host for FakeHost {
    async fn inspect(&self, component: Bytes) -> Result<Inspection, Refusal> {
        let (manifest, _) = read(&component)?;
        let imports = vec!["lapse:plugin/log@1.0.0".to_owned()];
        let (digest, size) = (Digest::of(&component), component.len() as u64);
        Ok(Inspection { digest, size, manifest, imports, compile_ms: 1 })
    }

    async fn load(&self, digest: Digest, component: Bytes) -> Result<Arc<dyn Plugin>, Refusal> {
        let (_, decide) = read(&component)?;
        Ok(Arc::new(FakePlugin { digest, decide }))
    }
}

struct FakePlugin {
    digest: Digest,
    decide: String,
}

fn run<T>(result: Result<T, Failure>) -> Run<T> {
    Run {
        result,
        logs: vec![LogLine { level: "info".to_owned(), message: "deciding".to_owned() }],
        denied: vec!["http is denied".to_owned()],
        counters: Vec::new(),
        cost: Cost { cpu_us: 12, memory_bytes: 65_536, host_calls: 1, http_calls: 1 },
        deferred: None,
    }
}

#[async_trait]
impl Plugin for FakePlugin {
    fn digest(&self) -> Digest {
        self.digest
    }

    fn decide(&self, expiry: &Expiry) -> Run<Decision> {
        let effects = Effects {
            compensations: vec![CompensationSpec {
                kind: "release".parse().unwrap(),
                payload: r#"{"sku":"S1"}"#.into(),
            }],
            follow_ups: vec![FollowUpSpec {
                timer_type: "order-timeout".parse().unwrap(),
                key: "next".parse().unwrap(),
                payload: "{}".into(),
                due: Some(Due::After(DurationMs::from_secs(60))),
            }],
            events: Vec::new(),
            counters: vec![CounterSpec { name: "closed".parse().unwrap(), value: 1 }],
        };
        let result = json!({ "attempt": expiry.attempt, "due_at": expiry.due_at, "id": expiry.timer_id }).to_string();
        run(match self.decide.as_str() {
            "close" => Ok(Decision { verdict: Verdict::Close { result: Some(result) }, effects }),
            "skip" => Ok(Decision {
                verdict: Verdict::Skip { reason: "paid already".to_owned() },
                effects: Effects::default(),
            }),
            "panic" => panic!("the host itself broke"),
            _ => Err(Failure::new(FailureClass::Permanent, "no_such_order", "there is no such order")),
        })
    }

    async fn decide_with_effects(&self, expiry: &Expiry, _: &Rights) -> Run<Decision> {
        self.decide(expiry)
    }

    async fn compensate(&self, _: &CompensationTask, _: &Rights) -> Run<Option<String>> {
        run(Ok(None))
    }
}
