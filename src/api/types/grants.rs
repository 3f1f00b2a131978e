//! Rights that are taken from a type, and given back.

use std::collections::BTreeSet;

use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    domain::plugin::{Grant, TypeRow},
    store::admin::{AdminAnswer, AdminOp, Revoke},
};

use super::{
    super::{
        Api, Inner,
        auth::Caller,
        extract::{Json as JsonBody, Path},
        problem::{Code, Error, Result},
    },
    Type,
    check::read_grants,
};

/// The most rights that are revoked for one type.
const MAX_REVOKED: usize = 256;

/// Rights of a type's revisions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"grants": ["http:inventory.example", "on-expire:sql:shop"]}))]
pub struct GrantsRequest {
    /// As they stand in the revisions, at most 64: `[EXPORT:]http:HOST[:PORT]`, `[EXPORT:]sql:NAME` or
    /// `[EXPORT:]secret:NAME`, where `EXPORT` is `compensate` if left out.
    #[schema(min_items = 1, max_items = 64)]
    grants: Vec<String>,
}

/// Takes rights from a type, at once and whatever the revision: from timers that are pinned, and from compensations that an
/// older revision decided, too.
///
/// Calls under way are refused what they ask for from then on, on other nodes within half a second. What fails for it ends
/// as `grant_revoked`: a timer as failed, a compensation as dead. The rights stay revoked, also for revisions that are
/// granted them later, until they are restored; then such a timer can be retried, and such a compensation redriven.
/// Revoking what is revoked changes nothing.
#[utoipa::path(
    post, path = "/v1/types/{type}/revoke", operation_id = "revoke_grants", tag = "types", request_body = GrantsRequest,
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The type as it now is", body = Type))
)]
pub async fn revoke_grants(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<GrantsRequest>,
) -> Result<Json<Type>> {
    let row = api.type_row(&caller, &name)?;
    let grants = api.known_grants(&row, &request)?;
    let revoked = api.catalog.revoked(row.id).len() + grants.len();
    if revoked > MAX_REVOKED {
        let detail = format!("at most {MAX_REVOKED} rights are revoked for one type; pause it, or push a new revision");
        return Err(Error::at(Code::PayloadInvalid, "/grants", detail));
    }
    api.change_grants(&caller, &row, (grants, Vec::new())).await.map(Json)
}

/// Gives revoked rights back to the revisions that were granted them.
///
/// Restoring what is not revoked changes nothing.
#[utoipa::path(
    post, path = "/v1/types/{type}/restore", operation_id = "restore_grants", tag = "types",
    request_body = GrantsRequest,
    params(("type" = String, Path, description = "The type's name")),
    responses((status = 200, description = "The type as it now is", body = Type))
)]
pub async fn restore_grants(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<GrantsRequest>,
) -> Result<Json<Type>> {
    let row = api.type_row(&caller, &name)?;
    let grants = api.known_grants(&row, &request)?;
    api.change_grants(&caller, &row, (Vec::new(), grants)).await.map(Json)
}

impl Inner {
    /// Rights that a revision of the type was granted: another is a slip of the pen, which must not pass for done.
    fn known_grants(&self, row: &TypeRow, request: &GrantsRequest) -> Result<Vec<Grant>> {
        let grants = read_grants(&request.grants)?;
        if grants.is_empty() {
            return Err(Error::at(Code::PayloadInvalid, "/grants", "name at least one right"));
        }
        let snapshot = self.catalog.snapshot();
        let revisions = snapshot.catalogue.revisions.iter().filter(|(id, _)| *id == row.id);
        let known: BTreeSet<&Grant> = revisions.flat_map(|(_, revision)| &revision.grants).collect();
        let Some(unknown) = grants.iter().find(|grant| !known.contains(grant)) else { return Ok(grants) };
        let known: Vec<String> = known.iter().take(MAX_REVOKED).map(ToString::to_string).collect();
        let known = if known.is_empty() { "none at all".to_owned() } else { known.join(", ") };
        let detail = format!("no revision of {} was granted {unknown}; what they were granted: {known}", row.name);
        Err(Error::at(Code::PayloadInvalid, "/grants", detail))
    }

    async fn change_grants(
        &self,
        caller: &Caller,
        row: &TypeRow,
        (revoke, restore): (Vec<Grant>, Vec<Grant>),
    ) -> Result<Type> {
        let say = |grants: &[Grant]| grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let (revoked, restored) = (say(&revoke), say(&restore));
        let op = Revoke { namespace_id: row.namespace_id, name: row.name.clone(), revoke, restore };
        match self.store.admin(AdminOp::Revoke(op)).await? {
            AdminAnswer::Revoked(_) => {}
            AdminAnswer::NotFound => return Err(Error::not_found("timer type")),
            other => return Err(Error::internal(format!("the store answered a revocation with {other:?}"))),
        }
        tracing::info!(
            namespace = %row.namespace, timer_type = %row.name, grants.revoked = revoked, grants.restored = restored,
            actor = caller.actor, "rights of a type were revoked or restored"
        );
        self.catalog.refresh_at_once().await?;
        self.show_type(row)
    }
}
