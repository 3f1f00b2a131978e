//! Who may call what: the one map of rights, by operation.

use std::collections::HashMap;

use axum::http::Method;
use utoipa::openapi::{OpenApi, path::Operation};

use crate::store::admin::Role;

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone, without a key.
    Public,
    /// Keys of these roles.
    Roles(&'static [Role]),
}

use Role::{Admin, Operator, Producer, Publisher, Reader};

const READ: Access = Access::Roles(&[Reader, Producer, Publisher, Operator, Admin]);
const PRODUCE: Access = Access::Roles(&[Producer, Operator, Admin]);
const PUBLISH: Access = Access::Roles(&[Publisher, Operator, Admin]);
const OPERATE: Access = Access::Roles(&[Operator, Admin]);
const ADMINISTER: Access = Access::Roles(&[Admin]);

const RIGHTS: &[(&str, Access)] = &[
    ("register_timer", PRODUCE),
    ("register_timers", PRODUCE),
    ("list_timers", READ),
    ("get_timer", READ),
    ("get_timer_by_key", READ),
    ("list_timer_events", READ),
    ("resolve_timer", PRODUCE),
    ("resolve_timer_by_key", PRODUCE),
    ("cancel_timer", PRODUCE),
    ("cancel_timer_by_key", PRODUCE),
    ("reschedule_timer", PRODUCE),
    ("reschedule_timer_by_key", PRODUCE),
    ("fire_timer", OPERATE),
    ("fire_timer_by_key", OPERATE),
    ("retry_timer", OPERATE),
    ("retry_timer_by_key", OPERATE),
    ("upload_plugin", PUBLISH),
    ("list_plugins", READ),
    ("get_plugin", READ),
    ("delete_plugin", PUBLISH),
    // Rights that the active revision does not have need an operator: see `types::check_new_grants`.
    ("put_type", PUBLISH),
    ("get_type", READ),
    ("list_types", READ),
    ("list_revisions", READ),
    ("activate_revision", PUBLISH),
    ("delete_revision", PUBLISH),
    ("get_type_costs", READ),
    ("dry_run_type", PUBLISH),
    ("revoke_grants", OPERATE),
    ("restore_grants", OPERATE),
    ("pause_type", OPERATE),
    ("resume_type", OPERATE),
    // Operators their own, administrators any: see `pauses::namespace_to_pause`.
    ("pause_namespace", OPERATE),
    ("resume_namespace", OPERATE),
    ("pause_all", ADMINISTER),
    ("resume_all", ADMINISTER),
    ("list_pauses", READ),
    ("list_compensations", READ),
    ("get_compensation", READ),
    ("redrive_compensation", OPERATE),
    ("redrive_compensations", OPERATE),
    ("get_self", READ),
    ("get_stats", READ),
    ("get_forecast", READ),
    ("put_secret", OPERATE),
    ("list_secrets", READ),
    ("delete_secret", OPERATE),
    ("put_datasource", OPERATE),
    ("list_datasources", READ),
    ("delete_datasource", OPERATE),
    ("check_datasource", OPERATE),
    ("explain_timer", READ),
    ("stream_events", READ),
    // Names of keys are nobody's business but an administrator's.
    ("create_key", ADMINISTER),
    ("list_keys", ADMINISTER),
    ("delete_key", ADMINISTER),
    ("create_namespace", ADMINISTER),
    // Others than administrators see only their own.
    ("list_namespaces", READ),
    ("get_health", Access::Public),
    ("get_readiness", Access::Public),
    ("get_metrics", Access::Public),
    ("get_openapi", Access::Public),
    ("get_docs", Access::Public),
];

/// Who may call the operation of this id; `None` if there is no such operation.
pub fn access(operation_id: &str) -> Option<Access> {
    RIGHTS.iter().find(|(id, _)| *id == operation_id).map(|(_, access)| *access)
}

/// Calls by method and path template.
pub(super) struct Operations(HashMap<(Method, String), Access>);

impl Operations {
    /// A call that the document does not name, or that has no entry in the map, is found in vain.
    pub fn of(document: &OpenApi) -> Self {
        let mut all = HashMap::new();
        for (path, item) in &document.paths.paths {
            let methods: [(Method, &Option<Operation>); 4] = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::DELETE, &item.delete),
            ];
            for (method, operation) in methods {
                let id = operation.as_ref().and_then(|o| o.operation_id.as_deref());
                if let Some(access) = id.and_then(access) {
                    all.insert((method, path.clone()), access);
                }
            }
        }
        Self(all)
    }

    pub fn find(&self, method: &Method, path: &str) -> Option<Access> {
        let method = if *method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.get(&(method, path.to_owned())).copied()
    }
}
