//! `lapse plugin check`: what a server would say of a component, what it decides of its author's samples, and what its
//! decisions cost, without a server.

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::{
    breaker::Breakers,
    config::Config,
    costs::Tally,
    domain::{
        decision::Expiry,
        id::TimerId,
        plugin::{Capability, Export, Manifest},
        timer::Trigger,
    },
    plugin::{Host as _, HostParams, Inspection, LogLine, Plugin, WasmHost},
    schema::Schema,
};

use super::{
    super::{
        error::Error,
        output::{bytes, facts, now},
        timer::payload,
    },
    Out, Result, component,
    decision::{describe, describe_logs, outcome},
    read,
    samples::{self, Checked},
    settings,
};

#[derive(Args)]
#[command(
    about = "Say what a component is, decides and costs",
    long_about = "Checks a component as a server would: that it is one of our world, compiles within bounds, describes \
                  itself, and asks for nothing that this version cannot carry out. Given a plugin's folder, builds it \
                  first, and runs its samples (samples/*.json): timers, and what is to be decided of them. With \
                  --payload, runs its decision on a timer made up so. Calls with effects are denied. The exit code is 1 \
                  if a sample is not decided as expected, or the decision fails.",
    after_help = "Examples:\n  \
        lapse plugin check\n  \
        lapse plugin check my.wasm --samples samples\n  \
        lapse plugin check plugins/dist/order-timeout.wasm --payload @order.json --config inventory_url=http://i --config coupon_url=http://c"
)]
pub struct Check {
    /// The component, or the folder of a plugin, which is built
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Samples: a folder of them, or one file [default: samples in the plugin's folder]
    #[arg(long, value_name = "PATH")]
    samples: Option<PathBuf>,
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
    sample: Option<Made>,
    samples: Vec<Checked>,
}

/// A decision on a made-up timer.
#[derive(Serialize)]
struct Made {
    /// `decision` or `failure`.
    #[serde(flatten)]
    outcome: Value,
    logs: Vec<LogLine>,
    denied: Vec<String>,
    runs: u32,
    /// CPU time of one call, instance and all, counted as a server counts it.
    cpu_us_p50: u64,
    cpu_us_p99: u64,
    cpu_us_max: u64,
    memory_bytes: u64,
}

impl Check {
    pub async fn run(self, out: &Out) -> Result {
        let payload = self.payload.as_deref().map(payload).transpose()?;
        let config = Value::Object(settings(&self.config)?).to_string();
        let in_folder = Some(self.path.join("samples")).filter(|samples| samples.is_dir());
        let samples = match self.samples.clone().or(in_folder) {
            Some(path) => samples::load(&path)?,
            None => Vec::new(),
        };
        let file = component(&self.path).await?;
        let component = bytes::Bytes::from(read(&file)?);
        let params = HostParams {
            breakers: Breakers::off(),
            cache: None,
            check_schema: |schema| Schema::compile(schema).map(drop),
        };
        let host = WasmHost::new(&Config::default().plugin, params).map_err(anyhow::Error::from)?;
        let refused = |why: crate::plugin::Refusal| Error::Other(anyhow::anyhow!("{}: {why}", file.display()));
        let inspection = host.inspect(component.clone()).await.map_err(refused)?;
        if let Some(payload) = &payload {
            check_payload(&inspection.manifest, payload)?;
        }
        let plugin = host.load(inspection.digest, component).await.map_err(refused)?;
        let made = payload.map(|payload| expiry(&inspection.manifest, payload.to_string(), config));
        let (manifest, runs) = (inspection.manifest.clone(), self.runs);
        let ran = tokio::task::spawn_blocking(move || {
            let made = made.map(|expiry| measure(&plugin, &expiry, runs));
            let checked = samples.into_iter().map(|(file, sample)| sample.check(file, &manifest, &*plugin)).collect();
            (made, checked)
        });
        let (sample, samples): (Option<Made>, Vec<Checked>) = ran.await.map_err(anyhow::Error::from)?;
        let Inspection { digest, size, manifest, imports, compile_ms } = inspection;
        let purity = purity(&manifest);
        let report =
            Report { digest: digest.to_string(), size, compile_ms, imports, manifest, purity, sample, samples };
        out.show(&report, Report::describe)?;
        let failed = report.sample.as_ref().is_some_and(|made| made.outcome.get("failure").is_some());
        if failed || report.samples.iter().any(|sample| !sample.passed) { Err(Error::Said) } else { Ok(()) }
    }
}

fn check_payload(manifest: &Manifest, payload: &Value) -> Result {
    let schema = Schema::compile(&manifest.payload_schema).map_err(|e| Error::Other(anyhow::anyhow!(e)))?;
    schema.check(payload, "").map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(|f| format!("\n  {}: {}", f.pointer, f.detail)).collect();
        Error::Other(anyhow::anyhow!("the payload does not fit the plugin's schema:{}", faults.concat()))
    })
}

