//! An engine over a real database, with a clock that the test moves and plugins that the test scripts.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use lapse::{
    catalog::Catalog,
    clock::{Clock, ManualClock},
    compensate::{Lanes, LanesParams},
    config::Config,
    delivery::{Delivery, Slot, local::Local},
    dispatch::{Dispatcher, DispatcherParams},
    domain::{
        audit::{Chain, Event, EventKind},
        backoff::RetryPolicy,
        compensation::Compensation,
        decision::{
            CompensationSpec, CompensationTask, Decision, Effects, Expiry, Failure, FailureClass, FollowUpSpec, Verdict,
        },
        fingerprint::Registration,
        id::{Digest, NamespaceId, SHARDS, TimerId, TypeId},
        plugin::{ABI, Manifest},
        time::{DurationMs, Timestamp},
        timer::{Due, NewTimer, State, Timer, Trigger},
    },
    plugin::{Cost, Host, Inspection, Plugin, Refusal, Rights, Run},
    stats::Stats,
    store::{
        Driver as _, Limits, Store,
        admin::{AdminAnswer, AdminOp, PutType},
        op::{Answer, Inserted, Op, Target},
        read::CompensationQuery,
        sqlite::{Sqlite, SqliteParams},
    },
};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use super::shaky::Shaky;

/// Where every test's clock starts: 2026-03-01T12:00:00Z.
pub const START: i64 = 1_772_366_400_000;
pub const NAMESPACE: NamespaceId = NamespaceId(1);
/// The real time after which a test gives up waiting.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(START + ms).unwrap()
}

pub fn ms(ms: u64) -> DurationMs {
    DurationMs::from_millis(ms)
}

type Decide = dyn Fn(&Expiry) -> Result<Decision, Failure> + Send + Sync;
type Effectful = dyn Fn(Expiry) -> BoxFuture<'static, Result<Decision, Failure>> + Send + Sync;
type Compensate = dyn Fn(CompensationTask) -> BoxFuture<'static, Result<Option<String>, Failure>> + Send + Sync;

/// What a plugin does.
#[derive(Clone)]
pub struct Script {
    pub decide: Arc<Decide>,
    pub effectful: Option<Arc<Effectful>>,
    pub compensate: Arc<Compensate>,
}

impl Script {
    pub fn deciding(decide: impl Fn(&Expiry) -> Result<Decision, Failure> + Send + Sync + 'static) -> Self {
        Self { decide: Arc::new(decide), effectful: None, compensate: Arc::new(|_| Box::pin(async { Ok(None) })) }
    }

    pub fn closing() -> Self {
        Self::deciding(|_| Ok(close()))
    }

    pub fn with_effects(
        self,
        run: impl Fn(Expiry) -> BoxFuture<'static, Result<Decision, Failure>> + Send + Sync + 'static,
    ) -> Self {
        Self { effectful: Some(Arc::new(run)), ..self }
    }

    pub fn compensating(
        self,
        run: impl Fn(CompensationTask) -> BoxFuture<'static, Result<Option<String>, Failure>> + Send + Sync + 'static,
    ) -> Self {
        Self { compensate: Arc::new(run), ..self }
    }
}

pub fn close() -> Decision {
    Decision { verdict: Verdict::Close { result: None }, effects: Effects::default() }
}

pub fn skip(reason: &str) -> Decision {
    Decision { verdict: Verdict::Skip { reason: reason.into() }, effects: Effects::default() }
}

pub fn retry(after: Option<DurationMs>) -> Decision {
    Decision { verdict: Verdict::Retry { after, reason: "not yet".into() }, effects: Effects::default() }
}

pub fn close_with(kinds: &[&str]) -> Decision {
    let compensations =
        kinds.iter().map(|k| CompensationSpec { kind: k.parse().unwrap(), payload: "{}".into() }).collect();
    Decision { effects: Effects { compensations, ..Effects::default() }, ..close() }
}

pub fn close_and_follow(follow_ups: Vec<FollowUpSpec>) -> Decision {
    Decision { effects: Effects { follow_ups, ..Effects::default() }, ..close() }
}

