//! One run of a compensation, and what is reported of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use metrics::{counter, histogram};
use serde_json::json;

use super::Engine;
use crate::{
    clock::{lease_nearly_ends, nap},
    domain::{
        backoff::RetryPolicy,
        compensation::{Compensation, CompensationState, RunResult},
        decision::{CompensationTask, Failure, FailureClass},
        plugin::Export,
        time::{DurationMs, Timestamp},
    },
    plugin::{LogLine, Run},
    store::{Error, op::FinishCompensation},
};

/// How long a compensation waits whose revision cannot be loaded.
const LOAD_AGAIN: DurationMs = DurationMs::from_secs(30);
/// Waits between tries to write a report: the first, doubled up to the last, as long as the lease runs.
const FIRST_WAIT: DurationMs = DurationMs::from_millis(50);
const LAST_WAIT: DurationMs = DurationMs::from_secs(1);
const MAX_TRIES: u32 = 100;
/// The code of a call that ran into one of its time limits.
const TIMEOUT: &str = "timeout";
/// A run that failed after so long has hung, whatever its plugin calls it.
const HUNG: Duration = Duration::from_secs(5);
/// Lines and bytes of a plugin's log that are kept with the audit event.
const MAX_LOG_LINES: usize = 50;
const MAX_LOG_BYTES: usize = 8 * 1024;
const MAX_DENIED: usize = 20;

impl Engine {
    /// Says whether the run hung; nothing where there was none, or where it was put off.
    pub(super) async fn run(self: &Arc<Self>, compensation: Compensation) -> Option<bool> {
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.by_id(compensation.type_id);
        let (namespace, timer_type) =
            entry.map(|e| (e.row.namespace.to_string(), e.row.name.to_string())).unwrap_or_default();
        let labels = [("namespace", namespace), ("type", timer_type), ("kind", compensation.kind.to_string())];
        if tries(&compensation) > self.config.attempts {
            // A run that fails uses its last try up by its report. These never reported.
            let message = "no try is left: the last run took its node down or outlasted its lease";
            let failure = Failure::new(FailureClass::Poison, "tries_used_up", message);
            let result = RunResult::Dead { failure };
            if self.finish(&compensation, result.clone(), json!({})).await {
                tell(&compensation, &labels, &result);
            }
            return None;
        }
        let ready = match self.catalog.revision(compensation.type_id, compensation.revision).await {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!(
                    timer_id = %compensation.timer_id, timer_key = %compensation.timer_key,
                    compensation.id = %compensation.id, compensation.kind = %compensation.kind,
                    revision = compensation.revision, %error,
                    "a compensation's revision cannot be loaded: it waits until it can"
                );
                let failure = Failure::new(FailureClass::Transient, "plugin_not_loaded", error.to_string());
                let at = self.clock.now().saturating_add(LOAD_AGAIN);
                self.finish(&compensation, RunResult::Retry { failure, at, counts: false }, json!({})).await;
                return None;
            }
        };
        let [(_, namespace), (_, timer_type), _] = labels.clone();
        let task = CompensationTask {
            id: compensation.id,
            timer_id: compensation.timer_id,
            namespace,
            timer_type,
            key: compensation.timer_key.to_string(),
            kind: compensation.kind.to_string(),
            payload: compensation.payload.clone(),
            attempt: compensation.attempt,
            idempotency_key: compensation.id.to_string(),
            now: self.clock.now(),
            config: ready.revision.config.clone(),
        };
        let started = Instant::now();
        let run = tokio::select! {
            run = ready.plugin.compensate(&task, &ready.rights) => run,
            // Its successor starts when the lease ends: none of its effects may come after that.
            () = lease_nearly_ends(&*self.clock, compensation.run_at) => broken_off(),
            () = self.break_off.cancelled() => {
                let failure = Failure::new(FailureClass::Transient, "node_stopped", "its node stopped during the run");
                let result = RunResult::Retry { failure, at: self.clock.now(), counts: false };
                self.finish(&compensation, result, json!({})).await;
                return None;
            }
        };
        let took = started.elapsed();
        let hung = match &run.result {
            _ if run.deferred.is_some() => None,
            Err(failure) => Some(failure.code == TIMEOUT || (failure.class.is_retryable() && took >= HUNG)),
            Ok(_) => Some(false),
        };
        histogram!("lapse_compensation_process_seconds", &labels).record(took.as_secs_f64());
        if let Some(entry) = entry {
            self.catalog.costs().record(&entry.row, compensation.revision, Export::Compensate, &run.cost);
            for step in &run.counters {
                let of = [("namespace", task.namespace.clone()), ("type", task.timer_type.clone())];
                let [namespace, timer_type] = of;
                let name = ("name", entry.names.counter(&step.name).to_owned());
                counter!("lapse_plugin_counter_total", &[namespace, timer_type, name]).increment(step.value);
            }
        }
        let detail = detail(&compensation, &run);
        let policy = RetryPolicy { attempts: self.config.attempts, initial: self.config.initial, max: self.config.max };
        let result = match (run.result, run.deferred) {
            // Nobody's fault: it comes again in its turn, and in the same attempt.
            (Err(failure), Some(deferred)) => RunResult::Retry { failure, at: deferred.until, counts: false },
            (answer, _) => outcome(&compensation, answer, &policy, self.clock.now()),
        };
        if self.finish(&compensation, result.clone(), detail).await {
            tell(&compensation, &labels, &result);
        }
        hung
    }

    /// Writes the report, as long as the lease runs. False if it changed nothing.
    async fn finish(&self, compensation: &Compensation, result: RunResult, detail: serde_json::Value) -> bool {
        let lease = compensation.run_at.unwrap_or_else(|| self.clock.now().saturating_add(self.config.lease));
        let state = match &result {
            RunResult::Done { .. } => CompensationState::Done,
            RunResult::Retry { .. } => CompensationState::Pending,
            RunResult::Dead { .. } => CompensationState::Dead,
        };
        let finish = FinishCompensation { id: compensation.id, fence: compensation.fence, result, detail };
        let mut wait = FIRST_WAIT;
        let mut unsure = false;
        for _ in 0..MAX_TRIES {
            match self.store.finish_compensation(finish.clone()).await {
                Ok(true) => {
                    self.changed(compensation, state);
                    return true;
                }
                // Its own write, whose commit was not seen, has fenced this one.
                Ok(false) if unsure => return true,
                Ok(false) => {
                    counter!("lapse_compensation_fenced_total", "kind" => compensation.kind.to_string()).increment(1);
                    tracing::debug!(compensation.id = %compensation.id, "a run's lease had lapsed: what it reports changes nothing");
                    return false;
                }
                Err(Error::Stopped | Error::Data(_)) => break,
                Err(Error::OutcomeUnknown(_)) => unsure = true,
                Err(Error::Full | Error::Unavailable(_)) => {}
            }
            let now = self.clock.now();
            if now >= lease {
                break;
            }
            nap(&*self.clock, now.saturating_add(wait)).await;
            wait = DurationMs::from_millis(wait.as_millis() * 2).min(LAST_WAIT);
        }
        tracing::warn!(
            timer_id = %compensation.timer_id, compensation.id = %compensation.id, compensation.kind = %compensation.kind,
            "a compensation's report cannot be written: it runs again once its lease has lapsed"
        );
        false
    }
}

