//! Data sources: the business's databases that plugins may be granted.

use std::time::Duration;

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    domain::time::{DurationMs, Timestamp},
    sql::{self, Definition, Source},
    store::admin::{SealedKind, SealedRow},
    vault::{self, Keep},
};

use super::{
    Api,
    auth::Caller,
    cursor::{self, List},
    extract::{Json as JsonBody, PageQuery, Path, Query, duration, given},
    model::page,
    problem::{Code, Error, Result},
    secrets::{known_name, new_name, not_found},
};

/// How long a check may take, and wait for its turn.
const CHECK_TIMEOUT: Duration = Duration::from_secs(8);
const TURN_TIMEOUT: Duration = Duration::from_secs(5);
/// What holds where a data source does not say.
const STATEMENT_TIMEOUT: DurationMs = DurationMs::from_secs(5);
const MAX_ROWS: u32 = 1_000;
const MAX_BYTES: u64 = 1024 * 1024;
const CONNECTIONS: u32 = 4;
/// What a data source may say at most.
const MOST_TIME: DurationMs = DurationMs::from_secs(60);
const MOST_ROWS: u32 = 100_000;
const MOST_BYTES: u64 = 16 * 1024 * 1024;
const LEAST_BYTES: u64 = 1024;
const MOST_CONNECTIONS: u32 = 100;

page!(
    /// Data sources, by name.
    DataSourcePage of DataSource
);

/// Which database speaks there; `mysql` is MariaDB too.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataSourceKind {
    Postgres,
    Mysql,
    Sqlite,
}

/// A data source, without its password.
#[derive(Serialize, ToSchema)]
pub struct DataSource {
    name: String,
    kind: DataSourceKind,
    /// Without the password.
    #[schema(example = "postgres://lapse@db.example:5432/shop")]
    url: String,
    has_password: bool,
    /// The time of one statement.
    #[schema(example = "5s")]
    statement_timeout: String,
    /// Rows that one batch may return.
    max_rows: u32,
    /// Bytes that one batch may return, and that its parameters may have.
    max_bytes: u64,
    /// Connections that each node may have open.
    connections: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    updated_by: String,
}

/// Where a database is, and what a batch on it may take.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"url": "postgres://lapse:s3cr3t@db.example:5432/shop?sslmode=require", "connections": 4}))]
pub struct PutDataSourceRequest {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, `mysql://…`, `mariadb://…`, each with `?sslmode=require` for TLS;
    /// or `sqlite:FILE`, a file in the namespace's folder below the server's `sql.sqlite_folder`.
    #[schema(max_length = 2048)]
    url: String,
    /// The time of one statement, at most a minute; 5s if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, example = "5s")]
    statement_timeout: Option<String>,
    /// Rows that one batch may return; 1,000 if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, minimum = 1, maximum = 100_000)]
    max_rows: Option<u32>,
    /// Bytes that one batch may return, and that its parameters may have; 1 MiB if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, minimum = 1024, maximum = 16_777_216)]
    max_bytes: Option<u64>,
    /// Connections that each node may have open; 4 if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, minimum = 1, maximum = 100)]
    connections: Option<u32>,
}

/// What was found at a data source.
#[derive(Serialize, ToSchema)]
pub struct DataSourceCheck {
    /// Whether a connection was made and answered.
    ok: bool,
    /// The product and its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "PostgreSQL 15.18")]
    server: Option<String>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    elapsed_ms: u64,
}

fn shown(row: &SealedRow) -> Result<DataSource> {
    let Definition { url, statement_timeout, max_rows, max_bytes, connections } = vault::definition(row)?;
    let kind = match sql::keep(&url).map(|kept| kept.dialect) {
        Ok(sql::Dialect::Mysql) => DataSourceKind::Mysql,
        Ok(sql::Dialect::Sqlite) => DataSourceKind::Sqlite,
        // Only what is well formed was stored.
        Ok(sql::Dialect::Postgres) | Err(_) => DataSourceKind::Postgres,
    };
    Ok(DataSource {
        name: row.name.to_string(),
        kind,
        url,
        has_password: vault::has_content(row),
        statement_timeout: statement_timeout.to_string(),
        max_rows,
        max_bytes,
        connections,
        created_at: row.created_at,
        updated_at: row.updated_at,
        updated_by: row.updated_by.clone(),
    })
}

fn bounded<T: PartialOrd + std::fmt::Display>(value: T, least: T, most: T, pointer: &str) -> Result<T> {
    if value < least || value > most {
        return Err(Error::at(Code::PayloadInvalid, pointer, format!("{least} to {most}, not {value}")));
    }
    Ok(value)
}

