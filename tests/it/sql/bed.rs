//! The three databases under one face, and a plugin that is granted one of them.

use std::{collections::HashMap, path::Path, sync::Arc};

use async_trait::async_trait;
use lapse::{
    breaker::Breakers,
    config::{Config, Secret},
    domain::{id::Name, time::DurationMs},
    plugin::{Access, HostParams, Keeper, KeeperError, Plugin, Run, WasmHost},
    schema::Schema,
    sql::{Databases, Definition, Error, Mode, Outcome, Settings, Source, Statement, Value, keep},
};
use mysql_async::prelude::Queryable as _;
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    plugins::host::{load, rights, task},
    support::{
        guest::component,
        mariadb::MariaDb,
        postgres::{Database, database},
    },
};

/// How long a batch may take in these tests, unless it is about time.
pub const TIME: std::time::Duration = std::time::Duration::from_secs(20);

/// A database of the business.
pub struct Bed {
    kind: Kind,
    pub source: Source,
    pub databases: Databases,
    home: tempfile::TempDir,
}

enum Kind {
    Postgres(Database),
    Maria(MariaDb),
    Sqlite,
}

impl Bed {
    pub async fn postgres() -> Self {
        let database = database().await;
        let url = database.url.clone();
        Self::new(Kind::Postgres(database), &url)
    }

    pub fn mariadb() -> Self {
        let server = MariaDb::start();
        let url = server.url();
        Self::new(Kind::Maria(server), &url)
    }

    pub fn sqlite() -> Self {
        Self::new(Kind::Sqlite, "sqlite:shop.db")
    }

    /// One of each.
    pub async fn all() -> Vec<Self> {
        vec![Self::postgres().await, Self::mariadb(), Self::sqlite()]
    }