pub fn failure(class: FailureClass, code: &str) -> Failure {
    Failure::new(class, code, "scripted")
}

/// Holds a call in such a way that it cannot be broken off, as a node that stands still does.
#[derive(Default)]
pub struct Stuck {
    is_free: Mutex<bool>,
    freed: Condvar,
}

impl Stuck {
    pub fn hold(&self) {
        tokio::task::block_in_place(|| {
            let mut is_free = self.is_free.lock();
            while !*is_free {
                assert!(!self.freed.wait_for(&mut is_free, PATIENCE).timed_out(), "it is never freed");
            }
        });
    }

    pub fn free(&self) {
        *self.is_free.lock() = true;
        self.freed.notify_all();
    }
}

/// One call of a plugin.
#[derive(Clone, Debug)]
pub struct Call {
    pub expiry: Expiry,
    pub at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct CompensateCall {
    pub task: CompensationTask,
    pub at: Timestamp,
}

pub struct Scripted {
    clock: Arc<ManualClock>,
    scripts: Mutex<HashMap<Bytes, Script>>,
    calls: Arc<Mutex<Vec<Call>>>,
    compensate_calls: Arc<Mutex<Vec<CompensateCall>>>,
    pub refuse_loads: Mutex<bool>,
    /// Each load waits for a permit of it, if there is one.
    pub hold_loads: Mutex<Option<Arc<Semaphore>>>,
    before_compensating: Before,
}

/// What a test does before the next compensation is run.
type Before = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

impl Scripted {
    pub fn before_compensating(&self, first: impl FnOnce() + Send + 'static) {
        *self.before_compensating.lock() = Some(Box::new(first));
    }
}

struct ScriptedPlugin {
    digest: Digest,
    script: Script,
    clock: Arc<ManualClock>,
    calls: Arc<Mutex<Vec<Call>>>,
    compensate_calls: Arc<Mutex<Vec<CompensateCall>>>,
    before_compensating: Before,
}

#[async_trait]
impl Host for Scripted {
    async fn inspect(&self, _component: Bytes) -> Result<Inspection, Refusal> {
        Err(Refusal::Invalid("scripts are put into the store as they are".into()))
    }

    async fn load(&self, digest: Digest, component: Bytes) -> Result<Arc<dyn Plugin>, Refusal> {
        if *self.refuse_loads.lock() {
            return Err(Refusal::Internal("scripted".into()));
        }
        let held = self.hold_loads.lock().clone();
        if let Some(held) = held {
            held.acquire().await.unwrap().forget();
        }
        let script = self.scripts.lock()[&component].clone();
        Ok(Arc::new(ScriptedPlugin {
            digest,
            script,
            clock: Arc::clone(&self.clock),
            calls: Arc::clone(&self.calls),
            compensate_calls: Arc::clone(&self.compensate_calls),
            before_compensating: Arc::clone(&self.before_compensating),
        }))
    }
}

fn run<T>(result: Result<T, Failure>) -> Run<T> {
    Run { result, logs: Vec::new(), denied: Vec::new(), counters: Vec::new(), cost: Cost::default(), deferred: None }
}

impl ScriptedPlugin {
    fn record(&self, expiry: &Expiry) {
        let at = self.clock.now();
        self.calls.lock().push(Call { expiry: expiry.clone(), at });
    }
}

#[async_trait]
impl Plugin for ScriptedPlugin {
    fn digest(&self) -> Digest {
        self.digest
    }

    fn decide(&self, expiry: &Expiry) -> Run<Decision> {
        self.record(expiry);
        run((self.script.decide)(expiry))
    }

    async fn decide_with_effects(&self, expiry: &Expiry, _rights: &Rights) -> Run<Decision> {
        self.record(expiry);
        match &self.script.effectful {
            Some(effectful) => run(effectful(expiry.clone()).await),
            None => run((self.script.decide)(expiry)),
        }
    }

