//! Plugins: uploading a component, and what it says of itself.

use std::time::Duration;

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    domain::{
        id::Digest,
        plugin::{Manifest, PluginRow},
        time::Timestamp,
    },
    plugin::Refusal,
    store::admin::{AdminAnswer, AdminOp, Holder},
};

use super::{
    Api,
    auth::Caller,
    cursor::{self, List},
    extract::{PageQuery, Path, Query, TOO_LARGE, read},
    model::{Raw, page},
    problem::{Code, Error, Result},
};

/// How long a component may take to arrive.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(2);
/// How long an upload waits for its turn, while others are read and compiled.
const TURN_TIMEOUT: Duration = Duration::from_mins(1);

page!(
    /// Plugins, newest first.
    PluginPage of Plugin
);

/// An uploaded component.
#[derive(Serialize, ToSchema)]
pub struct Plugin {
    /// `sha256:` and 64 hex digits, of the component's bytes.
    #[schema(example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    digest: String,
    /// In bytes.
    size: u64,
    /// What the component says of itself: name, version, schemas, defaults and the capabilities that it wants.
    #[schema(value_type = Value)]
    manifest: Manifest,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// How long it took to compile; only in an upload's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    compile_ms: Option<u64>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    created_by: String,
}

impl From<PluginRow> for Plugin {
    fn from(row: PluginRow) -> Self {
        Self {
            digest: row.digest.to_string(),
            size: row.size,
            manifest: row.manifest,
            imports: row.imports,
            compile_ms: None,
            created_at: row.created_at,
            created_by: row.created_by,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(why) => Self::new(Code::PluginInvalid, why),
            Refusal::OverLimit(why) => Self::new(Code::PluginOverLimit, why),
            Refusal::Internal(why) => Self::internal(why),
        }
    }
}

/// Uploads a plugin: a WebAssembly component.
///
/// It is compiled, asked to describe itself, and kept. The same bytes again answer 200. One that is too large is refused
/// with 413, one that is over another limit (such as the time to compile) with 422, both as `plugin_over_limit`.
#[utoipa::path(
    post, path = "/v1/plugins", operation_id = "upload_plugin", tag = "plugins",
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The component's bytes"),
    responses(
        (status = 200, description = "It is there already", body = Plugin),
        (status = 201, description = "It is uploaded", body = Plugin),
    )
)]
pub async fn upload_plugin(
    State(api): State<Api>,
    caller: Caller,
    request: Request,
) -> Result<(StatusCode, Json<Plugin>)> {
    let content_type = request.headers().get(header::CONTENT_TYPE).map(|v| String::from_utf8_lossy(v.as_bytes()));
    let essence = content_type.as_deref().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
    if !essence.eq_ignore_ascii_case("application/octet-stream") && !essence.eq_ignore_ascii_case("application/wasm") {
        let detail = "send the component's bytes as Content-Type: application/octet-stream";
        return Err(Error::new(Code::UnsupportedMediaType, detail));
    }
    let limit = api.max_component_bytes;
    let too_large = || {
        Error::new(Code::PluginOverLimit, format!("the component is over the limit of {limit} bytes"))
            .with_status(TOO_LARGE)
    };
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|n| n > limit) {
        return Err(too_large());
    }
    let turn = tokio::time::timeout(TURN_TIMEOUT, api.uploads.acquire()).await;
    let Ok(Ok(_turn)) = turn else {
        return Err(Error::unavailable("other plugins are being compiled; try again in a moment"));
    };
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    let bytes = read(request.into_body(), size, UPLOAD_TIMEOUT)
        .await
        .map_err(|e| if e.status() == TOO_LARGE { too_large() } else { e })?;
    let inspection = api.catalog.host().inspect(bytes.clone()).await?;
    let put = AdminOp::PutPlugin {
        namespace_id: caller.namespace_id,
        digest: inspection.digest,
        bytes,
        manifest: Box::new(inspection.manifest),
        imports: inspection.imports,
        created_by: caller.actor,
    };
    match api.store.admin(put).await? {
        AdminAnswer::Plugin { row, created } => {
            api.catalog.refresh_meanwhile().await?;
            let status = if created { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(Plugin { compile_ms: Some(inspection.compile_ms), ..row.into() })))
        }
        other => Err(Error::internal(format!("the store answered an upload with {other:?}"))),
    }
}

