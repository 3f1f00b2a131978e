//! Each compensation is carried out by its own lane, and its failures are its own.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use lapse::{
    domain::{
        audit::EventKind,
        compensation::{Compensation, CompensationState},
        decision::FailureClass,
        id::CompensationId,
        timer::{State, Timer},
    },
    store::op::{Redrive, RedriveWhich, Redriven},
};
use tokio::sync::Semaphore;

use super::rig::{NAMESPACE, Rig, Script, Setup, Stuck, a_moment, at, close_with, eventually, failure, ms};

async fn fired(rig: &mut Rig, script: Script) -> Timer {
    let type_id = rig.put_type("plain", script).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.clock.advance(ms(100));
    rig.reaches(timer.id, State::Closed).await
}

async fn compensation(rig: &Rig, id: CompensationId) -> Compensation {
    rig.store.read().compensation(id).await.unwrap().unwrap()
}

async fn only(rig: &Rig, timer: &Timer) -> CompensationId {
    let all = rig.compensations(timer).await;
    assert_eq!(all.len(), 1);
    all[0].id
}

async fn reaches(rig: &Rig, id: CompensationId, state: CompensationState) -> Compensation {
    eventually(&format!("compensation {id} to be {state:?}"), || async { compensation(rig, id).await.state == state })
        .await;
    compensation(rig, id).await
}

