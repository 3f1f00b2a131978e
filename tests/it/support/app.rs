//! The API as tests call it: the real router and a real database, a clock that the test moves, and a scripted host.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use futures_util::StreamExt as _;
use lapse::{
    api::{self, ApiParams, Health},
    breaker::Breakers,
    catalog::Catalog,
    clock::{ManualClock, SharedClock},
    config::Config,
    domain::{
        audit::Chain,
        id::{ApiKeyId, Digest, Name, NamespaceId, TypeId},
        time::{DurationMs, Timestamp},
    },
    plugin::{Host, Inspection, Plugin, Refusal},
    sql::{self, Databases},
    stats::{Broker, Engine, Lane, Stats},
    store::{
        Limits, Store,
        admin::{AdminAnswer, AdminOp, Role},
        sqlite::{Sqlite, SqliteParams},
    },
    telemetry::init_metrics,
    vault::Vault,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::fake_host::{FakeHost, component};

/// Every role, with its name.
pub const ROLES: [(Role, &str); 5] = [
    (Role::Reader, "reader"),
    (Role::Producer, "producer"),
    (Role::Publisher, "publisher"),
    (Role::Operator, "operator"),
    (Role::Admin, "admin"),
];

/// Where every test's clock starts.
pub const NOON: &str = "2026-03-01T12:00:00.000Z";

#[derive(Clone, Debug)]
pub struct AppOptions {
    pub rate_limit: u32,
    pub firing_wait: DurationMs,
    pub max_component_bytes: u64,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self { rate_limit: 0, firing_wait: DurationMs::from_millis(100), max_component_bytes: 1024 * 1024 }
    }
}

#[derive(Default)]
pub struct TestHealth {
    pub draining: AtomicBool,
    pub stalled: AtomicBool,
}