/// Lists plugins, newest first.
#[utoipa::path(
    get, path = "/v1/plugins", operation_id = "list_plugins", tag = "plugins", params(PageQuery),
    responses((status = 200, description = "A page", body = PluginPage))
)]
pub async fn list_plugins(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<PluginPage>> {
    let snapshot = api.catalog.snapshot();
    let mut rows: Vec<_> =
        snapshot.catalogue.plugins.iter().filter(|p| p.namespace_id == caller.namespace_id).collect();
    rows.sort_by_key(|p| place(p));
    let (rows, next_cursor) = cursor::page(List::Plugins, rows, &query, |p| place(p))?;
    Ok(Json(PluginPage { items: rows.into_iter().cloned().map(Into::into).collect(), next_cursor }))
}

/// Newest first.
fn place(row: &PluginRow) -> Vec<u8> {
    [&(i64::MAX - row.created_at.as_millis()).to_be_bytes()[..], &row.digest.0].concat()
}

/// Shows a plugin.
#[utoipa::path(
    get, path = "/v1/plugins/{digest}", operation_id = "get_plugin", tag = "plugins",
    params(("digest" = String, Path, description = "The plugin's digest: `sha256:` and 64 hex digits")),
    responses((status = 200, description = "The plugin", body = Plugin))
)]
pub async fn get_plugin(State(api): State<Api>, caller: Caller, Path(digest): Path<String>) -> Result<Json<Plugin>> {
    let snapshot = api.catalog.snapshot();
    let row = digest.parse::<Digest>().ok().and_then(|d| snapshot.plugin(caller.namespace_id, d));
    row.cloned().map(|row| Json(row.into())).ok_or_else(|| Error::not_found("plugin"))
}

/// Deletes a plugin that no revision uses.
///
/// Refused as `revision_in_use` while a revision has it: delete that first. A revision that was just deleted holds on to
/// its plugin for a minute, and as long as something stands under it that was registered meanwhile.
#[utoipa::path(
    delete, path = "/v1/plugins/{digest}", operation_id = "delete_plugin", tag = "plugins",
    params(("digest" = String, Path, description = "The plugin's digest: `sha256:` and 64 hex digits")),
    responses((status = 200, description = "The plugin, which is deleted", body = Plugin))
)]
pub async fn delete_plugin(State(api): State<Api>, caller: Caller, Path(digest): Path<String>) -> Result<Json<Plugin>> {
    let missing = || Error::not_found("plugin");
    let digest = digest.parse::<Digest>().map_err(|_| missing())?;
    let row = api.catalog.snapshot().plugin(caller.namespace_id, digest).cloned().ok_or_else(missing)?;
    match api.store.admin(AdminOp::DeletePlugin { namespace_id: caller.namespace_id, digest }).await? {
        AdminAnswer::Deleted => {
            api.catalog.refresh_meanwhile().await?;
            Ok(Json(row.into()))
        }
        AdminAnswer::PluginInUse(holders) => Err(Error::new(Code::RevisionInUse, in_use(&holders))),
        AdminAnswer::NotFound => Err(missing()),
        other => Err(Error::internal(format!("the store answered a deletion with {other:?}"))),
    }
}

fn in_use(holders: &[Holder]) -> String {
    let name = |h: &Holder| match h.deleted_at {
        None => format!("revision {} of {}", h.number, h.timer_type),
        Some(_) => format!("revision {} of {} (deleted, and held for at least a minute)", h.number, h.timer_type),
    };
    let named = holders.iter().map(name).collect::<Vec<_>>().join(", ");
    format!("the plugin is in use: {named}; delete the revisions first, and try again when what they hold is over")
}

/// A manifest's schema, as a type shows it.
pub(super) fn payload_schema(manifest: &Manifest) -> Raw {
    Raw::value(&manifest.payload_schema)
}
