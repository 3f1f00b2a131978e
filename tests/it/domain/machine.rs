//! The state machine under any sequence of commands, and any movement of the clock.

use lapse::domain::{
    audit::EventKind,
    decision::{Failure, FailureClass},
    id::{NamespaceId, TimerId, TypeId},
    machine::{Change, Command, MAX_LAPSES, Refusal, Settle, step},
    time::{DurationMs, Timestamp},
    timer::{Due, Origin, State, Timer},
};
use proptest::prelude::*;

const NOON: i64 = 1_772_366_400_000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis_clamped(ms)
}

fn registered(due_in: i64) -> Timer {
    let due_at = at(NOON + due_in);
    Timer {
        id: TimerId::new(),
        namespace_id: NamespaceId(1),
        type_id: TypeId(1),
        key: "A17".parse().unwrap(),
        payload: "{}".into(),
        labels: std::collections::BTreeMap::default(),
        state: State::Scheduled,
        due_at,
        run_at: Some(due_at.max(at(NOON))),
        attempt: 1,
        lapses: 0,
        version: 1,
        revision: 1,
        pinned: false,
        manual: false,
        depth: 0,
        created_at: at(NOON),
        settled_at: None,
        outcome: None,
        origin: Origin { actor: "key:test".into(), due_at, fingerprint: None, message_id: None },
        head: [0; 32],
    }
}

fn apply(timer: &Timer, change: Change) -> Timer {
    Timer {
        state: change.state,
        due_at: change.due_at,
        run_at: change.run_at,
        attempt: change.attempt,
        lapses: change.lapses,
        manual: change.manual,
        settled_at: change.settled_at,
        outcome: change.outcome,
        version: timer.version + 1,
        ..timer.clone()
    }
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![
        (-10_000..10_000i64).prop_map(|ms| Due::At(at(NOON + ms))),
        (0..10_000u64).prop_map(|ms| Due::After(DurationMs::from_millis(ms))),
        Just(Due::After(DurationMs::MAX)),
        any::<u64>().prop_map(|ms| Due::After(DurationMs::from_millis(ms))),
    ]
}