fn setup() -> Setup {
    let mut setup = Setup::default();
    setup.config.compensation.attempts = 3;
    setup.config.compensation.initial = ms(200);
    setup.config.compensation.max = ms(400);
    setup.config.compensation.lease = ms(10_000);
    setup
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_carried_out_once_with_its_own_id_as_its_key() {
    let mut rig = Rig::new(setup()).await;
    let script = Script::deciding(|_| Ok(close_with(&["release", "release", "coupon"])))
        .compensating(|task| Box::pin(async move { Ok(Some(format!(r#"{{"kind":"{}"}}"#, task.kind))) }));
    let timer = fired(&mut rig, script).await;
    for made in rig.compensations(&timer).await {
        let done = reaches(&rig, made.id, CompensationState::Done).await;
        assert_eq!(done.result, Some(format!(r#"{{"kind":"{}"}}"#, done.kind)));
    }
    let calls = rig.compensate_calls();
    let keys: HashSet<_> = calls.iter().map(|c| c.task.idempotency_key.clone()).collect();
    assert_eq!((calls.len(), keys.len()), (3, 3));
    assert!(calls.iter().all(|c| c.task.idempotency_key == c.task.id.to_string() && c.task.key == "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downstream_that_is_away_is_tried_again_then_dead_then_redriven() {
    let mut rig = Rig::new(setup()).await;
    let away = Arc::new(AtomicUsize::new(3 + 2));
    let left = Arc::clone(&away);
    let script = Script::deciding(|_| Ok(close_with(&["release"]))).compensating(move |_| {
        let away = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        Box::pin(async move { if away { Err(failure(FailureClass::Downstream, "away")) } else { Ok(None) } })
    });
    let timer = fired(&mut rig, script).await;
    let id = only(&rig, &timer).await;
    eventually("the first run", || async { rig.compensate_calls().len() == 1 }).await;
    rig.pass(1500, 50).await;
    let dead = reaches(&rig, id, CompensationState::Dead).await;
    assert_eq!((dead.attempt, rig.compensate_calls().len()), (3, 3));
    assert_eq!(dead.last_error.unwrap().code, "away");
    let waits: Vec<u64> = rig.compensate_calls().windows(2).map(|w| w[1].at.since(w[0].at).as_millis()).collect();
    assert!(waits.iter().all(|w| (50..=500).contains(w)), "{waits:?}");

    let redrive = Redrive {
        namespace_id: NAMESPACE,
        which: RedriveWhich::One(id),
        to_active: false,
        note: "the warehouse is back".into(),
        actor: "key:ops".into(),
    };
    assert!(matches!(rig.store.redrive(redrive).await.unwrap(), Redriven::One(_)));
    rig.pass(1500, 50).await;
    let done = reaches(&rig, id, CompensationState::Done).await;
    assert_eq!((done.attempt, done.first_attempt), (6, 4), "a redrive has tries of its own");
    let keys: HashSet<_> = rig.compensate_calls().into_iter().map(|c| c.task.idempotency_key).collect();
    assert_eq!(keys.len(), 1, "the key is the same over attempts and redrives");
    let kinds: Vec<_> = rig.events(timer.id).await.iter().map(|e| e.kind).collect();
    assert_eq!(kinds.iter().filter(|k| **k == EventKind::CompensationDead).count(), 1);
    assert_eq!(kinds.iter().filter(|k| **k == EventKind::CompensationDone).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_done_and_a_permanent_failure_is_dead_at_once() {
    let mut rig = Rig::new(setup()).await;
    let script = Script::deciding(|_| Ok(close_with(&["conflict", "permanent"]))).compensating(|task| {
        let class = if task.kind == "conflict" { FailureClass::Conflict } else { FailureClass::Permanent };
        Box::pin(async move { Err(failure(class, "scripted")) })
    });
    let timer = fired(&mut rig, script).await;
    for made in rig.compensations(&timer).await {
        let state = if made.kind.as_str() == "conflict" { CompensationState::Done } else { CompensationState::Dead };
        reaches(&rig, made.id, state).await;
    }
    assert_eq!(rig.compensate_calls().len(), 2);
    let done = rig.event(timer.id, EventKind::CompensationDone).await;
    assert_eq!(done.detail["skipped"]["code"], "scripted", "{}", done.detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_hangs_holds_up_only_itself() {
    let mut setup = setup();
    setup.config.compensation.concurrency = 2;
    let mut rig = Rig::new(setup).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let script = Script::deciding(|_| Ok(close_with(&["hanging", "fine"]))).compensating(move |task| {
        let gate = Arc::clone(&held);
        Box::pin(async move {
            if task.kind == "hanging" {
                let _passed = gate.acquire().await;
            }
            Ok(None)
        })
    });
    let type_id = rig.put_type("plain", script).await;
    let mut timers = Vec::new();
    for n in 0..10 {
        timers.push(rig.register(type_id, &format!("k{n}"), at(100)).await);
    }
    rig.clock.advance(ms(100));
    for timer in &timers {
        rig.reaches(timer.id, State::Closed).await;
        for made in rig.compensations(timer).await.into_iter().filter(|c| c.kind.as_str() == "fine") {
            reaches(&rig, made.id, CompensationState::Done).await;
        }
    }
    a_moment().await;
    let hanging = |rig: &Rig| rig.compensate_calls().iter().filter(|c| c.task.kind == "hanging").count();
    assert_eq!((hanging(&rig), rig.lanes().running()), (2, 2), "as many as the lane has places");
    gate.add_permits(100);
    eventually("all to be done", || async { hanging(&rig) == 10 && rig.lanes().running() == 0 }).await;
}

/// It keeps fewer places, until its runs come to their end again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_whose_runs_time_out_narrows() {
    let mut setup = setup();
    setup.config.compensation.concurrency = 8;
    setup.config.compensation.attempts = 1;
    let mut rig = Rig::new(setup).await;
    let (running, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(parking_lot::Mutex::new(Vec::new())));
    let (counted, kept) = (Arc::clone(&running), Arc::clone(&seen));
    let script = Script::deciding(|_| Ok(close_with(&["release"]))).compensating(move |_| {
        let (running, seen) = (Arc::clone(&counted), Arc::clone(&kept));
        Box::pin(async move {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            seen.lock().push(now);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Err(failure(FailureClass::Transient, "timeout"))
        })
    });
    let type_id = rig.put_type("plain", script).await;
    for n in 0..60 {
        rig.register(type_id, &format!("k-{n}"), at(100)).await;
    }
    rig.clock.advance(ms(100));
    eventually("all to have run", || async { seen.lock().len() == 60 && running.load(Ordering::SeqCst) == 0 }).await;
    let seen = seen.lock().clone();
    assert!(seen.iter().any(|n| *n > 2), "it began with its places: {seen:?}");
    assert!(seen[50..].iter().all(|n| *n == 1), "one at a time in the end: {seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_lease_has_lapsed_cannot_report() {
    let mut rig = Rig::new(setup()).await;
    let stuck = Arc::new(Stuck::default());
    let (held, runs) = (Arc::clone(&stuck), Arc::new(AtomicUsize::new(0)));
    let script = Script::deciding(|_| Ok(close_with(&["release"]))).compensating(move |_| {
        let (stuck, run) = (Arc::clone(&held), runs.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move {
            if run == 0 {
                stuck.hold();
                return Err(failure(FailureClass::Permanent, "too late"));
            }
            Ok(Some("2".into()))
        })
    });
    let timer = fired(&mut rig, script).await;
    let id = only(&rig, &timer).await;
    reaches(&rig, id, CompensationState::Running).await;
    rig.pass(9_900, 900).await;
    assert_eq!(rig.compensate_calls().len(), 1);
    rig.pass(2_000, 500).await;
    reaches(&rig, id, CompensationState::Done).await;
    stuck.free();
    eventually("the first run to end", || async { rig.lanes().running() == 0 }).await;
    let done = compensation(&rig, id).await;
    assert_eq!((done.state, done.result.as_deref()), (CompensationState::Done, Some("2")));
    assert_eq!(rig.compensate_calls().len(), 2);
}

/// Counts a run until it has ended, or is broken off.
struct Runs(Arc<AtomicUsize>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Its successor starts at its lease's end: none of its effects may come after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_broken_off_before_its_lease_ends() {
    let mut rig = Rig::new(setup()).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (Arc::clone(&running), Arc::clone(&most));
    let script = Script::deciding(|_| Ok(close_with(&["release"]))).compensating(move |_| {
        seen.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let runs = Runs(Arc::clone(&counted));
        Box::pin(async move {
            let _runs = runs;
            std::future::pending().await
        })
    });
    let timer = fired(&mut rig, script).await;
    let id = only(&rig, &timer).await;
    rig.pass(40_000, 500).await;
    let dead = reaches(&rig, id, CompensationState::Dead).await;
    assert_eq!((dead.attempt, rig.compensate_calls().len()), (3, 3));
    assert_eq!(dead.last_error.unwrap().code, "timeout");
    assert_eq!(most.load(Ordering::SeqCst), 1, "never two at once");
}

/// Each run that takes its node down uses up a try.
#[tokio::test(flavor = "multi_thread")]
async fn runs_that_never_report_end_dead() {
    let mut rig = Rig::new(setup()).await;
    let stuck = Arc::new(Stuck::default());
    let held = Arc::clone(&stuck);
    let script = Script::deciding(|_| Ok(close_with(&["release"]))).compensating(move |_| {
        let stuck = Arc::clone(&held);
        Box::pin(async move {
            stuck.hold();
            Ok(None)
        })
    });
    let timer = fired(&mut rig, script).await;
    let id = only(&rig, &timer).await;
    for run in 1..=3 {
        eventually("a run", || async { rig.compensate_calls().len() == run }).await;
        rig.crash();
        rig.clock.advance(ms(20_000));
        rig.start();
    }
    let dead = reaches(&rig, id, CompensationState::Dead).await;
    stuck.free();
    assert_eq!(rig.compensate_calls().len(), 3);
    let error = dead.last_error.unwrap();
    assert_eq!((error.class, error.code.as_str()), (FailureClass::Poison, "tries_used_up"));
    assert_eq!(rig.event(timer.id, EventKind::CompensationDead).await.detail["failure"]["code"], "tries_used_up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_of_many_kinds_has_places_for_a_few() {
    let mut setup = setup();
    setup.config.compensation.concurrency = 2;
    let mut rig = Rig::new(setup).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let kinds: Vec<String> = (0..30).map(|n| format!("kind-{n}")).collect();
    let script = Script::deciding(move |_| Ok(close_with(&kinds.iter().map(String::as_str).collect::<Vec<_>>())))
        .compensating(move |_| {
            let gate = Arc::clone(&held);
            Box::pin(async move {
                let _passed = gate.acquire().await;
                Ok(None)
            })
        });
    fired(&mut rig, script).await;
    eventually("its places to be taken", || async { rig.lanes().running() == 16 }).await;
    a_moment().await;
    assert_eq!((rig.lanes().running(), rig.compensate_calls().len()), (16, 16), "eight lanes' places");
    gate.add_permits(100);
    eventually("all to be done", || async { rig.compensate_calls().len() == 30 && rig.lanes().running() == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_names_and_not_ids() {
    let mut rig = Rig::new(setup()).await;
    let script = Script::deciding(|expiry| Ok(close_with(&[&format!("release-{}", expiry.key)])));
    let type_id = rig.put_type("plain", script).await;
    let mut timers = Vec::new();
    for n in 0..102 {
        timers.push(rig.register(type_id, &format!("k{n}"), at(100 + n)).await);
    }
    rig.pass(1_000, 50).await;
    let mut failed = Vec::new();
    for timer in &timers {
        eventually("its outcome", || async {
            rig.timer(timer.id).await.state.is_final() || rig.timer(timer.id).await.state == State::Failed
        })
        .await;
        let timer = rig.timer(timer.id).await;
        if timer.state == State::Failed {
            failed.push(timer);
        }
    }
    assert_eq!(failed.len(), 2, "a hundred kinds, and no more");
    let outcome = failed[0].outcome.as_deref().unwrap();
    assert!(outcome.contains("too_many_kinds") && outcome.contains("ids belong into the payload"), "{outcome}");
    assert!(rig.compensations(&failed[0]).await.is_empty(), "nothing of the decision is carried out");
}
