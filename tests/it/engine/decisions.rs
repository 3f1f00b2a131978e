//! What becomes of a decision, and of each class of failure.

use std::sync::Arc;

use lapse::{
    clock::Clock,
    domain::{
        audit::EventKind,
        backoff::RetryPolicy,
        decision::{FailureClass, FollowUpSpec},
        time::DurationMs,
        timer::{Due, State, Timer},
    },
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::rig::{
    NAMESPACE, Rig, Script, Setup, TypeSpec, a_moment, at, close, close_and_follow, eventually, failure, ms, retry,
    skip,
};

const QUICK: RetryPolicy = RetryPolicy { attempts: 3, initial: ms_const(200), max: ms_const(400) };

const fn ms_const(ms: u64) -> DurationMs {
    DurationMs::from_millis(ms)
}

async fn fired(rig: &mut Rig, spec: impl Into<TypeSpec>) -> Timer {
    let type_id = rig.put_type("plain", spec).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.pass(100, 100).await;
    timer
}

fn outcome(timer: &Timer) -> Value {
    serde_json::from_str(timer.outcome.as_deref().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passing_fault_is_tried_again_until_its_tries_are_used_up() {
    for class in [FailureClass::Transient, FailureClass::Downstream] {
        let mut rig = Rig::new(Setup::default()).await;
        let script = Script::deciding(move |_| Err(failure(class, "flaky")));
        let timer = fired(&mut rig, TypeSpec { retry: QUICK, ..script.into() }).await;
        rig.pass(1000, 50).await;
        let timer = rig.reaches(timer.id, State::Failed).await;
        assert_eq!(timer.attempt, 3);
        assert_eq!(outcome(&timer)["failure"]["class"], class.as_str());
        assert_eq!(outcome(&timer)["failure"]["code"], "flaky");
        let calls = rig.calls_of(timer.id);
        assert_eq!(calls.iter().map(|c| c.expiry.attempt).collect::<Vec<_>>(), [1, 2, 3]);
        let waits: Vec<u64> = calls.windows(2).map(|w| w[1].at.since(w[0].at).as_millis()).collect();
        assert!(waits[0] >= 50 && waits[0] <= 300 && waits[1] >= 50 && waits[1] <= 500, "{waits:?}");
        assert!(calls.iter().all(|c| c.expiry.idempotency_key == timer.id.to_string()));
        let events = rig.events(timer.id).await;
        assert_eq!(events.iter().filter(|e| e.kind == EventKind::RetryScheduled).count(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_how_long_to_wait_up_to_the_cap() {
    let mut rig = Rig::new(Setup::default()).await;
    let script = Script::deciding(|expiry| {
        let asked = if expiry.attempt == 1 { ms(380) } else { DurationMs::from_secs(3600) };
        let mut failure = failure(FailureClass::Transient, "busy");
        failure.retry_after = Some(asked);
        Err(failure)
    });
    let timer = fired(&mut rig, TypeSpec { retry: QUICK, ..script.into() }).await;
    let first = rig.timer(timer.id).await;
    assert_eq!(first.run_at, Some(at(100 + 380)));
    rig.pass(380, 380).await;
    assert_eq!(rig.timer(timer.id).await.run_at, Some(at(480 + 400)), "an hour is more than the policy's cap");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_to_retry_counts_as_an_attempt() {
    let mut rig = Rig::new(Setup::default()).await;
    let script = Script::deciding(|_| Ok(retry(Some(ms(2500)))));
    let timer = fired(&mut rig, TypeSpec { retry: QUICK, ..script.into() }).await;
    assert_eq!(rig.timer(timer.id).await.run_at, Some(at(2600)));
    rig.pass(5000, 100).await;
    let timer = rig.reaches(timer.id, State::Failed).await;
    assert_eq!((timer.attempt, outcome(&timer)["failure"]["code"].clone()), (3, json!("tries_used_up")));
    assert_eq!(outcome(&timer)["failure"]["class"], "transient");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_skips_and_a_permanent_failure_fails_at_once() {
    let mut rig = Rig::new(Setup::default()).await;
    let script = Script::deciding(|expiry| match expiry.key.as_str() {
        "paid" => Err(failure(FailureClass::Conflict, "already_paid")),
        "gone" => Err(failure(FailureClass::Permanent, "no_such_order")),
        _ => Ok(skip("shipped")),
    });
    let type_id = rig.put_type("plain", script).await;
    let [paid, gone, shipped] = ["paid", "gone", "shipped"];
    let paid = rig.register(type_id, paid, at(10)).await;
    let gone = rig.register(type_id, gone, at(10)).await;
    let shipped = rig.register(type_id, shipped, at(10)).await;
    rig.pass(10, 10).await;
    let paid = rig.reaches(paid.id, State::Skipped).await;
    assert_eq!(outcome(&paid)["failure"]["code"], "already_paid");
    let gone = rig.reaches(gone.id, State::Failed).await;
    assert_eq!(
        outcome(&gone)["failure"],
        json!({"class": "permanent", "code": "no_such_order", "message": "scripted"})
    );
    let shipped = rig.reaches(shipped.id, State::Skipped).await;
    assert_eq!(outcome(&shipped), json!({"reason": "shipped"}));
    assert_eq!(rig.calls().len(), 3);
}

fn follow_up(timer_type: &str, payload: &str, due: Option<Due>) -> FollowUpSpec {
    FollowUpSpec { timer_type: timer_type.parse().unwrap(), key: "next".parse().unwrap(), payload: payload.into(), due }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_is_registered_with_the_decision_and_fires() {
    let mut rig = Rig::new(Setup::default()).await;
    let breach = TypeSpec { default_delay: Some(ms(700)), ..Script::closing().into() };
    let breach = rig.put_type("breach", breach).await;
    let warn = Script::deciding(|_| Ok(close_and_follow(vec![follow_up("breach", r#"{"n":1}"#, None)])));
    let timer = fired(&mut rig, warn).await;
    let closed = rig.reaches(timer.id, State::Closed).await;
    let next = rig.store.read().timer_by_key(breach, "next".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((next.depth, next.due_at, next.created_at), (1, at(800), closed.settled_at.unwrap()));
    assert_eq!(next.origin.actor, "plugin:plain");
    assert!(next.origin.fingerprint.is_some());
    rig.pass(700, 350).await;
    rig.reaches(next.id, State::Closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_follow_up_fails_the_decision_and_nothing_of_it_is_written() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let due = Some(Due::After(ms(1000)));
    let cases = [
        ("follow_up_unknown_type", follow_up("nowhere", "{}", due), 0),
        ("follow_up_payload_invalid", follow_up("breach", r#"{"n":"x"}"#, due), 0),
        ("follow_up_payload_invalid", follow_up("breach", "{", due), 0),
        ("follow_up_time_missing", follow_up("breach", r#"{"n":1}"#, None), 0),
        ("follow_up_time_invalid", follow_up("breach", r#"{"n":1}"#, Some(Due::After(DurationMs::MAX))), 0),
        ("follow_up_too_deep", follow_up("breach", r#"{"n":1}"#, due), 16),
    ];
    let mut rig = Rig::new(Setup::default()).await;
    let breach = rig.put_type("breach", TypeSpec { schema, ..Script::closing().into() }).await;
    for (n, (code, spec, depth)) in cases.into_iter().enumerate() {
        let script = Script::deciding(move |_| Ok(close_and_follow(vec![spec.clone()])));
        let type_id = rig.put_type(&format!("t{n}"), script).await;
        let mut timer = Rig::new_timer(type_id, "k", Due::After(ms(10)));
        timer.depth = depth;
        let timer = rig.insert(timer).await;
        rig.pass(10, 10).await;
        let timer = rig.reaches(timer.id, State::Failed).await;
        assert_eq!(outcome(&timer)["failure"]["code"], code);
        assert_eq!(outcome(&timer)["failure"]["class"], "permanent");
        assert_eq!(rig.store.read().timer_by_key(breach, "next".parse().unwrap()).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_timer_runs_its_own_revision_and_others_the_active_one() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::deciding(|_| Ok(skip("first")))).await;
    let mut pinned = Rig::new_timer(type_id, "pinned", Due::At(at(100)));
    pinned.pinned = true;
    let pinned = rig.insert(pinned).await;
    let follows = rig.register(type_id, "follows", at(100)).await;
    rig.put_type("plain", Script::deciding(|_| Ok(close()))).await;
    rig.pass(100, 100).await;
    rig.reaches(follows.id, State::Closed).await;
    rig.reaches(pinned.id, State::Skipped).await;
    assert_eq!(rig.event(pinned.id, EventKind::Skipped).await.detail["revision"], 1);
    assert_eq!(rig.event(follows.id, EventKind::Closed).await.detail["revision"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_could_not_be_loaded_is_tried_again_by_itself() {
    let mut rig = Rig::without_engine(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    // As at a start whose host has a bad moment.
    *rig.host.refuse_loads.lock() = true;
    rig.catalog = lapse::catalog::Catalog::load(rig.store.clone(), rig.host.clone()).await.unwrap();
    assert!(rig.catalog.snapshot().by_id(type_id).is_none());
    *rig.host.refuse_loads.lock() = false;
    rig.catalog.refresh_meanwhile().await.unwrap();
    a_moment().await;
    assert!(rig.catalog.snapshot().by_id(type_id).is_none(), "not at once: a host that is busy is left alone");
    eventually("the type", || async {
        rig.catalog.refresh_meanwhile().await.unwrap();
        rig.catalog.snapshot().by_id(type_id).is_some()
    })
    .await;
}

/// A plugin of megabytes compiles for long.
#[tokio::test(flavor = "multi_thread")]
async fn no_type_waits_for_anothers_plugin() {
    let mut rig = Rig::without_engine(Setup::default()).await;
    let slow = Arc::new(Semaphore::new(0));
    *rig.host.hold_loads.lock() = Some(Arc::clone(&slow));
    // Who made it does not wait for it to the end.
    let made = tokio::time::timeout(std::time::Duration::from_secs(2), rig.put_type("slow", Script::closing())).await;
    assert!(made.is_err(), "it is being loaded");
    *rig.host.hold_loads.lock() = None;
    let quick = rig.put_type("quick", Script::closing()).await;
    let snapshot = rig.catalog.snapshot();
    assert!(snapshot.by_id(quick).is_some());
    assert!(snapshot.by_name(NAMESPACE, "slow").is_none() && snapshot.catalogue.types.len() == 2);
    slow.add_permits(1);
    eventually("the slow one", || async { rig.catalog.snapshot().by_name(NAMESPACE, "slow").is_some() }).await;
    assert!(rig.catalog.snapshot().by_id(quick).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_cannot_be_loaded_loses_no_timer_and_burns_no_attempt() {
    let mut rig = Rig::without_engine(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::deciding(|_| Ok(skip("first")))).await;
    rig.put_type("plain", Script::closing()).await;
    // As after a restart: only the active revision is compiled.
    rig.catalog = lapse::catalog::Catalog::load(rig.store.clone(), rig.host.clone()).await.unwrap();
    *rig.host.refuse_loads.lock() = true;
    rig.start();
    let mut pinned = Rig::new_timer(type_id, "pinned", Due::At(at(100)));
    pinned.pinned = true;
    let pinned = rig.insert(pinned).await;
    rig.pass(100, 100).await;
    rig.pass(8000, 500).await;
    let waiting = rig.reaches(pinned.id, State::Scheduled).await;
    assert!(waiting.run_at.unwrap() > rig.clock.now(), "given up by the backlog for some time: {waiting:?}");
    assert_eq!(waiting.attempt, 1);
    *rig.host.refuse_loads.lock() = false;
    rig.pass(40_000, 500).await;
    rig.reaches(pinned.id, State::Skipped).await;
}
