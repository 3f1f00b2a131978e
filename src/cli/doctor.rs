//! `lapse doctor`.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    config,
    delivery::jetstream,
    domain::audit::Chain,
    store::{
        migration::MigrationStatus,
        postgres::{self, PostgresParams},
        sqlite,
    },
};

use super::{
    Result,
    error::Error,
    output::{Out, Table, now},
    settings::Settings,
};

/// The oldest broker that this is tested with, as major and minor.
const OLDEST_BROKER: (u32, u32) = (2, 10);
/// Clocks that differ by more make logs hard to read; nodes go by the database's, whatever their own says.
const CLOCK_REMARK_MS: i64 = 1000;

#[derive(Args)]
#[command(
    about = "Say what the database and the broker have, and what is missing",
    long_about = "Looks at the database and the broker that the settings name, and changes nothing: versions, settings, \
                  migrations, the nodes that live, clocks, the broker's stream and consumer. Exits with 1 if something \
                  has to be mended.",
    after_help = "Examples:\n  \
        lapse doctor --data /var/lib/lapse\n  \
        lapse doctor --database postgres://lapse@db.example/lapse --nats nats://broker.example\n  \
        lapse doctor --json | jq '.[] | select(.verdict != \"ok\")'"
)]
pub struct Doctor {
    #[command(flatten)]
    settings: Settings,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    /// Works, and could be better.
    Remark,
    /// Has to be mended.
    Fault,
}

#[derive(Serialize)]
struct Finding {
    /// `database` or `broker`.
    of: &'static str,
    what: String,
    found: Value,
    verdict: Verdict,
    #[serde(skip_serializing_if = "String::is_empty")]
    advice: String,
}

impl Finding {
    fn ok(of: &'static str, what: impl Into<String>, found: impl Into<Value>) -> Self {
        Self { of, what: what.into(), found: found.into(), verdict: Verdict::Ok, advice: String::new() }
    }

    fn but(self, verdict: Verdict, advice: impl Into<String>) -> Self {
        Self { verdict, advice: advice.into(), ..self }
    }
}

impl Doctor {
    pub async fn run(self, out: &Out) -> Result {
        let config = self.settings.load()?.config;
        let mut findings = match config.store.postgres() {
            Some(url) => look_at_postgres(url).await,
            None => look_at_sqlite(&config.store).await?,
        };
        findings.extend(look_at_broker(&config.nats).await);
        out.show(&findings, |findings| {
            let mut table = Table::new(["of", "what", "found", "verdict", "advice"]);
            for f in findings {
                let found = f.found.as_str().map_or_else(|| f.found.to_string(), str::to_owned);
                let verdict = match f.verdict {
                    Verdict::Ok => "ok",
                    Verdict::Remark => "remark",
                    Verdict::Fault => "FAULT",
                };
                table.row([f.of.into(), f.what.clone(), found, verdict.into(), f.advice.clone()]);
            }
            table.to_string()
        })?;
        if findings.iter().any(|f| f.verdict == Verdict::Fault) { Err(Error::Said) } else { Ok(()) }
    }
}

async fn look_at_postgres(url: &str) -> Vec<Finding> {
    const OF: &str = "database";
    // A look chains no audit.
    let look = match postgres::inspect(&PostgresParams::new(url, Chain::new([0; 32]))).await {
        Ok(look) => look,
        Err(error) => {
            let finding = Finding::ok(OF, "connection", "none");
            return vec![finding.but(Verdict::Fault, error.to_string())];
        }
    };
    let mut findings = vec![Finding::ok(OF, "server", format!("PostgreSQL {}", look.server))];
    findings.push(migrations(OF, &look.migrations));
    let ahead = look.now.as_millis() - now().as_millis();
    let clock = Finding::ok(OF, "clock", json!(format!("{ahead:+} ms from this machine's")));
    let round_trip = i64::try_from(look.round_trip.as_millis()).unwrap_or(i64::MAX);
    findings.push(if ahead.abs() > CLOCK_REMARK_MS.saturating_add(round_trip) {
        clock.but(Verdict::Remark, "nodes go by the database's clock; set the machines' by NTP, for their logs")
    } else {
        clock
    });
    findings.push(Finding::ok(OF, "round trip", format!("{:.1} ms", look.round_trip.as_secs_f64() * 1000.0)));
    for setting in look.settings {
        let finding = Finding::ok(OF, setting.name, setting.value);
        findings.push(match setting.remark {
            Some(remark) => {
                let verdict = if setting.is_fault { Verdict::Fault } else { Verdict::Remark };
                finding.but(verdict, format!("{remark} (docs/postgresql.md)"))
            }
            None => finding,
        });
    }
    let fire = look.nodes.iter().filter(|node| node.fires).count();
    if fire == 0 && !look.nodes.is_empty() {
        let finding = Finding::ok(OF, "nodes that fire", "none");
        findings
            .push(finding.but(Verdict::Fault, "timers are registered and none fires; start a node without --no-fire"));
    }
    for node in look.nodes {
        let does = if node.fires { "fires" } else { "only registers" };
        let found = format!("{does}; said that it lives {} ms ago", node.ago_ms);
        findings.push(Finding::ok(OF, format!("node {}", node.id), found));
    }
    findings
}

async fn look_at_sqlite(config: &config::Store) -> Result<Vec<Finding>> {
    const OF: &str = "database";
    let path = config.sqlite();
    let file = Finding::ok(OF, "SQLite", path.display().to_string());
    if !path.exists() {
        return Ok(vec![file.but(Verdict::Remark, "there is none yet; the first start makes it")]);
    }
    let status =
        tokio::task::spawn_blocking(move || sqlite::migrate_status(&path)).await.map_err(anyhow::Error::from)?;
    Ok(match status {
        Ok(all) => vec![file, migrations(OF, &all)],
        Err(error) => vec![file.but(Verdict::Fault, error.to_string())],
    })
}

fn migrations(of: &'static str, all: &[MigrationStatus]) -> Finding {
    let missing: Vec<_> = all.iter().filter(|m| m.applied_at.is_none()).map(|m| m.number.to_string()).collect();
    let finding = Finding::ok(of, "migrations", format!("{} of {}", all.len() - missing.len(), all.len()));
    if missing.is_empty() {
        return finding;
    }
    finding.but(
        Verdict::Remark,
        format!("{} missing; `lapse migrate up` or the first start applies it", missing.join(", ")),
    )
}

async fn look_at_broker(config: &config::Nats) -> Vec<Finding> {
    const OF: &str = "broker";
    if config.url.is_empty() {
        return Vec::new();
    }
    let look = match jetstream::inspect(config).await {
        Ok(look) => look,
        Err(error) => {
            let advice = format!("{error}; meanwhile nodes go by their own clocks");
            return vec![Finding::ok(OF, "connection", "none").but(Verdict::Fault, advice)];
        }
    };
    let server = Finding::ok(OF, "server", format!("nats-server {}", look.server));
    let is_old = version(&look.server).is_some_and(|v| v < OLDEST_BROKER);
    let mut findings = vec![if is_old { server.but(Verdict::Fault, "2.10 or later is needed") } else { server }];
    for missing in look.missing {
        findings.push(Finding::ok(OF, missing, "missing").but(Verdict::Remark, "the first node that starts makes it"));
    }
    for change in look.changed {
        let advice =
            format!("it was made as {}; set it back, nodes never change a stream that is in use", change.wanted);
        findings.push(Finding::ok(OF, change.setting, change.found).but(Verdict::Fault, advice));
    }
    if let Some(counts) = look.counts {
        findings.push(Finding::ok(OF, "slots", json!(counts)));
    }
    findings
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
