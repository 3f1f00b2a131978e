//! What made a timer fire is known, and undisturbed the backlog has no part in it.

use std::sync::{Arc, mpsc};

use lapse::{
    clock::Clock,
    domain::{
        machine::Command,
        timer::{Due, State, Trigger},
    },
    store::op::{Act, Acted, Inserted},
};
use parking_lot::Mutex;

use super::rig::{Rig, Script, Setup, close_with, eventually, ms};

/// Distances around every edge: the two seconds of arming, the half second of a slot's lead, whole seconds.
const DISTANCES: [u64; 26] = [
    0, 1, 10, 499, 500, 501, 999, 1000, 1001, 1499, 1500, 1501, 1999, 2000, 2001, 2002, 2499, 2500, 2501, 2999, 3000,
    3001, 3499, 4500, 9_999, 10_001,
];

#[tokio::test(flavor = "multi_thread")]
async fn without_the_backlog_every_distance_fires_by_arming_or_by_slot() {
    let mut setup = Setup::default();
    setup.config.dispatch.backlog = false;
    let mut rig = Rig::new(setup).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let mut timers = Vec::new();
    // Where in its second the clock stands when they are registered.
    for phase in [0, 1, 498, 499, 500, 501, 999] {
        let second = rig.clock.now().as_millis().rem_euclid(1000);
        rig.pass(u64::try_from((phase - second).rem_euclid(1000)).unwrap(), 100).await;
        for distance in DISTANCES {
            let due = rig.clock.now().saturating_add(ms(distance));
            let timer = rig.register(type_id, &format!("{phase} {distance}"), due).await;
            timers.push((timer, phase, distance));
        }
    }
    rig.pass(10_600, 100).await;
    for (timer, phase, distance) in timers {
        let what = format!("registered at {phase} ms of a second, {distance} ms ahead");
        assert_eq!(rig.timer(timer.id).await.state, State::Closed, "{what}");
        let trigger = rig.trigger(timer.id).await;
        assert_eq!(trigger, if distance <= 2000 { Trigger::Near } else { Trigger::Slot }, "{what}");
        assert_eq!(rig.calls_of(timer.id).len(), 1, "{what}");
    }
    let stats = rig.dispatcher().stats();
    assert_eq!((stats.left_to_backlog, stats.held, stats.in_flight), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_delivered_again_change_nothing_and_are_counted() {
    let mut rig = Rig::new(Setup { deliveries: 3, ..Setup::default() }).await;
    let type_id = rig.put_type("plain", Script::deciding(|_| Ok(close_with(&["release"])))).await;
    let mut timers = Vec::new();
    for n in 0..20 {
        timers.push(rig.register(type_id, &format!("k{n}"), super::rig::at(3000 + n * 40)).await);
    }
    rig.pass(5000, 100).await;
    for timer in &timers {
        rig.reaches(timer.id, State::Closed).await;
        assert_eq!(rig.calls_of(timer.id).len(), 1);
        assert_eq!(rig.compensations(timer).await.len(), 1);
    }
    let duplicates = rig.dispatcher().stats().duplicates;
    assert!((1..=40).contains(&duplicates), "each timer was delivered twice too often: {duplicates}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_race_is_counted_and_harmless() {
    let mut rig = Rig::new(Setup::default()).await;
    let (deciding, decides) = mpsc::channel();
    let (go, going) = mpsc::channel::<()>();
    let going = Arc::new(Mutex::new(going));
    let script = Script::deciding(move |_| {
        deciding.send(()).unwrap();
        going.lock().recv().unwrap();
        Ok(close_with(&["release"]))
    });
    let type_id = rig.put_type("plain", script).await;
    let timer = rig.register(type_id, "raced", super::rig::at(100)).await;
    rig.clock.advance(ms(100));
    tokio::task::spawn_blocking(move || decides.recv().unwrap()).await.unwrap();
    let resolve = Act {
        target: Rig::target(&timer),
        command: Command::Resolve,
        expected_version: None,
        actor: "key:test".into(),
        reason: None,
        message_id: None,
        remember: None,
    };
    let acted = rig.store.act(resolve).await.unwrap();
    assert!(matches!(acted, Acted::Done(_)), "the timer is still scheduled while a pure decision is made");
    go.send(()).unwrap();
    eventually("the lost race", || async { rig.dispatcher().stats().duplicates == 1 }).await;
    rig.quiet().await;
    let timer = rig.timer(timer.id).await;
    assert_eq!((timer.state, timer.version), (State::Resolved, 2));
    assert!(rig.compensations(&timer).await.is_empty());
}

/// A first try whose answer was lost, with the node that committed it: the second try, at any node, has it held there.
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_that_is_repeated_shortly_before_it_is_due_needs_no_backlog() {
    let mut setup = Setup::default();
    setup.config.dispatch.backlog = false;
    let mut rig = Rig::new(setup).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    // Its slot is read by then.
    rig.pass(3_000, 500).await;
    let new = Rig::new_timer(type_id, "again", Due::At(super::rig::at(3_400)));
    rig.write_unseen(new.clone()).await;
    let Inserted::Same(timer) = rig.store.insert(new).await.unwrap() else { panic!("it is there") };
    rig.pass(400, 100).await;
    rig.reaches(timer.id, State::Closed).await;
    assert_eq!(rig.trigger(timer.id).await, Trigger::Near);
}
