//! Lanes, runs and redrives.

use lapse::{
    domain::{
        compensation::{Compensation, CompensationState, RunResult},
        decision::FailureClass,
        id::{CompensationId, NamespaceId},
        timer::State,
    },
    store::{
        op::{ClaimCompensations, Redrive, RedriveWhich, Redriven, Settled},
        read::CompensationQuery,
    },
};

use crate::store::bed::{Bed, close, compensation, failure, kinds, ms, name, secs, settlement};

async fn claim(bed: &Bed, limit: usize) -> Vec<Compensation> {
    let claim = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit, lease: secs(60) };
    bed.store.claim_compensations(claim).await.unwrap()
}

async fn finish(bed: &Bed, run: &Compensation, result: RunResult) -> bool {
    bed.store.finish_compensation(crate::store::bed::finish(run.id, run.fence, result)).await.unwrap()
}

async fn read(bed: &Bed, id: CompensationId) -> Compensation {
    bed.store.read().compensation(id).await.unwrap().unwrap()
}

fn done() -> RunResult {
    RunResult::Done { result: Some("{\"released\":1}".into()), skipped: None }
}

fn dead() -> RunResult {
    RunResult::Dead { failure: failure(FailureClass::Permanent) }
}

fn redrive(bed: &Bed, which: RedriveWhich) -> Redrive {
    Redrive {
        namespace_id: bed.namespace,
        which,
        to_active: false,
        note: "the warehouse is back".into(),
        actor: "key:ops".into(),
    }
}

