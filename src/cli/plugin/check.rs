//! `lapse plugin check`: what a server would say of a component, and what its decisions cost, without a server.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    breaker::Breakers,
    config::Config,
    domain::{
        decision::{Decision, Expiry, Verdict},
        id::TimerId,
        plugin::{Capability, Export, Manifest},
        timer::Trigger,
    },
    plugin::{Cost, Host as _, HostParams, Inspection, LogLine, Plugin, Run, WasmHost},
    schema::Schema,
};

use super::{
    super::{
        error::Error,
        output::{bytes, clean, facts, now},
        timer::payload,
    },
    Out, Result, read, settings,
};

#[derive(Args)]
#[command(
    about = "Say what a component is, and what its decisions cost",
    long_about = "Checks a component as a server would: that it is one of our world, compiles within bounds, describes \
                  itself, and asks for nothing that this version cannot carry out. With --payload, runs its decision on \
                  a made-up timer and says what it decides and costs; calls with effects are denied.",
    after_help = "Examples:\n  \
        lapse plugin check my.wasm\n  \
        lapse plugin check plugins/dist/order-timeout.wasm --payload @order.json --config inventory_url=http://i --config coupon_url=http://c"
)]
pub struct Check {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Run the decision on this payload: JSON, or @FILE, or - for standard input
    #[arg(long, short = 'p', value_name = "JSON")]
    payload: Option<String>,
    /// A setting that the decision is given; may be given more than once
    #[arg(long, short = 'c', value_name = "NAME=VALUE", requires = "payload")]
    config: Vec<String>,
    /// How often the decision is run to measure its cost
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
}

#[derive(Serialize)]
struct Report {
    digest: String,
    size: u64,
    compile_ms: u64,
    imports: Vec<String>,
    manifest: Manifest,
    /// What `on-expire` may do.
    purity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<Sample>,
}

/// A decision on a made-up timer.
#[derive(Serialize)]
struct Sample {
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Value>,
    logs: Vec<LogLine>,
    denied: Vec<String>,
    runs: u32,
    /// CPU time of one call, instance and all: the median, and the most.
    cpu_us_median: u64,
    cpu_us_max: u64,
    memory_bytes: u64,
}

impl Check {
    pub async fn run(self, out: &Out) -> Result {
        let component = bytes::Bytes::from(read(&self.file)?);
        let payload = self.payload.as_deref().map(payload).transpose()?;
        let config = Value::Object(settings(&self.config)?).to_string();
        let params = HostParams {
            breakers: Breakers::off(),
            cache: None,
            check_schema: |schema| Schema::compile(schema).map(drop),
        };
        let host = WasmHost::new(&Config::default().plugin, params).map_err(anyhow::Error::from)?;
        let refused = |why: crate::plugin::Refusal| Error::Other(anyhow::anyhow!("{}: {why}", self.file.display()));
        let inspection = host.inspect(component.clone()).await.map_err(refused)?;
        let sample = match payload {
            None => None,
            Some(payload) => {
                check_payload(&inspection.manifest, &payload)?;
                let plugin = host.load(inspection.digest, component).await.map_err(refused)?;
                let expiry = expiry(&inspection, payload.to_string(), config);
                let runs = self.runs;
                let sampled = tokio::task::spawn_blocking(move || sample(&plugin, &expiry, runs)).await;
                Some(sampled.map_err(anyhow::Error::from)?)
            }
        };
        let Inspection { digest, size, manifest, imports, compile_ms } = inspection;
        let purity = purity(&manifest);
        let report = Report { digest: digest.to_string(), size, compile_ms, imports, manifest, purity, sample };
        out.show(&report, Report::describe)?;
        match report.sample {
            Some(Sample { failure: Some(_), .. }) => Err(Error::Said),
            _ => Ok(()),
        }
    }
}

fn check_payload(manifest: &Manifest, payload: &Value) -> Result {
    let schema = Schema::compile(&manifest.payload_schema).map_err(|e| Error::Other(anyhow::anyhow!(e)))?;
    schema.check(payload, "").map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(|f| format!("\n  {}: {}", f.pointer, f.detail)).collect();
        Error::Other(anyhow::anyhow!("the payload does not fit the plugin's schema:{}", faults.concat()))
    })
}

