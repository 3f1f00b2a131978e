//! What a store's test stands on: a fresh database with a clock that the test moves, a namespace, a plugin and a type.

use std::{any::Any, sync::Arc};

use lapse::{
    clock::{Clock as _, ManualClock},
    domain::{
        audit::Chain,
        backoff::RetryPolicy,
        compensation::RunResult,
        decision::{CompensationSpec, Failure, FailureClass},
        id::{CompensationId, Digest, Name, NamespaceId, TimerId, TimerKey, TypeId},
        machine::{Command, Settle},
        plugin::Manifest,
        time::{DurationMs, Timestamp},
        timer::{Due, NewTimer, Timer, Trigger},
    },
    store::{
        Store,
        admin::{AdminAnswer, AdminOp, PutType},
        op::{Act, Acted, Claim, Claimed, FinishCompensation, Inserted, Settled, Settlement, Target},
        read::{DueQuery, StoredEvent},
    },
};
use serde_json::{Value, json};

/// The key that chains the audit in tests.
pub fn chain() -> Chain {
    Chain::new([7; 32])
}

/// Where every test's clock starts: 2026-03-01T12:00:00Z.
pub fn noon() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

pub fn name(s: &str) -> Name {
    s.parse().unwrap()
}

pub fn key(s: &str) -> TimerKey {
    s.parse().unwrap()
}

pub const fn secs(s: u64) -> DurationMs {
    DurationMs::from_secs(s)
}

pub const fn ms(ms: u64) -> DurationMs {
    DurationMs::from_millis(ms)
}

pub fn failure(class: FailureClass) -> Failure {
    Failure::new(class, "test", "because the test says so")
}

pub struct Bed {
    pub store: Store,
    pub clock: Arc<ManualClock>,
    pub namespace: NamespaceId,
    pub type_id: TypeId,
    /// Dropped last: the folder, or the server's database.
    pub _home: Box<dyn Any + Send + Sync>,
}

impl Bed {
    /// Adds the plugin and the type to an empty store.
    pub async fn furnish(store: Store, clock: Arc<ManualClock>, home: Box<dyn Any + Send + Sync>) -> Self {
        let catalogue = store.read().catalogue().await.unwrap();
        let namespace = catalogue.namespace("default").expect("the migrations make the namespace `default`");
        let mut bed = Self { store, clock, namespace, type_id: TypeId(0), _home: home };
        bed.put_plugin(namespace, b"a component").await;
        bed.type_id = bed.put_type("order-timeout").await;
        bed
    }

    pub async fn put_plugin(&self, namespace_id: NamespaceId, bytes: &'static [u8]) -> AdminAnswer {
        let op = AdminOp::PutPlugin {
            namespace_id,
            digest: Digest::of(bytes),
            bytes: bytes.into(),
            manifest: Box::new(manifest()),
            imports: vec!["lapse:plugin/log@1.0.0".into()],
            created_by: "key:test".into(),
        };
        self.store.admin(op).await.unwrap()
    }

