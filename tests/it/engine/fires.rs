//! Never early, never lost, whatever the clock does.

use lapse::{
    clock::Clock,
    domain::{
        audit::EventKind,
        machine::Command,
        timer::{Due, State, Trigger},
    },
    store::op::{Act, Acted},
};

use super::rig::{Rig, Script, Setup, TypeSpec, a_moment, at, close, ms};

const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];

fn act(timer: &lapse::domain::timer::Timer, command: Command) -> Act {
    Act {
        target: Rig::target(timer),
        command,
        expected_version: None,
        actor: "key:test".into(),
        reason: None,
        message_id: None,
        remember: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_fires_at_its_millisecond_and_not_before() {
    let mut rig = Rig::new(Setup::default()).await;
    let pure = rig.put_type("pure", Script::closing()).await;
    let effects = rig.put_type("effects", TypeSpec { grants: EFFECTS, ..Script::closing().into() }).await;
    for type_id in [pure, effects] {
        let start = rig.clock.now();
        let due = start.saturating_add(ms(1234));
        let timer = rig.register(type_id, &format!("k {start}"), due).await;
        for before in [1, 600, 1, 600, 31] {
            rig.clock.advance(ms(before));
            rig.quiet().await;
        }
        assert_eq!(rig.clock.now().saturating_add(ms(1)), due);
        a_moment().await;
        assert_eq!(rig.timer(timer.id).await.state, State::Scheduled);
        assert!(rig.calls_of(timer.id).is_empty(), "not even asked before it is due");

        rig.clock.advance(ms(1));
        rig.reaches(timer.id, State::Closed).await;
        let closed = rig.event(timer.id, EventKind::Closed).await;
        assert_eq!(closed.at, due);
        assert_eq!(rig.calls_of(timer.id).len(), 1);
        assert_eq!(closed.detail["revision"], 1);
        assert!(closed.detail["input"].as_str().unwrap().starts_with("sha256:"));
        assert_eq!(closed.detail["fired_at"], due.to_string());
        assert!(closed.detail["cost"]["cpu_us"].is_u64());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_fires_nothing_early_and_stalls_nothing() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let held = rig.register(type_id, "held", at(1500)).await;
    rig.clock.set(at(1400));
    rig.quiet().await;
    rig.clock.set(at(-3_600_000));
    let after = rig.register(type_id, "after", at(-3_600_000 + 3000)).await;
    rig.pass(2999, 333).await;
    assert_eq!(rig.calls().len(), 0);
    rig.pass(1, 1).await;
    rig.reaches(after.id, State::Closed).await;
    assert_eq!(rig.timer(held.id).await.state, State::Scheduled);
    rig.clock.set(at(1499));
    rig.quiet().await;
    assert_eq!(rig.calls_of(held.id).len(), 0);
    rig.clock.set(at(1500));
    rig.reaches(held.id, State::Closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_leaps_an_hour_loses_nothing() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let mut timers = Vec::new();
    for n in 0..60 {
        timers.push(rig.register(type_id, &format!("k{n}"), at(n * 60_000 + 1)).await);
    }
    rig.clock.advance(ms(3_600_000));
    for timer in &timers {
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.calls_of(timer.id).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_timer_passes_those_that_wait_for_long() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    for n in 0..300 {
        rig.register(type_id, &format!("long {n}"), at(1_800_000)).await;
    }
    let short = rig.insert(Rig::new_timer(type_id, "short", Due::After(ms(1000)))).await;
    rig.pass(1000, 250).await;
    rig.reaches(short.id, State::Closed).await;
    assert_eq!(rig.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reschedule_moves_the_fire_across_every_bound() {
    let mut setup = Setup::default();
    setup.config.dispatch.backlog = false;
    let mut rig = Rig::new(setup).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    // From, to, and what triggers it then; a timer is near within two seconds.
    let moves = [
        (1500, 3500, Trigger::Slot),
        (1500, 1900, Trigger::Near),
        (1500, 700, Trigger::Near),
        (1500, 12_000, Trigger::Slot),
        (20_000, 1000, Trigger::Near),
        (20_000, 2001, Trigger::Slot),
        (2001, 2000, Trigger::Near),
        (3300, 3400, Trigger::Slot),
        (9_999, 10_001, Trigger::Slot),
    ];
    let mut timers = Vec::new();
    for (from, to, trigger) in moves {
        let timer = rig.register(type_id, &format!("{from} to {to}"), at(from)).await;
        let moved = rig.store.act(act(&timer, Command::Reschedule(Due::At(at(to))))).await.unwrap();
        assert!(matches!(moved, Acted::Done(_)), "{moved:?}");
        timers.push((timer, to, trigger));
    }
    rig.pass(12_500, 100).await;
    for (timer, to, trigger) in timers {
        rig.reaches(timer.id, State::Closed).await;
        let closed = rig.event(timer.id, EventKind::Closed).await;
        assert_eq!(closed.trigger, Some(trigger), "moved to {to}");
        assert!(closed.at >= at(to));
        assert_eq!(rig.calls_of(timer.id).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_by_hand_fires_at_once() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::deciding(|_| Ok(close()))).await;
    let timer = rig.register(type_id, "far", at(1_800_000)).await;
    rig.clock.advance(ms(10));
    rig.store.act(act(&timer, Command::Fire)).await.unwrap();
    rig.reaches(timer.id, State::Closed).await;
    assert_eq!(rig.trigger(timer.id).await, Trigger::Manual);
    let call = rig.calls_of(timer.id).remove(0);
    assert_eq!((call.expiry.trigger, call.expiry.due_at), (Trigger::Manual, at(10)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stores_clock_has_the_last_word_on_what_is_early() {
    for grants in [&[][..], EFFECTS] {
        let mut rig = Rig::new(Setup { store_behind: ms(300), ..Setup::default() }).await;
        let type_id = rig.put_type("plain", TypeSpec { grants, ..Script::closing().into() }).await;
        let timer = rig.register(type_id, "k", at(1000)).await;
        // The engine's clock has come to the timer's time, and passes it; the store's has not.
        rig.store_clock.set(at(999));
        for _ in 0..100 {
            rig.clock.advance(ms(13));
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        a_moment().await;
        assert_eq!(rig.timer(timer.id).await.version, 1);
        rig.store_clock.set(at(1000));
        rig.clock.advance(ms(13));
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.event(timer.id, EventKind::Closed).await.at, at(1000));
        if !grants.is_empty() {
            assert_eq!(rig.calls_of(timer.id).len(), 1, "what has effects is not even asked before");
        }
    }
}
