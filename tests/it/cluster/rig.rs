//! A cluster: a database, a broker if one is wanted, a shop, and nodes that can be killed.

use std::{
    path::Path,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use lapse::{
    demo_shop::{COMPONENT, example_types},
    domain::{audit::Chain, timer::Trigger},
    store::postgres::{Postgres, PostgresParams},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::verdict::Verdict;
use crate::{
    faults::ledger::{self, Api, Promise},
    support::{
        dev::{ServeProcess, ShopProcess},
        guest::component,
        nats::Nats,
        postgres::{self, Database},
    },
};

pub const TOKEN: &str = "a-token-for-the-first-start";
pub const KEY: &str = "abababababababababababababababababababababababababababababababab";

/// The type that the load is of: it decides without effects, and each item of its order is a compensation.
const TYPE: &str = "order-timeout";

pub struct Node {
    process: ServeProcess,
    pub api: Api,
}

impl Node {
    /// Whether the type is known here, its plugin is loaded, and so a registration is looked at. One of no payload is refused.
    async fn has_type(&self) -> bool {
        let body = serde_json::json!({ "type": TYPE, "key": "probe", "payload": {}, "delay": "1h" });
        let (_, answer) = self.api.post("/v1/timers", &body).await.unwrap();
        answer["code"] == "payload_invalid"
    }

    /// The `nth` node, with a data folder of its own under `folder`.
    pub fn start(folder: &Path, nth: usize, env: &[(String, String)]) -> Self {
        let mut all = vec![
            ("LAPSE_BOOTSTRAP_TOKEN".to_owned(), TOKEN.to_owned()),
            ("LAPSE_STORE__KEY".to_owned(), KEY.to_owned()),
            ("LAPSE_STORE__DATA".to_owned(), format!("node-{nth}")),
        ];
        all.extend_from_slice(env);
        let process = ServeProcess::start(folder, &format!("node-{nth}.log"), &all);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
        let api = Api { base: process.url.clone(), shop: String::new(), token: TOKEN.to_owned(), http };
        Self { process, api }
    }
}

/// What a cluster is made of.
#[derive(Default)]
pub struct ClusterParams<'a> {
    pub size: usize,
    /// One of its own, if none is given.
    pub database: Option<Database>,
    /// The broker's addresses; empty for none.
    pub nats: String,
    pub settings: &'a [(&'a str, &'a str)],
    /// Settings of one node alone.
    pub own: Vec<(usize, &'a str, String)>,
}

pub struct Cluster {
    pub nodes: Vec<Node>,
    pub shop: ShopProcess,
    pub folder: TempDir,
    database: Database,
    _nats: Option<Nats>,
    env: Vec<(String, String)>,
    own: Vec<(usize, String, String)>,
}

impl Cluster {
    /// `size` nodes with these settings, and the load's type pushed on the first.
    pub async fn start(size: usize, with_broker: bool, settings: &[(&str, &str)]) -> Self {
        Self::start_on(postgres::database().await, size, with_broker, settings).await
    }

    /// The same on this database; the settings may say how else it is reached.
    pub async fn start_on(database: Database, size: usize, with_broker: bool, settings: &[(&str, &str)]) -> Self {
        let broker = if with_broker { Some(Nats::start().await) } else { None };
        let nats = broker.as_ref().map(Nats::url).unwrap_or_default();
        let database = Some(database);
        let cluster = Self::of(ClusterParams { size, database, nats, settings, ..ClusterParams::default() }).await;
        Self { _nats: broker, ..cluster }
    }

    /// With a broker and a database of the test's own.
    pub async fn of(params: ClusterParams<'_>) -> Self {
        let ClusterParams { size, database, nats, settings, own } = params;
        let folder = tempfile::tempdir().unwrap();
        let database = match database {
            Some(database) => database,
            None => postgres::database().await,
        };
        let mut env = vec![("LAPSE_STORE__DATABASE".to_owned(), database.url.clone())];
        env.push(("LAPSE_NATS__URL".to_owned(), nats));
        env.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let own = own.into_iter().map(|(nth, name, value)| (nth, name.to_owned(), value)).collect();
        let shop = ShopProcess::start(folder.path());
        let mut cluster = Self { nodes: Vec::new(), shop, folder, database, _nats: None, env, own };
        // The first migrates the database; the others need not wait for each other.
        cluster.join(&[]);
        let others = std::thread::scope(|scope| {
            let cluster = &cluster;
            let starting: Vec<_> = (1..size).map(|nth| scope.spawn(move || cluster.node(nth))).collect();
            starting.into_iter().map(|node| node.join().unwrap()).collect::<Vec<_>>()
        });
        cluster.nodes.extend(others);
        cluster.push_type().await;
        cluster
    }

    fn node(&self, nth: usize) -> Node {
        let mut env = self.env.clone();
        let own = self.own.iter().filter(|(of, ..)| *of == nth);
        env.extend(own.map(|(_, name, value)| (name.clone(), value.clone())));
        let mut node = Node::start(self.folder.path(), nth, &env);
        node.api.shop.clone_from(&self.shop.url);
        node
    }

    /// Pushed on the first node, it is live on all.
    async fn push_type(&self) {
        let api = &self.nodes[0].api;
        let upload = api.http.post(format!("{}/v1/plugins", api.base)).bearer_auth(TOKEN);
        let upload = upload.header("content-type", "application/octet-stream");
        let answer = upload.body(component(COMPONENT.trim_end_matches(".wasm"))).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let plugin: Value = answer.json().await.unwrap();
        let authority = self.shop.url.trim_start_matches("http://");
        for example in example_types(&self.shop.url, authority) {
            let body = json!({ "digest": plugin["digest"], "config": example.config, "grants": example.grants });
            let put = api.http.put(format!("{}/v1/types/{}", api.base, example.name)).bearer_auth(TOKEN).json(&body);
            assert!(put.send().await.unwrap().status().is_success());
        }
        let pushed = Instant::now();
        for node in &self.nodes {
            while !node.has_type().await {
                assert!(pushed.elapsed() < Duration::from_mins(1), "a type that was pushed does not come to a node");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        println!("the types are live on all nodes {:?} after they were pushed on one", pushed.elapsed());
    }

    /// One more node, with settings of its own.
    pub fn join(&mut self, settings: &[(&str, &str)]) {
        let nth = self.nodes.len();
        self.own.extend(settings.iter().map(|(name, value)| (nth, (*name).to_owned(), (*value).to_owned())));
        let node = self.node(nth);
        self.nodes.push(node);
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    pub fn apis(&self) -> Vec<Api> {
        self.nodes.iter().map(|node| node.api.clone()).collect()
    }

    pub fn kill(&mut self, nth: usize) {
        self.nodes[nth].process.kill();
    }

    pub fn freeze(&self, nth: usize, still: bool) {
        self.nodes[nth].process.freeze(still);
    }

    pub fn terminate(&mut self, nth: usize) -> ExitStatus {
        self.nodes[nth].process.terminate()
    }

    /// Starts a node again that was killed or has stopped. Its address changes.
    pub fn restart(&mut self, nth: usize) {
        self.kill(nth);
        self.nodes[nth] = self.node(nth);
    }

    /// What a node's log says so far, over all its lives.
    pub fn log(&self, nth: usize) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("node-{nth}.log"))).unwrap_or_default()
    }

    /// The sum of a metric of one node over all its labels; those that hold `label` only, if that is not empty.
    pub async fn metric(&self, nth: usize, name: &str, label: &str) -> f64 {
        let api = &self.nodes[nth].api;
        let answer = api.http.get(format!("{}/metrics", api.base)).bearer_auth(&api.token).send().await.unwrap();
        let text = answer.error_for_status().unwrap().text().await.unwrap();
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let value = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
        text.lines().filter(of_name).filter(|line| line.contains(label)).filter_map(value).sum()
    }

    /// The same, over all nodes.
    pub async fn metrics(&self, name: &str, label: &str) -> f64 {
        let each = (0..self.nodes.len()).map(|nth| self.metric(nth, name, label));
        join_all(each).await.into_iter().sum()
    }

    /// The settings that all nodes have.
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// The database as its nodes see it, beside them.
    pub async fn store(&self) -> (Arc<Postgres>, Chain) {
        let key: [u8; 32] = Sha256::new().chain_update([0xab; 32]).chain_update(b"audit").finalize().into();
        let chain = Chain::new(key);
        let store = Postgres::connect(PostgresParams::new(&self.database.url, chain.clone())).await.unwrap();
        (store, chain)
    }

    /// Waits until all is done, holds every promise against what is there, and verifies every audit chain. Returns what
    /// triggered the expiries.
    pub async fn audit(&self, promises: &[Promise], within: Duration) -> Vec<Trigger> {
        self.verdict(promises, within).await.fired.iter().map(|f| f.trigger).collect()
    }

    /// The same, with each expiry by its key.
    pub async fn verdict(&self, promises: &[Promise], within: Duration) -> Verdict {
        let api = &self.nodes[0].api;
        api.settle_down(within).await;
        let outcomes = ledger::audit(api, promises).await;
        println!("{} promises kept: {outcomes:?}", promises.len());
        assert!(outcomes.get("closed").is_some_and(|n| *n > 0), "the load closed timers: {outcomes:?}");
        assert!(!outcomes.contains_key("failed"), "{outcomes:?}");
        let verdict = Verdict::of(self).await;
        println!("settled after the due time, or the registration: {}", verdict.lateness(""));
        verdict
    }
}

/// How much is registered, and for how long.
pub struct Load {
    pub seconds: u64,
    pub per_second: usize,
    pub seed: u64,
    /// What the keys begin with.
    pub name: String,
}

/// Timers registered in one call.
const BATCH: usize = 50;

/// Registers at random nodes timers that are due within three seconds, and resolves every tenth around its due time at
/// a random node. A node may be gone: what it did not promise is not held against it.
pub async fn load(apis: Vec<Api>, load: Load) -> Vec<Promise> {
    let apis = Arc::new(apis);
    let mut random = StdRng::seed_from_u64(load.seed);
    let mut calls = Vec::new();
    let batches = load.per_second / BATCH * usize::try_from(load.seconds).unwrap();
    let pause = Duration::from_secs(load.seconds) / u32::try_from(batches).unwrap();
    let mut tick = tokio::time::interval(pause);
    for batch in 0..batches {
        tick.tick().await;
        let promises: Vec<Promise> = (0..BATCH)
            .map(|i| Promise {
                key: format!("{}-{batch}-{i}", load.name),
                timer_type: TYPE,
                due_at_ms: ledger::now_ms() + random.random_range(300..3000),
                compensations: random.random_range(1..4),
                resolve: None,
            })
            .collect();
        calls.push(tokio::spawn(register(Arc::clone(&apis), promises, random.random())));
    }
    join_all(calls).await.into_iter().flat_map(Result::unwrap).collect()
}

async fn register(apis: Arc<Vec<Api>>, wanted: Vec<Promise>, seed: u64) -> Vec<Promise> {
    let mut random = StdRng::seed_from_u64(seed);
    let timers: Vec<_> = wanted
        .iter()
        .map(|p| {
            let payload = ledger::order(&p.key, p.compensations, 0);
            json!({ "type": p.timer_type, "key": p.key, "payload": payload, "due_at": ledger::instant(p.due_at_ms) })
        })
        .collect();
    let api = &apis[random.random_range(0..apis.len())];
    let Ok((StatusCode::OK, answer)) = api.post("/v1/timers/batch", &json!({ "timers": timers })).await else {
        return Vec::new();
    };
    let results = answer["results"].as_array().unwrap();
    assert!(results.iter().all(|r| r["status"] == 201 || r["status"] == 503), "{answer}");
    let mut promises: Vec<_> =
        wanted.into_iter().zip(results).filter(|(_, r)| r["status"] == 201).map(|(p, _)| p).collect();
    let resolving = promises.iter_mut().enumerate().filter(|(nth, _)| nth % 10 == 0).map(|(_, promise)| {
        let api = &apis[random.random_range(0..apis.len())];
        let at_ms = promise.due_at_ms + random.random_range(-60..=20);
        async move {
            tokio::time::sleep(Duration::from_millis(u64::try_from(at_ms - ledger::now_ms()).unwrap_or(0))).await;
            let path = format!("/v1/types/{}/timers/{}/resolve", promise.timer_type, promise.key);
            promise.resolve = api.post(&path, &json!({ "reason": "paid" })).await.ok();
        }
    });
    join_all(resolving).await;
    promises
}
