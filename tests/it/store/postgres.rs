//! PostgreSQL: the conformance suite, and what its tests stand on.

use std::sync::Arc;

use lapse::{
    clock::ManualClock,
    domain::{
        id::{NamespaceId, TypeId},
        time::{DurationMs, Timestamp},
        timer::{Due, NewTimer, Timer},
    },
    store::{
        Driver as _, Limits, Store,
        op::{Answer, Inserted, Op},
        postgres::{Postgres, PostgresParams},
    },
};

use super::{
    bed::{Bed, noon},
    conformance::conformance,
};
use crate::support::postgres::{Database, database};

pub async fn bed() -> Bed {
    bed_at(ManualClock::new(noon())).await
}

/// On a clock that the test moves, in the server's stead.
pub async fn bed_at(clock: Arc<ManualClock>) -> Bed {
    let database = database().await;
    let params = PostgresParams { clock: Some(clock.clone()), ..database.params() };
    let store = Store::new(Postgres::connect(params).await.unwrap(), Limits::default());
    Bed::furnish(store, clock, Box::new(database)).await
}

conformance!(crate::store::postgres::bed);

/// On the server's own clock. The bed's clock, which makes no difference, stands at noon.
pub async fn real_bed(params: PostgresParams) -> (Bed, Arc<Postgres>) {
    let driver = Postgres::connect(params).await.unwrap();
    let store = Store::new(Arc::clone(&driver) as Arc<dyn lapse::store::Driver>, Limits::default());
    (Bed::furnish(store, ManualClock::new(noon()), Box::new(())).await, driver)
}

/// Another node on the same database.
pub async fn another(database: &Database) -> Arc<Postgres> {
    Postgres::connect(PostgresParams { migrate: false, ..database.params() }).await.unwrap()
}

/// So many timers that are due already, inserted in one batch.
pub async fn overdue(bed: &Bed, driver: &Postgres, keys: std::ops::Range<usize>) -> Vec<Timer> {
    let now = driver.now().await.unwrap();
    let due = Due::At(now.saturating_sub(DurationMs::from_secs(30)));
    let ops = keys.map(|n| Op::Insert(new_timer(bed, n, due))).collect();
    let answers = driver.write(Arc::new(ops)).await.unwrap();
    let created = |answer| match answer {
        Answer::Inserted(Inserted::Created(timer)) => timer,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(created).collect()
}

pub fn new_timer(bed: &Bed, n: usize, due: Due) -> NewTimer {
    bed.new_timer(&format!("order-{n}"), due)
}

#[tokio::test]
async fn the_servers_clock_decides_what_is_early() {
    let database = database().await;
    let (bed, driver) = real_bed(database.params()).await;
    let before = driver.now().await.unwrap();
    let timer = bed.register("A17", Due::After(DurationMs::from_millis(700))).await;
    assert!(timer.created_at >= before && timer.due_at == timer.created_at.saturating_add(super::bed::ms(700)));
    let early = bed.settle(&timer, super::bed::close()).await;
    assert!(matches!(early, lapse::store::op::Settled::Early(_)), "{early:?}");
    while driver.now().await.unwrap() < timer.due_at {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (closed, _) = bed.close(&timer, 1).await;
    assert!(closed.settled_at.unwrap() >= timer.due_at);
}

#[tokio::test]
async fn a_bad_operation_fails_alone() {
    let database = database().await;
    let (bed, _driver) = real_bed(database.params()).await;
    let mut new: Vec<_> = (0..40).map(|n| new_timer(&bed, n, Due::After(super::bed::secs(60)))).collect();
    new[7].type_id = TypeId(999);
    new[12].id = new[3].id;
    new[21].payload = "\"a\u{0}b\"".into();
    new[30].namespace_id = NamespaceId(i64::MAX);
    let bad = [7, 12, 21, 30];
    let answers = futures_util::future::join_all(new.into_iter().map(|n| bed.store.insert(n))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        let refused = matches!(answer, Err(lapse::store::Error::Data(_)));
        assert!(refused == bad.contains(&n) && (refused || answer.is_ok()), "{n}: {answer:?}");
    }
}

#[tokio::test]
async fn duplicates_in_one_batch_are_answered_against_the_first() {
    let database = database().await;
    let (bed, driver) = real_bed(database.params()).await;
    let far = Due::At(Timestamp::MAX);
    let beyond = Due::After(DurationMs::MAX);
    let mut ops: Vec<NewTimer> = [beyond, far, far, beyond, far].map(|due| new_timer(&bed, 1, due)).into();
    ops[4].fingerprint = [9; 32];
    let answers = driver.write(Arc::new(ops.into_iter().map(Op::Insert).collect())).await.unwrap();
    let [
        Answer::Inserted(Inserted::OutOfRange),
        Answer::Inserted(Inserted::Created(first)),
        Answer::Inserted(Inserted::Same(same)),
        Answer::Inserted(Inserted::Same(beyond)),
        Answer::Inserted(Inserted::Conflict(other)),
    ] = &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert!(same == first && beyond == first && other == first);
    assert_eq!(bed.timer(first.id).await, *first);
}
