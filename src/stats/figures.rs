//! What this node has written since it started: counts and lateness in steps of five seconds, and the failures of the
//! last hour by type. Memory only, bounded, and gone with the process.

use std::collections::{HashMap, VecDeque};

use super::histogram::Histogram;
use crate::domain::{
    id::{NamespaceId, TypeId},
    time::{DurationMs, Timestamp},
    timer::{State, Timer},
};

/// The length of a step, in milliseconds.
pub const STEP_MS: u64 = 5_000;
/// What rates and percentiles are over, in milliseconds.
pub const WINDOW_MS: u64 = 60_000;
/// Whole steps in the history.
pub const HISTORY: usize = 120;
/// Steps in a window, beside the one that runs.
const IN_WINDOW: i64 = 12;
/// Minutes for which failures are kept.
const MINUTES: i64 = 60;
/// Namespaces and types with figures. Beyond it those that have been still the longest are forgotten.
const MAX_NAMESPACES: usize = 1_000;
const MAX_TYPES: usize = 10_000;

/// Timers that came to be something, and expiries that are to be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub registered: u32,
    pub closed: u32,
    pub skipped: u32,
    pub failed: u32,
    pub resolved: u32,
    pub cancelled: u32,
    pub retried: u32,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.registered += other.registered;
        self.closed += other.closed;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.resolved += other.resolved;
        self.cancelled += other.cancelled;
        self.retried += other.retried;
    }
}

/// One step of the history.
#[derive(Clone, Debug)]
pub struct Point {
    /// When it began.
    pub at: Timestamp,
    pub counts: Counts,
    pub lateness_p50_ms: Option<u64>,
    pub lateness_p99_ms: Option<u64>,
}

/// A namespace's figures.
#[derive(Clone, Debug)]
pub struct OfNamespace {
    /// Within the window.
    pub counts: Counts,
    /// How much of the window lies in this node's life; at least a second.
    pub over: DurationMs,
    /// Oldest first.
    pub history: Vec<Point>,
}

/// A type's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfType {
    /// Decisions committed within the window.
    pub fired: u64,
    pub lateness_p50_ms: Option<u64>,
    pub lateness_p99_ms: Option<u64>,
    /// Timers that failed within the last hour.
    pub failed_1h: u64,
}

#[derive(Default)]
struct Step {
    number: i64,
    counts: Counts,
    fired: u64,
    lateness: Option<Histogram>,
}

/// Steps in order; those without anything are left out.
#[derive(Default)]
struct Series(VecDeque<Step>);

impl Series {
    /// The step that runs. One before the last, after the clock was set back, counts as the last.
    fn now(&mut self, number: i64, keep: i64) -> &mut Step {
        if self.0.back().is_none_or(|last| last.number < number) {
            while self.0.front().is_some_and(|first| first.number < number - keep) {
                self.0.pop_front();
            }
            self.0.push_back(Step { number, ..Step::default() });
        }
        self.0.back_mut().unwrap_or_else(|| unreachable!("it was just put there"))
    }

    fn since(&self, number: i64) -> impl Iterator<Item = &Step> {
        self.0.iter().filter(move |step| step.number >= number)
    }

    fn last(&self) -> i64 {
        self.0.back().map_or(i64::MIN, |step| step.number)
    }
}

#[derive(Default)]
struct TypeSeries {
    steps: Series,
    /// By minute, in order.
    failed: VecDeque<(i64, u64)>,
}

/// All of it.
pub(super) struct Figures {
    since: Timestamp,
    namespaces: HashMap<NamespaceId, Series>,
    types: HashMap<TypeId, TypeSeries>,
}

fn step(at: Timestamp) -> i64 {
    at.as_millis() / i64::try_from(STEP_MS).unwrap_or(1)
}

fn step_at(number: i64) -> Timestamp {
    Timestamp::from_millis_clamped(number.saturating_mul(i64::try_from(STEP_MS).unwrap_or(1)))
}

/// What a row that was just written means; `None` for what is counted elsewhere or not at all.
fn meaning(timer: &Timer) -> Option<Counts> {
    let one = match timer.state {
        State::Scheduled if timer.version == 1 => Counts { registered: 1, ..Counts::default() },
        State::Scheduled | State::Firing => return None,
        State::Closed => Counts { closed: 1, ..Counts::default() },
        State::Skipped => Counts { skipped: 1, ..Counts::default() },
        State::Failed => Counts { failed: 1, ..Counts::default() },
        State::Resolved => Counts { resolved: 1, ..Counts::default() },
        State::Cancelled => Counts { cancelled: 1, ..Counts::default() },
    };
    Some(one)
}