/// In the place of an answer that did not come within the lease.
fn broken_off() -> Run<Option<String>> {
    let failure = Failure::new(FailureClass::Transient, TIMEOUT, "the run was broken off before its lease ended");
    Run::without_answer(failure)
}

/// What a run's answer leads to. Attempts count since the last redrive.
fn outcome(
    compensation: &Compensation,
    answer: Result<Option<String>, Failure>,
    policy: &RetryPolicy,
    now: Timestamp,
) -> RunResult {
    let failure = match answer {
        Ok(result) => return RunResult::Done { result, skipped: None },
        Err(failure) => failure,
    };
    let tries = tries(compensation);
    match failure.class {
        FailureClass::Conflict => RunResult::Done { result: None, skipped: Some(failure) },
        class if class.is_retryable() && !policy.is_exhausted(tries) => {
            let asked = failure.retry_after.unwrap_or_default().min(policy.max);
            let wait = policy.wait(tries, rand::random()).max(asked);
            RunResult::Retry { failure, at: now.saturating_add(wait), counts: true }
        }
        _ => RunResult::Dead { failure },
    }
}

/// Which try this is since the last redrive, from 1.
fn tries(compensation: &Compensation) -> u32 {
    (compensation.attempt + 1).saturating_sub(compensation.first_attempt).max(1)
}

/// A line of the log about a run, with what every such line says first.
macro_rules! log {
    ($level:ident, $compensation:ident, $($rest:tt)+) => {
        tracing::$level!(
            timer_id = %$compensation.timer_id, timer_key = %$compensation.timer_key,
            idempotency_key = %$compensation.id, retry_count = $compensation.attempt - 1,
            compensation.kind = %$compensation.kind, $($rest)+
        )
    };
}

fn tell(compensation: &Compensation, labels: &[(&'static str, String); 3], result: &RunResult) {
    let class = |failure: &Failure| failure.class.as_str();
    match result {
        RunResult::Done { skipped, .. } => {
            counter!("lapse_compensation_done_total", labels).increment(1);
            if skipped.is_some() {
                counter!("lapse_compensation_skipped_total", labels).increment(1);
            }
            log!(debug, compensation, error_class = skipped.as_ref().map(class), "a compensation is done");
        }
        RunResult::Retry { failure, at, counts: false } => {
            counter!("lapse_compensation_deferred_total", labels).increment(1);
            log!(
                debug, compensation, error_class = class(failure), error.code = failure.code, next_at = %at,
                "a compensation waits for its downstream"
            );
        }
        RunResult::Retry { failure, at, .. } => {
            counter!("lapse_compensation_retry_total", labels).increment(1);
            log!(
                info, compensation, error_class = class(failure), error.code = failure.code, next_at = %at,
                "a compensation has failed, and is tried again"
            );
        }
        RunResult::Dead { failure } => {
            counter!("lapse_compensation_dead_total", labels).increment(1);
            log!(
                error,
                compensation,
                error_class = class(failure),
                error.code = failure.code,
                error.message = failure.message,
                timer_type = labels[1].1,
                alert = true,
                "a compensation is dead: a person must redrive it"
            );
        }
    }
}

/// What the audit event holds beside the transition.
fn detail(compensation: &Compensation, run: &Run<Option<String>>) -> serde_json::Value {
    let mut detail = json!({ "revision": compensation.revision, "cost": run.cost });
    if !run.denied.is_empty() {
        detail["denied"] = json!(run.denied.iter().take(MAX_DENIED).collect::<Vec<_>>());
    }
    if !run.counters.is_empty() {
        detail["counters"] = json!(run.counters);
    }
    if !run.logs.is_empty() {
        let mut bytes = 0;
        let fits = |line: &&LogLine| {
            bytes += line.message.len();
            bytes <= MAX_LOG_BYTES
        };
        detail["logs"] = json!(run.logs.iter().take(MAX_LOG_LINES).take_while(fits).collect::<Vec<_>>());
    }
    detail
}
