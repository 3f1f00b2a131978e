//! Actions, and who wins.

use std::sync::Arc;

use lapse::{
    domain::{
        id::{NamespaceId, TimerId},
        machine::Command,
        timer::{Due, State, Timer},
    },
    store::op::{Acted, Inserted, Remember, Settled, Target},
};

use crate::store::bed::{Bed, act, act_by_id, close, compensation, key, kinds, ms, secs, settlement};

pub async fn actions_answer_with_the_state_they_find(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(60))).await;
    let by_key = Target::Key { type_id: bed.type_id, key: timer.key.clone() };
    let resolved = bed.store.act(act(by_key, Command::Resolve)).await.unwrap();
    assert!(matches!(&resolved, Acted::Done(t) if (t.state, t.version, t.run_at) == (State::Resolved, 2, None)));
    assert!(matches!(bed.act(&timer, Command::Resolve).await, Acted::Same(t) if t.version == 2));
    for command in [Command::Cancel, Command::Fire, Command::Retry, Command::Reschedule(Due::After(secs(1)))] {
        assert!(matches!(bed.act(&timer, command).await, Acted::TooLate(t) if t.state == State::Resolved));
    }
    let scheduled = bed.register("B", Due::After(secs(60))).await;
    assert!(matches!(bed.act(&scheduled, Command::Retry).await, Acted::WrongState(_)));
    let nobody = Target::Key { type_id: bed.type_id, key: key("nobody") };
    assert!(matches!(bed.store.act(act(nobody, Command::Cancel)).await.unwrap(), Acted::NotFound));
    let events = bed.events(timer.id).await;
    assert_eq!(kinds(&events), ["registered", "resolved"]);
    assert_eq!((events[1].event.actor.as_str(), &events[1].event.detail["reason"]), ("key:test", &"paid".into()));
}

pub async fn an_expected_version_guards_an_action(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(60))).await;
    let mut stale = act_by_id(&timer, Command::Cancel);
    stale.expected_version = Some(timer.version + 1);
    assert!(matches!(bed.store.act(stale.clone()).await.unwrap(), Acted::VersionConflict(t) if t == timer));
    stale.expected_version = Some(timer.version);
    assert!(matches!(bed.store.act(stale).await.unwrap(), Acted::Done(_)));
}

pub async fn another_namespace_s_timer_is_not_found(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(60))).await;
    let target = Target::Id { namespace_id: NamespaceId(timer.namespace_id.0 + 1), id: timer.id };
    assert!(matches!(bed.store.act(act(target, Command::Cancel)).await.unwrap(), Acted::NotFound));
    assert_eq!(bed.timer(timer.id).await, timer);
}

pub async fn rescheduling_and_firing_move_the_due_time(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(60))).await;
    let Acted::Done(later) = bed.act(&timer, Command::Reschedule(Due::After(secs(120)))).await else { panic!() };
    let due_at = bed.now().saturating_add(secs(120));
    assert_eq!((later.due_at, later.run_at), (due_at, Some(due_at)));
    assert!(bed.due_keys(&timer, timer.due_at, due_at).await.is_empty(), "the old time is forgotten");
    bed.clock.set(timer.due_at);
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Moved(_)));
    assert!(matches!(bed.settle(&later, close()).await, Settled::Early(_)));
    let past = Command::Reschedule(Due::At(bed.now().saturating_sub(secs(10))));
    let Acted::Done(past) = bed.act(&timer, past).await else { panic!() };
    assert_eq!(past.run_at, Some(bed.now()), "never in the past");
    let far = Command::Reschedule(Due::After(lapse::domain::time::DurationMs::MAX));
    assert!(matches!(bed.act(&timer, far).await, Acted::OutOfRange));
    let Acted::Done(fired) = bed.act(&timer, Command::Fire).await else { panic!() };
    assert_eq!((fired.due_at, fired.run_at, fired.manual), (bed.now(), Some(bed.now()), true));
    assert_eq!(kinds(&bed.events(timer.id).await), ["registered", "rescheduled", "rescheduled", "fire_requested"]);
    assert_eq!(fired.origin.due_at, timer.due_at);
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

/// Every timer is resolved, cancelled and closed at once, from many tasks: exactly one of them wins.
pub async fn resolve_or_close_but_never_both(bed: Bed) {
    let bed = Arc::new(bed);
    let mut timers = Vec::new();
    for n in 0..60 {
        timers.push(bed.register(&format!("k{n}"), Due::After(secs(1))).await);
    }
    bed.clock.advance(secs(1));
    let mut tasks = Vec::new();
    for (n, timer) in timers.iter().enumerate() {
        for order in 0..3 {
            let (bed, timer) = (Arc::clone(&bed), timer.clone());
            // By turns, another one goes first.
            tasks.push(tokio::spawn(async move { (timer.id, contend(&bed, &timer, (n + order) % 3).await) }));
        }
    }
    let mut winners = std::collections::HashMap::<TimerId, Vec<State>>::new();
    for task in tasks {
        let (id, won) = task.await.unwrap();
        winners.entry(id).or_default().extend(won);
    }
    for timer in &timers {
        let now = bed.timer(timer.id).await;
        assert_eq!(winners[&timer.id], [now.state], "one winner, and it is what is stored");
        let made = kinds(&bed.events(timer.id).await).iter().filter(|k| *k == "compensation_created").count();
        assert_eq!(made, usize::from(now.state == State::Closed));
        assert_eq!(bed.verify(timer.id).await, Ok(()));
    }
}

