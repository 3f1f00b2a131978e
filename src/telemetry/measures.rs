//! The metrics: their names, what they mean, and their buckets.

use std::{sync::OnceLock, time::Duration};

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Seconds. Fine where lateness is judged (1 to 250 ms), coarse for what lies behind an outage.
const LATENESS: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0,
];
/// Seconds that some work took: from a pure decision's tens of microseconds to a call's bound.
const WORK: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
];

/// How many things went together.
const COUNTS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// Counters, each with what it counts.
const COUNTERS: &[(&str, &str)] = &[
    ("lapse_timer_message_sent_total", "Timers scheduled"),
    ("lapse_timer_consume_total", "Expiries taken up"),
    ("lapse_timer_closed_total", "Timers closed by their plugin"),
    ("lapse_timer_skipped_total", "Timers that their plugin found already settled"),
    ("lapse_timer_retry_total", "Expiries to be tried again"),
    ("lapse_timer_failed_total", "Timers that failed for good or ran out of tries, by class"),
    ("lapse_timer_duplicate_total", "Expiries that came late or twice, and changed nothing"),
    ("lapse_timer_fired_total", "Expiries by what triggered them: slot, near, backlog or manual"),
    ("lapse_timer_left_to_backlog_total", "Timers that were not held to their instant, by reason"),
    ("lapse_type_paused_itself_total", "Times that a type has paused itself, since too many of its expiries failed"),
    ("lapse_compensation_done_total", "Compensations carried out"),
    ("lapse_compensation_skipped_total", "Compensations that the business said there is nothing to do for"),
    ("lapse_compensation_retry_total", "Runs of compensations to be tried again"),
    ("lapse_compensation_dead_total", "Compensations out of tries: a person must redrive them"),
    ("lapse_compensation_fenced_total", "Runs of compensations whose lease had passed to another"),
    ("lapse_compensation_deferred_total", "Runs of compensations put off, as their downstream is not called"),
    ("lapse_breaker_opened_total", "Times that a downstream was taken to be away"),
    ("lapse_breaker_refused_total", "Calls not made, as their downstream is away"),
    ("lapse_plugin_counter_total", "Counters of the plugins' own"),
    ("lapse_plugin_host_calls_total", "Host calls of plugins, by revision, export and capability"),
    ("lapse_plugin_cache_total", "Components looked for in the cache of compiled ones, by result"),
    ("lapse_store_repeated_total", "Transactions begun anew, by why"),
    ("lapse_http_requests_total", "Calls of the API"),
];

const GAUGES: &[(&str, &str)] = &[
    ("lapse_dispatch_held", "Timers held in memory to their instant"),
    ("lapse_dispatch_in_flight", "Expiries that are being decided or settled"),
    ("lapse_dispatch_lane_queued", "Expiries that wait in their type's lane"),
    ("lapse_dispatch_lane_running", "Expiries of a type that run"),
    ("lapse_dispatch_lane_width", "Expiries of a type that may run at once"),
    ("lapse_type_paused", "Whether a pause keeps a type's timers from firing: 1, or 0"),
    ("lapse_pauses", "Pauses that hold, by scope: all, namespace or type"),
    ("lapse_plugin_memory_peak_bytes", "The most linear memory that one call of a plugin had in use"),
    ("lapse_store_queue_depth", "Writes that wait, by class"),
    ("lapse_breaker_state", "What a downstream's breaker does: 0 closed, 1 ramping, 2 half-open, 3 open"),
    ("lapse_compensation_pending", "Compensations that wait or are to be tried again, counted up to a bound"),
    ("lapse_compensation_running", "Compensations that run, counted up to a bound"),
    ("lapse_compensation_dead", "Compensations that wait for a person, counted up to a bound"),
];

const HISTOGRAMS: &[(&str, &str, &[f64])] = &[
    ("lapse_timer_lateness_seconds", "From due to committed effect", LATENESS),
    ("lapse_timer_process_seconds", "From the start of a decision to its commit", WORK),
    ("lapse_compensation_process_seconds", "One run of a compensation", WORK),
    ("lapse_plugin_cpu_seconds", "CPU time of one call of a plugin, by revision and export", WORK),
    ("lapse_plugin_compile_seconds", "One compilation of a component", WORK),
    ("lapse_store_commit_seconds", "One transaction of the writer", WORK),
    ("lapse_store_batch_size", "Writes in one transaction", COUNTS),
    ("lapse_http_request_seconds", "One call of the API", WORK),
];

/// How often what was recorded is summed up: until then each sample is kept by itself.
const SUM_UP_EVERY: Duration = Duration::from_secs(2);

/// Sums up what is recorded, whether or not anybody asks for it; without, memory would grow with each sample.
pub async fn sum_up_metrics(metrics: PrometheusHandle) {
    loop {
        tokio::time::sleep(SUM_UP_EVERY).await;
        metrics.run_upkeep();
    }
}

/// Starts the metrics; what comes back renders them. A second call gives the same: tests start many nodes in a process.
pub fn init_metrics() -> PrometheusHandle {
    static STARTED: OnceLock<PrometheusHandle> = OnceLock::new();
    STARTED.get_or_init(start).clone()
}

fn start() -> PrometheusHandle {
    let mut builder = PrometheusBuilder::new();
    for (name, _, buckets) in HISTOGRAMS {
        builder = builder
            .set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)
            .unwrap_or_else(|e| unreachable!("the buckets of {name} are not empty: {e}"));
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("another recorder of metrics is in place; /metrics shows nothing");
    }
    for (name, what) in COUNTERS {
        describe_counter!(*name, *what);
    }
    for (name, what) in GAUGES {
        describe_gauge!(*name, *what);
    }
    for (name, what, _) in HISTOGRAMS {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        describe_histogram!(*name, unit, *what);
    }
    handle
}
