//! What is paused does not start, whatever would start it; nothing of it is lost; and what is overdue drains when it is
//! resumed.

use std::sync::Arc;

use lapse::{
    clock::Clock as _,
    domain::{
        audit::EventKind,
        compensation::CompensationState,
        decision::{CompensationSpec, FailureClass},
        id::{CompensationId, NamespaceId, TypeId},
        machine::{Command, Settle},
        pause::{Pause, Scope},
        time::Timestamp,
        timer::{State, Timer, Trigger},
    },
    store::{
        admin::{AdminAnswer, AdminOp, PutPause},
        op::{Act, Acted, Settled, Settlement},
    },
};
use rstest::rstest;
use tokio::sync::Semaphore;

use super::rig::{NAMESPACE, Rig, Script, Setup, TypeSpec, at, eventually, failure, ms};

const DAY: i64 = 86_400_000;
const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];

async fn pause(rig: &Rig, scope: Scope, until: Option<Timestamp>) -> Pause {
    let put = PutPause { scope, reason: "a test".into(), until, by: "key:test".into(), only_first: false };
    let AdminAnswer::Paused { pause, .. } = rig.store.admin(AdminOp::Pause(put)).await.unwrap() else { panic!() };
    rig.catalog.refresh_at_once().await.unwrap();
    pause
}

async fn resume(rig: &Rig, scope: Scope) {
    rig.store.admin(AdminOp::Resume(scope)).await.unwrap();
    rig.catalog.refresh_at_once().await.unwrap();
}

async fn fire(rig: &Rig, timer: &Timer) -> Timer {
    let act = Act {
        target: Rig::target(timer),
        command: Command::Fire,
        expected_version: None,
        actor: "key:test".into(),
        reason: None,
        message_id: None,
        remember: None,
    };
    match rig.store.act(act).await.unwrap() {
        Acted::Done(timer) => timer,
        other => panic!("not fired: {other:?}"),
    }
}

