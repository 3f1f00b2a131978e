//! `lapse bench cluster`: starts nodes on a database and a broker, and measures them under load, with much pending, and
//! when something dies; beside them, on the same database, what a service without Lapse would do: poll.

mod faults;
mod load;
mod nodes;
mod peer;
mod usage;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde::Serialize;

use crate::{config, delivery::jetstream, domain::time::DurationMs};

use self::{
    faults::{Commands, Recovered},
    load::Offered,
    nodes::Nodes,
    peer::{PeerParams, Polled},
    usage::{Usage, Watched},
};
use super::{
    super::{
        Result,
        error::Error,
        output::{Out, bytes, now},
    },
    work::{RegisterParams, Run},
};

/// How long the counts of the broker are looked at, with so much pending.
const LOOK_FOR: Duration = Duration::from_secs(5);
/// Registrations in a call, and calls at once.
const BATCH: usize = 500;
const AT_ONCE: usize = 4;

#[derive(Args)]
#[command(
    about = "Start a cluster, and measure it under load, with much pending, and when something dies",
    long_about = "Starts NODES nodes of this binary on a PostgreSQL database and a NATS broker, both empty and of no \
                  other use, and measures: how late timers fire at each rate, and what triggered them; the same load on a \
                  table that as many workers poll every 100 ms, on the same database; what the broker holds with more \
                  and more pending; and how long timers are late after a node, the broker or the database was lost. \
                  `bench/cluster.sh` starts a database and a broker for it.",
    after_help = "Examples:\n  \
        lapse bench cluster --database postgres://postgres@127.0.0.1:5432/bench --nats nats://127.0.0.1:4222\n  \
        lapse bench cluster --rates 300 --seconds 10 --watch postgres=4711 --watch nats=4712 --database postgres://127.0.0.1/bench --nats nats://127.0.0.1"
)]
pub struct Cluster {
    /// The database: empty, and of no other use
    #[arg(long, value_name = "URL", env = "LAPSE_STORE__DATABASE", hide_env_values = true)]
    database: String,
    /// The broker
    #[arg(long, value_name = "URL", env = "LAPSE_NATS__URL", hide_env_values = true)]
    nats: String,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,
    /// Timers due in each second, one measurement each; the faults happen at the first
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1000,4200", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rates: Vec<u64>,
    /// For how many seconds each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// With how much pending the broker is looked at
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "0,10000,200000", value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pending: Vec<u64>,
    /// Compensations of each timer, which are called at a demo shop; the polled table has as many rows in its outbox
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=10))]
    compensations: u16,
    /// A process on this machine whose CPU and memory are measured with those that it has started
    #[arg(long, value_name = "NAME=PID")]
    watch: Vec<Watched>,
    /// The plugin of the load's type
    #[arg(long, value_name = "FILE", default_value = "plugins/dist/order-timeout.wasm")]
    plugin: PathBuf,
    /// Measure no polled table
    #[arg(long)]
    no_peer: bool,
    /// Kill no node
    #[arg(long)]
    no_kill: bool,
    #[command(flatten)]
    commands: Commands,
}

#[derive(Serialize)]
struct Report {
    nodes: u16,
    compensations: u16,
    loads: Vec<Measured>,
    pending: Vec<Pending>,
    faults: Vec<Recovered>,
}

#[derive(Serialize)]
struct Measured {
    lapse: Offered,
    /// The polled table; none if it was not asked for.
    peer: Option<Polled>,
}

/// The broker with so many timers pending.
#[derive(Serialize)]
struct Pending {
    timers: u64,
    /// The most that were seen.
    messages: u64,
    unacked: u64,
    /// Of the process that is watched as `nats`.
    memory_bytes: Option<u64>,
}