    async fn compensate(&self, task: &CompensationTask, _rights: &Rights) -> Run<Option<String>> {
        let at = self.clock.now();
        self.compensate_calls.lock().push(CompensateCall { task: task.clone(), at });
        if let Some(first) = self.before_compensating.lock().take() {
            first();
        }
        run((self.script.compensate)(task.clone()).await)
    }
}

/// A type to be made.
pub struct TypeSpec {
    pub script: Script,
    pub grants: &'static [&'static str],
    pub retry: RetryPolicy,
    pub concurrency: Option<u32>,
    pub rate: Option<u32>,
    pub default_delay: Option<DurationMs>,
    pub schema: serde_json::Value,
}

impl From<Script> for TypeSpec {
    fn from(script: Script) -> Self {
        Self {
            script,
            grants: &[],
            retry: RetryPolicy::EXPIRY,
            concurrency: None,
            rate: None,
            default_delay: None,
            schema: serde_json::json!({}),
        }
    }
}

/// Delivers every slot of another delivery so many times over, and says how many nodes there are.
struct Repeating {
    inner: Local,
    times: usize,
    nodes: usize,
    left: Mutex<Vec<Slot>>,
    closed: Arc<Mutex<Closed>>,
}

/// What became of the slots that an engine was given.
#[derive(Clone, Default)]
pub struct Closed {
    pub done: Vec<Slot>,
    pub given_back: Vec<Slot>,
}

#[async_trait]
impl Delivery for Repeating {
    async fn next(&self) -> Slot {
        if let Some(again) = self.left.lock().pop() {
            return again;
        }
        let slot = self.inner.next().await;
        self.left.lock().extend(std::iter::repeat_n(slot, self.times - 1));
        slot
    }

    async fn done(&self, slot: Slot) {
        self.closed.lock().done.push(slot);
        self.inner.done(slot).await;
    }

    async fn give_back(&self, slot: Slot) {
        self.closed.lock().given_back.push(slot);
        self.inner.give_back(slot).await;
    }

    fn nodes(&self) -> usize {
        self.nodes
    }
}

/// How an engine is set up.
#[derive(Clone)]
pub struct Setup {
    pub config: Config,
    /// How many times each slot is delivered.
    pub deliveries: usize,
    /// How many nodes the engine is told that there are, itself among them.
    pub nodes: usize,
    /// How far the store's clock stands behind the engine's.
    pub store_behind: DurationMs,
}

impl Default for Setup {
    fn default() -> Self {
        let mut config = Config::default();
        config.dispatch.threads = 2;
        Self { config, deliveries: 1, nodes: 1, store_behind: DurationMs::ZERO }
    }
}

pub struct Rig {
    pub clock: Arc<ManualClock>,
    /// The same one, unless the setup says otherwise.
    pub store_clock: Arc<ManualClock>,
    /// The store's driver, which a test can make fail.
    pub shaky: Arc<Shaky>,
    pub store: Store,
    pub catalog: Catalog,
    pub host: Arc<Scripted>,
    pub setup: Setup,
    pub closed: Arc<Mutex<Closed>>,
    dispatcher: Option<Dispatcher>,
    lanes: Option<Lanes>,
    pub stats: Option<Stats>,
    scripts: u32,
    _dir: tempfile::TempDir,
}

impl Rig {
    pub async fn new(setup: Setup) -> Self {
        let mut rig = Self::without_engine(setup).await;
        rig.start();
        rig
    }

    pub async fn without_engine(setup: Setup) -> Self {
        Self::on_host(setup, |_| None).await
    }

