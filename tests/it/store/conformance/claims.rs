//! Claims, leases and the backlog.

use lapse::{
    domain::{
        machine::{Command, MAX_LAPSES, Settle},
        time::Timestamp,
        timer::{Due, State, Timer, Trigger},
    },
    store::op::{Acted, ClaimBacklog, Claimed, Settled},
};

use crate::store::bed::{Bed, close, kinds, ms, secs};

async fn backlog(bed: &Bed, before: Timestamp, limit: usize) -> Vec<Timer> {
    let claim = ClaimBacklog {
        limits: vec![(bed.type_id, limit)],
        before,
        lease: secs(60),
        node: "node-2".into(),
        except: Vec::new(),
    };
    bed.store.claim_backlog(claim).await.unwrap()
}

async fn claimed(bed: &Bed, timer: &Timer) -> Timer {
    match bed.claim(timer, secs(60)).await {
        Claimed::Done(timer) => timer,
        other => panic!("{other:?}"),
    }
}

pub async fn a_claim_is_fenced_by_its_version(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(10))).await;
    assert!(matches!(bed.claim(&timer, secs(60)).await, Claimed::Early(_)));
    bed.clock.set(timer.due_at);
    let firing = claimed(&bed, &timer).await;
    let lease_end = bed.now().saturating_add(secs(60));
    assert_eq!((firing.state, firing.attempt, firing.run_at), (State::Firing, 1, Some(lease_end)));
    assert!(matches!(bed.claim(&timer, secs(60)).await, Claimed::Moved(t) if t == firing));
    assert!(matches!(bed.claim(&firing, secs(60)).await, Claimed::Moved(_)));
    assert!(matches!(bed.settle(&timer, close()).await, Settled::Moved(_)), "the version before the claim");
    assert!(matches!(bed.settle(&firing, close()).await, Settled::Done { .. }));
    assert!(matches!(bed.claim(&firing, secs(60)).await, Claimed::Lost(t) if t.state == State::Closed));
    let events = bed.events(timer.id).await;
    assert_eq!(kinds(&events), ["registered", "claimed", "closed"]);
    assert_eq!(events[1].event.detail["node"], "node-1");
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn a_firing_timer_waits_for_its_outcome(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let firing = claimed(&bed, &timer).await;
    for command in [Command::Resolve, Command::Cancel, Command::Fire] {
        assert!(matches!(bed.act(&timer, command).await, Acted::Firing(t) if t == firing));
    }
    let query = bed.due_keys(&timer, timer.due_at, bed.now().saturating_add(secs(3600))).await;
    assert!(query.is_empty(), "a lease is nothing that is due");
}

pub async fn a_released_claim_burns_no_attempt(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let firing = claimed(&bed, &timer).await;
    let release = Settle::Release { at: bed.now(), reason: "stopping".into(), ran: false };
    let Settled::Done { timer: back, .. } = bed.settle(&firing, release).await else { panic!() };
    assert_eq!((back.state, back.attempt, back.run_at), (State::Scheduled, 1, Some(bed.now())));
    assert!(matches!(bed.claim(&back, secs(60)).await, Claimed::Done(_)));
}

pub async fn the_backlog_is_taken_oldest_first(bed: Bed) {
    let mut timers = Vec::new();
    for n in [3u64, 1, 2, 5, 4] {
        timers.push(bed.register(&format!("k{n}"), Due::After(secs(n))).await);
    }
    let other = bed.put_type("other").await;
    let mut new = bed.new_timer("other", Due::After(secs(1)));
    new.type_id = other;
    bed.store.insert(new).await.unwrap();
    bed.clock.advance(secs(100));
    let mut types = vec![bed.type_id, other];
    types.sort();
    assert_eq!(bed.store.read().overdue_types(bed.now()).await.unwrap(), types);
    let in_hand = timers.iter().find(|t| t.key.as_str() == "k2").unwrap();
    let claim = ClaimBacklog {
        limits: vec![(bed.type_id, 3), (other, 0)],
        before: bed.now(),
        lease: secs(60),
        node: "node-2".into(),
        except: vec![in_hand.id],
    };
    let taken = bed.store.claim_backlog(claim).await.unwrap();
    let keys: Vec<_> = taken.iter().map(|t| t.key.as_str()).collect();
    assert_eq!(keys, ["k1", "k3", "k4"]);
    assert!(taken.iter().all(|t| t.state == State::Firing && t.run_at == Some(bed.now().saturating_add(secs(60)))));
    let event = &bed.events(taken[0].id).await[1].event;
    assert_eq!((event.trigger, &event.detail["node"]), (Some(Trigger::Backlog), &"node-2".into()));
    assert_eq!(bed.verify(taken[0].id).await, Ok(()));
}

pub async fn the_backlog_leaves_what_is_not_overdue(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(10))).await;
    let before = timer.due_at;
    assert!(bed.store.read().overdue_types(before).await.unwrap().is_empty());
    assert!(backlog(&bed, Timestamp::MAX, 10).await.is_empty(), "not before it is due, whatever is asked");
    bed.clock.set(timer.due_at);
    assert!(backlog(&bed, before, 10).await.is_empty(), "run_at is not before that time");
    assert_eq!(backlog(&bed, before.saturating_add(ms(1)), 10).await.len(), 1);
    assert!(backlog(&bed, bed.now(), 10).await.is_empty(), "and then it is claimed");
}

pub async fn a_lapsed_lease_is_taken_over(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let firing = claimed(&bed, &timer).await;
    bed.clock.advance(ms(59_999));
    assert!(backlog(&bed, bed.now(), 10).await.is_empty(), "the lease still holds");
    bed.clock.advance(ms(1));
    // The lapse is found at once, not only once it is as old as the backlog waits for.
    let before = bed.now().saturating_sub(secs(5));
    assert_eq!(bed.store.read().overdue_types(before).await.unwrap(), [bed.type_id]);
    let taken = backlog(&bed, before, 10).await;
    assert_eq!(taken.len(), 1);
    assert_eq!((taken[0].attempt, taken[0].lapses), (2, 1));
    assert!(matches!(bed.settle(&firing, close()).await, Settled::Moved(_)), "the old holder is fenced off");
    assert!(matches!(bed.settle(&taken[0], close()).await, Settled::Done { .. }));
    assert_eq!(kinds(&bed.events(timer.id).await), ["registered", "claimed", "lease_lapsed", "closed"]);
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn leases_that_lapse_in_a_row_are_poison(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    claimed(&bed, &timer).await;
    for lapse in 1..MAX_LAPSES {
        bed.clock.advance(secs(61));
        let taken = backlog(&bed, bed.now(), 10).await;
        assert_eq!(taken[0].lapses, lapse);
    }
    bed.clock.advance(secs(61));
    assert!(backlog(&bed, bed.now(), 10).await.is_empty());
    let failed = bed.timer(timer.id).await;
    assert_eq!((failed.state, failed.run_at), (State::Failed, None));
    assert!(failed.outcome.unwrap().contains(r#""class":"poison""#));
    assert_eq!(kinds(&bed.events(timer.id).await).last().unwrap(), "failed");
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}