/// A timer that is not there, due now.
pub fn expiry(manifest: &Manifest, payload: String, config: String) -> Expiry {
    let id = TimerId::new();
    Expiry {
        timer_id: id,
        namespace: "default".into(),
        timer_type: manifest.name.to_string(),
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

fn measure(plugin: &Arc<dyn Plugin>, expiry: &Expiry, runs: u32) -> Made {
    let first = plugin.decide(expiry);
    let mut tally = Tally::default();
    tally.add(&first.cost);
    (1..runs).for_each(|_| tally.add(&plugin.decide(expiry).cost));
    // Of no type yet, and so of its first revision.
    let costs = tally.summary(1, Export::OnExpire);
    Made {
        outcome: outcome(&first.result),
        logs: first.logs,
        denied: first.denied,
        runs,
        cpu_us_p50: costs.cpu_us_p50,
        cpu_us_p99: costs.cpu_us_p99,
        cpu_us_max: costs.cpu_us_max,
        memory_bytes: costs.memory_bytes_peak,
    }
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

/// Those of WASI, which a language's library brings along, by their number alone.
fn imports(all: &[String]) -> String {
    let (wasi, own): (Vec<&str>, Vec<&str>) =
        all.iter().map(String::as_str).partition(|name| name.starts_with("wasi:"));
    let own = own.join(" ");
    if wasi.is_empty() { own } else { format!("{own}, and {} of WASI, which give it nothing", wasi.len()) }
}

impl Report {
    fn describe(&self) -> String {
        let wants: Vec<String> = self
            .manifest
            .exports
            .iter()
            .flat_map(|(export, wanted)| {
                let say = |c: &Capability, how: &str| {
                    format!("{}:{} ({how})", export.as_str(), serde_json::json!(c).as_str().unwrap_or_default())
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
            ("imports", imports(&self.imports)),
            ("wants", wants.join(", ")),
            ("on-expire", self.purity.to_owned()),
            ("default delay", self.manifest.default_delay.map(|d| d.to_string()).unwrap_or_default()),
        ]);
        if let Some(made) = &self.sample {
            let cpu = format!(
                "p50 {} µs, p99 {} µs, max {} µs, of {} calls",
                made.cpu_us_p50, made.cpu_us_p99, made.cpu_us_max, made.runs
            );
            text.push('\n');
            text.push_str(&describe(&made.outcome, &made.denied, cpu, made.memory_bytes));
            text.push_str(&describe_logs(&made.logs));
        }
        if !self.samples.is_empty() {
            text.push('\n');
            text.extend(self.samples.iter().map(Checked::describe));
            let most = |of: fn(&Checked) -> u64| self.samples.iter().map(of).max().unwrap_or(0);
            let passed = self.samples.iter().filter(|sample| sample.passed).count();
            let (cpu_us, memory) = (most(|s| s.cpu_us), bytes(most(|s| s.memory_bytes)));
            let (passed, all) = (passed.to_string(), self.samples.len().to_string());
            text.extend([&*passed, " of ", &*all, " samples as expected; at most "]);
            text.extend([&*cpu_us.to_string(), " µs of CPU and ", &*memory, " of memory a call\n"]);
        }
        text
    }
}
