//! What a registration makes, and what it is answered when its key is taken. Pure, for both databases.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    op::{Act, Inserted, Remember},
    transition::{Link, link, merge, reason},
};
use crate::domain::{
    audit::{Chain, Event, EventKind},
    id::{TimerKey, TypeId},
    time::Timestamp,
    timer::{NewTimer, Origin, State, Timer},
};

/// The timer that a registration makes at `now`; `None` if its delay leads beyond the year 9999.
pub(super) fn registered(new: &NewTimer, chain: &Chain, now: Timestamp) -> Option<Timer> {
    let due_at = new.due.resolve(now).ok()?;
    let mut timer = Timer {
        id: new.id,
        namespace_id: new.namespace_id,
        type_id: new.type_id,
        key: new.key.clone(),
        payload: new.payload.clone(),
        labels: new.labels.clone(),
        state: State::Scheduled,
        due_at,
        run_at: Some(due_at.max(now)),
        attempt: 1,
        lapses: 0,
        version: 1,
        revision: new.revision,
        pinned: new.pinned,
        manual: false,
        depth: new.depth,
        created_at: now,
        settled_at: None,
        outcome: None,
        origin: Origin {
            actor: new.actor.clone(),
            due_at,
            fingerprint: Some(new.fingerprint),
            message_id: new.message_id.clone(),
        },
        head: [0; 32],
    };
    timer.head = chain.first(&timer);
    Some(timer)
}

/// The answer to a registration whose key is taken.
pub(super) fn against(existing: Timer, fingerprint: &[u8; 32]) -> Inserted {
    // A row that `remember` left has seen no registration: this one is its own.
    let same = existing.origin.fingerprint.is_none_or(|f| f == *fingerprint);
    if same { Inserted::Same(existing) } else { Inserted::Conflict(existing) }
}

/// The resolved timer that is left behind for a key that was never seen, and the one event that it has beside its
/// registration: what is registered after its payment finds it.
pub(super) fn remembered(
    act: &Act,
    (type_id, key): (TypeId, TimerKey),
    remember: &Remember,
    chain: &Chain,
    now: Timestamp,
) -> (Timer, Link) {
    let mut timer = Timer {
        id: remember.id,
        namespace_id: remember.namespace_id,
        type_id,
        key,
        payload: "null".into(),
        labels: BTreeMap::new(),
        state: State::Resolved,
        due_at: now,
        run_at: None,
        attempt: 1,
        lapses: 0,
        version: 2,
        revision: remember.revision,
        pinned: false,
        manual: false,
        depth: 0,
        created_at: now,
        settled_at: Some(now),
        outcome: None,
        origin: Origin { actor: act.actor.clone(), due_at: now, fingerprint: None, message_id: act.message_id.clone() },
        head: [0; 32],
    };
    let event = Event {
        timer_id: timer.id,
        seq: 2,
        at: now,
        kind: EventKind::Resolved,
        actor: act.actor.clone(),
        state_before: Some(State::Scheduled),
        state_after: State::Resolved,
        version: 2,
        attempt: 1,
        trigger: None,
        digest: None,
        message_id: act.message_id.clone(),
        detail: merge(json!({ "remembered": true }), reason(act)),
    };
    let resolved = link(chain, &chain.first(&timer), &event);
    timer.head = resolved.mac;
    (timer, resolved)
}