pub async fn a_claimed_compensation_is_one_run_s_alone(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let (closed, ids) = bed.close(&timer, 2).await;
    let runs = claim(&bed, 1).await;
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!((run.state, run.attempt, run.fence), (CompensationState::Running, 1, 1));
    assert_eq!(run.run_at, Some(bed.now().saturating_add(secs(60))));
    assert_eq!(claim(&bed, 10).await.len(), 1, "only the other one is left");
    assert!(finish(&bed, run, done()).await);
    assert!(!finish(&bed, run, done()).await, "reported once");
    let after = read(&bed, run.id).await;
    assert_eq!((after.state, after.run_at, after.settled_at), (CompensationState::Done, None, Some(bed.now())));
    assert_eq!(after.result.as_deref(), Some("{\"released\":1}"));
    assert!(ids.contains(&run.id));
    let now = bed.timer(timer.id).await;
    assert_eq!((now.state, now.version), (State::Closed, closed.version + 1));
    let events = bed.events(timer.id).await;
    assert_eq!(kinds(&events).last().unwrap(), "compensation_done");
    let event = &events.last().unwrap().event;
    assert_eq!((&event.detail["kind"], &event.detail["cpu_us"]), (&"release".into(), &12.into()));
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn a_lapsed_run_uses_its_attempt_up(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    bed.close(&timer, 1).await;
    let first = claim(&bed, 10).await.remove(0);
    bed.clock.advance(ms(59_999));
    assert!(claim(&bed, 10).await.is_empty());
    bed.clock.advance(ms(1));
    let second = claim(&bed, 10).await.remove(0);
    assert_eq!((second.attempt, second.fence), (2, 2));
    assert!(!finish(&bed, &first, done()).await, "fenced off");
    assert!(finish(&bed, &second, done()).await);
}

pub async fn a_retry_waits_and_a_blameless_one_burns_nothing(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let (closed, _) = bed.close(&timer, 1).await;
    let at = bed.now().saturating_add(secs(5));
    let retry = |counts| RunResult::Retry { failure: failure(FailureClass::Downstream), at, counts };
    let run = claim(&bed, 1).await.remove(0);
    assert!(finish(&bed, &run, retry(false)).await);
    let waiting = read(&bed, run.id).await;
    assert_eq!((waiting.state, waiting.attempt, waiting.run_at), (CompensationState::Pending, 1, Some(at)));
    assert_eq!(bed.timer(timer.id).await.version, closed.version, "nothing was tried");
    assert!(claim(&bed, 1).await.is_empty());
    bed.clock.set(at);
    let run = claim(&bed, 1).await.remove(0);
    assert!(finish(&bed, &run, retry(true)).await);
    let waiting = read(&bed, run.id).await;
    assert_eq!((waiting.attempt, waiting.run_at), (2, Some(bed.now())), "never in the past");
    assert_eq!(waiting.last_error, Some(failure(FailureClass::Downstream)));
    assert_eq!(kinds(&bed.events(timer.id).await).last().unwrap(), "compensation_retried");
    let run = claim(&bed, 1).await.remove(0);
    let skipped = Some(failure(FailureClass::Conflict));
    assert!(finish(&bed, &run, RunResult::Done { result: None, skipped }).await);
    assert_eq!(read(&bed, run.id).await.last_error, Some(failure(FailureClass::Conflict)));
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn a_dead_compensation_is_redriven_by_a_person(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let (_, ids) = bed.close(&timer, 1).await;
    let one = |bed: &Bed| redrive(bed, RedriveWhich::One(ids[0]));
    let early = bed.store.redrive(one(&bed)).await.unwrap();
    assert!(matches!(early, Redriven::WrongState(CompensationState::Pending)));
    let run = claim(&bed, 1).await.remove(0);
    assert!(finish(&bed, &run, dead()).await);
    assert_eq!(read(&bed, ids[0]).await.run_at, None);
    assert!(claim(&bed, 1).await.is_empty());
    let mut foreign = one(&bed);
    foreign.namespace_id = NamespaceId(bed.namespace.0 + 1);
    assert!(matches!(bed.store.redrive(foreign).await.unwrap(), Redriven::NotFound));
    let Redriven::One(again) = bed.store.redrive(one(&bed)).await.unwrap() else { panic!() };
    assert_eq!((again.state, again.attempt, again.first_attempt), (CompensationState::Pending, 2, 2));
    assert_eq!(read(&bed, ids[0]).await, again);
    assert_eq!(claim(&bed, 1).await[0].id, ids[0], "the id, and so the idempotency key, is the same");
    let events = bed.events(timer.id).await;
    assert_eq!(kinds(&events)[3..], ["compensation_dead", "compensation_redriven"]);
    let event = &events[4].event;
    assert_eq!((event.actor.as_str(), &event.detail["note"]), ("key:ops", &"the warehouse is back".into()));
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn many_are_redriven_by_a_filter(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    bed.close(&timer, 5).await;
    for run in claim(&bed, 4).await {
        assert!(finish(&bed, &run, dead()).await);
    }
    let filter =
        |kind: Option<&str>, limit| RedriveWhich::Filter { type_id: Some(bed.type_id), kind: kind.map(name), limit };
    let many = |which| bed.store.redrive(redrive(&bed, which));
    assert!(matches!(many(filter(Some("other"), 10)).await.unwrap(), Redriven::Many { count: 0, more: false }));
    assert!(matches!(many(filter(Some("release"), 3)).await.unwrap(), Redriven::Many { count: 3, more: true }));
    let all = RedriveWhich::Filter { type_id: None, kind: None, limit: 10 };
    assert!(matches!(many(all).await.unwrap(), Redriven::Many { count: 1, more: false }));
    assert_eq!(bed.store.read().compensation_counts(100).await.unwrap(), (5, 0, 0));
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn lanes_know_when_they_have_work(bed: Bed) {
    assert_eq!(bed.store.read().next_compensation_at().await.unwrap(), None);
    let timer = bed.due_timer("A17").await;
    let mut settlement = settlement(&timer, close());
    settlement.compensations = vec![compensation("return-coupon", 0), compensation("release", 1)];
    assert!(matches!(bed.store.settle(settlement).await.unwrap(), Settled::Done { .. }));
    let lanes = bed.store.read().compensation_lanes(bed.now()).await.unwrap();
    assert_eq!(lanes, [(bed.type_id, name("release")), (bed.type_id, name("return-coupon"))]);
    assert_eq!(bed.store.read().next_compensation_at().await.unwrap(), Some(bed.now()));
    let run = claim(&bed, 1).await.remove(0);
    let lanes = bed.store.read().compensation_lanes(bed.now()).await.unwrap();
    assert_eq!(lanes, [(bed.type_id, name("return-coupon"))], "a lease is no work until it lapses");
    let lapse = bed.now().saturating_add(secs(60));
    assert_eq!(bed.store.read().compensation_lanes(lapse).await.unwrap().len(), 2);
    assert!(finish(&bed, &run, done()).await);
    assert_eq!(bed.store.read().compensation_lanes(lapse).await.unwrap().len(), 1);
    assert_eq!(bed.store.read().compensation_counts(100).await.unwrap(), (1, 0, 0));
    assert_eq!(bed.store.read().compensation_counts(0).await.unwrap(), (0, 0, 0), "counted up to the cap");
}

pub async fn compensations_are_listed_newest_first(bed: Bed) {
    let mut made = Vec::new();
    for n in 0..4 {
        let timer = bed.due_timer(&format!("k{n}")).await;
        let (_, ids) = bed.close(&timer, 3).await;
        made.push((timer.id, ids));
    }
    let run = claim(&bed, 1).await.remove(0);
    assert!(finish(&bed, &run, dead()).await);
    let mut query = CompensationQuery { types: vec![bed.type_id], limit: 5, ..CompensationQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = bed.store.read().compensations(query.clone()).await.unwrap();
        found.extend(page.items);
        query.before = page.next;
        if query.before.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 12);
    assert!(found.windows(2).all(|w| (w[0].created_at, w[0].id) > (w[1].created_at, w[1].id)));
    query.states = vec![CompensationState::Dead];
    let page = bed.store.read().compensations(query.clone()).await.unwrap();
    assert_eq!(page.items.iter().map(|c| c.id).collect::<Vec<_>>(), [run.id]);
    query.kind = Some(name("other"));
    assert!(bed.store.read().compensations(query.clone()).await.unwrap().items.is_empty());
    let query = CompensationQuery { timer_id: Some(made[1].0), types: vec![bed.type_id], limit: 2, ..query };
    let query = CompensationQuery { states: Vec::new(), kind: None, ..query };
    let first = bed.store.read().compensations(query.clone()).await.unwrap();
    let rest = bed.store.read().compensations(CompensationQuery { before: first.next, ..query }).await.unwrap();
    let mut ids: Vec<_> = first.items.iter().chain(&rest.items).map(|c| c.id).collect();
    ids.sort();
    assert_eq!((ids, rest.next), (made[1].1.clone(), None));
}