fn expiry(inspection: &Inspection, payload: String, config: String) -> Expiry {
    let id = TimerId::new();
    Expiry {
        timer_id: id,
        namespace: "default".into(),
        timer_type: inspection.manifest.name.to_string(),
        key: "sample".into(),
        payload,
        attempt: 1,
        trigger: Trigger::Manual,
        idempotency_key: id.to_string(),
        due_at: now(),
        fired_at: now(),
        config,
    }
}

fn sample(plugin: &Arc<dyn Plugin>, expiry: &Expiry, runs: u32) -> Sample {
    let first = plugin.decide(expiry);
    let mut costs: Vec<Cost> = (1..runs).map(|_| plugin.decide(expiry).cost).collect();
    costs.push(first.cost);
    costs.sort_unstable_by_key(|c| c.cpu_us);
    let Run { result, logs, denied, .. } = first;
    let (decision, failure) = match result {
        Ok(decision) => (Some(show(&decision)), None),
        Err(failure) => (None, Some(json!(failure))),
    };
    Sample {
        decision,
        failure,
        logs,
        denied,
        runs,
        cpu_us_median: costs[costs.len() / 2].cpu_us,
        cpu_us_max: costs.last().map_or(0, |c| c.cpu_us),
        memory_bytes: costs.iter().map(|c| c.memory_bytes).max().unwrap_or(0),
    }
}

fn show(decision: &Decision) -> Value {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.into());
    let mut shown = match &decision.verdict {
        Verdict::Close { result } => json!({ "outcome": "close", "result": result.as_deref().map(json) }),
        Verdict::Skip { reason } => json!({ "outcome": "skip", "reason": reason }),
        Verdict::Retry { after, reason } => json!({ "outcome": "retry", "after": after, "reason": reason }),
    };
    let effects = &decision.effects;
    shown["compensations"] =
        effects.compensations.iter().map(|c| json!({ "kind": c.kind, "payload": json(&c.payload) })).collect();
    shown["follow_ups"] = effects
        .follow_ups
        .iter()
        .map(|f| json!({ "type": f.timer_type, "key": f.key, "payload": json(&f.payload) }))
        .collect();
    shown["events"] = json!(effects.events);
    shown["counters"] = json!(effects.counters);
    shown
}

/// What granting can make of `on-expire`.
fn purity(manifest: &Manifest) -> &'static str {
    let effectful = |c: &Capability| matches!(c, Capability::Http | Capability::Sql);
    match manifest.exports.get(&Export::OnExpire) {
        Some(wanted) if wanted.required.iter().any(effectful) => "acts when it decides: it must be granted an effect",
        Some(wanted) if wanted.optional.iter().any(effectful) => {
            "pure, unless it is granted an effect: its decision is one write"
        }
        _ => "pure, always: its decision is one write",
    }
}

impl Report {
    fn describe(&self) -> String {
        let wants: Vec<String> = self
            .manifest
            .exports
            .iter()
            .flat_map(|(export, wanted)| {
                let say = |c: &Capability, how: &str| {
                    format!("{}:{} ({how})", export.as_str(), json!(c).as_str().unwrap_or_default())
                };
                let required = wanted.required.iter().map(move |c| say(c, "required"));
                required.chain(wanted.optional.iter().map(move |c| say(c, "optional")))
            })
            .collect();
        let mut text = facts(&[
            ("name", format!("{} {}", self.manifest.name, self.manifest.version)),
            ("abi", self.manifest.abi.clone()),
            ("digest", self.digest.clone()),
            ("size", bytes(self.size)),
            ("compiled in", format!("{} ms", self.compile_ms)),
            ("imports", self.imports.join(" ")),
            ("wants", wants.join(", ")),
            ("on-expire", self.purity.to_owned()),
            ("default delay", self.manifest.default_delay.map(|d| d.to_string()).unwrap_or_default()),
        ]);
        if let Some(sample) = &self.sample {
            text.push('\n');
            text.push_str(&facts(&[
                ("decides", sample.decision.as_ref().map(Value::to_string).unwrap_or_default()),
                ("fails", sample.failure.as_ref().map(Value::to_string).unwrap_or_default()),
                ("denied", sample.denied.join("; ")),
                (
                    "cpu",
                    format!("{} µs, {} µs at most, of {} calls", sample.cpu_us_median, sample.cpu_us_max, sample.runs),
                ),
                ("memory", bytes(sample.memory_bytes)),
            ]));
            for line in &sample.logs {
                text.extend(["log ", &line.level, ": ", &clean(&line.message), "\n"]);
            }
        }
        text
    }
}
