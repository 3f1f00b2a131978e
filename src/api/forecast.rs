//! What comes due, and when.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    domain::{
        id::TypeId,
        time::{DurationMs, Timestamp},
    },
    store::read::ForecastQuery,
};

use super::{
    Api,
    auth::Caller,
    extract::Query,
    problem::{Code, Error, Result},
};

/// Steps in one answer.
const MAX_STEPS: u64 = 120;
/// Timers that one answer looks at, shared evenly among the types, but at least so many of each.
const MAX_ROWS: usize = 100_000;
const MIN_ROWS_OF_TYPE: usize = 100;
/// Types that one answer looks into.
const MAX_TYPES: usize = 1_000;
const HOUR: DurationMs = DurationMs::from_secs(3600);
const MINUTE: DurationMs = DurationMs::from_secs(60);

/// What of the time to come.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ForecastParams {
    /// Where it begins; now, if left out.
    #[param(value_type = Option<String>, format = DateTime, nullable = false)]
    from: Option<Timestamp>,
    /// Where it ends; an hour after it began, if left out.
    #[param(value_type = Option<String>, format = DateTime, nullable = false)]
    until: Option<Timestamp>,
    /// The length of a step, as a duration; a minute, if left out. At most 120 steps.
    #[param(nullable = false, example = "1m")]
    step: Option<String>,
    /// Of this type only.
    #[param(nullable = false)]
    r#type: Option<String>,
}

/// The timers of one type.
#[derive(Serialize, ToSchema)]
pub struct ForecastSeries {
    r#type: String,
    /// How many run in each step; a count that has reached `cap` stands for it or more.
    counts: Vec<u64>,
}

/// How many timers come to run, by their next `run_at`, in equal steps.
#[derive(Serialize, ToSchema)]
pub struct Forecast {
    /// The store's clock.
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    from: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    step_ms: u64,
    cap: u64,
    /// Whether there were more timers than one answer looks at.
    partial: bool,
    /// What lies behind this instant was not counted; with `partial`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    counted_until: Option<Timestamp>,
    /// By type's name; only those that have something.
    series: Vec<ForecastSeries>,
}

/// Shows what comes due, and when.
///
/// An answer looks at 100,000 timers at most, the next ones first: where there are more, it says up to when it counted.
#[utoipa::path(
    get, path = "/v1/forecast", operation_id = "get_forecast", tag = "operations", params(ForecastParams),
    responses((status = 200, description = "The forecast", body = Forecast))
)]
pub async fn get_forecast(
    State(api): State<Api>,
    caller: Caller,
    Query(params): Query<ForecastParams>,
) -> Result<Json<Forecast>> {
    let now = api.clock.now();
    let from = params.from.unwrap_or(now);
    let until = params.until.unwrap_or_else(|| from.saturating_add(HOUR));
    let step = match params.step.as_deref().map(str::parse::<DurationMs>) {
        None => MINUTE,
        Some(Ok(step)) if step > DurationMs::ZERO => step,
        Some(Ok(_)) => return Err(Error::at(Code::Malformed, "?step", "a step is at least 1ms")),
        Some(Err(error)) => return Err(Error::at(Code::Malformed, "?step", error.to_string())),
    };
    if until <= from {
        return Err(Error::at(Code::Malformed, "?until", "it ends after it begins"));
    }
    let steps = until.since(from).as_millis().div_ceil(step.as_millis());
    if steps > MAX_STEPS {
        let detail = format!("at most {MAX_STEPS} steps; these are {steps}: take a longer step");
        return Err(Error::at(Code::Malformed, "?step", detail));
    }
    let mut types = api.type_ids(caller.namespace_id, params.r#type.as_deref());
    types.truncate(MAX_TYPES);
    let rows = (MAX_ROWS / types.len().max(1)).max(MIN_ROWS_OF_TYPE);
    let found = if types.is_empty() {
        Vec::new()
    } else {
        api.store.read().forecast(ForecastQuery { types, from, until, step, rows }).await?
    };
    let mut by_type: BTreeMap<TypeId, Vec<u64>> = BTreeMap::new();
    let mut looked_at: BTreeMap<TypeId, (u64, Timestamp)> = BTreeMap::new();
    for upcoming in found {
        let counts = by_type.entry(upcoming.type_id).or_insert_with(|| vec![0; usize::try_from(steps).unwrap_or(0)]);
        if let Some(count) = counts.get_mut(upcoming.step) {
            *count = upcoming.count;
        }
        let (sum, last) = looked_at.entry(upcoming.type_id).or_insert((0, from));
        *sum += upcoming.count;
        *last = upcoming.last.max(*last);
    }
    let counted_until = looked_at.values().filter(|(sum, _)| *sum >= rows as u64).map(|(_, last)| *last).min();
    let snapshot = api.catalog.snapshot();
    let named = |id| snapshot.row(id).map(|t| t.name.to_string());
    let mut series: Vec<_> =
        by_type.into_iter().filter_map(|(id, counts)| Some(ForecastSeries { r#type: named(id)?, counts })).collect();
    series.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    Ok(Json(Forecast {
        now,
        from,
        until,
        step_ms: step.as_millis(),
        cap: MAX_ROWS as u64,
        partial: counted_until.is_some(),
        counted_until,
        series,
    }))
}
