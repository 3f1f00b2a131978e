//! Whatever is asked, in whatever order, while the clock steps about: one outcome each, none early, and the
//! compensations of a close exactly once.

use std::collections::HashMap;

use lapse::{
    clock::Clock,
    domain::{
        audit::{Chain, EventKind},
        compensation::CompensationState,
        decision::FailureClass,
        machine::Command,
        time::Timestamp,
        timer::{Due, State, Timer},
    },
    store::op::Act,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::rig::{Rig, Script, Setup, TypeSpec, close_with, eventually, failure, ms, retry, skip};

const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];

fn hash(text: &str) -> u32 {
    text.bytes().fold(7, |h, b| h.wrapping_mul(31).wrapping_add(u32::from(b)))
}

/// Decides by key and attempt, so that every case is met.
fn script() -> Script {
    Script::deciding(|expiry| match (hash(&expiry.key) % 8, expiry.attempt) {
        (0, _) => Ok(skip("not needed")),
        (1, 1) => Err(failure(FailureClass::Transient, "flaky")),
        (2, 1) => Ok(retry(Some(ms(700)))),
        (3, _) => Err(failure(FailureClass::Permanent, "broken")),
        (4, _) => Err(failure(FailureClass::Conflict, "paid")),
        _ => Ok(close_with(&["release", "coupon"])),
    })
    .compensating(|task| {
        let flaky = task.attempt == 1 && hash(&task.idempotency_key).is_multiple_of(3);
        Box::pin(async move { if flaky { Err(failure(FailureClass::Downstream, "away")) } else { Ok(None) } })
    })
}

fn some_command(rng: &mut StdRng, now: Timestamp) -> Command {
    match rng.random_range(0..6) {
        0 => Command::Resolve,
        1 => Command::Cancel,
        2 => Command::Fire,
        3 => Command::Retry,
        _ => Command::Reschedule(Due::At(now.saturating_add(ms(rng.random_range(0..6000))))),
    }
}

async fn one_life(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut rig = Rig::new(Setup { deliveries: 2, ..Setup::default() }).await;
    let pure = rig.put_type("pure", script()).await;
    let effects = rig.put_type("effects", TypeSpec { grants: EFFECTS, ..script().into() }).await;
    let mut timers: Vec<Timer> = Vec::new();
    for round in 0..60 {
        for n in 0..rng.random_range(0..4) {
            let type_id = if rng.random() { pure } else { effects };
            let due = rig.clock.now().saturating_add(ms(rng.random_range(0..8000)));
            timers.push(rig.register(type_id, &format!("{round} {n}"), due).await);
        }
        for _ in 0..rng.random_range(0..3) {
            let Some(timer) = timers.get(rng.random_range(0..timers.len().max(1))) else { continue };
            let act = Act {
                target: Rig::target(timer),
                command: some_command(&mut rng, rig.clock.now()),
                expected_version: None,
                actor: "key:test".into(),
                reason: None,
                message_id: None,
                remember: None,
            };
            rig.store.act(act).await.unwrap();
        }
        match rng.random_range(0..40) {
            0 => rig.clock.set(rig.clock.now().saturating_sub(ms(rng.random_range(0..20_000)))),
            1 => rig.clock.advance(ms(rng.random_range(0..20_000))),
            2 => {
                rig.crash();
                rig.start();
            }
            _ => rig.clock.advance(ms(rng.random_range(0..400))),
        }
        if rng.random_range(0..3) > 0 {
            rig.quiet().await;
        }
    }
    // Until every timer is settled, and every compensation done.
    let furthest = timers.len() * 4 + 200;
    for step in 0.. {
        let mut left = 0;
        for timer in &timers {
            left += usize::from(!rig.timer(timer.id).await.state.is_settled());
        }
        let (pending, running, _) = rig.store.read().compensation_counts(1000).await.unwrap();
        if left == 0 && pending + running == 0 {
            break;
        }
        assert!(step < furthest, "seed {seed}: {left} timers, {pending} compensations are never settled");
        rig.pass(500, 500).await;
    }
    let mut succeeded: HashMap<String, usize> = HashMap::new();
    for call in rig.compensate_calls() {
        let flaky = call.task.attempt == 1 && hash(&call.task.idempotency_key).is_multiple_of(3);
        *succeeded.entry(call.task.idempotency_key).or_default() += usize::from(!flaky);
    }
    for call in rig.calls() {
        assert!(call.expiry.fired_at >= call.expiry.due_at, "seed {seed}: early {call:?}");
    }
    for timer in &timers {
        let timer = rig.timer(timer.id).await;
        let events = rig.events(timer.id).await;
        let what = format!("seed {seed}, {}: {events:#?}", timer.key);
        let finals =
            events.iter().filter(|e| e.state_before != Some(e.state_after) && e.state_after.is_final()).count();
        assert_eq!(finals, usize::from(timer.state.is_final()), "one outcome: {what}");
        if events.iter().any(|e| e.kind == EventKind::Closed) {
            // What was claimed in time may be closed after the clock was set back: the step out of `scheduled` counts.
            let left = events.iter().rev().find(|e| {
                e.state_before == Some(State::Scheduled) && matches!(e.kind, EventKind::Claimed | EventKind::Closed)
            });
            assert!(left.is_some_and(|left| left.at >= timer.due_at), "early: {what}");
        }
        let compensations = rig.compensations(&timer).await;
        assert_eq!(compensations.len(), if timer.state == State::Closed { 2 } else { 0 }, "{what}");
        for made in compensations {
            assert_eq!(made.state, CompensationState::Done, "{what}");
            assert_eq!(succeeded.get(&made.id.to_string()), Some(&1), "{what}");
        }
        let stored = rig.store.read().events(timer.id, 1, 1000).await.unwrap();
        let chain = Chain::new([7; 32]);
        assert_eq!(chain.verify(&timer, stored.iter().map(|e| (e.body.as_str(), &e.mac))), Ok(()), "{what}");
    }
    eventually("nothing in flight", || async { rig.dispatcher().stats().in_flight == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_lives_keep_every_promise() {
    for seed in 0..6 {
        one_life(seed).await;
    }
    // One that nobody has chosen.
    let seed = rand::random();
    one_life(seed).await;
}