    /// On another host than that of the scripts, if one is made.
    pub async fn on_host(setup: Setup, other: impl FnOnce(Arc<ManualClock>) -> Option<Arc<dyn Host>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(at(0));
        let store_clock = match setup.store_behind {
            DurationMs::ZERO => clock.clone(),
            behind => ManualClock::new(at(0).saturating_sub(behind)),
        };
        let driver = Sqlite::open(SqliteParams {
            path: dir.path().join("lapse.db"),
            readers: 2,
            clock: store_clock.clone(),
            chain: Chain::new([7; 32]),
            migrate: true,
        })
        .unwrap();
        let shaky = Shaky::new(driver);
        let store = Store::new(shaky.clone(), Limits::default());
        let host = Arc::new(Scripted {
            clock: clock.clone(),
            scripts: Mutex::default(),
            calls: Arc::default(),
            compensate_calls: Arc::default(),
            refuse_loads: Mutex::new(false),
            hold_loads: Mutex::default(),
            before_compensating: Arc::default(),
        });
        let used = other(clock.clone()).unwrap_or_else(|| host.clone());
        let catalog = Catalog::load(store.clone(), used).await.unwrap();
        Self {
            clock,
            store_clock,
            shaky,
            store,
            catalog,
            host,
            setup,
            closed: Arc::default(),
            dispatcher: None,
            lanes: None,
            stats: None,
            scripts: 0,
            _dir: dir,
        }
    }

    pub fn start(&mut self) {
        let local = Local::new(self.clock.clone(), SHARDS);
        let delivery = Repeating {
            inner: local,
            times: self.setup.deliveries,
            nodes: self.setup.nodes,
            left: Mutex::default(),
            closed: Arc::clone(&self.closed),
        };
        let stats = Stats::start(self.store.clone(), self.clock.clone());
        self.dispatcher = Some(Dispatcher::start(DispatcherParams {
            store: self.store.clone(),
            catalog: self.catalog.clone(),
            clock: self.clock.clone(),
            delivery: Arc::new(delivery),
            config: self.setup.config.dispatch.clone(),
            stats: stats.clone(),
            node: "node-1".into(),
        }));
        self.lanes = Some(Lanes::start(LanesParams {
            store: self.store.clone(),
            catalog: self.catalog.clone(),
            clock: self.clock.clone(),
            config: self.setup.config.compensation.clone(),
            stats: stats.clone(),
        }));
        self.stats = Some(stats);
    }

    /// As if the node had died: nothing is drained.
    pub fn crash(&mut self) {
        self.dispatcher = None;
        self.lanes = None;
    }

    pub fn dispatcher(&self) -> &Dispatcher {
        self.dispatcher.as_ref().unwrap()
    }

    pub fn lanes(&self) -> &Lanes {
        self.lanes.as_ref().unwrap()
    }

    /// Makes a type, or a new revision of it.
    pub async fn put_type(&mut self, name: &str, spec: impl Into<TypeSpec>) -> TypeId {
        let spec = spec.into();
        self.scripts += 1;
        let bytes = Bytes::from(format!("script {}", self.scripts));
        self.host.scripts.lock().insert(bytes.clone(), spec.script);
        let digest = Digest::of(&bytes);
        let manifest = Manifest {
            name: name.parse().unwrap(),
            version: "1.0.0".into(),
            abi: ABI.into(),
            payload_schema: spec.schema,
            default_delay: spec.default_delay,
            retry: None,
            remind_before: Vec::new(),
            config_schema: None,
            exports: BTreeMap::default(),
        };
        let put = AdminOp::PutPlugin {
            namespace_id: NAMESPACE,
            digest,
            bytes,
            manifest: Box::new(manifest),
            imports: Vec::new(),
            created_by: "test".into(),
        };
        self.store.admin(put).await.unwrap();
        let put = AdminOp::PutType(PutType {
            namespace_id: NAMESPACE,
            name: name.parse().unwrap(),
            digest,
            config: "{}".into(),
            grants: spec.grants.iter().map(|g| g.parse().unwrap()).collect(),
            default_delay: None,
            retry: spec.retry,
            concurrency: spec.concurrency,
            rate: spec.rate,
            created_by: "test".into(),
        });
        let AdminAnswer::Type { row, .. } = self.store.admin(put).await.unwrap() else { panic!("no type") };
        self.catalog.refresh_type(row.id).await.unwrap();
        row.id
    }

