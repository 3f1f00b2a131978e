//! The store: the truth about every timer, and the last word on every race.
//!
//! [`Store`] is the handle that all rooms use. It gathers what is asked while a commit runs into the next batch (group
//! commit without a timer), and answers only after the commit. A [`Driver`] carries a batch out on one database.
//!
//! ```text
//!  insert, act, settle, claim … ─► queue by class (bounded: full is Error::Full)
//!                                      │ at most 500 operations, resolves and cancels first
//!                                      ▼
//!                      Driver::write(batch): one transaction ─► commit ─► Observer (arm, wake lanes) ─► answers
//! ```

pub mod admin;
mod bounds;
mod group;
mod lane;
pub mod migration;
pub mod op;
pub mod postgres;
pub mod read;
mod register;
pub mod sqlite;
mod transition;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;

use crate::domain::{
    compensation::{Compensation, CompensationState},
    id::{CompensationId, Name, NamespaceId, TimerId, TimerKey, TypeId},
    pause::Pauses,
    time::Timestamp,
    timer::{NewTimer, Timer},
};

use self::{
    admin::{AdminAnswer, AdminOp},
    group::Group,
    op::{
        Act, Acted, Answer, Claim, ClaimBacklog, ClaimCompensations, Claimed, Class, FinishCompensation, Inserted, Op,
        Redrive, Redriven, Settled, Settlement,
    },
    read::{
        Catalogue, CompensationQuery, DueQuery, ForecastQuery, KeyPage, Page, PrefixQuery, Revoked, StoredEvent, Tally,
        TallyQuery, TimerQuery, Upcoming,
    },
};

pub use self::group::Limits;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Too much is waiting to be written; nothing was done.
    #[error("the store's queue is full")]
    Full,
    /// The database cannot be reached or refused the work; nothing was done.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection broke while a commit was under way: it may have happened or not.
    #[error("whether the write was committed is unknown: {0}")]
    OutcomeUnknown(String),
    /// This operation's own data cannot be stored.
    #[error("the store refused the data: {0}")]
    Data(String),
    /// The store is stopping.
    #[error("the store is stopping")]
    Stopped,
}

pub type Result<T> = std::result::Result<T, Error>;

/// One database. Reads are single; writes come in batches.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Carries the operations out, in order and in one transaction, or in one for each kind of them, and answers each;
    /// on an error nothing has happened, except for [`Error::OutcomeUnknown`]. [`Error::Data`] means that one of the operations cannot be stored: the
    /// caller halves the batch until that one stands alone.
    async fn write(&self, ops: Arc<Vec<Op>>) -> Result<Vec<Answer>>;

    /// The classes that are written together, each lane beside the others. A lane that is named twice has two writers.
    fn lanes(&self) -> &'static [&'static [Class]] {
        &[&Class::ALL]
    }

    /// The store's clock.
    async fn now(&self) -> Result<Timestamp>;

    /// Scheduled timers of one shard with `from <= run_at < until`, in order of `(run_at, id)`.
    async fn due(&self, query: DueQuery) -> Result<Vec<Timer>>;

    async fn timer(&self, id: TimerId) -> Result<Option<Timer>>;
    async fn timer_by_key(&self, type_id: TypeId, key: TimerKey) -> Result<Option<Timer>>;
    async fn timers(&self, query: TimerQuery) -> Result<Page<Timer>>;
    async fn timers_by_prefix(&self, query: PrefixQuery) -> Result<KeyPage>;
    /// Counts from the indexes, each up to a bound.
    async fn tally(&self, query: TallyQuery) -> Result<Tally>;
    /// In order of type and step.
    async fn forecast(&self, query: ForecastQuery) -> Result<Vec<Upcoming>>;

    /// A timer's events from `seq > after`, in order; the registration's, computed from the row, included.
    async fn events(&self, timer: TimerId, after: i64, limit: usize) -> Result<Vec<StoredEvent>>;

    /// Types that have timers whose `run_at` lies before `before` (scheduled ones, and lapsed leases).
    async fn overdue_types(&self, before: Timestamp) -> Result<Vec<TypeId>>;

    /// `(type, kind)` of the compensations whose `run_at` has come by `now`.
    async fn compensation_lanes(&self, now: Timestamp) -> Result<Vec<(TypeId, Name)>>;
    /// The `run_at` of the next compensation that is to come, over all lanes.
    async fn next_compensation_at(&self) -> Result<Option<Timestamp>>;
    async fn compensation(&self, id: CompensationId) -> Result<Option<Compensation>>;
    async fn compensations(&self, query: CompensationQuery) -> Result<Page<Compensation>>;
    /// How many compensations stand in `(pending, running, dead)`; counted up to `cap` each.
    async fn compensation_counts(&self, cap: u64) -> Result<(u64, u64, u64)>;

    /// How many compensations of each of these types stand in a state, those types left out that have none. What is
    /// counted ends at `cap` over all of them.
    async fn compensations_by_type(
        &self,
        types: Vec<TypeId>,
        state: CompensationState,
        cap: u64,
    ) -> Result<BTreeMap<TypeId, u64>>;

    /// Payloads of timers that are not final and that were registered under a revision, at most `limit`; of a pinned one,
    /// none.
    async fn payloads_under(&self, type_id: TypeId, revision: i64, limit: usize) -> Result<Vec<Option<String>>>;

    /// Namespaces, types, revisions and plugins (without their bytes), at one moment.
    async fn catalogue(&self) -> Result<Catalogue>;
    /// Every pause that is written down.
    async fn pauses(&self) -> Result<Pauses>;
    /// What was taken from types, of those from which anything was.
    async fn revoked(&self) -> Result<Revoked>;
    /// The next look for overdue timers of these types goes over all of them, however old.
    fn look_from_the_start(&self, _types: &[TypeId]) {}
    /// Rises with every change of the catalogue, of a pause or of a key.
    async fn catalogue_version(&self) -> Result<i64>;
    async fn plugin_bytes(&self, namespace: NamespaceId, digest: crate::domain::id::Digest) -> Result<Option<Vec<u8>>>;
    /// The key with this hash, unless it was revoked.
    async fn api_key_by_hash(&self, hash: [u8; 32]) -> Result<Option<admin::ApiKeyRow>>;
    async fn api_keys(&self, namespace: Option<NamespaceId>) -> Result<Vec<admin::ApiKeyRow>>;

    /// A namespace's secrets or data sources, by name.
    async fn sealed(&self, namespace: NamespaceId, kind: admin::SealedKind) -> Result<Vec<admin::SealedRow>>;
    /// One of them, as it is at this moment; by the namespace's name, since that is what a plugin's call knows.
    async fn sealed_by_name(
        &self,
        namespace: String,
        kind: admin::SealedKind,
        name: Name,
    ) -> Result<Option<admin::SealedRow>>;

    /// Finishes what runs and closes; the last call.
    async fn close(&self);
}