/// A timer that was decided before, with a compensation that is still to be carried out.
async fn decided(rig: &Rig, type_id: TypeId) -> Timer {
    let timer = rig.register(type_id, "decided", rig.clock.now()).await;
    let undo = CompensationSpec { kind: "undo".parse().unwrap(), payload: "{}".into() };
    let settlement = Settlement {
        id: timer.id,
        version: timer.version,
        settle: Settle::Close { result: None },
        trigger: Trigger::Slot,
        digest: None,
        actor: "plugin:paused".into(),
        detail: serde_json::Value::Null,
        revision: 1,
        compensations: vec![(CompensationId::new(), undo)],
        follow_ups: Vec::new(),
        events: Vec::new(),
        counters: Vec::new(),
    };
    match rig.store.settle(settlement).await.unwrap() {
        Settled::Done { timer, .. } => timer,
        other => panic!("not closed: {other:?}"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Paused {
    Type,
    Namespace,
    All,
}

/// Every way in which a timer is started, without and with effects.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_what_is_paused_starts_and_all_of_it_fires_once_when_resumed(
    #[values(Paused::Type, Paused::Namespace, Paused::All)] what: Paused,
    #[values(false, true)] effects: bool,
) {
    let mut rig = Rig::without_engine(Setup::default()).await;
    let grants = if effects { EFFECTS } else { &[] };
    let type_id = rig.put_type("paused", TypeSpec { grants, ..Script::closing().into() }).await;
    let other = rig.put_type("other", Script::closing()).await;
    let scope = match what {
        Paused::Type => Scope::Type(type_id),
        Paused::Namespace => Scope::Namespace(NAMESPACE),
        Paused::All => Scope::All,
    };
    // Overdue by an hour when the engine starts: the backlog's from the first.
    let overdue = rig.register(type_id, "overdue", at(0)).await;
    rig.clock.set(at(3_600_000));
    let closed = decided(&rig, type_id).await;
    pause(&rig, scope, None).await;
    rig.start();
    rig.quiet().await;
    let near = rig.register(type_id, "near", at(3_601_000)).await;
    let slot = rig.register(type_id, "slot", at(3_610_000)).await;
    let manual = rig.register(type_id, "manual", at(9_000_000)).await;
    let manual = fire(&rig, &manual).await;
    let free = rig.register(other, "free", at(3_601_000)).await;
    let waiting = [overdue, near, slot, manual];

    rig.pass(30_000, 500).await;
    for timer in &waiting {
        assert_eq!(rig.timer(timer.id).await, *timer, "no attempt is burnt, no lease is taken, and no time moves");
    }
    let started = rig.calls();
    let of_paused = |call: &super::rig::Call| call.expiry.timer_type == "paused";
    assert!(!started.iter().any(of_paused), "{started:?}");
    let other_fires = matches!(what, Paused::Type);
    assert_eq!(rig.timer(free.id).await.state == State::Closed, other_fires, "what else is paused with it");
    let done = || async { rig.compensations(&closed).await[0].state == CompensationState::Done };
    eventually("the compensation, paused or not", done).await;

    // Nor does another namespace's pause matter.
    pause(&rig, Scope::Namespace(NamespaceId(NAMESPACE.0 + 1)), None).await;
    resume(&rig, scope).await;
    rig.pass(8_000, 500).await;
    for timer in &waiting {
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.calls_of(timer.id).len(), 1, "{}", timer.key);
        assert_eq!(rig.trigger(timer.id).await, Trigger::Backlog, "{}", timer.key);
    }
    rig.reaches(free.id, State::Closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_a_lane_when_the_pause_begins_is_not_started_and_what_runs_comes_to_its_end() {
    let mut rig = Rig::without_engine(Setup::default()).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let script = Script::closing().with_effects(move |_| {
        let gate = Arc::clone(&held);
        Box::pin(async move {
            let _passed = gate.acquire().await;
            Ok(super::rig::close())
        })
    });
    let type_id = rig.put_type("narrow", TypeSpec { grants: EFFECTS, concurrency: Some(4), ..script.into() }).await;
    let mut claimed = Vec::new();
    for n in 0..3 {
        claimed.push(rig.register(type_id, &format!("old {n}"), at(n)).await);
    }
    rig.clock.set(at(4_900));
    let mut running = Vec::new();
    for n in 0..4 {
        running.push(rig.register(type_id, &format!("running {n}"), at(4_900)).await);
    }
    rig.start();
    eventually("the lane to be full", || async { rig.calls().len() >= 4 }).await;
    let queued = rig.register(type_id, "queued", at(4_900)).await;
    let in_lane = || async { rig.dispatcher().stats().lanes.iter().map(|lane| lane.queued).sum::<usize>() };
    eventually("the backlog to have claimed", || async {
        rig.clock.advance(ms(100));
        in_lane().await > 7 - rig.calls().len()
    })
    .await;
    let waits: Vec<Timer> =
        claimed.into_iter().filter(|t| rig.calls().iter().all(|c| c.expiry.timer_id != t.id)).collect();

    pause(&rig, Scope::Type(type_id), None).await;
    rig.clock.advance(ms(600));
    eventually("the lane to be empty", || async { in_lane().await == 0 }).await;
    gate.add_permits(100);
    for timer in &running {
        let state = rig.timer(timer.id).await.state;
        if state != State::Scheduled {
            rig.reaches(timer.id, State::Closed).await;
        }
    }
    for timer in waits.iter().chain([&queued]) {
        let now = rig.reaches(timer.id, State::Scheduled).await;
        assert_eq!((now.attempt, now.lapses, now.due_at), (1, 0, timer.due_at), "{}", timer.key);
        assert!(rig.calls_of(timer.id).is_empty(), "{}", timer.key);
    }
    assert_eq!(rig.timer(queued.id).await, queued, "it was never claimed");
    resume(&rig, Scope::Type(type_id)).await;
    rig.pass(8_000, 500).await;
    for timer in waits.iter().chain([&queued]).chain(&running) {
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.calls_of(timer.id).len(), 1, "{}", timer.key);
    }
}

/// A hundred are overdue when the pause ends by itself; they drain at the rate, and fresh ones are on time.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_by_itself_and_what_is_overdue_drains_at_the_rate_while_fresh_ones_are_on_time() {
    let mut setup = Setup::default();
    setup.config.dispatch.drain_rate = 10;
    let mut rig = Rig::new(setup).await;
    let type_id = rig.put_type("plain", TypeSpec { grants: EFFECTS, ..Script::closing().into() }).await;
    pause(&rig, Scope::All, Some(at(DAY))).await;
    for n in 0..100 {
        rig.register(type_id, &format!("k{n}"), at(n * 10)).await;
    }
    // Due in the pause's last moment, in the holder when it ends.
    let last = rig.register(type_id, "last", at(DAY - 1)).await;
    rig.pass(10_000, 500).await;
    rig.clock.set(at(DAY - 1000));
    rig.quiet().await;
    rig.pass(999, 333).await;
    assert_eq!(rig.calls().len(), 0, "the pause holds to its last millisecond");
    let mut fresh = Vec::new();
    for n in 0..3 {
        fresh.push(rig.register(type_id, &format!("fresh {n}"), at(DAY + n * 1000)).await);
    }
    for n in 1..=3usize {
        rig.pass(1000, 100).await;
        let timer = &fresh[n - 1];
        rig.reaches(timer.id, State::Closed).await;
        let closed = rig.event(timer.id, EventKind::Closed).await;
        assert!(closed.at.since(timer.due_at) <= ms(100), "on time: {}", closed.at);
        let drained: Vec<_> = rig.calls().into_iter().filter(|c| c.expiry.trigger == Trigger::Backlog).collect();
        assert!((n * 5..=n * 10 + 2).contains(&drained.len()), "{} after {n} s", drained.len());
        assert!(drained.iter().all(|c| c.expiry.due_at <= at(400)), "oldest first");
    }
    rig.pass(12_000, 100).await;
    rig.reaches(last.id, State::Closed).await;
    assert_eq!(rig.calls().len(), 104);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_while_paused_loses_nothing() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let before = rig.register(type_id, "before", at(1_000)).await;
    pause(&rig, Scope::Type(type_id), None).await;
    rig.pass(2_000, 500).await;
    rig.crash();
    let between = rig.register(type_id, "between", at(3_000)).await;
    rig.clock.set(at(100_000));
    rig.start();
    rig.pass(10_000, 1000).await;
    assert!(rig.calls().is_empty(), "it is still paused");
    resume(&rig, Scope::Type(type_id)).await;
    rig.pass(2_000, 500).await;
    for timer in [&before, &between] {
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.calls_of(timer.id).len(), 1);
    }
}

