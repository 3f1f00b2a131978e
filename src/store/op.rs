//! What can be written, and what is answered.

use crate::domain::{
    compensation::{Compensation, CompensationState, RunResult},
    decision::{CompensationSpec, CounterSpec, EventSpec},
    id::{CompensationId, Digest, Name, NamespaceId, TimerId, TimerKey, TypeId},
    machine::{Command, Settle},
    time::{DurationMs, Timestamp},
    timer::{NewTimer, Timer, Trigger},
};

use super::admin::{AdminAnswer, AdminOp};

#[derive(Clone, Debug)]
pub enum Op {
    Insert(NewTimer),
    Act(Act),
    Settle(Settlement),
    Claim(Claim),
    ClaimBacklog(ClaimBacklog),
    ClaimCompensations(ClaimCompensations),
    FinishCompensation(FinishCompensation),
    Redrive(Redrive),
    Admin(AdminOp),
    Ping,
}

/// The queues, in the order in which a shared writer serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Act,
    Settle,
    Insert,
    Compensation,
    Admin,
}

impl Class {
    pub const ALL: [Self; 5] = [Self::Act, Self::Settle, Self::Insert, Self::Compensation, Self::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Act => "act",
            Self::Settle => "settle",
            Self::Insert => "insert",
            Self::Compensation => "compensation",
            Self::Admin => "admin",
        }
    }
}

impl Op {
    pub fn class(&self) -> Class {
        match self {
            Self::Act(_) => Class::Act,
            Self::Settle(_) | Self::Claim(_) | Self::ClaimBacklog(_) => Class::Settle,
            Self::Insert(_) => Class::Insert,
            Self::ClaimCompensations(_) | Self::FinishCompensation(_) | Self::Redrive(_) => Class::Compensation,
            Self::Admin(_) | Self::Ping => Class::Admin,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Answer {
    Inserted(Inserted),
    Acted(Acted),
    Settled(Settled),
    Claimed(Claimed),
    Backlog(Backlog),
    Compensations(Vec<Compensation>),
    Finished(Finished),
    Redriven(Redriving),
    Admin(AdminAnswer),
    Pong(()),
    /// This operation was not carried out, though others of its batch were.
    Refused(super::Error),
}

/// What a claim of the backlog came to.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    pub claimed: Vec<Timer>,
    /// Failed on the way: their leases had lapsed too often.
    pub poisoned: Vec<Timer>,
}

/// What a run's report came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// False if the run's fence has passed.
    pub written: bool,
    /// Where and when it is tried again.
    pub again: Option<Lane>,
}

/// A redrive's answer, and the lanes that have work through it.
#[derive(Clone, Debug)]
pub struct Redriving {
    pub redriven: Redriven,
    pub lanes: Vec<Lane>,
}

/// A lane that has work from `run_at` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub type_id: TypeId,
    pub kind: Name,
    pub run_at: Timestamp,
}

#[derive(Clone, Debug)]
pub enum Inserted {
    Created(Timer),
    /// The same registration as before, or one for a key whose resolve was remembered.
    Same(Timer),
    /// The key is taken by another registration.
    Conflict(Timer),
    /// The delay leads beyond the year 9999.
    OutOfRange,
}

/// A person's or the business's action on one timer: resolve, cancel, reschedule, fire or retry.
#[derive(Clone, Debug)]
pub struct Act {
    pub target: Target,
    pub command: Command,
    /// The version that the caller has seen (`If-Match`).
    pub expected_version: Option<i64>,
    pub actor: String,
    pub reason: Option<String>,
    pub message_id: Option<String>,
    /// With [`Command::Resolve`] by key: what to leave behind, resolved, if the key was never seen.
    pub remember: Option<Remember>,
}

#[derive(Clone, Debug)]
pub enum Target {
    Id { namespace_id: NamespaceId, id: TimerId },
    Key { type_id: TypeId, key: TimerKey },
}

#[derive(Clone, Debug)]
pub struct Remember {
    pub id: TimerId,
    pub namespace_id: NamespaceId,
    pub revision: i64,
}