impl Health for TestHealth {
    fn dispatch_tick_age(&self) -> Duration {
        if self.stalled.load(Ordering::SeqCst) { Duration::from_secs(3) } else { Duration::from_millis(1) }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// An engine that says what the test wants.
#[derive(Default)]
pub struct TestEngine {
    pub lane: Mutex<Option<Lane>>,
    pub broker: Mutex<Option<Broker>>,
}

impl Engine for TestEngine {
    fn lane(&self, _: TypeId) -> Option<Lane> {
        *self.lane.lock()
    }

    fn broker(&self) -> Broker {
        self.broker.lock().unwrap_or(Broker::None)
    }
}

/// A host that can load nothing.
struct NoHost;

#[async_trait::async_trait]
impl Host for NoHost {
    async fn inspect(&self, _: bytes::Bytes) -> Result<Inspection, Refusal> {
        Err(Refusal::Internal("scripted".into()))
    }

    async fn load(&self, _: Digest, _: bytes::Bytes) -> Result<Arc<dyn Plugin>, Refusal> {
        Err(Refusal::Internal("scripted".into()))
    }
}

pub struct TestApp {
    pub store: Store,
    pub catalog: Catalog,
    pub clock: Arc<ManualClock>,
    pub health: Arc<TestHealth>,
    pub engine: Arc<TestEngine>,
    pub stats: Stats,
    pub breakers: Breakers,
    router: Router,
    home: Option<tempfile::TempDir>,
}

impl TestApp {
    pub async fn start() -> Self {
        Self::start_with(AppOptions::default(), Arc::new(FakeHost)).await
    }

    pub async fn start_with(options: AppOptions, host: Arc<dyn Host>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(NOON.parse().unwrap());
        let shared: SharedClock = clock.clone();
        let driver = Sqlite::open(SqliteParams {
            path: home.path().join("lapse.db"),
            readers: 2,
            clock: shared.clone(),
            chain: Chain::new([7; 32]),
            migrate: true,
        });
        let store = Store::new(driver.unwrap(), Limits::default());
        let catalog = Catalog::load(store.clone(), host).await.unwrap();
        let app = Self::over(store, catalog, clock, &options, Some(home));
        for (role, name) in ROLES {
            app.add_key("default", name, role, name).await;
        }
        app
    }

    /// A second node over the same store, on which no plugin can be loaded.
    pub async fn with_no_plugins(&self) -> Self {
        let catalog = Catalog::load(self.store.clone(), Arc::new(NoHost)).await.unwrap();
        Self::over(self.store.clone(), catalog, self.clock.clone(), &AppOptions::default(), None)
    }

    fn over(
        store: Store,
        catalog: Catalog,
        clock: Arc<ManualClock>,
        options: &AppOptions,
        home: Option<tempfile::TempDir>,
    ) -> Self {
        let shared: SharedClock = clock.clone();
        let health = Arc::new(TestHealth::default());
        let config = lapse::config::Server {
            rate_limit: options.rate_limit,
            firing_wait: options.firing_wait,
            ..Config::default().server
        };
        let stats = Stats::start(store.clone(), shared.clone());
        let engine = Arc::new(TestEngine::default());
        let folder = home.as_ref().map_or_else(std::env::temp_dir, |h| h.path().to_owned());
        let sqlite_folder = folder.join("sqlite");
        let settings = sql::Settings {
            config: lapse::config::Sql { sqlite_folder, ..Config::default().sql },
            own_folder: folder.join("own"),
        };
        let databases = Databases::new(settings);
        let breakers = Breakers::new(Config::default().breaker, shared.clone());
        let router = api::router(ApiParams {
            breakers: breakers.clone(),
            store: store.clone(),
            catalog: catalog.clone(),
            clock: shared,
            vault: Vault::new(store.clone(), [9; 32]),
            databases: databases.clone(),
            config,
            max_component_bytes: options.max_component_bytes,
            health: health.clone(),
            engine: engine.clone(),
            stats: stats.clone(),
            node: "node-1".to_owned(),
            metrics: init_metrics(),
        });
        Self { store, catalog, clock, health, engine, stats, breakers, router, home }
    }

    /// Where the namespace's SQLite data sources are, made.
    pub fn sqlite_folder(&self, namespace: &str) -> PathBuf {
        let folder = self.home.as_ref().unwrap().path().join("sqlite").join(namespace);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// What the server takes for its own folder, made.
    pub fn own_folder(&self) -> PathBuf {
        let folder = self.home.as_ref().unwrap().path().join("own");
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// With the type `order-timeout`: a payload of `{order_id, total}`, half an hour by default.
    pub async fn with_type() -> Self {
        let app = Self::start().await;
        app.put_type("default", "order-timeout").await;
        app
    }

    pub async fn namespace(&self, name: &str) -> NamespaceId {
        let op = AdminOp::CreateNamespace { name: name.parse::<Name>().unwrap() };
        let AdminAnswer::Namespace { row, .. } = self.store.admin(op).await.unwrap() else { panic!() };
        self.catalog.refresh().await.unwrap();
        row.id
    }

    /// A key whose secret is chosen by the test.
    pub async fn add_key(&self, namespace: &str, name: &str, role: Role, secret: &str) -> ApiKeyId {
        let id = ApiKeyId::new();
        let create = AdminOp::CreateApiKey {
            id,
            namespace_id: self.namespace(namespace).await,
            name: name.to_owned(),
            role,
            hash: api::hash_token(secret),
            created_by: "bootstrap".to_owned(),
            only_first: false,
        };
        self.store.admin(create).await.unwrap();
        id
    }

    /// Uploads a component and makes a type of it, as an administrator; gives its digest.
    pub async fn put_type(&self, namespace: &str, name: &str) -> String {
        let upload = self.post("/v1/plugins").namespace(namespace).octets(component(name, json!({}))).send().await;
        assert!(upload.status.is_success(), "{upload:?}");
        let digest = upload.json["digest"].as_str().unwrap().to_owned();
        let body = json!({ "digest": digest });
        let put = self.put(&format!("/v1/types/{name}")).namespace(namespace).json(&body).send().await;
        assert_eq!(put.status, StatusCode::CREATED, "{put:?}");
        digest
    }

    /// Registers a timer of `order-timeout` that must be new.
    pub async fn register(&self, key: &str) -> Value {
        self.register_with(json!({ "type": "order-timeout", "key": key, "payload": order(key) })).await
    }

    pub async fn register_with(&self, body: Value) -> Value {
        let reply = self.post("/v1/timers").json(&body).send().await;
        assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
        reply.json
    }

    /// How many timers there are in the namespace `default`, up to 500.
    pub async fn count(&self) -> usize {
        self.get("/v1/timers?limit=500").send().await.json["items"].as_array().unwrap().len()
    }

    pub fn now(&self) -> Timestamp {
        lapse::clock::Clock::now(&*self.clock)
    }

    pub fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }

    pub fn post(&self, path: &str) -> Call<'_> {
        self.call(Method::POST, path)
    }

    pub fn put(&self, path: &str) -> Call<'_> {
        self.call(Method::PUT, path)
    }

    /// A call by the administrator of `default`, until another key is named.
    pub fn call(&self, method: Method, path: &str) -> Call<'_> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, "Bearer admin".parse().unwrap());
        Call { app: self, method, path: path.to_owned(), headers, body: Vec::new() }
    }
}

