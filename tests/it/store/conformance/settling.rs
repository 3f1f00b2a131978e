//! Decisions carried out.

use lapse::{
    domain::{
        compensation::CompensationState,
        decision::{CounterSpec, EventSpec, FailureClass},
        machine::{Command, Settle},
        timer::{Due, State},
    },
    store::op::{Acted, Settled},
};
use serde_json::{Value, json};

use crate::store::bed::{Bed, close, compensation, failure, kinds, ms, name, secs, settlement};

pub async fn a_close_writes_its_compensations_once(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let (closed, ids) = bed.close(&timer, 3).await;
    assert_eq!((closed.state, closed.run_at, closed.version), (State::Closed, None, 5));
    assert_eq!(closed.settled_at, Some(bed.now()));
    assert_eq!(closed.outcome.as_deref(), Some(r#"{"result":{"closed":true}}"#));
    assert_eq!(bed.timer(timer.id).await, closed);
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Lost(t) if t == closed));
    for (n, id) in ids.iter().enumerate() {
        let made = bed.store.read().compensation(*id).await.unwrap().unwrap();
        assert_eq!((made.state, made.attempt, made.run_at), (CompensationState::Pending, 1, Some(bed.now())));
        assert_eq!((made.timer_id, &made.timer_key), (timer.id, &timer.key));
        assert_eq!(made.payload, json!({ "n": n }).to_string());
    }
    let events = bed.events(timer.id).await;
    let created = "compensation_created";
    assert_eq!(kinds(&events), ["registered", "closed", created, created, created]);
    let said: Vec<_> = events[2..].iter().map(|e| e.event.detail["compensation_id"].clone()).collect();
    assert_eq!(json!(said), json!(ids));
    let seqs: Vec<i64> = events.iter().map(|e| e.event.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

/// By the store's clock, whichever way it was moved.
pub async fn nothing_settles_before_it_is_due(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(10))).await;
    bed.clock.set(timer.due_at.saturating_sub(ms(1)));
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Early(t) if t == timer));
    bed.clock.set(timer.due_at.saturating_sub(secs(3600)));
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Early(_)));
    assert_eq!(bed.events(timer.id).await.len(), 1);
    bed.clock.set(timer.due_at);
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Done { .. }));
}

