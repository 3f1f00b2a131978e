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
    domain::{
        audit::Chain,
        id::TimerId,
        timer::{State, Trigger},
    },
    store::{
        Driver as _,
        postgres::{Postgres, PostgresParams},
    },
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

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

pub struct Cluster {
    pub nodes: Vec<Node>,
    pub shop: ShopProcess,
    pub folder: TempDir,
    database: Database,
    _nats: Option<Nats>,
    env: Vec<(String, String)>,
}

impl Cluster {
    /// `size` nodes with these settings, and the load's type pushed on the first.
    pub async fn start(size: usize, with_broker: bool, settings: &[(&str, &str)]) -> Self {
        Self::start_on(postgres::database().await, size, with_broker, settings).await
    }

    /// The same on this database; the settings may say how else it is reached.
    pub async fn start_on(database: Database, size: usize, with_broker: bool, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nats = if with_broker { Some(Nats::start().await) } else { None };
        let mut env = vec![("LAPSE_STORE__DATABASE".to_owned(), database.url.clone())];
        env.extend(nats.as_ref().map(|nats| ("LAPSE_NATS__URL".to_owned(), nats.url())));
        env.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let shop = ShopProcess::start(folder.path());
        let mut nodes = Vec::new();
        for nth in 0..size {
            nodes.push(Node::start(folder.path(), nth, &env));
        }
        for node in &mut nodes {
            node.api.shop.clone_from(&shop.url);
        }
        let cluster = Self { nodes, shop, folder, database, _nats: nats, env };
        cluster.push_type().await;
        cluster
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
            while node.api.get(&format!("/v1/types/{TYPE}")).await.is_err() {
                assert!(pushed.elapsed() < Duration::from_mins(1), "a type that was pushed does not come to a node");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        println!("the types are live on all nodes {:?} after they were pushed on one", pushed.elapsed());
    }

    /// One more node, with settings of its own.
    pub fn join(&mut self, settings: &[(&str, &str)]) {
        let mut env = self.env.clone();
        env.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut node = Node::start(self.folder.path(), self.nodes.len(), &env);
        node.api.shop.clone_from(&self.shop.url);
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
        let mut node = Node::start(self.folder.path(), nth, &self.env);
        node.api.shop.clone_from(&self.shop.url);
        self.nodes[nth] = node;
    }

    /// Waits until all is done, holds every promise against what is there, and verifies every audit chain. Returns what
    /// triggered the expiries.
    pub async fn audit(&self, promises: &[Promise], within: Duration) -> Vec<Trigger> {
        let api = &self.nodes[0].api;
        api.settle_down(within).await;
        let outcomes = ledger::audit(api, promises).await;
        println!("{} promises kept: {outcomes:?}", promises.len());
        assert!(outcomes.get("closed").is_some_and(|n| *n > 0), "the load closed timers: {outcomes:?}");
        assert!(!outcomes.contains_key("failed"), "{outcomes:?}");

        let key: [u8; 32] = Sha256::new().chain_update([0xab; 32]).chain_update(b"audit").finalize().into();
        let chain = Chain::new(key);
        let store = Postgres::connect(PostgresParams::new(&self.database.url, chain.clone())).await.unwrap();
        let mut triggers = Vec::new();
        let (mut lateness, ids) = (Vec::new(), api.all("/v1/timers").await);
        for row in ids {
            let id = TimerId(row["id"].as_str().unwrap().parse().unwrap());
            let timer = store.timer(id).await.unwrap().unwrap();
            // After the registration's, which is computed from the row.
            let events = store.events(id, 1, 100).await.unwrap();
            chain.verify(&timer, events.iter().map(|e| (e.body.as_str(), &e.mac))).unwrap_or_else(|seq| {
                panic!("the audit of {id:?} does not hold from event {seq} on: {events:#?}");
            });
            if timer.state == State::Closed {
                triggers.extend(events.iter().filter_map(|e| e.event.trigger).next_back());
                let could_be = timer.due_at.max(timer.created_at);
                lateness.push(timer.settled_at.unwrap().as_millis() - could_be.as_millis());
            }
        }
        lateness.sort_unstable();
        let at = |percent: usize| lateness[(lateness.len() - 1) * percent / 100];
        println!(
            "settled after the due time, or the registration: p50 {} ms, p99 {} ms, most {} ms",
            at(50),
            at(99),
            at(100)
        );
        store.close().await;
        triggers
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
