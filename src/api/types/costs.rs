//! What a type's calls cost.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    costs::Summary,
    domain::{plugin, time::Timestamp},
};

use super::super::{Api, auth::Caller, extract::Path, problem::Result};

/// The most rows of one answer: the newest revisions'.
const MAX_ROWS: usize = 500;

/// What the calls of a type's plugins have cost on the node that answers, since it started. Dry runs are not in it.
#[derive(Serialize, ToSchema)]
pub struct TypeCosts {
    /// When the node began to count.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// A row for each revision and export that was called, newest revision first; at most 500.
    items: Vec<CallCosts>,
}

/// A function of a plugin's.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    OnExpire,
    OnRemind,
    Compensate,
}

impl From<plugin::Export> for Export {
    fn from(export: plugin::Export) -> Self {
        match export {
            plugin::Export::OnExpire => Self::OnExpire,
            plugin::Export::OnRemind => Self::OnRemind,
            plugin::Export::Compensate => Self::Compensate,
        }
    }
}

/// What the calls of one export of one revision have cost.
#[derive(Serialize, ToSchema)]
pub struct CallCosts {
    revision: i64,
    export: Export,
    calls: u64,
    /// CPU time in microseconds: of all calls together, and of one.
    cpu_us: CpuCosts,
    /// The most linear memory that one call had in use.
    memory_bytes_peak: u64,
    host_calls: HostCalls,
}

/// CPU time in microseconds. The quantiles are off by an eighth at most.
#[derive(Serialize, ToSchema)]
pub struct CpuCosts {
    total: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

/// Host calls by capability; those that were denied are among them.
#[derive(Serialize, ToSchema)]
pub struct HostCalls {
    http: u64,
    sql: u64,
}

impl From<Summary> for CallCosts {
    fn from(s: Summary) -> Self {
        Self {
            revision: s.revision,
            export: s.export.into(),
            calls: s.calls,
            cpu_us: CpuCosts { total: s.cpu_us_total, p50: s.cpu_us_p50, p99: s.cpu_us_p99, max: s.cpu_us_max },
            memory_bytes_peak: s.memory_bytes_peak,
            host_calls: HostCalls { http: s.http_calls, sql: s.sql_calls },
        }
    }
}

/// Shows what a type's calls cost: CPU time, memory and host calls.
///
/// By revision and export, on the node that answers and since it started; the metrics `lapse_plugin_cpu_seconds` and its like have the same over
/// time and nodes.
#[utoipa::path(
    get, path = "/v1/types/{type}/costs", operation_id = "get_type_costs", tag = "types",
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The costs", body = TypeCosts))
)]
pub async fn get_type_costs(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<TypeCosts>> {
    let row = api.type_row(&caller, &name)?;
    let costs = api.catalog.costs();
    let items = costs.of(row.id).into_iter().take(MAX_ROWS).map(Into::into).collect();
    Ok(Json(TypeCosts { since: costs.since(), items }))
}