pub async fn a_skip_says_why(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let skip = Settle::Skip { reason: "paid".into(), failure: None };
    let Settled::Done { timer, .. } = bed.settle(&timer, skip).await else { panic!("not due") };
    assert_eq!((timer.state, timer.outcome.as_deref()), (State::Skipped, Some(r#"{"reason":"paid"}"#)));
}

pub async fn a_retry_is_a_later_attempt(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let at = bed.now().saturating_add(secs(5));
    let retry = || Settle::Retry { at, reason: "busy".into(), failure: Some(failure(FailureClass::Transient)) };
    let Settled::Done { timer: later, .. } = bed.settle(&timer, retry()).await else { panic!("not due") };
    assert_eq!((later.state, later.attempt, later.run_at), (State::Scheduled, 2, Some(at)));
    assert_eq!(later.due_at, timer.due_at, "the business's deadline stays");
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Moved(t) if t == later));
    assert!(matches!(bed.settle(&later, close()).await, Settled::Early(_)));
    bed.clock.set(at);
    assert!(matches!(bed.settle(&later, close()).await, Settled::Done { .. }));
    let events = bed.events(timer.id).await;
    assert_eq!(kinds(&events), ["registered", "retry_scheduled", "closed"]);
    assert_eq!((events[1].event.attempt, events[2].event.attempt), (1, 2));
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn a_failed_timer_is_still_the_business_s(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let fail = || Settle::Fail { failure: failure(FailureClass::Permanent) };
    let Settled::Done { timer: failed, .. } = bed.settle(&timer, fail()).await else { panic!("not due") };
    assert_eq!((failed.state, failed.run_at), (State::Failed, None));
    assert!(matches!(bed.settle(&failed, close()).await, Settled::Lost(_)), "failed is left by a person only");
    let Acted::Done(again) = bed.act(&failed, Command::Retry).await else { panic!("not failed") };
    assert_eq!((again.state, again.attempt, again.run_at), (State::Scheduled, 1, Some(bed.now())));
    assert_eq!((again.outcome.as_ref(), again.settled_at), (None, None));
    let Settled::Done { timer: failed, .. } = bed.settle(&again, fail()).await else { panic!("not due") };
    assert!(matches!(bed.act(&failed, Command::Resolve).await, Acted::Done(t) if t.state == State::Resolved));
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn follow_ups_are_registered_with_the_decision(bed: Bed) {
    let taken = bed.register("taken", Due::After(secs(60))).await;
    let other = bed.register("other", Due::After(secs(60))).await;
    let timer = bed.due_timer("A17").await;
    let mut settlement = settlement(&timer, close());
    let follow_up = |key: &str, fingerprint: Option<u8>| {
        let mut new = bed.new_timer(key, Due::After(secs(30)));
        new.depth = 1;
        new.fingerprint = fingerprint.map_or(new.fingerprint, |b| [b; 32]);
        new
    };
    settlement.follow_ups = vec![follow_up("new", None), follow_up("taken", None), follow_up("other", Some(9))];
    let Settled::Done { follow_ups, .. } = bed.store.settle(settlement).await.unwrap() else { panic!("not due") };
    assert_eq!(follow_ups.len(), 1, "what was taken is not among those made");
    assert_eq!((follow_ups[0].key.as_str(), follow_ups[0].depth), ("new", 1));
    assert_eq!(bed.timer(follow_ups[0].id).await, follow_ups[0]);
    assert_eq!(bed.timer(taken.id).await, taken);
    assert_eq!(bed.timer(other.id).await, other);
    let detail = &bed.events(timer.id).await[1].event.detail;
    let results: Vec<&Value> = detail["follow_ups"].as_array().unwrap().iter().map(|f| &f["result"]).collect();
    assert_eq!(results, ["created", "exists", "conflict"]);
}

pub async fn a_decision_that_lost_leaves_nothing(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    bed.act(&timer, Command::Resolve).await;
    let mut late = settlement(&timer, close());
    late.compensations = vec![compensation("release", 1)];
    late.follow_ups = vec![bed.new_timer("follow-up", Due::After(secs(30)))];
    let (compensation, follow_up) = (late.compensations[0].0, late.follow_ups[0].id);
    assert!(matches!(bed.store.settle(late).await.unwrap(), Settled::Lost(t) if t.state == State::Resolved));
    assert_eq!(bed.store.read().compensation(compensation).await.unwrap(), None);
    assert_eq!(bed.store.read().timer(follow_up).await.unwrap(), None);
    assert!(bed.store.read().compensation_lanes(bed.now()).await.unwrap().is_empty());
    assert_eq!(kinds(&bed.events(timer.id).await), ["registered", "resolved"]);
}

pub async fn what_a_plugin_says_is_in_the_audit(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let mut settlement = settlement(&timer, close());
    let data = serde_json::value::to_raw_value(&json!({ "amount": 1299 })).unwrap();
    settlement.events = vec![EventSpec { name: name("order-closed"), data }];
    settlement.counters = vec![CounterSpec { name: name("closed"), value: 2 }];
    bed.store.settle(settlement).await.unwrap();
    let events = bed.events(timer.id).await;
    let closed = &events[1].event;
    assert_eq!(closed.detail["events"], json!([{ "name": "order-closed", "data": { "amount": 1299 } }]));
    assert_eq!(closed.detail["counters"], json!([{ "name": "closed", "value": 2 }]));
    assert_eq!(closed.detail["input"], "sha256:0");
    assert_eq!((closed.actor.as_str(), closed.at), ("plugin:order-timeout", bed.now()));
    assert!(closed.digest.is_some() && closed.trigger.is_some());
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}