    fn new(kind: Kind, url: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("default");
        std::fs::create_dir(&folder).unwrap();
        if let Kind::Sqlite = kind {
            let conn = rusqlite::Connection::open(folder.join("shop.db")).unwrap();
            conn.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        }
        let settings = Settings {
            config: lapse::config::Sql { sqlite_folder: home.path().into(), ..Config::default().sql },
            own_folder: home.path().join("own"),
        };
        let source = source("default", url);
        Self { kind, source, databases: Databases::new(settings), home }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.kind, Kind::Postgres(_))
    }

    pub fn is_mariadb(&self) -> bool {
        matches!(self.kind, Kind::Maria(_))
    }

    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Postgres(_) => "PostgreSQL",
            Kind::Maria(_) => "MariaDB",
            Kind::Sqlite => "SQLite",
        }
    }

    fn file(&self) -> std::path::PathBuf {
        self.home.path().join("default/shop.db")
    }

    /// As the business does it: past Lapse.
    pub async fn execute(&self, sql: &str) {
        match &self.kind {
            Kind::Postgres(database) => database.execute(sql).await,
            Kind::Maria(server) => {
                let mut conn = mysql_async::Conn::from_url(server.url()).await.unwrap();
                for statement in sql.split(';').map(str::trim).filter(|s| !s.is_empty()) {
                    conn.query_drop(statement).await.unwrap();
                }
                conn.disconnect().await.unwrap();
            }
            Kind::Sqlite => rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap(),
        }
    }

    /// Where a client of the business would connect to.
    pub fn url(&self) -> String {
        match &self.kind {
            Kind::Postgres(database) => database.url.clone(),
            Kind::Maria(server) => server.url(),
            Kind::Sqlite => "sqlite:shop.db".into(),
        }
    }

    /// A connection that the business keeps open.
    pub async fn till(&self) -> Till {
        match &self.kind {
            Kind::Postgres(database) => Till::Postgres(database.client().await),
            Kind::Maria(server) => Till::Maria(mysql_async::Conn::from_url(server.url()).await.unwrap()),
            Kind::Sqlite => panic!("it has no connections to keep"),
        }
    }

    /// The first row's columns as text, with commas in between; past Lapse.
    pub async fn row(&self, sql: &str) -> String {
        match &self.kind {
            Kind::Postgres(database) => {
                let messages = database.client().await.simple_query(sql).await.unwrap();
                let row = messages.into_iter().find_map(|m| match m {
                    tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
                    _ => None,
                });
                row.map_or_else(String::new, |row| {
                    (0..row.len()).map(|at| row.get(at).unwrap_or("null").to_owned()).collect::<Vec<_>>().join(",")
                })
            }
            Kind::Maria(server) => {
                let mut conn = mysql_async::Conn::from_url(server.url()).await.unwrap();
                let row: Option<mysql_async::Row> = conn.query_first(sql).await.unwrap();
                conn.disconnect().await.unwrap();
                let shown = |value| match value {
                    mysql_async::Value::NULL => "null".to_owned(),
                    mysql_async::Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
                    other => other.as_sql(true),
                };
                row.map_or_else(String::new, |row| row.unwrap().into_iter().map(shown).collect::<Vec<_>>().join(","))
            }
            Kind::Sqlite => {
                let conn = rusqlite::Connection::open(self.file()).unwrap();
                let mut statement = conn.prepare(sql).unwrap();
                let count = statement.column_count();
                let mut rows = statement.query([]).unwrap();
                let Some(row) = rows.next().unwrap() else { return String::new() };
                let shown = |at| match row.get::<_, rusqlite::types::Value>(at).unwrap() {
                    rusqlite::types::Value::Null => "null".to_owned(),
                    rusqlite::types::Value::Integer(n) => n.to_string(),
                    rusqlite::types::Value::Real(n) => n.to_string(),
                    rusqlite::types::Value::Text(text) => text,
                    rusqlite::types::Value::Blob(bytes) => String::from_utf8(bytes).unwrap(),
                };
                (0..count).map(shown).collect::<Vec<_>>().join(",")
            }
        }
    }

    pub async fn run(&self, statements: Vec<Statement>) -> Result<Vec<Outcome>, Error> {
        self.databases.run(&self.source, statements, Mode::Write, TIME).await
    }

    pub async fn read(&self, statement: Statement) -> Result<Outcome, Error> {
        let mut outcomes = self.databases.run(&self.source, vec![statement], Mode::Read, TIME).await?;
        Ok(outcomes.remove(0))
    }

    /// Connections that the server has of Lapse's, and those of them at work. Waits until nothing is at work.
    pub async fn settles_with_connections(&self) -> u32 {
        let sql = match self.kind {
            Kind::Postgres(_) => {
                "SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
                 WHERE application_name = 'lapse' AND datname = current_database()"
            }
            Kind::Maria(_) => {
                "SELECT count(*), coalesce(sum(command <> 'Sleep'), 0) FROM information_schema.processlist
                 WHERE user = 'lapse' AND id <> connection_id()"
            }
            Kind::Sqlite => return 0,
        };
        let until = std::time::Instant::now() + TIME;
        loop {
            let row = self.row(sql).await;
            let (all, busy) = row.split_once(',').unwrap();
            if busy == "0" {
                return all.parse().unwrap();
            }
            assert!(std::time::Instant::now() < until, "{}: something is still at work: {row}", self.name());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

pub enum Till {
    Postgres(tokio_postgres::Client),
    Maria(mysql_async::Conn),
}

impl Till {
    /// How many rows it has changed.
    pub async fn change(&mut self, sql: &str) -> u64 {
        match self {
            Self::Postgres(client) => client.execute(sql, &[]).await.unwrap(),
            Self::Maria(conn) => {
                conn.query_drop(sql).await.unwrap();
                conn.affected_rows()
            }
        }
    }
}

pub fn source(namespace: &str, url: &str) -> Source {
    let kept = keep(url).unwrap();
    Source {
        namespace: namespace.into(),
        name: name("shop"),
        definition: Definition {
            url: kept.url,
            statement_timeout: DurationMs::from_millis(1_500),
            max_rows: 1_000,
            max_bytes: 256 * 1024,
            connections: 2,
        },
        password: kept.password,
        stamp: vec![1],
    }
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn say(text: &str, parameters: Vec<Value>) -> Statement {
    Statement { text: text.into(), parameters, expect_rows: None }
}

pub fn sure(text: &str, parameters: Vec<Value>, rows: u64) -> Statement {
    Statement { expect_rows: Some(rows), ..say(text, parameters) }
}

/// What plugins are given by name, as the test has it at the moment.
#[derive(Default)]
pub struct Shelf {
    pub sources: Mutex<HashMap<(String, Name), Source>>,
    pub secrets: Mutex<HashMap<(String, Name), String>>,
}

#[async_trait]
impl Keeper for Shelf {
    async fn secret(&self, namespace: &str, name: &Name) -> Result<Option<Secret>, KeeperError> {
        Ok(self.secrets.lock().get(&(namespace.to_owned(), name.clone())).map(Secret::new))
    }

    async fn source(&self, namespace: &str, name: &Name) -> Result<Option<Source>, KeeperError> {
        Ok(self.sources.lock().get(&(namespace.to_owned(), name.clone())).cloned())
    }
}

/// A host whose calls are given what is on the shelf.
pub fn host(keeper: Arc<dyn Keeper>, databases: Databases) -> Arc<WasmHost> {
    let cache = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled"));
    let check_schema = |schema: &serde_json::Value| Schema::compile(schema).map(drop);
    let params = HostParams { breakers: Breakers::off(), cache, check_schema };
    WasmHost::with_access(&Config::default().plugin, params, Access { keeper, databases }).unwrap()
}

/// The hostile guest, granted `sql:shop` and `secret:token` in `compensate`.
pub struct Guest {
    plugin: Arc<dyn Plugin>,
    pub shelf: Arc<Shelf>,
}

impl Guest {
    pub async fn on(bed: &Bed) -> Self {
        let shelf = Arc::<Shelf>::default();
        shelf.sources.lock().insert(("default".into(), name("shop")), bed.source.clone());
        let host = host(Arc::clone(&shelf) as Arc<dyn Keeper>, bed.databases.clone());
        Self { plugin: load(&host, component("hostile")).await, shelf }
    }

    /// What came of a batch, in the guest's words.
    pub async fn says(&self, batch: serde_json::Value) -> String {
        let answer = self.run(batch).await.result.unwrap().unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    pub async fn run(&self, batch: serde_json::Value) -> Run<Option<String>> {
        let mut payload = json!({"do": "sql", "source": "shop"});
        payload.as_object_mut().unwrap().extend(batch.as_object().unwrap().clone());
        let grants = ["sql:shop", "secret:token"];
        self.plugin.compensate(&task("undo", &payload, &json!({})), &rights(&grants)).await
    }

    /// One statement without parameters.
    pub async fn says_of(&self, text: &str) -> String {
        self.says(json!({"statements": [{"text": text}]})).await
    }
}
