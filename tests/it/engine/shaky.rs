//! A driver that can be told to fail: before it writes, or after.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use async_trait::async_trait;
use lapse::{
    domain::{
        compensation::{Compensation, CompensationState},
        id::{CompensationId, Digest, Name, NamespaceId, TimerId, TimerKey, TypeId},
        pause::Pauses,
        time::Timestamp,
        timer::Timer,
    },
    store::{
        Driver, Error, Result,
        admin::{ApiKeyRow, SealedKind, SealedRow},
        op::{Answer, Op},
        read::{
            Catalogue, CompensationQuery, DueQuery, ForecastQuery, KeyPage, Page, PrefixQuery, Revoked, StoredEvent,
            Tally, TallyQuery, TimerQuery, Upcoming,
        },
    },
};
use parking_lot::Mutex;

/// What befalls the next batch that decides something.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// Nothing is written.
    Unavailable,
    /// The connection breaks before the commit, or after it: the caller cannot know which.
    BrokenBefore,
    BrokenAfter,
}

pub struct Shaky {
    inner: Arc<dyn Driver>,
    troubles: Mutex<VecDeque<Trouble>>,
}

impl Shaky {
    pub fn new(inner: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { inner, troubles: Mutex::default() })
    }

    pub fn meets(&self, troubles: &[Trouble]) {
        self.troubles.lock().extend(troubles);
    }

    /// Nothing more befalls it.
    pub fn recovers(&self) {
        self.troubles.lock().clear();
    }

    pub fn has_met_all(&self) -> bool {
        self.troubles.lock().is_empty()
    }
}

fn decides(op: &Op) -> bool {
    matches!(op, Op::Settle(_) | Op::FinishCompensation(_))
}

#[async_trait]
impl Driver for Shaky {
    async fn write(&self, ops: Arc<Vec<Op>>) -> Result<Vec<Answer>> {
        let trouble = if ops.iter().any(decides) { self.troubles.lock().pop_front() } else { None };
        match trouble {
            None => self.inner.write(ops).await,
            Some(Trouble::Unavailable) => Err(Error::Unavailable("scripted".into())),
            Some(Trouble::BrokenBefore) => Err(Error::OutcomeUnknown("scripted".into())),
            Some(Trouble::BrokenAfter) => {
                self.inner.write(ops).await?;
                Err(Error::OutcomeUnknown("scripted".into()))
            }
        }
    }

    async fn now(&self) -> Result<Timestamp> {
        self.inner.now().await
    }
    async fn due(&self, query: DueQuery) -> Result<Vec<Timer>> {
        self.inner.due(query).await
    }
    async fn timer(&self, id: TimerId) -> Result<Option<Timer>> {
        self.inner.timer(id).await
    }
    async fn timer_by_key(&self, type_id: TypeId, key: TimerKey) -> Result<Option<Timer>> {
        self.inner.timer_by_key(type_id, key).await
    }
    async fn timers_by_prefix(&self, query: PrefixQuery) -> Result<KeyPage> {
        self.inner.timers_by_prefix(query).await
    }
    async fn tally(&self, query: TallyQuery) -> Result<Tally> {
        self.inner.tally(query).await
    }
    async fn forecast(&self, query: ForecastQuery) -> Result<Vec<Upcoming>> {
        self.inner.forecast(query).await
    }
    async fn timers(&self, query: TimerQuery) -> Result<Page<Timer>> {
        self.inner.timers(query).await
    }
    async fn events(&self, timer: TimerId, after: i64, limit: usize) -> Result<Vec<StoredEvent>> {
        self.inner.events(timer, after, limit).await
    }
    async fn overdue_types(&self, before: Timestamp) -> Result<Vec<TypeId>> {
        self.inner.overdue_types(before).await
    }
    async fn compensation_lanes(&self, now: Timestamp) -> Result<Vec<(TypeId, Name)>> {
        self.inner.compensation_lanes(now).await
    }
    async fn next_compensation_at(&self) -> Result<Option<Timestamp>> {
        self.inner.next_compensation_at().await
    }
    async fn compensation(&self, id: CompensationId) -> Result<Option<Compensation>> {
        self.inner.compensation(id).await
    }
    async fn compensations(&self, query: CompensationQuery) -> Result<Page<Compensation>> {
        self.inner.compensations(query).await
    }
    async fn compensation_counts(&self, cap: u64) -> Result<(u64, u64, u64)> {
        self.inner.compensation_counts(cap).await
    }
    async fn compensations_by_type(
        &self,
        types: Vec<TypeId>,
        state: CompensationState,
        cap: u64,
    ) -> Result<BTreeMap<TypeId, u64>> {
        self.inner.compensations_by_type(types, state, cap).await
    }
    async fn payloads_under(&self, type_id: TypeId, revision: i64, limit: usize) -> Result<Vec<Option<String>>> {
        self.inner.payloads_under(type_id, revision, limit).await
    }
    async fn catalogue(&self) -> Result<Catalogue> {
        self.inner.catalogue().await
    }
    async fn pauses(&self) -> Result<Pauses> {
        self.inner.pauses().await
    }
    async fn revoked(&self) -> Result<Revoked> {
        self.inner.revoked().await
    }
    fn look_from_the_start(&self, types: &[TypeId]) {
        self.inner.look_from_the_start(types);
    }
    async fn catalogue_version(&self) -> Result<i64> {
        self.inner.catalogue_version().await
    }
    async fn plugin_bytes(&self, namespace: NamespaceId, digest: Digest) -> Result<Option<Vec<u8>>> {
        self.inner.plugin_bytes(namespace, digest).await
    }
    async fn api_key_by_hash(&self, hash: [u8; 32]) -> Result<Option<ApiKeyRow>> {
        self.inner.api_key_by_hash(hash).await
    }
    async fn api_keys(&self, namespace: Option<NamespaceId>) -> Result<Vec<ApiKeyRow>> {
        self.inner.api_keys(namespace).await
    }
    async fn sealed(&self, namespace: NamespaceId, kind: SealedKind) -> Result<Vec<SealedRow>> {
        self.inner.sealed(namespace, kind).await
    }
    async fn sealed_by_name(&self, namespace: String, kind: SealedKind, name: Name) -> Result<Option<SealedRow>> {
        self.inner.sealed_by_name(namespace, kind, name).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}
