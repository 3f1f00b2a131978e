//! What this node has done, and what there is to do.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    breaker,
    catalog::Snapshot,
    domain::{
        id::{NamespaceId, TypeId},
        time::{DurationMs, Timestamp},
    },
    stats::{self, CAP, HISTORY, OfType, STEP_MS, WINDOW_MS},
    store::admin::NamespaceRow,
};

use super::{Api, Inner, auth::Caller, model::TimerState, problem::Result};

/// Types that are told of by themselves; the counts are of all.
const MAX_TYPES: usize = 500;

/// Breakers that are shown.
const MAX_BREAKERS: usize = 100;

/// A count that stops at 10,000.
#[derive(Clone, Copy, Serialize, ToSchema)]
pub struct Capped {
    count: u64,
    /// There are so many or more.
    capped: bool,
}

impl Capped {
    fn of(count: u64) -> Self {
        Self { count: count.min(CAP), capped: count >= CAP }
    }
}

/// How often things happened, per second, over the window.
#[derive(Serialize, ToSchema)]
pub struct Rates {
    registered: f64,
    closed: f64,
    skipped: f64,
    failed: f64,
    resolved: f64,
    cancelled: f64,
    /// Expiries that are to be tried again.
    retried: f64,
}

/// How often things happened in one step.
#[derive(Serialize, ToSchema)]
pub struct HistoryPoint {
    /// When the step began.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    registered: u32,
    closed: u32,
    skipped: u32,
    failed: u32,
    resolved: u32,
    cancelled: u32,
    retried: u32,
    /// Left out where nothing fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lateness_p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lateness_p99_ms: Option<u64>,
}

impl From<stats::Point> for HistoryPoint {
    fn from(point: stats::Point) -> Self {
        let counts = point.counts;
        Self {
            at: point.at,
            registered: counts.registered,
            closed: counts.closed,
            skipped: counts.skipped,
            failed: counts.failed,
            resolved: counts.resolved,
            cancelled: counts.cancelled,
            retried: counts.retried,
            lateness_p50_ms: point.lateness_p50_ms,
            lateness_p99_ms: point.lateness_p99_ms,
        }
    }
}

/// The timer that has been due the longest and is neither settled nor failed.
#[derive(Serialize, ToSchema)]
pub struct OldestOverdue {
    #[schema(value_type = String, format = Uuid)]
    id: String,
    r#type: String,
    key: String,
    #[schema(value_type = String, format = DateTime)]
    due_at: Timestamp,
    state: TimerState,
}

/// Compensations, counted.
#[derive(Serialize, ToSchema)]
pub struct CompensationStats {
    /// Those that wait for a person.
    dead: Capped,
    /// Those that wait or run.
    pending: Capped,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    oldest_dead_at: Option<Timestamp>,
}

/// Whether a broker wakes this node. `none`: none is configured; `away`: it keeps the time by itself meanwhile.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrokerState {
    None,
    Up,
    Away,
}

/// How it stands with the broker.
#[derive(Serialize, ToSchema)]
pub struct BrokerStats {
    state: BrokerState,
    /// Since when it is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    since: Option<Timestamp>,
}

/// Where a breaker stands. `ramping`: the downstream is back, and called at a bounded rate that rises.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    Ramping,
    HalfOpen,
    Open,
}

impl From<breaker::State> for BreakerState {
    fn from(state: breaker::State) -> Self {
        match state {
            breaker::State::Closed => Self::Closed,
            breaker::State::Ramping => Self::Ramping,
            breaker::State::HalfOpen => Self::HalfOpen,
            breaker::State::Open => Self::Open,
        }
    }
}

/// A downstream that is not called freely: what is to be done there waits, and burns no try. Each node finds out for
/// itself.
#[derive(Serialize, ToSchema)]
pub struct BreakerStats {
    /// `HOST:PORT`, or `sql:NAME`.
    host: String,
    state: BreakerState,
    /// Failures in a row.
    failures: u32,
    /// What the last failure was.
    last_error: String,
    /// When it first opened, unless it has been closed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    opened_at: Option<Timestamp>,
    /// When the downstream is tried again, while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    until: Option<Timestamp>,
}

/// A type's figures.
#[derive(Serialize, ToSchema)]
pub struct TypeStats {
    r#type: String,
    /// Whether a pause keeps its timers from firing: its own, its namespace's, or that of everything.
    paused: bool,
    /// The active revision.
    revision: i64,
    /// Decisions committed within the window.
    fired: u64,
    /// From due to committed effect, within 12%; left out where nothing fired within the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lateness_p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    lateness_p99_ms: Option<u64>,
    /// Timers that failed within the last hour.
    failed_1h: Capped,
    /// Compensations that wait for a person; left out where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    dead: Option<Capped>,
}

/// A namespace's figures. Rates, lateness, failures and history are what this node has written since `since`; another
/// node has others. Counts are the database's, and are left out while it cannot be read.
#[derive(Serialize, ToSchema)]
pub struct Stats {
    /// The store's clock.
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
    /// The node that answered.
    node_id: String,
    /// Since when it counts: its start.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// What rates and lateness are over.
    window_ms: u64,
    rates: Rates,
    /// When the counts were made: a second ago at most, and where counting takes long, so many times as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    counted_at: Option<Timestamp>,
    /// Timers that were due over a second ago and are neither settled nor failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    overdue: Option<Capped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    oldest_overdue: Option<OldestOverdue>,
    /// Timers that are to fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scheduled: Option<Capped>,
    /// Timers that have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    failed: Option<Capped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    compensations: Option<CompensationStats>,
    /// Those of this node that are not closed; at most 100.
    breakers: Vec<BreakerStats>,
    broker: BrokerStats,
    /// By name; at most 500.
    types: Vec<TypeStats>,
    /// Oldest first, at most 120 steps; the one that runs is not among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    history: Option<Vec<HistoryPoint>>,
    history_step_ms: u64,
}

