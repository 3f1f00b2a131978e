//! What nobody has in hand is found again.

use std::sync::Arc;

use lapse::{
    clock::Clock,
    domain::{
        audit::EventKind,
        time::DurationMs,
        timer::{State, Trigger},
    },
};

use super::rig::{Rig, Script, Setup, Stuck, TypeSpec, a_moment, at, close, close_with, eventually, ms, skip};

const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];

#[tokio::test(flavor = "multi_thread")]
async fn what_came_due_while_no_node_ran_fires_at_the_start() {
    let mut rig = Rig::without_engine(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let mut overdue = Vec::new();
    for n in 0..50 {
        overdue.push(rig.register(type_id, &format!("k{n}"), at(n * 1000)).await);
    }
    let recent = rig.register(type_id, "recent", at(3_600_000 - 2500)).await;
    rig.clock.set(at(3_600_000));
    rig.start();
    for timer in &overdue {
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.trigger(timer.id).await, Trigger::Backlog);
        let kinds: Vec<_> = rig.events(timer.id).await.iter().map(|e| e.kind).collect();
        assert_eq!(kinds, [EventKind::Registered, EventKind::Claimed, EventKind::Closed]);
        assert_eq!(rig.calls_of(timer.id).len(), 1);
    }
    rig.reaches(recent.id, State::Closed).await;
    assert_eq!(rig.trigger(recent.id).await, Trigger::Slot, "the delivery looks back a few seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_holder_refuses_comes_from_the_backlog() {
    let mut setup = Setup::default();
    setup.config.dispatch.holder = 5;
    let mut rig = Rig::new(setup).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let mut timers = Vec::new();
    for n in 0..20 {
        timers.push(rig.register(type_id, &format!("k{n}"), at(1000)).await);
    }
    assert_eq!(rig.dispatcher().stats().held, 5);
    assert_eq!(rig.dispatcher().stats().left_to_backlog, 15);
    rig.pass(1000, 500).await;
    rig.pass(6000, 500).await;
    let mut triggers = std::collections::HashMap::new();
    for timer in &timers {
        rig.reaches(timer.id, State::Closed).await;
        *triggers.entry(rig.trigger(timer.id).await).or_insert(0) += 1;
    }
    assert_eq!(triggers[&Trigger::Near], 5);
    assert_eq!(triggers[&Trigger::Backlog], 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_drains_at_the_chosen_rate_while_fresh_ones_are_on_time() {
    let mut setup = Setup::default();
    // Ten a second are this node's part.
    setup.config.dispatch.drain_rate = 40;
    setup.nodes = 4;
    let mut rig = Rig::without_engine(setup).await;
    let old = rig.put_type("old", TypeSpec { grants: EFFECTS, ..Script::closing().into() }).await;
    for n in 0..100 {
        rig.register(old, &format!("k{n}"), at(n)).await;
    }
    rig.clock.set(at(3_600_000));
    rig.start();
    let mut fresh = Vec::new();
    for n in 1..=3 {
        fresh.push(rig.register(old, &format!("fresh {n}"), at(3_600_000 + n * 1000)).await);
    }
    rig.quiet().await;
    for n in 1..=3usize {
        rig.pass(1000, 100).await;
        let timer = &fresh[n - 1];
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.event(timer.id, EventKind::Closed).await.at, timer.due_at, "on time");
        let drained = rig.calls().iter().filter(|c| c.expiry.trigger == Trigger::Backlog).count();
        assert!((n * 5..=n * 10 + 2).contains(&drained), "{drained} after {n} s");
    }
    let keys: Vec<_> =
        rig.calls().iter().filter(|c| c.expiry.trigger == Trigger::Backlog).map(|c| c.expiry.due_at).collect();
    assert_eq!(keys.iter().max().map(|at| at.as_millis() < super::rig::START + 40), Some(true), "oldest first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lapsed_lease_is_taken_over_and_the_first_run_changes_nothing() {
    let mut setup = Setup::default();
    setup.config.dispatch.lease = ms(10_000);
    let mut rig = Rig::new(setup).await;
    let stuck = Arc::new(Stuck::default());
    let held = Arc::clone(&stuck);
    let script = Script::closing().with_effects(move |expiry| {
        let stuck = Arc::clone(&held);
        Box::pin(async move {
            if expiry.attempt == 1 {
                stuck.hold();
                return Ok(close_with(&["first"]));
            }
            Ok(skip("second"))
        })
    });
    let type_id = rig.put_type("plain", TypeSpec { grants: EFFECTS, ..script.into() }).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.clock.advance(ms(100));
    rig.reaches(timer.id, State::Firing).await;
    eventually("the first run", || async { rig.calls().len() == 1 }).await;
    rig.crash();
    rig.start();
    rig.pass(9_900, 500).await;
    assert_eq!(rig.calls().len(), 1, "the lease is another's until it lapses");
    rig.pass(1000, 500).await;
    rig.reaches(timer.id, State::Skipped).await;
    stuck.free();
    super::rig::a_moment().await;
    rig.quiet().await;
    let timer = rig.timer(timer.id).await;
    assert_eq!((timer.state, timer.attempt), (State::Skipped, 2));
    assert!(rig.compensations(&timer).await.is_empty());
    let kinds: Vec<_> = rig.events(timer.id).await.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [EventKind::Registered, EventKind::Claimed, EventKind::LeaseLapsed, EventKind::Skipped]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_takes_its_node_down_five_times_is_set_aside() {
    let mut setup = Setup::default();
    setup.config.dispatch.lease = ms(1000);
    let mut rig = Rig::new(setup).await;
    let stuck = Arc::new(Stuck::default());
    let held = Arc::clone(&stuck);
    let script = Script::closing().with_effects(move |_| {
        let stuck = Arc::clone(&held);
        Box::pin(async move {
            stuck.hold();
            Ok(close())
        })
    });
    let type_id = rig.put_type("plain", TypeSpec { grants: EFFECTS, ..script.into() }).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.clock.advance(ms(100));
    for run in 1..=5 {
        eventually("its run", || async { rig.calls().len() == run }).await;
        rig.crash();
        rig.clock.advance(DurationMs::from_secs(10));
        rig.start();
    }
    let timer = rig.reaches(timer.id, State::Failed).await;
    assert_eq!(rig.calls().len(), 5);
    let outcome: serde_json::Value = serde_json::from_str(timer.outcome.as_deref().unwrap()).unwrap();
    assert_eq!(outcome["failure"]["class"], "poison");
    stuck.free();
    assert!(timer.run_at.is_none() && rig.clock.now() > timer.due_at);
}

/// Another node takes it over at its lease's end: none of a run's effects may come after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_broken_off_before_its_lease_ends() {
    let mut setup = Setup::default();
    setup.config.dispatch.lease = ms(10_000);
    let mut rig = Rig::new(setup).await;
    let script = Script::closing().with_effects(|expiry| {
        Box::pin(async move { if expiry.attempt == 1 { std::future::pending().await } else { Ok(skip("second")) } })
    });
    let type_id = rig.put_type("plain", TypeSpec { grants: EFFECTS, ..script.into() }).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.clock.advance(ms(100));
    rig.reaches(timer.id, State::Firing).await;
    eventually("its run", || async { rig.calls().len() == 1 }).await;
    rig.clock.advance(ms(9_000));
    a_moment().await;
    assert_eq!(rig.timer(timer.id).await.state, State::Firing, "it has some of its lease");
    rig.clock.advance(ms(600));
    eventually("its end", || async { rig.timer(timer.id).await.state == State::Scheduled }).await;
    let retry = rig.event(timer.id, EventKind::RetryScheduled).await;
    assert_eq!(retry.detail["failure"]["code"], "timeout", "{}", retry.detail);
    assert!(retry.at < at(10_100), "before the lease's end");
    rig.pass(30_000, 500).await;
    rig.reaches(timer.id, State::Skipped).await;
}
