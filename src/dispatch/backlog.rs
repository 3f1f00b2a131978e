//! The backlog: what is overdue and in nobody's hand, and leases that have lapsed. Claimed first, whatever the purity;
//! oldest first; as much as each lane has room for, and no more than the drain rate.

use std::sync::Arc;

use super::{Due, Engine, bucket::Bucket, meter::Left, revisions::AtHand};
use crate::{
    clock::nap,
    domain::{
        id::TypeId,
        time::{DurationMs, Timestamp},
        timer::{Timer, Trigger},
    },
    store::op::ClaimBacklog,
};

/// What is overdue by less is still in a node's hand.
const OVERDUE: DurationMs = DurationMs::from_secs(5);
/// How often the store is asked.
const EVERY: DurationMs = DurationMs::from_millis(500);
/// How soon it is asked again while there was more than could be claimed.
const SOON: DurationMs = DurationMs::from_millis(50);
/// The most timers claimed in one transaction.
const MAX_CLAIM: usize = 500;
/// Timers in hand that a claim is told to leave out.
const MAX_EXCEPT: usize = 1_000;
/// How long a timer waits whose revision cannot be loaded.
pub(super) const LOAD_AGAIN: DurationMs = DurationMs::from_secs(30);

/// Runs until the engine stops taking.
pub(super) async fn work_off(engine: Arc<Engine>) {
    let mut drain = None;
    loop {
        // The rate is the cluster's: each node takes an even part of it.
        let rate = share(engine.config.drain_rate, engine.delivery.nodes());
        if drain.as_ref().map_or(0, Bucket::rate) != u64::from(rate) {
            drain = Bucket::new(rate, engine.clock.now());
        }
        let wait = match round(&engine, &mut drain).await {
            Ok(Round::Through) => EVERY,
            Ok(Round::More) => SOON,
            Ok(Round::Rated(wait)) => wait.min(EVERY),
            Err(error) => {
                tracing::warn!(%error, "overdue timers cannot be looked for; trying again");
                EVERY
            }
        };
        let until = engine.clock.now().saturating_add(wait);
        tokio::select! {
            () = nap(&*engine.clock, until) => {}
            () = engine.lanes.room.notified() => {}
            () = engine.stop_taking.cancelled() => return,
        }
    }
}

/// An even part of a rate; 0 stays 0, which is none, and a rate that is set never becomes none.
fn share(rate: u32, nodes: usize) -> u32 {
    let part = rate / u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
    part.max(rate.min(1))
}

enum Round {
    /// Nothing more to claim, or no room for it.
    Through,
    More,
    /// Only the drain rate holds it back.
    Rated(DurationMs),
}

async fn round(engine: &Arc<Engine>, drain: &mut Option<Bucket>) -> crate::store::Result<Round> {
    let now = engine.clock.now();
    let before = now.saturating_sub(OVERDUE);
    let mut tokens = drain.as_mut().map_or(MAX_CLAIM, |bucket| bucket.available(now).min(MAX_CLAIM));
    if let (0, Some(bucket)) = (tokens, drain.as_ref()) {
        return Ok(Round::Rated(bucket.next_in()));
    }
    let mut types = engine.store.read().overdue_types(before).await?;
    let paused = engine.paused_types(&engine.catalog.snapshot(), now);
    types.retain(|id| !paused.contains(id));
    let limits = limits(engine, &types, &mut tokens, now);
    if limits.is_empty() {
        return Ok(Round::Through);
    }
    let wanted: usize = limits.iter().map(|(_, n)| n).sum();
    let claim = ClaimBacklog {
        limits,
        before,
        lease: engine.config.lease,
        node: engine.node.clone(),
        except: engine.inflight.older_than(before, MAX_EXCEPT),
    };
    let claimed = engine.store.claim_backlog(claim).await?;
    if let Some(bucket) = drain {
        bucket.take(claimed.len());
    }
    let all = claimed.len() < wanted;
    if !claimed.is_empty() {
        tracing::debug!(backlog.claimed = claimed.len(), "overdue timers are taken up");
    }
    take_up(engine, claimed);
    Ok(if all { Round::Through } else { Round::More })
}

/// How many to claim of each type: what its lane has room for, shared evenly where the drain rate is short.
fn limits(engine: &Engine, types: &[TypeId], tokens: &mut usize, now: Timestamp) -> Vec<(TypeId, usize)> {
    let snapshot = engine.catalog.snapshot();
    let mut limits = Vec::new();
    for (nth, type_id) in types.iter().enumerate() {
        let Some(entry) = snapshot.by_id(*type_id) else {
            // Not claimed, so that no lease lapses for it.
            if engine.meter.may_say(*type_id, Left::NotLoaded, now) {
                tracing::error!(
                    lapse.type_id = type_id.0,
                    "timers are overdue whose type cannot be loaded: they wait until it can"
                );
            }
            continue;
        };
        let share = tokens.div_ceil(types.len() - nth);
        let room = engine.lanes.backlog_room(*type_id, &entry.active.revision).min(share);
        if room > 0 {
            *tokens -= room;
            limits.push((*type_id, room));
        }
    }
    limits
}

fn take_up(engine: &Arc<Engine>, claimed: Vec<Timer>) {
    let now = engine.clock.now();
    let snapshot = engine.catalog.snapshot();
    for timer in claimed {
        let Some(in_hand) = engine.inflight.begin(timer.id, timer.version, now) else {
            engine.meter.duplicate(timer.type_id);
            continue;
        };
        in_hand.claimed(timer.version);
        // A first attempt is late since it was due; since when a later one is, its claim has overwritten.
        let ready_at = (timer.attempt == 1).then_some(timer.due_at);
        let due = Due { timer, trigger: Trigger::Backlog, ready_at, in_hand, ticket: None, weight: None };
        match engine.revisions.at_hand(&snapshot, &due.timer) {
            AtHand::Ready(entry, ready) => engine.enqueue(due.with(entry, ready), now),
            AtHand::Later(entry) => engine.load_and_enqueue(due, entry),
            AtHand::NoType => engine.no_type(due.timer.type_id, now),
        }
    }
}
