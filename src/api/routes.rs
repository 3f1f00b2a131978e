//! Every route.

use utoipa::OpenApi as _;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, compensations, datasources, document, explain, forecast, health, keys, me, namespaces, pages, pauses, plugins,
    secrets, stats, stream, timers, types,
};

pub(super) fn all() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(document::Base::openapi())
        // Timers
        .routes(routes!(timers::register_timer, timers::list_timers))
        .routes(routes!(timers::register_timers))
        .routes(routes!(timers::get_timer))
        .routes(routes!(timers::list_timer_events))
        .routes(routes!(explain::explain_timer))
        .routes(routes!(timers::resolve_timer))
        .routes(routes!(timers::cancel_timer))
        .routes(routes!(timers::reschedule_timer))
        .routes(routes!(timers::fire_timer))
        .routes(routes!(timers::retry_timer))
        // Timers by type and key
        .routes(routes!(timers::get_timer_by_key))
        .routes(routes!(timers::resolve_timer_by_key))
        .routes(routes!(timers::cancel_timer_by_key))
        .routes(routes!(timers::reschedule_timer_by_key))
        .routes(routes!(timers::fire_timer_by_key))
        .routes(routes!(timers::retry_timer_by_key))
        // Plugins and types
        .routes(routes!(plugins::upload_plugin, plugins::list_plugins))
        .routes(routes!(plugins::get_plugin, plugins::delete_plugin))
        .routes(routes!(types::list_types))
        .routes(routes!(types::put_type, types::get_type))
        .routes(routes!(types::list_revisions))
        .routes(routes!(types::get_type_costs))
        .routes(routes!(types::delete_revision))
        .routes(routes!(types::activate_revision))
        .routes(routes!(types::dry_run_type))
        .routes(routes!(types::revoke_grants))
        .routes(routes!(types::restore_grants))
        // Pauses
        .routes(routes!(pauses::pause_type))
        .routes(routes!(pauses::resume_type))
        .routes(routes!(pauses::pause_namespace))
        .routes(routes!(pauses::resume_namespace))
        .routes(routes!(pauses::pause_all))
        .routes(routes!(pauses::resume_all))
        .routes(routes!(pauses::list_pauses))
        // Compensations
        .routes(routes!(compensations::list_compensations))
        .routes(routes!(compensations::redrive_compensations))
        .routes(routes!(compensations::get_compensation))
        .routes(routes!(compensations::redrive_compensation))
        // What plugins are granted by name
        .routes(routes!(secrets::list_secrets))
        .routes(routes!(secrets::put_secret, secrets::delete_secret))
        .routes(routes!(datasources::list_datasources))
        .routes(routes!(datasources::put_datasource, datasources::delete_datasource))
        .routes(routes!(datasources::check_datasource))
        // Keys and namespaces
        .routes(routes!(me::get_self))
        .routes(routes!(keys::create_key, keys::list_keys))
        .routes(routes!(keys::delete_key))
        .routes(routes!(namespaces::create_namespace, namespaces::list_namespaces))
        // Operations and pages
        .routes(routes!(stats::get_stats))
        .routes(routes!(forecast::get_forecast))
        .routes(routes!(stream::stream_events))
        .routes(routes!(health::get_health))
        .routes(routes!(health::get_readiness))
        .routes(routes!(pages::get_metrics))
        .routes(routes!(pages::get_openapi))
        .routes(routes!(pages::get_docs))
}