    pub fn new_timer(type_id: TypeId, key: &str, due: Due) -> NewTimer {
        let key = key.parse().unwrap();
        let labels = BTreeMap::default();
        let fingerprint =
            Registration { type_id, key: &key, payload: "{}", due: Some(due), labels: &labels, revision: None }
                .fingerprint();
        NewTimer {
            id: TimerId::new(),
            namespace_id: NAMESPACE,
            type_id,
            key,
            payload: "{}".into(),
            labels,
            due,
            revision: 1,
            pinned: false,
            depth: 0,
            actor: "key:test".into(),
            message_id: None,
            fingerprint,
        }
    }

    pub async fn register(&self, type_id: TypeId, key: &str, due: Timestamp) -> Timer {
        self.insert(Self::new_timer(type_id, key, Due::At(due))).await
    }

    pub async fn insert(&self, timer: NewTimer) -> Timer {
        match self.store.insert(timer).await.unwrap() {
            Inserted::Created(timer) => timer,
            other => panic!("not created: {other:?}"),
        }
    }

    /// As if another node had written it, and told nobody.
    pub async fn write_unseen(&self, timer: NewTimer) {
        let answers = self.shaky.write(Arc::new(vec![Op::Insert(timer)])).await.unwrap();
        assert!(matches!(answers[..], [Answer::Inserted(Inserted::Created(_))]), "{answers:?}");
    }

    pub async fn timer(&self, id: TimerId) -> Timer {
        self.store.read().timer(id).await.unwrap().unwrap()
    }

    pub async fn events(&self, id: TimerId) -> Vec<Event> {
        let stored = self.store.read().events(id, 0, 1000).await.unwrap();
        stored.into_iter().map(|e| e.event).collect()
    }

    /// The event of a kind, which must be there once.
    pub async fn event(&self, id: TimerId, kind: EventKind) -> Event {
        let mut found: Vec<_> = self.events(id).await.into_iter().filter(|e| e.kind == kind).collect();
        assert_eq!(found.len(), 1, "{kind:?} of {id}: {found:?}");
        found.remove(0)
    }

    /// What triggered the timer's one expiry.
    pub async fn trigger(&self, id: TimerId) -> Trigger {
        self.event(id, EventKind::Closed).await.trigger.unwrap()
    }

    pub async fn compensations(&self, timer: &Timer) -> Vec<Compensation> {
        let query = CompensationQuery {
            types: vec![timer.type_id],
            timer_id: Some(timer.id),
            limit: 500,
            ..CompensationQuery::default()
        };
        self.store.read().compensations(query).await.unwrap().items
    }

    pub fn target(timer: &Timer) -> Target {
        Target::Id { namespace_id: NAMESPACE, id: timer.id }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.host.calls.lock().clone()
    }

    pub fn calls_of(&self, id: TimerId) -> Vec<Call> {
        self.calls().into_iter().filter(|c| c.expiry.timer_id == id).collect()
    }

    pub fn compensate_calls(&self) -> Vec<CompensateCall> {
        self.host.compensate_calls.lock().clone()
    }

    /// Waits until the engine has followed the clock to where it stands, and has nothing in hand.
    pub async fn quiet(&self) {
        let still = || async {
            let stats = self.dispatcher().stats();
            stats.in_flight == 0 && stats.next_at.is_none_or(|next| next > self.clock.now())
        };
        for _ in 0..3 {
            // What was being read or written when the clock moved is through after these.
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.store.ping().await.unwrap();
            self.store.read().overdue_types(Timestamp::MIN).await.unwrap();
            eventually("the engine to be quiet", still).await;
        }
    }

    /// Moves the clock forwards in steps, and lets the engine follow each.
    pub async fn pass(&self, length: u64, step: u64) {
        let mut left = length;
        while left > 0 {
            let by = left.min(step);
            self.clock.advance(ms(by));
            self.quiet().await;
            left -= by;
        }
    }

    pub async fn reaches(&self, id: TimerId, state: State) -> Timer {
        eventually(&format!("{id} to be {state:?}"), || async { self.timer(id).await.state == state }).await;
        self.timer(id).await
    }
}

/// Waits, in real time, until something holds.
pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Real time for something to go wrong in that must not happen.
pub async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(40)).await;
}