/// A type whose timers fail when their key says so, in an engine that pauses it at one in ten of at least twenty.
async fn judging(share: f64) -> (Rig, TypeId) {
    let mut setup = Setup::default();
    setup.config.dispatch.pause_failed_share = share;
    setup.config.dispatch.pause_window = ms(10_000);
    setup.config.dispatch.pause_min = 20;
    let mut rig = Rig::new(setup).await;
    let script = Script::deciding(|expiry| {
        if expiry.key.starts_with("bad") {
            Err(failure(FailureClass::Permanent, "bad"))
        } else {
            Ok(super::rig::close())
        }
    });
    let type_id = rig.put_type("judged", script).await;
    (rig, type_id)
}

/// Lets so many timers expire now, and says what pauses their type then.
async fn expire(rig: &Rig, type_id: TypeId, keys: impl IntoIterator<Item = String>) -> Option<Pause> {
    for key in keys {
        rig.register(type_id, &key, rig.clock.now()).await;
    }
    rig.quiet().await;
    // The pause is written by itself.
    super::rig::a_moment().await;
    rig.catalog.pauses().of(NAMESPACE, type_id, rig.clock.now()).cloned()
}

fn keys(kind: &'static str, span: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    span.map(move |n| format!("{kind}-{n}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_fails_too_often_pauses_itself_and_is_judged_anew_when_resumed() {
    let (rig, type_id) = judging(0.1).await;
    assert_eq!(expire(&rig, type_id, keys("bad", 0..2)).await, None, "two of two are too few to judge by");
    assert_eq!(expire(&rig, type_id, keys("good", 0..18)).await, None, "two of twenty are not more than a tenth");
    rig.clock.advance(ms(100));
    let pause = expire(&rig, type_id, keys("bad", 2..3)).await.expect("three of 21 are");
    assert_eq!((pause.by.as_str(), pause.until), ("lapse", None));
    assert_eq!(pause.reason, "3 of 21 expiries failed within 10s: 14.3%, and the bound is 10.0%");
    let waits = rig.register(type_id, "good-waits", rig.clock.now()).await;
    rig.pass(6_000, 500).await;
    assert_eq!(rig.timer(waits.id).await, waits);

    resume(&rig, Scope::Type(type_id)).await;
    rig.pass(1_000, 500).await;
    rig.reaches(waits.id, State::Closed).await;
    assert_eq!(expire(&rig, type_id, keys("bad", 3..20)).await, None, "what was before counts no more");
    rig.pass(12_000, 1000).await;
    assert_eq!(expire(&rig, type_id, keys("good", 18..38)).await, None);
    assert_eq!(expire(&rig, type_id, keys("bad", 20..22)).await, None, "nor what the window has left behind");
    assert!(expire(&rig, type_id, keys("bad", 22..23)).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_a_persons_is_not_overwritten_and_a_share_of_zero_judges_nothing() {
    let (rig, type_id) = judging(0.0).await;
    assert_eq!(expire(&rig, type_id, keys("bad", 0..60)).await, None);

    let (rig, type_id) = judging(0.1).await;
    expire(&rig, type_id, keys("good", 0..19)).await;
    // Paused by a person on another node, of which this one does not know yet.
    let mine = PutPause {
        scope: Scope::Type(type_id),
        reason: "mine".into(),
        until: Some(at(DAY)),
        by: "key:me".into(),
        only_first: false,
    };
    rig.store.admin(AdminOp::Pause(mine)).await.unwrap();
    let pause = expire(&rig, type_id, keys("bad", 0..3)).await.unwrap();
    assert_eq!((pause.reason.as_str(), pause.by.as_str(), pause.until), ("mine", "key:me", Some(at(DAY))));
}
