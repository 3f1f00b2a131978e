//! A type that hangs, times out or floods is its own trouble.

use std::sync::{
    Arc, Condvar, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use lapse::domain::{
    decision::FailureClass,
    timer::{State, Timer},
};
use tokio::sync::Semaphore;

use super::rig::{Rig, Script, Setup, TypeSpec, a_moment, at, close, eventually, failure, ms};

const EFFECTS: &[&str] = &["on-expire:http:127.0.0.1"];

/// Holds every call back until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let (open, opened) = &*self.0;
        let _open = opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap();
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A failing test must not leave threads behind that wait for ever.
impl Drop for Gate {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) <= 2 {
            self.open();
        }
    }
}

async fn registered(rig: &Rig, type_id: lapse::domain::id::TypeId, count: usize) -> Vec<Timer> {
    let mut timers = Vec::new();
    for n in 0..count {
        timers.push(rig.register(type_id, &format!("k{n}"), at(100)).await);
    }
    timers
}

#[tokio::test(flavor = "multi_thread")]
async fn looping_pure_types_leave_threads_to_the_others() {
    let mut rig = Rig::new(Setup::default()).await;
    let gate = Gate::default();
    let mut looping = Vec::new();
    // Two types that loop, on two threads. Each call ends as the host ends it: with a timeout.
    for name in ["loop-a", "loop-b"] {
        let gate = gate.clone();
        let first = AtomicUsize::new(0);
        let script = Script::deciding(move |_| {
            if first.fetch_add(1, Ordering::Relaxed) > 0 {
                gate.pass();
            }
            Err(failure(FailureClass::Transient, "timeout"))
        });
        let type_id = rig.put_type(name, script).await;
        looping.extend(registered(&rig, type_id, 20).await);
    }
    rig.clock.advance(ms(100));
    // Each has timed out once, and now hangs.
    eventually("both to loop", || async { rig.calls().len() >= 3 }).await;
    let healthy = rig.put_type("healthy", Script::closing()).await;
    for timer in registered(&rig, healthy, 30).await {
        rig.reaches(timer.id, State::Closed).await;
    }
    let undecided = rig.dispatcher().stats().in_flight;
    assert!(undecided >= 30, "the looping types still have their timers in hand: {undecided}");
    gate.open();
    eventually("the rest to be decided", || async { rig.dispatcher().stats().in_flight == 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_with_effects_that_hang_fill_their_own_lane_only() {
    let mut rig = Rig::new(Setup::default()).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let script = Script::closing().with_effects(move |_| {
        let gate = Arc::clone(&held);
        Box::pin(async move {
            let _passed = gate.acquire().await;
            Ok(close())
        })
    });
    let spec = TypeSpec { grants: EFFECTS, concurrency: Some(3), ..script.into() };
    let hanging = rig.put_type("hanging", spec).await;
    let healthy = rig.put_type("healthy", TypeSpec { grants: EFFECTS, ..Script::closing().into() }).await;
    let stuck = registered(&rig, hanging, 10).await;
    let fine = registered(&rig, healthy, 10).await;
    rig.clock.advance(ms(100));
    for timer in fine {
        rig.reaches(timer.id, State::Closed).await;
    }
    a_moment().await;
    let mut firing = 0;
    for timer in &stuck {
        firing += usize::from(rig.timer(timer.id).await.state == State::Firing);
    }
    assert_eq!(firing, 3, "as many as the type may run at once, and the others unclaimed");
    gate.add_permits(100);
    for timer in &stuck {
        rig.reaches(timer.id, State::Closed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_whose_calls_time_out_narrows_and_widens_again() {
    let mut rig = Rig::new(Setup::default()).await;
    let script = Script::deciding(|expiry| match expiry.key.as_str() {
        key if key.starts_with("slow") => Err(failure(FailureClass::Permanent, "timeout")),
        _ => Ok(close()),
    });
    let spec = TypeSpec { grants: EFFECTS, concurrency: Some(8), ..script.into() };
    let type_id = rig.put_type("plain", spec).await;
    let width = |rig: &Rig| rig.dispatcher().stats().lanes.iter().find(|l| l.type_id == type_id).map(|l| l.width);
    for n in 0..9 {
        rig.register(type_id, &format!("slow {n}"), at(100)).await;
    }
    rig.clock.advance(ms(100));
    rig.quiet().await;
    assert_eq!(width(&rig), Some(1));
    for n in 0..48 {
        rig.register(type_id, &format!("fine {n}"), at(100)).await;
    }
    rig.quiet().await;
    assert!(matches!(width(&rig), None | Some(8)), "as wide as ever: {:?}", width(&rig));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_bounds_the_starts_of_each_second() {
    for grants in [&[][..], EFFECTS] {
        let mut rig = Rig::new(Setup::default()).await;
        let spec = TypeSpec { grants, rate: Some(20), ..Script::closing().into() };
        let type_id = rig.put_type("rated", spec).await;
        registered(&rig, type_id, 100).await;
        rig.clock.advance(ms(100));
        eventually("the first start", || async { !rig.calls().is_empty() }).await;
        a_moment().await;
        assert!(rig.calls().len() <= 2, "{}", rig.calls().len());
        for _ in 0..15 {
            let before = rig.calls().len();
            rig.clock.advance(ms(100));
            // A tenth of a second is worth two tokens, and no more are saved up.
            eventually("what the rate allows", || async { rig.calls().len() > before }).await;
            a_moment().await;
            let started = rig.calls().len() - before;
            assert!(started <= 4, "{started} in 100 ms, with what the step before left");
        }
        assert!(rig.calls().len() <= 2 + 15 * 2, "{}", rig.calls().len());
    }
}