#[derive(Clone, Debug)]
pub enum Acted {
    Done(Timer),
    /// It was already so.
    Same(Timer),
    TooLate(Timer),
    Firing(Timer),
    WrongState(Timer),
    /// The expected version is not the timer's.
    VersionConflict(Timer),
    OutOfRange,
    NotFound,
}

/// What a decision comes to. Everything in it is written in one transaction, or nothing.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub id: TimerId,
    /// The version that was decided upon; the fence.
    pub version: i64,
    pub settle: Settle,
    pub trigger: Trigger,
    /// The plugin that decided; `None` where the engine did in its place.
    pub digest: Option<Digest>,
    pub actor: String,
    /// What the audit event holds beside the transition: input hash, cost, denied calls, logs.
    pub detail: serde_json::Value,
    /// The revision that carries the compensations out.
    pub revision: i64,
    pub compensations: Vec<(CompensationId, CompensationSpec)>,
    pub follow_ups: Vec<NewTimer>,
    pub events: Vec<EventSpec>,
    pub counters: Vec<CounterSpec>,
}

#[derive(Clone, Debug)]
pub enum Settled {
    /// The timer as it now is. Follow-ups whose key was taken are not among those made.
    Done { timer: Timer, follow_ups: Vec<Timer> },
    /// Somebody else settled it first: this is what is there.
    Lost(Timer),
    /// It is still to fire, but not as it was read: arm it again.
    Moved(Timer),
    /// Not due yet by the store's clock.
    Early(Timer),
    /// No such timer.
    Gone,
}

/// Takes one timer for a run with effects: `scheduled` to `firing`.
#[derive(Clone, Debug)]
pub struct Claim {
    pub id: TimerId,
    pub version: i64,
    pub lease: DurationMs,
    pub trigger: Trigger,
    pub node: String,
}

#[derive(Clone, Debug)]
pub enum Claimed {
    Done(Timer),
    Lost(Timer),
    Moved(Timer),
    Early(Timer),
    Gone,
}

/// Takes overdue timers, oldest first: scheduled ones with `run_at < before`, and lapsed leases.
#[derive(Clone, Debug)]
pub struct ClaimBacklog {
    /// How many of each type.
    pub limits: Vec<(TypeId, usize)>,
    pub before: Timestamp,
    pub lease: DurationMs,
    pub node: String,
    /// Timers that this node already has in hand.
    pub except: Vec<TimerId>,
}

/// Takes compensations of one lane whose time has come, oldest first; lapsed leases too.
#[derive(Clone, Debug)]
pub struct ClaimCompensations {
    pub type_id: TypeId,
    pub kind: Name,
    pub limit: usize,
    pub lease: DurationMs,
}

/// Reports a run. A retry that counts, and every other result, is an event of the timer's audit; a wait that was nobody's
/// fault (`counts: false`) is not, or an outage would grow the chain without end.
#[derive(Clone, Debug)]
pub struct FinishCompensation {
    pub id: CompensationId,
    pub fence: i64,
    pub result: RunResult,
    /// What the timer's audit event holds beside it.
    pub detail: serde_json::Value,
}

/// Sends dead compensations back to their lanes: those named, or those that fit the filter, at most `limit`.
#[derive(Clone, Debug)]
pub struct Redrive {
    pub namespace_id: NamespaceId,
    pub which: RedriveWhich,
    /// By the type's active revision from now on, in the place of the one that decided it.
    pub to_active: bool,
    pub note: String,
    pub actor: String,
}

#[derive(Clone, Debug)]
pub enum RedriveWhich {
    One(CompensationId),
    Filter { type_id: Option<TypeId>, kind: Option<Name>, limit: usize },
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the common one")]
pub enum Redriven {
    /// One: as it now is. Filter: how many, and whether more are left.
    One(Compensation),
    Many {
        count: usize,
        more: bool,
    },
    NotFound,
    /// Only a dead one can be redriven.
    WrongState(CompensationState),
}