impl Figures {
    pub fn new(since: Timestamp) -> Self {
        Self { since, namespaces: HashMap::new(), types: HashMap::new() }
    }

    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// A timer's row was written.
    pub fn written(&mut self, timer: &Timer, now: Timestamp) {
        let Some(counts) = meaning(timer) else { return };
        self.namespace(timer.namespace_id, now).counts.add(counts);
        if timer.state == State::Failed {
            let minute = now.second() / 60;
            let failed = &mut self.of(timer.type_id).failed;
            match failed.back_mut().filter(|(last, _)| *last >= minute) {
                Some((_, count)) => *count += 1,
                None => failed.push_back((minute, 1)),
            }
            while failed.front().is_some_and(|(first, _)| *first < minute - MINUTES) {
                failed.pop_front();
            }
        }
    }

    /// An expiry's decision was committed; `again` if it is to be tried again.
    pub fn fired(&mut self, timer: &Timer, lateness: Option<DurationMs>, again: bool, now: Timestamp) {
        let type_step = self.of(timer.type_id).steps.now(step(now), IN_WINDOW + 1);
        type_step.fired += 1;
        if let Some(lateness) = lateness {
            type_step.lateness.get_or_insert_default().record(lateness);
        }
        let step = self.namespace(timer.namespace_id, now);
        step.counts.retried += u32::from(again);
        if let Some(lateness) = lateness {
            step.lateness.get_or_insert_default().record(lateness);
        }
    }

    fn namespace(&mut self, id: NamespaceId, now: Timestamp) -> &mut Step {
        if self.namespaces.len() >= MAX_NAMESPACES && !self.namespaces.contains_key(&id) {
            let stillest = self.namespaces.iter().min_by_key(|(_, series)| series.last()).map(|(id, _)| *id);
            stillest.map(|id| self.namespaces.remove(&id));
        }
        let keep = i64::try_from(HISTORY).unwrap_or(i64::MAX) + 1;
        self.namespaces.entry(id).or_default().now(step(now), keep)
    }

    fn of(&mut self, id: TypeId) -> &mut TypeSeries {
        if self.types.len() >= MAX_TYPES && !self.types.contains_key(&id) {
            let stillest = self.types.iter().min_by_key(|(_, series)| series.steps.last()).map(|(id, _)| *id);
            stillest.map(|id| self.types.remove(&id));
        }
        self.types.entry(id).or_default()
    }

    pub fn of_namespace(&self, id: NamespaceId, now: Timestamp) -> OfNamespace {
        let current = step(now);
        let first = step(self.since);
        let window = (current - IN_WINDOW).max(first);
        let over = now.since(step_at(window).max(self.since)).max(DurationMs::from_secs(1));
        let series = self.namespaces.get(&id);
        let mut counts = Counts::default();
        series.into_iter().flat_map(|s| s.since(window)).for_each(|step| counts.add(step.counts));
        let oldest = (current - i64::try_from(HISTORY).unwrap_or(0)).max(first);
        let mut points: Vec<Point> = (oldest..current).map(|number| Point::nothing(step_at(number))).collect();
        for step in series.into_iter().flat_map(|s| s.since(oldest)) {
            let nth = usize::try_from(step.number - oldest).ok();
            let Some(point) = nth.and_then(|nth| points.get_mut(nth)) else { continue };
            point.counts = step.counts;
            point.lateness_p50_ms = step.lateness.as_ref().and_then(|l| l.percentile(50));
            point.lateness_p99_ms = step.lateness.as_ref().and_then(|l| l.percentile(99));
        }
        OfNamespace { counts, over, history: points }
    }

    pub fn of_type(&self, id: TypeId, now: Timestamp) -> OfType {
        let Some(series) = self.types.get(&id) else { return OfType::default() };
        let window = step(now) - IN_WINDOW;
        let mut lateness = Histogram::default();
        let mut fired = 0;
        for step in series.steps.since(window) {
            fired += step.fired;
            step.lateness.iter().for_each(|l| lateness.add(l));
        }
        let since = now.second() / 60 - MINUTES;
        OfType {
            fired,
            lateness_p50_ms: lateness.percentile(50),
            lateness_p99_ms: lateness.percentile(99),
            failed_1h: series.failed.iter().filter(|(minute, _)| *minute > since).map(|(_, n)| n).sum(),
        }
    }
}

impl Point {
    fn nothing(at: Timestamp) -> Self {
        Self { at, counts: Counts::default(), lateness_p50_ms: None, lateness_p99_ms: None }
    }
}
