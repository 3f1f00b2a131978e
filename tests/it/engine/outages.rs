//! The store fails while a decision is written: it is written all the same, once, and no plugin is asked twice.

use std::time::Duration;

use lapse::domain::{
    audit::EventKind,
    compensation::CompensationState,
    decision::FailureClass,
    timer::{State, Trigger},
};

use super::{
    rig::{Rig, Script, Setup, TypeSpec, at, close_with, eventually, failure, ms},
    shaky::Trouble::{BrokenAfter, BrokenBefore, Unavailable},
};

const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_written_through_an_outage() {
    for troubles in
        [&[Unavailable, Unavailable][..], &[BrokenBefore], &[BrokenAfter], &[Unavailable, BrokenBefore, BrokenAfter]]
    {
        for grants in [&[][..], EFFECTS] {
            let mut rig = Rig::new(Setup::default()).await;
            let script = Script::deciding(|_| Ok(close_with(&["release"])));
            let type_id = rig.put_type("plain", TypeSpec { grants, ..script.into() }).await;
            let timer = rig.register(type_id, "k", at(100)).await;
            rig.shaky.meets(troubles);
            rig.clock.advance(ms(100));
            let closed = rig.reaches(timer.id, State::Closed).await;
            eventually("nothing in flight", || async { rig.dispatcher().stats().in_flight == 0 }).await;
            let what = format!("{troubles:?} {grants:?}");
            assert_eq!(rig.calls().len(), 1, "{what}");
            rig.event(timer.id, EventKind::Closed).await;
            assert!(rig.shaky.has_met_all(), "{what}");
            assert_eq!(rig.compensations(&closed).await.len(), 1, "{what}");
            assert_eq!(rig.dispatcher().stats().left_to_backlog, 0, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_for_long_is_the_backlogs() {
    let mut rig = Rig::new(Setup::default()).await;
    let type_id = rig.put_type("plain", Script::closing()).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.shaky.meets(&[Unavailable; 100]);
    for _ in 0..16 {
        rig.clock.advance(ms(250));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rig.dispatcher().stats().left_to_backlog, 0, "it may still come back");
    rig.clock.advance(ms(500));
    eventually("it to be left", || async { rig.dispatcher().stats().left_to_backlog == 1 }).await;
    assert_eq!(rig.timer(timer.id).await.version, 1);
    rig.shaky.recovers();
    rig.pass(2000, 500).await;
    rig.reaches(timer.id, State::Closed).await;
    assert_eq!(rig.trigger(timer.id).await, Trigger::Backlog);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_was_committed_unseen_is_armed_all_the_same() {
    let mut setup = Setup::default();
    setup.config.dispatch.backlog = false;
    let mut rig = Rig::new(setup).await;
    let script = Script::deciding(|expiry| {
        if expiry.attempt == 1 { Err(failure(FailureClass::Transient, "flaky")) } else { Ok(close_with(&[])) }
    });
    let type_id = rig.put_type("plain", script).await;
    let timer = rig.register(type_id, "k", at(100)).await;
    rig.shaky.meets(&[BrokenAfter]);
    rig.clock.advance(ms(100));
    eventually("the retry", || async { rig.timer(timer.id).await.attempt == 2 }).await;
    eventually("it to be armed", || async { rig.dispatcher().stats().held == 1 }).await;
    rig.pass(1100, 100).await;
    rig.reaches(timer.id, State::Closed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensations_report_is_written_through_an_outage() {
    for troubles in [&[Unavailable, Unavailable][..], &[BrokenBefore], &[BrokenAfter]] {
        let mut rig = Rig::new(Setup::default()).await;
        let type_id = rig.put_type("plain", Script::deciding(|_| Ok(close_with(&["release"])))).await;
        let timer = rig.register(type_id, "k", at(100)).await;
        rig.clock.advance(ms(99));
        rig.quiet().await;
        let shaky = rig.shaky.clone();
        // The decision passes; its compensation's report does not.
        let trouble = troubles.to_vec();
        rig.host.before_compensating(move || shaky.meets(&trouble));
        rig.clock.advance(ms(1));
        rig.reaches(timer.id, State::Closed).await;
        eventually("it to be done", || async {
            rig.compensations(&timer).await[0].state == CompensationState::Done && rig.lanes().running() == 0
        })
        .await;
        assert!(rig.shaky.has_met_all());
        assert_eq!(rig.compensate_calls().len(), 1, "{troubles:?}");
        rig.event(timer.id, EventKind::CompensationDone).await;
    }
}