impl Cluster {
    pub async fn run(self, out: &Out) -> Result {
        let component = tokio::fs::read(&self.plugin).await.map_err(|e| {
            Error::hinted(format!("{} cannot be read: {e}", self.plugin.display()), "build it with `make plugins`")
        })?;
        let mut nodes = Nodes::start(&self.database, &self.nats, self.nodes).await?;
        nodes.put_type(component).await?;
        let mut report = Report {
            nodes: self.nodes,
            compensations: self.compensations,
            loads: Vec::new(),
            pending: Vec::new(),
            faults: Vec::new(),
        };
        for rate in &self.rates {
            out.note(format!("{rate} a second for {} s", self.seconds));
            let mut watched = self.watch.clone();
            watched.extend(nodes.watched());
            let usage = Usage::begin(&watched);
            let run = self.new_run(&nodes);
            let mut lapse = load::offer(&nodes, &run, *rate, self.seconds, || usage.mark()).await?;
            lapse.cpu = usage.end();
            let peer = if self.no_peer {
                None
            } else {
                out.note(format!("{rate} a second for {} s, polled", self.seconds));
                let params = PeerParams {
                    database: &self.database,
                    workers: self.nodes,
                    rate: *rate,
                    seconds: self.seconds,
                    outbox: self.compensations,
                    watch: &self.watch,
                };
                Some(peer::measure(params).await?)
            };
            report.loads.push(Measured { lapse, peer });
        }
        self.with_pending(&nodes, out, &mut report.pending).await?;
        let rate = self.rates.first().copied().unwrap_or(1000);
        if !self.no_kill {
            out.note("killing a node");
            let run = self.new_run(&nodes);
            report.faults.push(faults::kill_a_node(&mut nodes, &run, rate).await?);
        }
        for fault in self.commands.faults() {
            out.note(fault.what);
            let run = self.new_run(&nodes);
            report.faults.push(faults::by_command(&run, rate, &fault).await?);
        }
        nodes.stop().await;
        out.show(&report, Report::describe)?;
        let wrong = |l: &Measured| l.lapse.unsettled + l.lapse.early > 0;
        if report.loads.iter().any(wrong) || report.faults.iter().any(|f| f.unsettled > 0) {
            return Err(Error::Said);
        }
        Ok(())
    }

    fn new_run(&self, nodes: &Nodes) -> Run {
        let items: Vec<String> =
            (0..self.compensations).map(|n| format!(r#"{{"sku":"sku-{n}","quantity":1}}"#)).collect();
        let payload = format!(
            r#"{{"order_id":"{{key}}","user_id":"u1","total_amount":1990,"payment_method":"online","items":[{}]}}"#,
            items.join(",")
        );
        Run::of(nodes.client(0), payload)
    }

    async fn with_pending(&self, nodes: &Nodes, out: &Out, found: &mut Vec<Pending>) -> Result {
        let broker = config::Nats { url: self.nats.clone(), ..config::Config::default().nats };
        let mut registered = 0;
        for pending in &self.pending {
            let more = pending.saturating_sub(registered);
            out.note(format!("{pending} pending"));
            let due = |n: u64| now().saturating_add(DurationMs::from_secs(7_200 + n % 3_600));
            let run = self.new_run(nodes);
            run.register(RegisterParams { count: more, batch: BATCH, at_once: AT_ONCE, due: &due }).await?;
            registered += more;
            let (mut messages, mut unacked) = (0, 0);
            let began = std::time::Instant::now();
            while began.elapsed() < LOOK_FOR {
                let look = jetstream::inspect(&broker).await.map_err(anyhow::Error::from)?;
                if let Some(counts) = look.counts {
                    messages = messages.max(counts.messages);
                    unacked = unacked.max(counts.unacked);
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            let nats = self.watch.iter().find(|w| w.name == "nats");
            let memory_bytes = nats.and_then(Watched::memory_bytes);
            found.push(Pending { timers: registered, messages, unacked, memory_bytes });
        }
        Ok(())
    }
}

impl Report {
    fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let _ = writeln!(text, "{} nodes, {} compensations each, delivered to a shop", self.nodes, self.compensations);
        for Measured { lapse, peer } in &self.loads {
            let _ = writeln!(
                text,
                "\n{} a second: {} fired, {} unsettled, {} early",
                lapse.rate, lapse.fired, lapse.unsettled, lapse.early
            );
            let _ = writeln!(text, "  lateness   {}", lapse.lateness);
            let _ = writeln!(text, "  triggers   {:?}", lapse.triggers);
            let _ = writeln!(text, "  CPU        {}", usage::describe(&lapse.cpu));
            if let Some(peer) = peer {
                let _ = writeln!(text, "  polled     {}; {} left", peer.lateness, peer.left);
                let _ = writeln!(text, "  its CPU    {}", usage::describe(&peer.cpu));
            }
        }
        let _ = writeln!(text);
        for Pending { timers, messages, unacked, memory_bytes } in &self.pending {
            let memory = memory_bytes.map(|b| format!(", nats-server resident {}", bytes(b))).unwrap_or_default();
            let _ =
                writeln!(text, "{timers} pending: {messages} messages at most, {unacked} of them handed out{memory}");
        }
        let _ = writeln!(text);
        for fault in &self.faults {
            let _ = writeln!(text, "{fault}");
        }
        text
    }
}