fn settle() -> impl Strategy<Value = Settle> {
    let failure = || Failure::new(FailureClass::Transient, "test", "test");
    let moment = -10_000..20_000i64;
    prop_oneof![
        Just(Settle::Close { result: Some("{\"a\":1}".into()) }),
        Just(Settle::Skip { reason: "paid".into(), failure: None }),
        moment.clone().prop_map(move |ms| Settle::Retry { at: at(NOON + ms), reason: "busy".into(), failure: None }),
        (moment, any::<bool>()).prop_map(|(ms, ran)| Settle::Release { at: at(NOON + ms), reason: "stop".into(), ran }),
        Just(Settle::Fail { failure: failure() }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        1 => Just(Command::Resolve),
        1 => Just(Command::Cancel),
        2 => due().prop_map(Command::Reschedule),
        2 => Just(Command::Fire),
        2 => Just(Command::Retry),
        4 => prop_oneof![0..5_000u64, any::<u64>()].prop_map(|ms| Command::Claim { lease: DurationMs::from_millis(ms) }),
        4 => settle().prop_map(Command::Settle),
    ]
}

/// What must hold of any timer at any time.
fn holds(timer: &Timer) -> Result<(), TestCaseError> {
    prop_assert_eq!(timer.run_at.is_none(), timer.state.is_settled(), "no run_at if and only if settled");
    prop_assert_eq!(timer.settled_at.is_some(), timer.state.is_settled());
    prop_assert!(timer.lapses < MAX_LAPSES);
    prop_assert!(timer.attempt >= 1);
    Ok(())
}

fn leaves_by_expiry(command: &Command) -> bool {
    matches!(command, Command::Claim { .. } | Command::Settle(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_hold_in_any_interleaving(
        due_in in -5_000..5_000i64,
        steps in prop::collection::vec((command(), -3_000..8_000i64), 1..40),
    ) {
        let mut timer = registered(due_in);
        let mut now = NOON;
        for (command, moved) in steps {
            // The clock moves either way.
            now += moved;
            let before = timer.clone();
            match step(&timer, &command, at(now)) {
                Ok(change) => {
                    prop_assert!(!before.state.is_final(), "nothing leaves a final state: {command:?}");
                    if before.state == State::Scheduled && leaves_by_expiry(&command) {
                        prop_assert!(before.due_at <= at(now), "never early: {command:?}");
                        prop_assert!(before.run_at.unwrap() <= at(now), "nor before the next try: {command:?}");
                    }
                    if before.state == State::Firing {
                        prop_assert!(leaves_by_expiry(&command), "only its decision, or a lapse, ends a claim");
                    }
                    if change.kind == EventKind::LeaseLapsed {
                        prop_assert!(before.run_at.unwrap() <= at(now), "a lease that holds is not taken over");
                    }
                    if let Some(run_at) = change.run_at {
                        prop_assert!(run_at >= at(now), "run_at is never written in the past");
                    }
                    let moves_due = matches!(command, Command::Reschedule(_) | Command::Fire);
                    prop_assert!(moves_due || change.due_at == before.due_at, "only these move the due time");
                    prop_assert!(change.attempt <= before.attempt + 1);
                    timer = apply(&timer, change);
                }
                Err(refusal) => {
                    let settled_so = matches!(
                        (&command, before.state),
                        (Command::Resolve, State::Resolved) | (Command::Cancel, State::Cancelled)
                    );
                    prop_assert_eq!(refusal == Refusal::Same, settled_so);
                    if refusal == Refusal::TooLate {
                        prop_assert!(before.state.is_final(), "too late is said of a final state only");
                    }
                }
            }
            holds(&timer)?;
        }
    }

    /// However often, and in whichever order, a resolve and decisions that close are tried: one of them happens, once.
    #[test]
    fn one_of_resolve_and_close_wins(
        order in prop::collection::vec((any::<bool>(), 0..2_000i64), 2..20), claimed in any::<bool>(),
    ) {
        let mut timer = registered(1_000);
        let mut now = NOON;
        let mut ends = Vec::new();
        for (resolves, later) in order {
            now += later;
            if claimed && let Ok(change) = step(&timer, &Command::Claim { lease: DurationMs::from_secs(60) }, at(now)) {
                timer = apply(&timer, change);
            }
            let command = if resolves { Command::Resolve } else { Command::Settle(Settle::Close { result: None }) };
            match step(&timer, &command, at(now)) {
                Ok(change) => {
                    ends.push(change.state);
                    timer = apply(&timer, change);
                }
                Err(Refusal::Firing | Refusal::Early) => prop_assert!(ends.is_empty()),
                Err(_) => prop_assert_eq!(ends.len(), 1),
            }
        }
        prop_assert!(ends.len() <= 1);
        prop_assert_eq!(ends.last().copied().unwrap_or(timer.state), timer.state);
    }

    /// A command changes nothing by being asked twice at once: the second finds the first's result.
    #[test]
    fn resolving_twice_is_the_same(due_in in -5_000..5_000i64, cancels in any::<bool>()) {
        let timer = registered(due_in);
        let command = if cancels { Command::Cancel } else { Command::Resolve };
        let other = if cancels { Command::Resolve } else { Command::Cancel };
        let settled = apply(&timer, step(&timer, &command, at(NOON)).unwrap());
        prop_assert_eq!(step(&settled, &command, at(NOON)), Err(Refusal::Same));
        prop_assert_eq!(step(&settled, &other, at(NOON)), Err(Refusal::TooLate));
    }
}

#[test]
fn counters_do_not_overflow() {
    let mut timer = registered(0);
    timer.attempt = u32::MAX;
    let retry = Command::Settle(Settle::Retry { at: Timestamp::MAX, reason: "again".into(), failure: None });
    let change = step(&timer, &retry, at(NOON)).unwrap();
    assert_eq!((change.attempt, change.run_at), (u32::MAX, Some(Timestamp::MAX)));
    let claim = Command::Claim { lease: DurationMs::from_millis(u64::MAX) };
    assert_eq!(step(&timer, &claim, at(NOON)).unwrap().run_at, Some(Timestamp::MAX));
}

#[test]
fn the_fifth_lapse_in_a_row_is_poison() {
    let mut timer = registered(0);
    let claim = Command::Claim { lease: DurationMs::from_secs(1) };
    let mut now = NOON;
    for lapses in 0..MAX_LAPSES {
        let change = step(&timer, &claim, at(now)).unwrap();
        assert_eq!((change.state, change.lapses), (State::Firing, lapses));
        timer = apply(&timer, change);
        now += 1_000;
    }
    let change = step(&timer, &claim, at(now)).unwrap();
    assert_eq!((change.state, change.kind), (State::Failed, EventKind::Failed));
    assert!(change.outcome.unwrap().contains("poison"));
    // A decision in between starts the count anew.
    let retry = Command::Settle(Settle::Retry { at: at(now), reason: "again".into(), failure: None });
    assert_eq!(step(&timer, &retry, at(now)).unwrap().lapses, 0);
}

#[test]
fn lapses_count_only_in_a_row() {
    let lapsed = Timer { state: State::Firing, run_at: Some(at(NOON)), lapses: 2, ..registered(0) };
    let after = |command: &Command, timer: &Timer| step(timer, command, at(NOON + 1)).unwrap().lapses;
    let release = |ran| Command::Settle(Settle::Release { at: at(NOON), reason: "away".into(), ran });
    assert_eq!(after(&release(true), &lapsed), 0, "the node outlived it");
    assert_eq!(after(&release(false), &lapsed), 2, "it was not run");
    let waiting = Timer { state: State::Scheduled, ..lapsed };
    assert_eq!(after(&Command::Fire, &waiting), 0);
    assert_eq!(after(&Command::Reschedule(Due::At(at(NOON + 5))), &waiting), 0);
}
