//! A type that fails too often pauses itself: what is wrong is rather its plugin than its timers, and each further
//! failure is one more for a person to repair.
//!
//! Each node judges by what it has settled itself in a window that slides by tenths; the first that sees the bound passed
//! pauses the type on all of them. After a resume the judging starts anew.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use metrics::counter;
use parking_lot::Mutex;

use super::Engine;
use crate::{
    config,
    domain::{
        id::TypeId,
        pause::Scope,
        time::Timestamp,
        timer::{State, Timer},
    },
    store::admin::{AdminAnswer, AdminOp, PutPause},
};

/// Parts of a window.
const PARTS: i64 = 10;
/// Who pauses.
const ACTOR: &str = "lapse";

pub(super) struct Failures {
    config: config::Dispatch,
    /// Bounded by the types that there are, with [`PARTS`] and one parts each.
    by_type: Mutex<HashMap<TypeId, VecDeque<Part>>>,
}

/// What was settled in a part of the window.
#[derive(Clone, Copy, Default)]
struct Part {
    /// Parts since 1970.
    number: i64,
    settled: u64,
    failed: u64,
}

/// What was settled in the window when the bound was passed.
struct Passed {
    settled: u64,
    failed: u64,
}

impl Failures {
    pub fn new(config: config::Dispatch) -> Self {
        Self { config, by_type: Mutex::default() }
    }

    fn record(&self, type_id: TypeId, failed: bool, now: Timestamp) -> Option<Passed> {
        let part_ms = (i64::try_from(self.config.pause_window.as_millis()).unwrap_or(i64::MAX) / PARTS).max(1);
        let number = now.as_millis().div_euclid(part_ms);
        let mut by_type = self.by_type.lock();
        let parts = by_type.entry(type_id).or_default();
        // Also after the clock was set back.
        parts.retain(|part| (number - PARTS..=number).contains(&part.number));
        if parts.back().is_none_or(|part| part.number != number) {
            parts.push_back(Part { number, ..Part::default() });
        }
        if let Some(part) = parts.back_mut() {
            part.settled += 1;
            part.failed += u64::from(failed);
        }
        if !failed {
            return None;
        }
        let (settled, failed) = parts.iter().fold((0, 0), |sum, part| (sum.0 + part.settled, sum.1 + part.failed));
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let passed = settled >= u64::from(self.config.pause_min)
            && failed as f64 > settled as f64 * self.config.pause_failed_share;
        if passed {
            // Once; what is settled from now on was under way.
            by_type.remove(&type_id);
        }
        passed.then_some(Passed { settled, failed })
    }

    /// Judges these types anew.
    pub fn forget(&self, types: &[TypeId]) {
        self.by_type.lock().retain(|type_id, _| !types.contains(type_id));
    }

    fn reason(&self, passed: &Passed) -> String {
        let Passed { settled, failed } = passed;
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let share = 100.0 * *failed as f64 / *settled as f64;
        let (bound, window) = (100.0 * self.config.pause_failed_share, self.config.pause_window);
        format!("{failed} of {settled} expiries failed within {window}: {share:.1}%, and the bound is {bound:.1}%")
    }
}

impl Engine {
    /// Takes in what an expiry has come to.
    pub(super) fn judge(self: &Arc<Self>, timer: &Timer) {
        if self.config.pause_failed_share <= 0.0 || !timer.state.is_settled() {
            return;
        }
        let type_id = timer.type_id;
        let Some(passed) = self.failures.record(type_id, timer.state == State::Failed, self.clock.now()) else {
            return;
        };
        let engine = Arc::clone(self);
        self.tasks.spawn_on(async move { engine.pause_itself(type_id, &passed).await }, &self.runtime);
    }

    async fn pause_itself(&self, type_id: TypeId, passed: &Passed) {
        let reason = self.failures.reason(passed);
        let snapshot = self.catalog.snapshot();
        let row = snapshot.by_id(type_id).map(|entry| &entry.row);
        let (namespace, name) = row.map(|r| (r.namespace.to_string(), r.name.to_string())).unwrap_or_default();
        // Whoever has paused it already knows better until when.
        let put = PutPause {
            scope: Scope::Type(type_id),
            reason: reason.clone(),
            until: None,
            by: ACTOR.to_owned(),
            only_first: true,
        };
        match self.store.admin(AdminOp::Pause(put)).await {
            Ok(AdminAnswer::Paused { changed: true, .. }) => {
                counter!("lapse_type_paused_itself_total", "namespace" => namespace.clone(), "type" => name.clone())
                    .increment(1);
                tracing::error!(
                    timer_type = name,
                    pause.namespace = namespace,
                    pause.reason = reason,
                    alert = true,
                    "a type that fails too often has paused itself: a person must look, and resume it"
                );
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(
                %error, timer_type = name, pause.reason = reason,
                "a type fails too often, and cannot be paused"
            ),
        }
        if let Err(error) = self.catalog.refresh_at_once().await {
            tracing::debug!(%error, "the pauses could not be read; they soon will be");
        }
    }
}