    pub async fn put_type(&self, name: &str) -> TypeId {
        match self.store.admin(AdminOp::PutType(put_type(self.namespace, name))).await.unwrap() {
            AdminAnswer::Type { row, .. } => row.id,
            other => panic!("{other:?}"),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn new_timer(&self, key_text: &str, due: Due) -> NewTimer {
        NewTimer {
            id: TimerId::new(),
            namespace_id: self.namespace,
            type_id: self.type_id,
            key: key(key_text),
            payload: r#"{"order_id":"A17",  "total_amount":1299}"#.into(),
            labels: [("team".to_owned(), "checkout".to_owned())].into(),
            due,
            revision: 1,
            pinned: false,
            depth: 0,
            actor: "key:test".into(),
            message_id: Some("m-1".into()),
            fingerprint: Digest::of(key_text.as_bytes()).0,
        }
    }

    /// Registers a timer that must be new.
    pub async fn register(&self, key: &str, due: Due) -> Timer {
        match self.store.insert(self.new_timer(key, due)).await.unwrap() {
            Inserted::Created(timer) => timer,
            other => panic!("{other:?}"),
        }
    }

    /// Registers a timer and moves the clock to its due time.
    pub async fn due_timer(&self, key: &str) -> Timer {
        let timer = self.register(key, Due::After(secs(10))).await;
        self.clock.set(self.now().max(timer.due_at));
        timer
    }

    pub async fn act(&self, timer: &Timer, command: Command) -> Acted {
        self.store.act(act_by_id(timer, command)).await.unwrap()
    }

    pub async fn settle(&self, timer: &Timer, settle: Settle) -> Settled {
        self.store.settle(settlement(timer, settle)).await.unwrap()
    }

    /// Closes a due timer with so many compensations of the kind `release`.
    pub async fn close(&self, timer: &Timer, compensations: usize) -> (Timer, Vec<CompensationId>) {
        let mut settlement = settlement(timer, close());
        settlement.compensations = (0..compensations).map(|n| compensation("release", n)).collect();
        let ids = settlement.compensations.iter().map(|(id, _)| *id).collect();
        match self.store.settle(settlement).await.unwrap() {
            Settled::Done { timer, .. } => (timer, ids),
            other => panic!("{other:?}"),
        }
    }

    pub async fn claim(&self, timer: &Timer, lease: DurationMs) -> Claimed {
        let claim =
            Claim { id: timer.id, version: timer.version, lease, trigger: Trigger::Slot, node: "node-1".into() };
        self.store.claim(claim).await.unwrap()
    }

    pub async fn timer(&self, id: TimerId) -> Timer {
        self.store.read().timer(id).await.unwrap().expect("the timer exists")
    }

    pub async fn events(&self, id: TimerId) -> Vec<StoredEvent> {
        self.store.read().events(id, 0, 10_000).await.unwrap()
    }

    /// Whether the timer's audit is whole: where it does not fit, if not.
    pub async fn verify(&self, id: TimerId) -> Result<(), i64> {
        let timer = self.timer(id).await;
        let events = self.events(id).await;
        chain().verify(&timer, events.iter().skip(1).map(|e| (e.body.as_str(), &e.mac)))
    }

    pub async fn due_keys(&self, timer: &Timer, from: Timestamp, until: Timestamp) -> Vec<String> {
        let query = DueQuery { shard: timer.shard(), from, until, after: None, limit: 100 };
        let due = self.store.read().due(query).await.unwrap();
        due.into_iter().map(|t| t.key.as_str().to_owned()).collect()
    }
}

pub fn act_by_id(timer: &Timer, command: Command) -> Act {
    act(Target::Id { namespace_id: timer.namespace_id, id: timer.id }, command)
}

pub fn finish(id: CompensationId, fence: i64, result: RunResult) -> FinishCompensation {
    FinishCompensation { id, fence, result, detail: json!({ "cpu_us": 12 }) }
}

pub fn act(target: Target, command: Command) -> Act {
    Act {
        target,
        command,
        expected_version: None,
        actor: "key:test".into(),
        reason: Some("paid".into()),
        message_id: None,
        remember: None,
    }
}

pub fn close() -> Settle {
    Settle::Close { result: Some(r#"{"closed":true}"#.into()) }
}

pub fn settlement(timer: &Timer, settle: Settle) -> Settlement {
    Settlement {
        id: timer.id,
        version: timer.version,
        settle,
        trigger: Trigger::Slot,
        digest: Some(Digest::of(b"a component")),
        actor: "plugin:order-timeout".into(),
        detail: json!({ "input": "sha256:0" }),
        revision: 1,
        compensations: Vec::new(),
        follow_ups: Vec::new(),
        events: Vec::new(),
        counters: Vec::new(),
    }
}

pub fn compensation(kind: &str, n: usize) -> (CompensationId, CompensationSpec) {
    (CompensationId::new(), CompensationSpec { kind: name(kind), payload: json!({ "n": n }).to_string() })
}

pub fn put_type(namespace_id: NamespaceId, type_name: &str) -> PutType {
    PutType {
        namespace_id,
        name: name(type_name),
        digest: Digest::of(b"a component"),
        config: "{}".into(),
        grants: vec!["http:localhost:9000".parse().unwrap()],
        default_delay: Some(DurationMs::from_secs(1800)),
        retry: RetryPolicy::EXPIRY,
        concurrency: Some(8),
        rate: None,
        created_by: "key:test".into(),
    }
}

pub fn manifest() -> Manifest {
    serde_json::from_value::<Manifest>(json!({
        "name": "order-timeout",
        "version": "1.0.0",
        "abi": "lapse:plugin@1.0.0",
        "payload_schema": { "type": "object" },
        "default_delay": "30m",
        "exports": { "compensate": { "required": ["http"], "optional": [] } },
    }))
    .unwrap()
}

/// The details of the events, by their kinds as written.
pub fn kinds(events: &[StoredEvent]) -> Vec<String> {
    let kind = |e: &StoredEvent| serde_json::from_str::<Value>(&e.body).unwrap()["kind"].as_str().unwrap().to_owned();
    events.iter().map(kind).collect()
}
