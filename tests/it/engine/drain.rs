//! A stop finishes what it can, and gives up the rest so that another takes it at once.

use std::sync::Arc;

use lapse::{
    clock::Clock,
    delivery::Slot,
    domain::{compensation::CompensationState, time::DurationMs, timer::State},
};
use tokio::sync::Semaphore;

use super::rig::{Rig, Script, Setup, TypeSpec, at, close, close_with, eventually, ms};

const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];
const LONG: DurationMs = DurationMs::from_secs(10);
const SHORT: DurationMs = DurationMs::from_millis(100);

/// A type whose calls wait for a permit.
async fn gated(rig: &mut Rig) -> (lapse::domain::id::TypeId, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let script = Script::closing().with_effects(move |_| {
        let gate = Arc::clone(&held);
        Box::pin(async move {
            let _passed = gate.acquire().await;
            Ok(close())
        })
    });
    let type_id = rig.put_type("gated", TypeSpec { grants: EFFECTS, ..script.into() }).await;
    (type_id, gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_or_is_armed_here_is_finished_and_slots_are_left() {
    let mut rig = Rig::new(Setup::default()).await;
    let (gated, gate) = gated(&mut rig).await;
    let plain = rig.put_type("plain", Script::closing()).await;
    let running = rig.register(gated, "running", at(100)).await;
    let armed = rig.register(plain, "armed", at(1500)).await;
    let far = rig.register(plain, "far", at(3000)).await;
    rig.clock.advance(ms(100));
    rig.reaches(running.id, State::Firing).await;
    let dispatcher = rig.dispatcher().clone();
    let drained = tokio::spawn(async move { dispatcher.drain(LONG).await });
    gate.add_permits(1);
    rig.reaches(running.id, State::Closed).await;
    rig.clock.set(at(1500));
    rig.reaches(armed.id, State::Closed).await;
    drained.await.unwrap();
    rig.clock.set(at(3000));
    super::rig::a_moment().await;
    assert_eq!(rig.timer(far.id).await.state, State::Scheduled, "another node's, or the next start's");
    rig.start();
    rig.reaches(far.id, State::Closed).await;
}

/// A slot that is acknowledged by a node that stops would be nobody's: its timers would wait for the backlog.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_whose_timers_have_not_started_is_given_back_and_not_closed() {
    let mut rig = Rig::new(Setup::default()).await;
    let plain = rig.put_type("plain", Script::closing()).await;
    let waiting = rig.register(plain, "waiting", at(3400)).await;
    rig.pass(3000, 500).await;
    eventually("the slot to be read", || async { rig.dispatcher().stats().held == 1 }).await;
    rig.dispatcher().clone().drain(SHORT).await;
    let slot = Slot { shard: waiting.shard(), second: at(3400).second() };
    let closed = rig.closed.lock().clone();
    assert_eq!(closed.given_back, [slot]);
    assert!(!closed.done.contains(&slot), "its timers are scheduled still");
    rig.crash();
    super::rig::a_moment().await;
    assert!(!rig.closed.lock().done.contains(&slot));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlasts_the_bound_is_given_up_without_burning_an_attempt() {
    let mut rig = Rig::new(Setup::default()).await;
    let (gated, gate) = gated(&mut rig).await;
    let timer = rig.register(gated, "long", at(100)).await;
    rig.clock.advance(ms(100));
    eventually("the call", || async { rig.calls().len() == 1 }).await;
    rig.dispatcher().clone().drain(SHORT).await;
    let given_up = rig.timer(timer.id).await;
    assert_eq!((given_up.state, given_up.attempt), (State::Scheduled, 1));
    assert_eq!(given_up.run_at, Some(rig.clock.now()));
    gate.add_permits(10);
    super::rig::a_moment().await;
    assert_eq!(rig.timer(timer.id).await.state, State::Scheduled, "the call was broken off");
    rig.start();
    let closed = rig.reaches(timer.id, State::Closed).await;
    assert_eq!(closed.attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensation_that_outlasts_the_bound_is_given_up_too() {
    let mut rig = Rig::new(Setup::default()).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let script = Script::deciding(|_| Ok(close_with(&["release"]))).compensating(move |_| {
        let gate = Arc::clone(&held);
        Box::pin(async move {
            let _passed = gate.acquire().await;
            Ok(None)
        })
    });
    let type_id = rig.put_type("plain", script).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.clock.advance(ms(100));
    rig.reaches(timer.id, State::Closed).await;
    eventually("the run", || async { rig.compensate_calls().len() == 1 }).await;
    rig.lanes().clone().drain(SHORT).await;
    let waiting = rig.compensations(&timer).await.remove(0);
    assert_eq!((waiting.state, waiting.attempt), (CompensationState::Pending, 1));
    rig.crash();
    gate.add_permits(10);
    rig.start();
    eventually("it to be done", || async { rig.compensations(&timer).await[0].state == CompensationState::Done }).await;
}