/// Sets a data source, in the place of the one of its name.
///
/// The password in the URL is sealed and never answered again. Connections under the old definition are closed; the next
/// batch, on every node, goes by the new one. Whether it can be reached, `check_datasource` says.
#[utoipa::path(
    put, path = "/v1/datasources/{name}", operation_id = "put_datasource", tag = "datasources",
    request_body = PutDataSourceRequest,
    params(("name" = String, Path, description = "a-z, 0-9, - and _, at most 63, from a letter on")),
    responses(
        (status = 200, description = "It is set anew", body = DataSource),
        (status = 201, description = "It is new", body = DataSource),
    )
)]
pub async fn put_datasource(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    JsonBody(request): JsonBody<PutDataSourceRequest>,
) -> Result<(StatusCode, Json<DataSource>)> {
    let name = new_name(&name)?;
    let kept = sql::keep(&request.url).map_err(|e| Error::at(Code::PayloadInvalid, "/url", e.to_string()))?;
    let timeout = match request.statement_timeout {
        Some(text) => duration(&text, "/statement_timeout")?,
        None => STATEMENT_TIMEOUT,
    };
    let definition = Definition {
        url: kept.url,
        statement_timeout: bounded(timeout, DurationMs::from_millis(1), MOST_TIME, "/statement_timeout")?,
        max_rows: bounded(request.max_rows.unwrap_or(MAX_ROWS), 1, MOST_ROWS, "/max_rows")?,
        max_bytes: bounded(request.max_bytes.unwrap_or(MAX_BYTES), LEAST_BYTES, MOST_BYTES, "/max_bytes")?,
        connections: bounded(request.connections.unwrap_or(CONNECTIONS), 1, MOST_CONNECTIONS, "/connections")?,
    };
    let source = Source {
        namespace: caller.namespace.to_string(),
        name: name.clone(),
        definition: definition.clone(),
        password: kept.password,
        stamp: Vec::new(),
    };
    api.databases.accepts(&source).map_err(|e| Error::at(Code::PayloadInvalid, "/url", e.to_string()))?;
    api.check_room(caller.namespace_id, SealedKind::DataSource, &name).await?;
    let keep = Keep { namespace_id: caller.namespace_id, name, by: caller.actor.clone() };
    let (row, created) = api.vault.put_source(keep, &definition, &source.password).await?;
    api.databases.forget(caller.namespace.as_str(), &row.name);
    tracing::info!(namespace = %caller.namespace, sql.source = %row.name, actor = caller.actor, "a data source was set");
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(shown(&row)?)))
}

/// Lists data sources, by name, without their passwords.
#[utoipa::path(
    get, path = "/v1/datasources", operation_id = "list_datasources", tag = "datasources", params(PageQuery),
    responses((status = 200, description = "A page", body = DataSourcePage))
)]
pub async fn list_datasources(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<DataSourcePage>> {
    let rows = api.vault.list(caller.namespace_id, SealedKind::DataSource).await?;
    let (rows, next_cursor) = cursor::page(List::DataSources, rows, &query, |r| r.name.as_str().as_bytes().to_vec())?;
    Ok(Json(DataSourcePage { items: rows.iter().map(shown).collect::<Result<_>>()?, next_cursor }))
}

/// Deletes a data source. The next batch that names it is refused, on every node.
#[utoipa::path(
    delete, path = "/v1/datasources/{name}", operation_id = "delete_datasource", tag = "datasources",
    params(("name" = String, Path, description = "The data source's name")),
    responses((status = 200, description = "What it was", body = DataSource))
)]
pub async fn delete_datasource(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<DataSource>> {
    let row = api.delete_sealed(&caller, SealedKind::DataSource, &name).await?;
    api.databases.forget(caller.namespace.as_str(), &row.name);
    tracing::info!(namespace = %caller.namespace, sql.source = %row.name, actor = caller.actor, "a data source was deleted");
    shown(&row).map(Json)
}

/// Connects to a data source from the node that answers, and says what is there.
#[utoipa::path(
    post, path = "/v1/datasources/{name}/check", operation_id = "check_datasource", tag = "datasources",
    params(("name" = String, Path, description = "The data source's name")),
    responses((status = 200, description = "What was found, also if it cannot be reached", body = DataSourceCheck))
)]
pub async fn check_datasource(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<DataSourceCheck>> {
    let name = known_name(SealedKind::DataSource, &name)?;
    let found = match api.vault.source(caller.namespace.as_str(), &name).await {
        Ok(source) => {
            let source = source.ok_or_else(|| not_found(SealedKind::DataSource))?;
            let turn = tokio::time::timeout(TURN_TIMEOUT, api.checks.acquire()).await;
            let Ok(Ok(_turn)) = turn else {
                return Err(Error::unavailable("other checks are under way; try again in a moment"));
            };
            api.databases.check(&source, CHECK_TIMEOUT).await.map_err(|e| e.to_string())
        }
        Err(vault::Error::Store(error)) => return Err(error.into()),
        Err(error) => Err(error.to_string()),
    };
    Ok(Json(match found {
        Ok(found) => DataSourceCheck {
            ok: true,
            server: Some(found.server),
            error: None,
            elapsed_ms: u64::try_from(found.took.as_millis()).unwrap_or(u64::MAX),
        },
        Err(error) => DataSourceCheck { ok: false, server: None, error: Some(error), elapsed_ms: 0 },
    }))
}
