//! A decision as the API's dry run shows it, for a person and for comparison.

use serde_json::{Value, json};

use crate::{
    domain::{
        decision::{Decision, Failure, FollowUpSpec, Verdict},
        timer::Due,
    },
    plugin::LogLine,
};

use super::super::output::{bytes, clean, facts};

/// What a plugin wrote as JSON.
fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// `{"decision": …}` or `{"failure": …}`.
pub fn outcome(result: &Result<Decision, Failure>) -> Value {
    match result {
        Ok(decision) => json!({ "decision": decided(decision) }),
        Err(failure) => json!({ "failure": failure }),
    }
}

fn decided(decision: &Decision) -> Value {
    let mut shown = match &decision.verdict {
        Verdict::Close { result: Some(result) } => json!({ "outcome": "close", "result": read(result) }),
        Verdict::Close { result: None } => json!({ "outcome": "close" }),
        Verdict::Skip { reason } => json!({ "outcome": "skip", "reason": reason }),
        Verdict::Retry { after: Some(after), reason } => {
            json!({ "outcome": "retry", "after": after, "reason": reason })
        }
        Verdict::Retry { after: None, reason } => json!({ "outcome": "retry", "reason": reason }),
    };
    let effects = &decision.effects;
    shown["compensations"] =
        effects.compensations.iter().map(|c| json!({ "kind": c.kind, "payload": read(&c.payload) })).collect();
    shown["follow_ups"] = effects.follow_ups.iter().map(follow_up).collect();
    shown["events"] = json!(effects.events);
    shown["counters"] = json!(effects.counters);
    shown
}

fn follow_up(spec: &FollowUpSpec) -> Value {
    let mut shown = json!({ "type": spec.timer_type, "key": spec.key, "payload": read(&spec.payload) });
    match spec.due {
        Some(Due::At(at)) => shown["due_at"] = json!(at),
        Some(Due::After(delay)) => shown["delay"] = json!(delay),
        None => {}
    }
    shown
}

/// A run, for a person. `cpu` says its time in words.
pub fn describe(outcome: &Value, denied: &[String], cpu: String, memory_bytes: u64) -> String {
    let text = |name: &str| outcome.get(name).filter(|v| !v.is_null()).map(Value::to_string).unwrap_or_default();
    facts(&[
        ("decides", text("decision")),
        ("fails", text("failure")),
        ("denied", denied.join("; ")),
        ("cpu", cpu),
        ("memory", bytes(memory_bytes)),
    ])
}

pub fn describe_logs<'a>(logs: impl IntoIterator<Item = &'a LogLine>) -> String {
    let mut text = String::new();
    for line in logs {
        text.extend(["log ", &line.level, ": ", &clean(&line.message), "\n"]);
    }
    text
}