/// A payload that fits the type `order-timeout` of these tests.
pub fn order(id: &str) -> Value {
    json!({ "order_id": id, "total": 1000 })
}

#[must_use]
pub struct Call<'a> {
    app: &'a TestApp,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Call<'_> {
    pub fn key(self, secret: &str) -> Self {
        self.header("authorization", &format!("Bearer {secret}"))
    }

    pub fn no_key(mut self) -> Self {
        self.headers.remove(header::AUTHORIZATION);
        self
    }

    pub fn namespace(self, name: &str) -> Self {
        self.header("lapse-namespace", name)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: header::HeaderName = name.parse().unwrap();
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    /// JSON as it is.
    pub fn text(self, body: &str) -> Self {
        self.bytes("application/json", body.as_bytes().to_vec())
    }

    pub fn octets(self, body: Vec<u8>) -> Self {
        self.bytes("application/octet-stream", body)
    }

    pub fn bytes(mut self, content_type: &str, body: Vec<u8>) -> Self {
        self.headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        self.body = body;
        self
    }

    /// Sends it, and gives what a stream says, chunk by chunk.
    pub async fn stream(self) -> axum::body::BodyDataStream {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.path);
        *request.headers_mut().unwrap() = self.headers;
        let request = request.body(Body::from(self.body)).unwrap();
        let response = self.app.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().into_data_stream()
    }

    /// Sends it. Every error must be a problem, and every answer has an id.
    pub async fn send(self) -> Reply {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.path);
        *request.headers_mut().unwrap() = self.headers;
        let request = request.body(Body::from(self.body)).unwrap();
        let response = self.app.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let is_stream = parts.headers.get(header::CONTENT_TYPE).is_some_and(|t| t == "text/event-stream");
        let body = if is_stream {
            // It has no end; what it says at once is enough here.
            body.into_data_stream().next().await.unwrap().unwrap()
        } else {
            axum::body::to_bytes(body, usize::MAX).await.unwrap()
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let reply = Reply { status: parts.status, headers: parts.headers, json, text };
        reply.check(&format!("{} {}", self.method, self.path));
        reply
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub json: Value,
    pub text: String,
}

impl Reply {
    fn check(&self, call: &str) {
        let id = self.headers.get("x-request-id").unwrap_or_else(|| panic!("{call} has no request id"));
        if self.status.as_u16() < 400 {
            return;
        }
        let problem = &self.json;
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json", "{call}: {self:?}");
        assert_eq!(problem["status"], self.status.as_u16(), "{call}: {self:?}");
        assert_eq!(problem["request_id"].as_str(), id.to_str().ok(), "{call}: {self:?}");
        for field in ["type", "title", "detail", "code"] {
            assert!(problem[field].as_str().is_some_and(|s| !s.is_empty()), "{call} has no {field}: {self:?}");
        }
        let may_come_again = matches!(self.status.as_u16(), 429 | 503) || problem["code"] == "firing";
        assert_eq!(self.headers.contains_key(header::RETRY_AFTER), may_come_again, "{call}: {self:?}");
    }

    /// Its status and code.
    pub fn says(&self) -> (u16, &str) {
        (self.status.as_u16(), self.json["code"].as_str().unwrap_or_default())
    }

    /// The places of its faults.
    pub fn pointers(&self) -> Vec<&str> {
        self.json["errors"].as_array().into_iter().flatten().filter_map(|e| e["pointer"].as_str()).collect()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    pub fn items(&self) -> &[Value] {
        self.json["items"].as_array().unwrap_or_else(|| panic!("not a page: {self:?}"))
    }
}