/// One contender; what it made of the timer, if it won. Who lost is told a final state.
async fn contend(bed: &Bed, timer: &Timer, who: usize) -> Option<State> {
    let command = match who {
        0 => Command::Resolve,
        1 => Command::Cancel,
        _ => {
            let mut settlement = settlement(timer, close());
            settlement.compensations = vec![compensation("release", 0)];
            return match bed.store.settle(settlement).await.unwrap() {
                Settled::Done { timer, .. } => Some(timer.state),
                Settled::Lost(timer) => {
                    assert!(timer.state.is_final());
                    None
                }
                other => panic!("{other:?}"),
            };
        }
    };
    match bed.act(timer, command).await {
        Acted::Done(timer) => Some(timer.state),
        Acted::TooLate(timer) => {
            assert!(timer.state.is_final());
            None
        }
        other => panic!("{other:?}"),
    }
}

/// Both wait for the same transaction, and the settle was there first.
pub async fn a_resolve_in_the_same_batch_goes_first(bed: Bed) {
    for n in 0..20 {
        let timer = bed.due_timer(&format!("k{n}")).await;
        // Both are queued before the writer's task runs: the test's runtime has one thread.
        let (settled, acted) = tokio::join!(bed.settle(&timer, close()), bed.act(&timer, Command::Resolve));
        assert!(matches!(acted, Acted::Done(_)), "{acted:?}");
        assert!(matches!(settled, Settled::Lost(t) if t.state == State::Resolved));
    }
}

pub async fn a_resolve_that_came_first_is_remembered(bed: Bed) {
    let target = Target::Key { type_id: bed.type_id, key: key("A17") };
    let mut resolve = act(target, Command::Resolve);
    resolve.remember = Some(Remember { id: TimerId::new(), namespace_id: bed.namespace, revision: 1 });
    let Acted::Done(left) = bed.store.act(resolve.clone()).await.unwrap() else { panic!() };
    assert_eq!((left.state, left.version, left.run_at), (State::Resolved, 2, None));
    assert!(matches!(bed.store.act(resolve).await.unwrap(), Acted::Same(t) if t == left));
    let late = bed.store.insert(bed.new_timer("A17", Due::After(secs(1)))).await.unwrap();
    assert!(matches!(late, Inserted::Same(t) if t == left), "the registration finds the payment");
    bed.clock.advance(secs(3600));
    assert!(matches!(bed.settle(&left, close()).await, Settled::Lost(_)));
    assert!(bed.due_keys(&left, Timer::clone(&left).created_at, bed.now()).await.is_empty());
    assert_eq!(kinds(&bed.events(left.id).await), ["registered", "resolved"]);
    assert_eq!(bed.verify(left.id).await, Ok(()));
}

/// Registrations, reschedules, fires, retries and decisions of few timers, from many tasks.
pub async fn every_audit_is_whole_after_a_storm(bed: Bed) {
    let bed = Arc::new(bed);
    let mut tasks = Vec::new();
    for task in 0..16u64 {
        let bed = Arc::clone(&bed);
        tasks.push(tokio::spawn(async move {
            for step in 0..30u64 {
                let n = (task * 7 + step * 13) % 11;
                let new = bed.new_timer(&format!("k{n}"), Due::After(ms(step)));
                let (Inserted::Created(timer) | Inserted::Same(timer)) = bed.store.insert(new).await.unwrap() else {
                    panic!("all have one fingerprint")
                };
                bed.clock.advance(ms(1));
                match (task + step) % 5 {
                    0 => drop(bed.act(&timer, Command::Reschedule(Due::After(ms(n)))).await),
                    1 => drop(bed.act(&timer, Command::Fire).await),
                    2 if step > 20 => drop(bed.act(&timer, Command::Resolve).await),
                    _ => {
                        let at = bed.now();
                        let retry = lapse::domain::machine::Settle::Retry { at, reason: "again".into(), failure: None };
                        let mut settlement = settlement(&timer, if step > 25 { close() } else { retry });
                        settlement.compensations = vec![compensation("release", 0)];
                        drop(bed.store.settle(settlement).await.unwrap());
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for n in 0..11 {
        let timer = bed.store.read().timer_by_key(bed.type_id, key(&format!("k{n}"))).await.unwrap().unwrap();
        let events = bed.events(timer.id).await;
        assert_eq!(events.len(), usize::try_from(timer.version).unwrap(), "an event for each version");
        assert_eq!(bed.verify(timer.id).await, Ok(()));
    }
}
