//! What the calls of plugins cost on this node since it started: by type, revision and export. In memory alone; what is
//! to be kept is in the metrics, and what a single call cost is in its timer's audit.

use std::{collections::HashMap, sync::Arc};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;

use crate::{
    clock::{Clock as _, SystemClock},
    domain::{
        id::TypeId,
        plugin::{Export, TypeRow},
        time::Timestamp,
    },
    plugin::Cost,
};

/// Types, revisions and exports that are told apart; the calls of more are only in the metrics.
const MAX_KEPT: usize = 10_000;
/// Each doubling of CPU time is divided into so many classes: what a quantile says is off by an eighth at most.
const STEPS: usize = 8;
/// Doublings that are told apart: up to 12 days in microseconds.
const DOUBLINGS: usize = 40;

/// A node's costs. Cheap to clone.
#[derive(Clone)]
pub struct Costs {
    since: Timestamp,
    kept: Arc<Mutex<HashMap<Key, Kept>>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Key {
    type_id: TypeId,
    revision: i64,
    export: Export,
}

struct Kept {
    tally: Tally,
    meters: Meters,
}

/// What one revision's calls of one export cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub revision: i64,
    pub export: Export,
    pub calls: u64,
    pub cpu_us_total: u64,
    pub cpu_us_p50: u64,
    pub cpu_us_p99: u64,
    pub cpu_us_max: u64,
    /// The most linear memory that one call had in use, in bytes.
    pub memory_bytes_peak: u64,
    pub http_calls: u64,
    pub sql_calls: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self { since: SystemClock.now(), kept: Arc::default() }
    }
}

impl Costs {
    /// When it began to count.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Takes in one call.
    pub fn record(&self, of: &TypeRow, revision: i64, export: Export, cost: &Cost) {
        let key = Key { type_id: of.id, revision, export };
        let mut kept = self.kept.lock();
        if let Some(kept) = kept.get_mut(&key) {
            kept.tally.add(cost);
            kept.meters.add(cost);
            return;
        }
        let meters = Meters::new(of, revision, export);
        meters.add(cost);
        if kept.len() < MAX_KEPT {
            let mut tally = Tally::default();
            tally.add(cost);
            kept.insert(key, Kept { tally, meters });
        }
    }

    /// A type's costs, the newest revision first.
    pub fn of(&self, type_id: TypeId) -> Vec<Summary> {
        let kept = self.kept.lock();
        let own = kept.iter().filter(|(key, _)| key.type_id == type_id);
        let mut all: Vec<_> = own.map(|(key, kept)| kept.tally.summary(key.revision, key.export)).collect();
        drop(kept);
        all.sort_by_key(|summary| (std::cmp::Reverse(summary.revision), summary.export));
        all
    }
}

/// Sums over calls. Its size is fixed, whatever their number.
#[derive(Clone, Debug)]
pub struct Tally {
    calls: u64,
    cpu_us_total: u64,
    cpu_us_max: u64,
    memory_bytes_peak: u64,
    http_calls: u64,
    sql_calls: u64,
    /// Calls by class of CPU time.
    classes: Box<[u32]>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            calls: 0,
            cpu_us_total: 0,
            cpu_us_max: 0,
            memory_bytes_peak: 0,
            http_calls: 0,
            sql_calls: 0,
            classes: vec![0; STEPS * DOUBLINGS].into(),
        }
    }
}

impl Tally {
    pub fn add(&mut self, cost: &Cost) {
        self.calls += 1;
        self.cpu_us_total = self.cpu_us_total.saturating_add(cost.cpu_us);
        self.cpu_us_max = self.cpu_us_max.max(cost.cpu_us);
        self.memory_bytes_peak = self.memory_bytes_peak.max(cost.memory_bytes);
        self.http_calls += u64::from(cost.http_calls);
        self.sql_calls += u64::from(cost.sql_calls());
        let class = &mut self.classes[class(cost.cpu_us)];
        *class = class.saturating_add(1);
    }

    pub fn summary(&self, revision: i64, export: Export) -> Summary {
        Summary {
            revision,
            export,
            calls: self.calls,
            cpu_us_total: self.cpu_us_total,
            cpu_us_p50: self.cpu_us_at(50),
            cpu_us_p99: self.cpu_us_at(99),
            cpu_us_max: self.cpu_us_max,
            memory_bytes_peak: self.memory_bytes_peak,
            http_calls: self.http_calls,
            sql_calls: self.sql_calls,
        }
    }

    /// The CPU time that so many calls in a hundred did not exceed: the end of its class.
    fn cpu_us_at(&self, percent: u64) -> u64 {
        let all: u64 = self.classes.iter().map(|n| u64::from(*n)).sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = self.classes.iter().position(|n| {
            seen += u64::from(*n);
            seen >= wanted
        });
        reached.map_or(0, |class| end_of(class).min(self.cpu_us_max))
    }
}

/// The class of a time: its highest bit, and the three after it.
fn class(us: u64) -> usize {
    let steps = STEPS as u64;
    if us < steps {
        return usize::try_from(us).unwrap_or(0);
    }
    let doubling = us.ilog2() - steps.ilog2();
    let step = usize::try_from((us >> doubling) - steps).unwrap_or(0);
    (STEPS * (doubling as usize + 1) + step).min(STEPS * DOUBLINGS - 1)
}

/// The longest time of a class.
fn end_of(class: usize) -> u64 {
    let (doubling, step) = ((class / STEPS) as u64, (class % STEPS) as u64);
    match doubling {
        0 => step,
        n => ((STEPS as u64 + step + 1) << (n - 1)) - 1,
    }
}

/// The same in the metrics; the handles are looked up once.
struct Meters {
    cpu: Histogram,
    memory: Gauge,
    /// What the gauge shows.
    peak: Mutex<u64>,
    http: Counter,
    sql: Counter,
}

impl Meters {
    fn new(of: &TypeRow, revision: i64, export: Export) -> Self {
        let labels = [
            ("namespace", of.namespace.to_string()),
            ("type", of.name.to_string()),
            ("revision", revision.to_string()),
            ("export", export.as_str().to_owned()),
        ];
        let host_calls = |capability: &'static str| {
            let [namespace, name, revision, export] = labels.clone();
            let labels = [namespace, name, revision, export, ("capability", capability.to_owned())];
            counter!("lapse_plugin_host_calls_total", &labels)
        };
        Self {
            cpu: histogram!("lapse_plugin_cpu_seconds", &labels),
            memory: gauge!("lapse_plugin_memory_peak_bytes", &labels),
            peak: Mutex::default(),
            http: host_calls("http"),
            sql: host_calls("sql"),
        }
    }

    fn add(&self, cost: &Cost) {
        self.cpu.record(std::time::Duration::from_micros(cost.cpu_us).as_secs_f64());
        let mut peak = self.peak.lock();
        if cost.memory_bytes > *peak {
            *peak = cost.memory_bytes;
            #[expect(clippy::cast_precision_loss, reason = "a call's memory is far below 2^52 bytes")]
            self.memory.set(cost.memory_bytes as f64);
        }
        self.http.increment(u64::from(cost.http_calls));
        self.sql.increment(u64::from(cost.sql_calls()));
    }
}
