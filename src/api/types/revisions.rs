//! Revisions that go out of use: what stays behind when another is activated, and what may be deleted.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    catalog::TypeEntry,
    domain::plugin::TypeRow,
    store::admin::{AdminAnswer, AdminOp, MAX_COUNTED},
};

use super::{
    super::{
        Api, Inner,
        auth::Caller,
        extract::Path,
        problem::{Code, Error, Result},
    },
    Revision,
};

/// Timers whose payload is tried on a newly activated schema, for one answer.
const MAX_TRIED: usize = 500;

/// Timers that go on with the revision that they were registered under, since the active one's payload schema does not
/// take their payload.
#[derive(Serialize, ToSchema)]
pub struct LeftBehind {
    /// How many of those that were looked at: at most 500, of the newest revisions first.
    timers: usize,
    /// Whether there are timers that were not looked at.
    more: bool,
}

/// Deletes a revision that nothing needs any more.
///
/// Refused as `revision_in_use` while it is the active one, or while a timer that is not final or a compensation that is
/// not done stands under it. Its number is never given again.
#[utoipa::path(
    delete, path = "/v1/types/{type}/revisions/{number}", operation_id = "delete_revision", tag = "types",
    params(
        ("type" = String, Path, description = "The type's name"),
        ("number" = i64, Path, description = "The revision's number")
    ),
    responses((status = 200, description = "The revision, which is deleted", body = Revision))
)]
pub async fn delete_revision(
    State(api): State<Api>,
    caller: Caller,
    Path((name, number)): Path<(String, i64)>,
) -> Result<Json<Revision>> {
    let row = api.type_row(&caller, &name)?;
    let snapshot = api.catalog.snapshot();
    let found = snapshot.catalogue.revision(row.id, number).ok_or_else(|| Error::not_found("revision"))?;
    let delete = AdminOp::DeleteRevision { namespace_id: caller.namespace_id, name: row.name, number };
    match api.store.admin(delete).await? {
        AdminAnswer::Deleted => {
            api.catalog.refresh_meanwhile().await?;
            Ok(Json(Revision::of(found, row.active)))
        }
        AdminAnswer::RevisionInUse { active: true, .. } => {
            let detail = format!("revision {number} is the active one: activate another first");
            Err(Error::new(Code::RevisionInUse, detail))
        }
        AdminAnswer::RevisionInUse { timers, compensations, .. } => {
            let detail = format!(
                "revision {number} is still needed by {} and {}: it can be deleted when they are over",
                counted(timers, "timer"),
                counted(compensations, "compensation")
            );
            Err(Error::new(Code::RevisionInUse, detail))
        }
        AdminAnswer::NotFound => Err(Error::not_found("revision")),
        other => Err(Error::internal(format!("the store answered a deletion with {other:?}"))),
    }
}

fn counted(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        MAX_COUNTED.. => format!("{MAX_COUNTED} {what}s or more"),
        n => format!("{n} {what}s"),
    }
}

impl Inner {
    /// What of a type's timers does not go along with its active revision; `None` where no other revision's schema
    /// differs from that one's.
    pub(super) async fn left_behind(&self, row: &TypeRow) -> Result<Option<LeftBehind>> {
        let snapshot = self.catalog.snapshot();
        let Some(entry) = snapshot.by_id(row.id) else { return Ok(None) };
        let others = entry.revisions_of_another_schema();
        if others.is_empty() {
            return Ok(None);
        }
        let mut left = LeftBehind { timers: 0, more: false };
        let mut budget = MAX_TRIED;
        for number in others {
            if budget == 0 {
                left.more = true;
                break;
            }
            let payloads = self.store.read().payloads_under(row.id, number, budget).await?;
            left.more |= payloads.len() == budget;
            budget -= payloads.len();
            left.timers += not_taken(entry, payloads).await?;
        }
        Ok(Some(left))
    }
}

async fn not_taken(entry: &Arc<TypeEntry>, payloads: Vec<Option<String>>) -> Result<usize> {
    if payloads.is_empty() {
        return Ok(0);
    }
    let entry = Arc::clone(entry);
    let count = move || payloads.iter().flatten().filter(|payload| !entry.active_takes(payload)).count();
    tokio::task::spawn_blocking(count).await.map_err(Error::internal)
}
