//! What dispatch tells of itself: metrics, and a line of the log for what went wrong.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use super::{
    lane::{Job, LaneStats},
    settle::Decided,
};
use crate::{
    catalog::{Catalog, TypeEntry},
    domain::{
        decision::FailureClass,
        id::TypeId,
        time::{DurationMs, Timestamp},
        timer::{State, Timer, Trigger},
    },
};

/// A sentence about the same type and cause stands in the log at most this often.
const QUIET: DurationMs = DurationMs::from_secs(10);
/// Types and causes whose last sentence is remembered; beyond it all are forgotten, and said again.
const MAX_SAID: usize = 1_000;

/// Why a timer was left to the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Left {
    HolderFull,
    LaneFull,
    /// Not started within four seconds.
    Late,
    /// Its type or revision cannot be loaded.
    NotLoaded,
    /// Its type is paused.
    Paused,
    /// The store could not be written to for too long.
    Store,
}

impl Left {
    fn as_str(self) -> &'static str {
        match self {
            Self::HolderFull => "holder_full",
            Self::LaneFull => "lane_full",
            Self::Late => "late",
            Self::NotLoaded => "not_loaded",
            Self::Paused => "paused",
            Self::Store => "store",
        }
    }
}

pub(super) struct Meter {
    catalog: Catalog,
    pub duplicates: AtomicU64,
    pub left: AtomicU64,
    said: Mutex<HashMap<(TypeId, Left), Timestamp>>,
}

/// A type's labels.
fn labels(entry: &TypeEntry) -> [(&'static str, String); 2] {
    [("namespace", entry.row.namespace.to_string()), ("type", entry.row.name.to_string())]
}

impl Meter {
    pub fn new(catalog: Catalog) -> Self {
        Self { catalog, duplicates: AtomicU64::new(0), left: AtomicU64::new(0), said: Mutex::default() }
    }

    fn labels_of(&self, type_id: TypeId) -> [(&'static str, String); 2] {
        match self.catalog.snapshot().by_id(type_id) {
            Some(entry) => labels(entry),
            None => [("namespace", String::new()), ("type", type_id.0.to_string())],
        }
    }

    pub fn gauges(&self, held: usize, in_flight: usize, lanes: &[LaneStats]) {
        let number = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        gauge!("lapse_dispatch_held").set(number(held));
        gauge!("lapse_dispatch_in_flight").set(number(in_flight));
        for lane in lanes {
            let labels = self.labels_of(lane.type_id);
            gauge!("lapse_dispatch_lane_queued", &labels).set(number(lane.queued));
            gauge!("lapse_dispatch_lane_running", &labels).set(number(lane.running));
            gauge!("lapse_dispatch_lane_width", &labels).set(number(lane.width));
        }
    }

    /// A late or second delivery that changes nothing.
    pub fn duplicate(&self, type_id: TypeId) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
        counter!("lapse_timer_duplicate_total", &self.labels_of(type_id)).increment(1);
    }

    pub fn left_to_backlog(&self, type_id: TypeId, why: Left) {
        self.left.fetch_add(1, Ordering::Relaxed);
        let [namespace, name] = self.labels_of(type_id);
        counter!("lapse_timer_left_to_backlog_total", &[namespace, name, ("reason", why.as_str().to_owned())])
            .increment(1);
    }

    /// Whether a sentence about this type and cause is due again.
    pub fn may_say(&self, type_id: TypeId, why: Left, now: Timestamp) -> bool {
        let mut said = self.said.lock();
        if said.get(&(type_id, why)).is_some_and(|at| now < at.saturating_add(QUIET) && *at <= now) {
            return false;
        }
        if said.len() >= MAX_SAID {
            said.clear();
        }
        said.insert((type_id, why), now);
        true
    }

    /// A plugin's call has ended.
    pub fn consumed(job: &Job) {
        counter!("lapse_timer_consume_total", &labels(&job.entry)).increment(1);
    }

    /// A decision is committed: `timer` is what it has become.
    pub fn settled(job: &Job, timer: &Timer, decided: &Decided, now: Timestamp) {
        let failure = decided.failure.as_ref();
        let labels = labels(&job.entry);
        let [namespace, name] = labels.clone();
        counter!(
            "lapse_timer_fired_total",
            &[namespace.clone(), name.clone(), ("trigger", job.trigger.as_str().to_owned())]
        )
        .increment(1);
        histogram!("lapse_timer_process_seconds", &labels).record(decided.started.elapsed().as_secs_f64());
        let lateness = job.ready_at.map(|at| now.since(at));
        if let Some(lateness) = lateness {
            histogram!("lapse_timer_lateness_seconds", &labels).record(lateness.as_std().as_secs_f64());
        }
        let class = failure.map_or("none", |f| f.class.as_str());
        let with_class = [namespace, name, ("class", class.to_owned())];
        match timer.state {
            State::Closed => counter!("lapse_timer_closed_total", &labels).increment(1),
            State::Skipped => counter!("lapse_timer_skipped_total", &with_class).increment(1),
            State::Failed => counter!("lapse_timer_failed_total", &with_class).increment(1),
            _ => counter!("lapse_timer_retry_total", &with_class).increment(1),
        }
        for step in &decided.settlement.counters {
            let [namespace, name] = labels.clone();
            counter!(
                "lapse_plugin_counter_total",
                &[namespace, name, ("name", job.entry.names.counter(&step.name).to_owned())]
            )
            .increment(step.value);
        }
        let lateness_ms = lateness.map(DurationMs::as_millis);
        if timer.state == State::Failed {
            let (code, message) = failure.map_or(("", ""), |f| (f.code.as_str(), f.message.as_str()));
            tracing::warn!(
                timer_id = %timer.id, timer_key = %timer.key, timer_type = %job.entry.row.name,
                message_id = timer.origin.message_id, idempotency_key = %timer.id,
                retry_count = job.timer.attempt - 1, state_before = job.timer.state.as_str(),
                close_result = timer.state.as_str(), error_class = class, error.code = code, error.message = message,
                trigger = job.trigger.as_str(), lateness_ms,
                "a timer has failed: a person, or the business, must act"
            );
        } else {
            tracing::debug!(
                timer_id = %timer.id, timer_key = %timer.key, timer_type = %job.entry.row.name,
                message_id = timer.origin.message_id, idempotency_key = %timer.id,
                retry_count = job.timer.attempt - 1, state_before = job.timer.state.as_str(),
                close_result = timer.state.as_str(), error_class = class,
                trigger = job.trigger.as_str(), lateness_ms,
                "an expiry is settled"
            );
        }
    }

    /// The store has set a timer aside.
    pub fn poisoned(&self, timer: &Timer) {
        let [namespace, name] = self.labels_of(timer.type_id);
        let class = ("class", FailureClass::Poison.as_str().to_owned());
        counter!("lapse_timer_failed_total", &[namespace, name, class]).increment(1);
        tracing::error!(
            timer_id = %timer.id, timer_key = %timer.key, lapse.type_id = timer.type_id.0,
            idempotency_key = %timer.id, retry_count = timer.attempt - 1, state_before = State::Firing.as_str(),
            close_result = timer.state.as_str(), error_class = FailureClass::Poison.as_str(),
            trigger = Trigger::Backlog.as_str(),
            "a timer's lease lapsed too often: it is set aside as poison"
        );
    }
}
