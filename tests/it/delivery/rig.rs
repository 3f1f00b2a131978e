//! Nodes that take slots from a real broker, and what each of them was given.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use async_nats::jetstream;
use async_trait::async_trait;
use lapse::{
    clock::{Clock as _, SystemClock},
    config,
    delivery::{
        Delivery as _, Slot,
        jetstream::{Jetstream, JetstreamParams, Mode},
        live::{LiveNodes, Unknown},
    },
    domain::{id::SHARDS, time::Timestamp},
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

pub const STREAM: &str = "lapse-slots";
pub const CONSUMER: &str = "workers";
/// What the broker may hold whatever happens: the seconds ahead, those behind that are planned again, and what is
/// waiting to be acknowledged.
pub const MOST_MESSAGES: u64 = 16 * (10 + 4 + 6);
/// How long anything may take to come about. No measure of speed.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub fn now() -> Timestamp {
    SystemClock.now()
}

pub fn settings(url: &str) -> config::Nats {
    config::Nats { url: url.to_owned(), ..config::Config::default().nats }
}

/// The names that a test says are alive.
#[derive(Clone, Default)]
pub struct Names(pub Arc<Mutex<Vec<String>>>);

#[async_trait]
impl LiveNodes for Names {
    async fn live_nodes(&self) -> Result<Vec<String>, Unknown> {
        Ok(self.0.lock().clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    pub slot: Slot,
    pub at: Timestamp,
}

/// What a node does with a slot that it is given.
#[derive(Clone, Copy, PartialEq)]
pub enum Habit {
    Done,
    Keep,
}

/// A node with a worker that takes every slot.
pub struct Node {
    pub jetstream: Arc<Jetstream>,
    pub given: Arc<Mutex<Vec<Given>>>,
    worker: JoinHandle<()>,
}

impl Node {
    pub async fn start(config: config::Nats, name: &str, live: &[&str], habit: Habit) -> Self {
        let live = Names(Arc::new(Mutex::new(live.iter().map(|&n| n.to_owned()).collect())));
        Self::among(config, name, live, habit).await
    }

    pub async fn among(config: config::Nats, name: &str, live: Names, habit: Habit) -> Self {
        let jetstream = Jetstream::start(JetstreamParams {
            config,
            clock: Arc::new(SystemClock),
            shards: SHARDS,
            node: name.to_owned(),
            live: Arc::new(live),
        })
        .await
        .unwrap();
        let jetstream = Arc::new(jetstream);
        let given = Arc::new(Mutex::new(Vec::new()));
        let worker = tokio::spawn({
            let (jetstream, given) = (Arc::clone(&jetstream), Arc::clone(&given));
            async move {
                loop {
                    let slot = jetstream.next().await;
                    given.lock().push(Given { slot, at: now() });
                    if habit == Habit::Done {
                        jetstream.done(slot).await;
                    }
                }
            }
        });
        Self { jetstream, given, worker }
    }

    /// Ends as if the process was killed: nothing is given back.
    pub async fn die(self) -> Vec<Given> {
        self.worker.abort();
        let _aborted = (&mut { self.worker }).await;
        drop(self.jetstream);
        Arc::try_unwrap(self.given).unwrap().into_inner()
    }

    pub fn slots(&self) -> BTreeSet<Slot> {
        self.given.lock().iter().map(|g| g.slot).collect()
    }

    pub fn mode(&self) -> Mode {
        self.jetstream.status().mode
    }
}

pub struct Nodes(pub Vec<Node>);

impl Nodes {
    /// `n0`, `n1` and so on, which know of each other.
    pub async fn start(config: &config::Nats, count: usize) -> Self {
        let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
        let live: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut nodes = Vec::new();
        for name in &live {
            nodes.push(Node::start(config.clone(), name, &live, Habit::Done).await);
        }
        Self(nodes)
    }

    pub async fn until_mode(&self, mode: Mode) {
        for (i, node) in self.0.iter().enumerate() {
            until(&format!("n{i} is in mode {mode:?}"), async || node.mode() == mode).await;
        }
    }

    /// How often each slot of `seconds` was given, over all nodes, once their time has passed. Each at least once, and
    /// none early.
    pub async fn covered(&self, seconds: Range<i64>) -> BTreeMap<Slot, usize> {
        let last = Slot { shard: 0, second: seconds.end - 1 };
        SystemClock.sleep_until(last.starts()).await;
        let all: BTreeSet<Slot> =
            seconds.clone().flat_map(|second| (0..SHARDS).map(move |shard| Slot { shard, second })).collect();
        let mut times = BTreeMap::new();
        while now() < last.closes() {
            times = self.times(&seconds);
            if times.len() == all.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let missed: Vec<&Slot> = all.iter().filter(|s| !times.contains_key(s)).collect();
        assert!(missed.is_empty(), "of seconds {seconds:?}, nobody was given {missed:?}");
        self.assert_none_early();
        times
    }

    fn times(&self, seconds: &Range<i64>) -> BTreeMap<Slot, usize> {
        let mut times = BTreeMap::new();
        for node in &self.0 {
            for given in node.given.lock().iter().filter(|g| seconds.contains(&g.slot.second)) {
                *times.entry(given.slot).or_default() += 1;
            }
        }
        times
    }

    pub fn assert_none_early(&self) {
        for node in &self.0 {
            for given in node.given.lock().iter() {
                assert!(given.at >= given.slot.opens(), "{given:?} is early");
            }
        }
    }
}

/// Waits until `holds`, and fails with `what` if it never does.
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(std::time::Instant::now() < until, "it never comes about: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Until the whole second `ahead` from now is far enough away to be observed from its beginning, and which it is.
pub fn second_from_now(ahead: i64) -> i64 {
    now().second() + ahead
}

pub async fn messages(context: &jetstream::Context) -> u64 {
    context.get_stream(STREAM).await.unwrap().cached_info().state.messages
}

pub async fn assert_bounded(context: &jetstream::Context) {
    let messages = messages(context).await;
    assert!(messages <= MOST_MESSAGES, "{messages} messages in the broker");
}
