//! Breakers: when a downstream is not called, whose turn comes when, and how it is come back to.

use std::sync::Arc;

use lapse::{
    breaker::{Breakers, Gate, State},
    clock::{Clock as _, ManualClock},
    config::{self, Config},
    domain::time::{DurationMs, Timestamp},
};

const HOST: &str = "stock.example.com:443";

fn secs(s: u64) -> DurationMs {
    DurationMs::from_secs(s)
}

fn rig(change: impl FnOnce(&mut config::Breaker)) -> (Arc<ManualClock>, Breakers) {
    let clock = ManualClock::new(Timestamp::from_millis(1_772_366_400_000).unwrap());
    let mut config = Config::default().breaker;
    change(&mut config);
    (clock.clone(), Breakers::new(config, clock))
}

fn fail(breakers: &Breakers, times: u32) {
    for _ in 0..times {
        breakers.gate("default").admit(HOST).unwrap().failed("no route");
    }
}

fn state(breakers: &Breakers) -> State {
    breakers.snapshot().first().map_or(State::Closed, |s| s.state)
}

/// A run that is refused, and its turn.
fn turn(breakers: &Breakers) -> Timestamp {
    let mut gate = breakers.gate("default");
    assert!(gate.admit(HOST).is_err(), "it is let through");
    gate.deferred().unwrap().until
}

#[test]
fn failures_in_a_row_open_it_for_its_namespace_alone() {
    let (clock, breakers) = rig(|_| {});
    fail(&breakers, 4);
    breakers.gate("default").admit(HOST).unwrap().succeeded();
    fail(&breakers, 4);
    clock.advance(secs(31));
    // Too far apart to be one fault.
    fail(&breakers, 4);
    assert_eq!(state(&breakers), State::Closed);
    fail(&breakers, 1);
    let opened = clock.now();
    let shown = breakers.snapshot().remove(0);
    assert_eq!((shown.state, shown.failures, shown.last_error.as_str()), (State::Open, 5, "no route"));
    assert_eq!((shown.opened_at, shown.until), (Some(opened), Some(opened.saturating_add(secs(5)))));
    let refused = breakers.gate("default").admit(HOST).err().unwrap();
    assert_eq!(refused.to_string(), format!("{HOST} is not called now: it has failed 5 times in a row (no route)"));
    assert!(breakers.gate("default").admit("coupons.example.com:443").is_ok());
    assert!(breakers.gate("other").admit(HOST).is_ok(), "another namespace's calls are its own");
}

/// What is refused comes back one after the other, however much it is.
#[test]
fn what_is_refused_gets_a_turn_at_the_drain_rate() {
    let (clock, breakers) = rig(|c| c.drain_rate = 10);
    fail(&breakers, 5);
    let first = clock.now().saturating_add(secs(5));
    for n in 0..40 {
        assert_eq!(turn(&breakers), first.saturating_add(DurationMs::from_millis(n * 100)));
    }
    // A run that is refused twice has one turn.
    let mut gate = breakers.gate("default");
    assert!(gate.admit(HOST).is_err());
    assert!(gate.admit(HOST).is_err());
    assert_eq!(gate.deferred().unwrap().until, first.saturating_add(secs(4)));
    assert_eq!(breakers.snapshot()[0].next_turn_at, Some(first.saturating_add(DurationMs::from_millis(4100))));
    // However much waits, nothing waits for much more than an hour.
    for _ in 0..40_000 {
        assert!(turn(&breakers) <= first.saturating_add(secs(3601)));
    }
}

#[test]
fn probes_find_out_whether_it_is_back_and_a_failed_one_doubles_the_time() {
    let (clock, breakers) = rig(|c| c.probes = 2);
    fail(&breakers, 5);
    let mut opened = clock.now();
    for seconds in [5, 10, 20, 40, 60, 60] {
        assert_eq!(breakers.snapshot()[0].until, Some(opened.saturating_add(secs(seconds))));
        clock.set(opened.saturating_add(secs(seconds)));
        let probes: Vec<_> = (0..2).map(|_| breakers.gate("default").admit(HOST).unwrap()).collect();
        assert_eq!(state(&breakers), State::HalfOpen);
        turn(&breakers);
        let mut probes = probes.into_iter();
        // One that tells nothing leaves its place to another.
        probes.next().unwrap().gave_up();
        breakers.gate("default").admit(HOST).unwrap().failed("no route");
        opened = clock.now();
        assert_eq!(state(&breakers), State::Open);
        // What the other one finds out late belongs to the past.
        probes.next().unwrap().succeeded();
        assert_eq!(state(&breakers), State::Open);
    }
}

/// Runs that are let through at this moment.
fn let_through(breakers: &Breakers) -> usize {
    let through = |gate: &mut Gate| gate.admit(HOST).map(lapse::breaker::Permit::succeeded).is_ok();
    (0..10_000).take_while(|_| through(&mut breakers.gate("default"))).count()
}

#[test]
fn one_that_is_back_is_let_through_to_at_a_rate_that_rises() {
    let (clock, breakers) = rig(|c| (c.drain_rate, c.probes) = (10, 2));
    fail(&breakers, 5);
    clock.advance(secs(5));
    let (one, other) = (breakers.gate("default").admit(HOST).unwrap(), breakers.gate("default").admit(HOST).unwrap());
    one.succeeded();
    assert_eq!(state(&breakers), State::HalfOpen);
    other.succeeded();
    assert_eq!(state(&breakers), State::Ramping);
    let mut by_five_seconds = Vec::new();
    for _ in 0..6 {
        let mut through = 0;
        for _ in 0..500 {
            through += let_through(&breakers);
            clock.advance(DurationMs::from_millis(10));
        }
        by_five_seconds.push(through);
    }
    for (through, expected) in by_five_seconds.iter().zip([50usize, 100, 200, 400, 800, 1600]) {
        assert!(through.abs_diff(expected) <= 2, "{by_five_seconds:?}");
    }
    assert_eq!(let_through(&breakers), 10_000, "closed again");
    assert_eq!(breakers.snapshot(), []);
}

#[test]
fn a_run_that_was_let_through_goes_on_unless_the_downstream_fails_again() {
    let (clock, breakers) = rig(|c| (c.drain_rate, c.probes) = (1, 1));
    fail(&breakers, 5);
    clock.advance(secs(5));
    let mut run = breakers.gate("default");
    run.admit(HOST).unwrap().succeeded();
    assert_eq!(state(&breakers), State::Ramping);
    let mut second = breakers.gate("default");
    second.admit(HOST).unwrap().succeeded();
    second.admit(HOST).unwrap().succeeded();
    turn(&breakers);
    run.admit(HOST).unwrap().succeeded();
    for _ in 0..5 {
        second.admit(HOST).unwrap().failed("reset");
    }
    assert!(run.admit(HOST).is_err());
    assert_eq!(breakers.snapshot()[0].until, Some(clock.now().saturating_add(secs(10))), "it was away twice");
}

#[test]
fn with_no_bound_none_opens() {
    let (_, breakers) = rig(|c| c.failures = 0);
    fail(&breakers, 1000);
    assert_eq!(breakers.snapshot(), []);
}