/// Shows a namespace's figures.
///
/// Rates and lateness are of the node that answers; counts stop at 10,000.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "get_stats", tag = "operations",
    responses((status = 200, description = "The figures", body = Stats))
)]
pub async fn get_stats(State(api): State<Api>, caller: Caller) -> Result<Json<Stats>> {
    let mut stats = api.stats_of(caller.namespace_id).await;
    let history = api.stats.of_namespace(caller.namespace_id).history;
    stats.history = Some(history.into_iter().rev().take(HISTORY).rev().map(Into::into).collect());
    Ok(Json(stats))
}

impl Inner {
    /// A namespace's figures, without their history.
    pub(super) async fn stats_of(&self, namespace: NamespaceId) -> Stats {
        let snapshot = self.catalog.snapshot();
        let rows: Vec<_> = snapshot.catalogue.types.iter().filter(|t| t.namespace_id == namespace).collect();
        let ids: Vec<TypeId> = rows.iter().map(|t| t.id).collect();
        let counted = match self.stats.counted(namespace, ids).await {
            Ok(counted) => Some(counted),
            Err(error) => {
                tracing::debug!(%error, "the counts of a namespace are not known");
                None
            }
        };
        let mut shown = rows;
        shown.sort_by(|a, b| a.name.cmp(&b.name));
        shown.truncate(MAX_TYPES);
        let of_types = self.stats.of_types(&shown.iter().map(|t| t.id).collect::<Vec<_>>());
        let dead = |id: TypeId| {
            let tally = &counted.as_ref()?.tally;
            let of_type = tally.dead_by_type.get(&id).copied();
            // Once counting has stopped, a type that was not come to is not known to have none.
            of_type.or((tally.dead < CAP).then_some(0)).map(Capped::of)
        };
        let (pauses, now) = (self.catalog.pauses(), self.clock.now());
        let types = shown.iter().zip(of_types).map(|(row, figures)| {
            let OfType { fired, lateness_p50_ms, lateness_p99_ms, failed_1h } = figures;
            TypeStats {
                r#type: row.name.to_string(),
                paused: pauses.of(namespace, row.id, now).is_some(),
                revision: row.active,
                fired,
                lateness_p50_ms,
                lateness_p99_ms,
                failed_1h: Capped::of(failed_1h),
                dead: dead(row.id),
            }
        });
        let figures = self.stats.of_namespace(namespace);
        Stats {
            now,
            node_id: self.node.clone(),
            since: self.stats.since(),
            window_ms: WINDOW_MS,
            rates: rates(figures.counts, figures.over),
            counted_at: counted.as_ref().map(|c| c.at),
            overdue: counted.as_ref().map(|c| Capped::of(c.tally.overdue)),
            oldest_overdue: counted.as_ref().and_then(|c| oldest(&snapshot, c)),
            scheduled: counted.as_ref().map(|c| Capped::of(c.tally.scheduled)),
            failed: counted.as_ref().map(|c| Capped::of(c.tally.failed)),
            compensations: counted.as_ref().map(|c| CompensationStats {
                dead: Capped::of(c.tally.dead),
                pending: Capped::of(c.tally.pending),
                oldest_dead_at: c.tally.oldest_dead_at,
            }),
            breakers: self.open_breakers(snapshot.catalogue.namespaces.iter().find(|n| n.id == namespace)),
            broker: self.broker(),
            types: types.collect(),
            history: None,
            history_step_ms: STEP_MS,
        }
    }

    fn open_breakers(&self, namespace: Option<&NamespaceRow>) -> Vec<BreakerStats> {
        let mine = |b: &breaker::Snapshot| {
            b.state != breaker::State::Closed && namespace.is_some_and(|n| n.name.as_str() == b.downstream.namespace)
        };
        let shown = |b: breaker::Snapshot| BreakerStats {
            host: b.downstream.host,
            state: b.state.into(),
            failures: b.failures,
            last_error: b.last_error,
            opened_at: b.opened_at,
            until: b.until,
        };
        self.breakers.snapshot().into_iter().filter(mine).take(MAX_BREAKERS).map(shown).collect()
    }

    fn broker(&self) -> BrokerStats {
        match self.engine.broker() {
            stats::Broker::None => BrokerStats { state: BrokerState::None, since: None },
            stats::Broker::Up => BrokerStats { state: BrokerState::Up, since: None },
            stats::Broker::Away { for_at_least } => {
                let since = Some(self.clock.now().saturating_sub(for_at_least));
                BrokerStats { state: BrokerState::Away, since }
            }
        }
    }
}

fn oldest(snapshot: &Snapshot, counted: &stats::Counted) -> Option<OldestOverdue> {
    let timer = counted.oldest_overdue.as_ref()?;
    Some(OldestOverdue {
        id: timer.id.to_string(),
        r#type: snapshot.row(timer.type_id).map(|t| t.name.to_string()).unwrap_or_default(),
        key: timer.key.to_string(),
        due_at: timer.due_at,
        state: timer.state.into(),
    })
}

fn rates(counts: stats::Counts, over: DurationMs) -> Rates {
    let seconds = over.as_std().as_secs_f64();
    // To the thousandth: more is noise.
    let rate = |n: u32| (f64::from(n) / seconds * 1000.0).round() / 1000.0;
    Rates {
        registered: rate(counts.registered),
        closed: rate(counts.closed),
        skipped: rate(counts.skipped),
        failed: rate(counts.failed),
        resolved: rate(counts.resolved),
        cancelled: rate(counts.cancelled),
        retried: rate(counts.retried),
    }
}
