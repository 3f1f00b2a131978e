//! What the scenarios share: a host, and calls made up for it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use lapse::{
    breaker::Breakers,
    config::{self, Config},
    domain::{
        decision::{CompensationTask, Expiry},
        id::{CompensationId, Digest, TimerId},
        plugin::Grant,
        time::Timestamp,
        timer::Trigger,
    },
    plugin::{Host as _, HostParams, Plugin, Rights, WasmHost},
    schema::Schema,
};
use serde_json::Value;

pub fn settings() -> config::Plugin {
    Config::default().plugin
}

pub fn host(settings: &config::Plugin) -> Arc<WasmHost> {
    // Compiled once for all tests. (The tests of the compiler and of the cache have none, or one of their own.)
    host_with(settings, Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")))
}

pub fn host_with(settings: &config::Plugin, cache: Option<PathBuf>) -> Arc<WasmHost> {
    let check_schema = |schema: &Value| Schema::compile(schema).map(drop);
    WasmHost::new(settings, HostParams { breakers: Breakers::off(), cache, check_schema }).unwrap()
}

pub async fn load(host: &WasmHost, component: Bytes) -> Arc<dyn Plugin> {
    host.load(Digest::of(&component), component).await.unwrap()
}

pub fn expiry(payload: &Value, config: &Value) -> Expiry {
    Expiry {
        timer_id: TimerId(uuid::Uuid::from_u128(7)),
        namespace: "default".into(),
        timer_type: "order-timeout".into(),
        key: "A17".into(),
        payload: payload.to_string(),
        attempt: 1,
        trigger: Trigger::Slot,
        idempotency_key: "0197-key".into(),
        due_at: at("2026-03-01T12:30:00.000Z"),
        fired_at: at("2026-03-01T12:30:00.004Z"),
        config: config.to_string(),
    }
}

pub fn task(kind: &str, payload: &Value, config: &Value) -> CompensationTask {
    CompensationTask {
        id: CompensationId(uuid::Uuid::from_u128(9)),
        timer_id: TimerId(uuid::Uuid::from_u128(7)),
        namespace: "default".into(),
        timer_type: "order-timeout".into(),
        key: "A17".into(),
        kind: kind.into(),
        payload: payload.to_string(),
        attempt: 1,
        idempotency_key: "0198-key".into(),
        now: at("2026-03-01T12:30:01.000Z"),
        config: config.to_string(),
    }
}

pub fn at(instant: &str) -> Timestamp {
    instant.parse().unwrap()
}

pub fn rights(grants: &[&str]) -> Rights {
    let grants: Vec<Grant> = grants.iter().map(|g| g.parse().unwrap()).collect();
    Rights { grants: grants.into(), ..Rights::default() }
}