/// Is told of what was committed, before the answer is given. Must return at once.
pub trait Observer: Send + Sync + 'static {
    /// A timer's row was written: registered, changed or settled.
    fn timer_written(&self, timer: &Timer);
    /// A registration found its timer there already: perhaps it is the second try of one whose answer was lost, and
    /// whose commit no node has learnt of.
    fn timer_found(&self, _timer: &Timer) {}
    /// A lane has work that may be run from `run_at` on.
    fn compensation_written(&self, type_id: TypeId, kind: &Name, run_at: Timestamp);
    /// The catalogue changed: a type, a plugin, a pause or a key.
    fn catalogue_written(&self);
}

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    driver: Arc<dyn Driver>,
    group: Group,
}

macro_rules! submit {
    ($self:ident, $op:expr, $answer:ident) => {
        match $self.group.submit($op).await? {
            Answer::$answer(answer) => Ok(answer),
            other => unreachable!("a driver answered {} with {other:?}", stringify!($answer)),
        }
    };
}

impl Store {
    /// Starts the writer's task on the current runtime.
    pub fn new(driver: Arc<dyn Driver>, limits: Limits) -> Self {
        let group = Group::start(Arc::clone(&driver), limits);
        Self { driver, group }
    }

    /// Adds one who is told of every commit from now on.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.group.observe(observer);
    }

    /// Reads, and the store's clock.
    pub fn read(&self) -> &dyn Driver {
        &*self.driver
    }

    pub async fn insert(&self, timer: NewTimer) -> Result<Inserted> {
        submit!(self, Op::Insert(timer), Inserted)
    }

    pub async fn act(&self, act: Act) -> Result<Acted> {
        submit!(self, Op::Act(act), Acted)
    }

    pub async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        submit!(self, Op::Settle(settlement), Settled)
    }

    pub async fn claim(&self, claim: Claim) -> Result<Claimed> {
        submit!(self, Op::Claim(claim), Claimed)
    }

    /// Claims what is overdue; poisoned timers are failed on the way and not returned.
    pub async fn claim_backlog(&self, claim: ClaimBacklog) -> Result<Vec<Timer>> {
        submit!(self, Op::ClaimBacklog(claim), Backlog).map(|backlog| backlog.claimed)
    }

    pub async fn claim_compensations(&self, claim: ClaimCompensations) -> Result<Vec<Compensation>> {
        submit!(self, Op::ClaimCompensations(claim), Compensations)
    }

    /// False if the run's fence has passed: another run has taken over.
    pub async fn finish_compensation(&self, finish: FinishCompensation) -> Result<bool> {
        submit!(self, Op::FinishCompensation(finish), Finished).map(|finished| finished.written)
    }

    pub async fn redrive(&self, redrive: Redrive) -> Result<Redriven> {
        submit!(self, Op::Redrive(redrive), Redriven).map(|redriving| redriving.redriven)
    }

    pub async fn admin(&self, op: AdminOp) -> Result<AdminAnswer> {
        submit!(self, Op::Admin(op), Admin)
    }

    /// A write that changes nothing of meaning: that the store can be written to.
    pub async fn ping(&self) -> Result<()> {
        submit!(self, Op::Ping, Pong)
    }

    /// Writes what is queued, then closes the database.
    pub async fn close(&self) {
        self.group.stop().await;
        self.driver.close().await;
    }
}
