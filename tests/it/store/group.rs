//! Group commit, seen through the store while another connection holds the database.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use lapse::{
    clock::ManualClock,
    domain::{
        id::{Name, TypeId},
        machine::Command,
        time::Timestamp,
        timer::{Due, State, Timer},
    },
    store::{
        Error, Limits, Observer, Store,
        op::{Acted, Inserted, Settled},
    },
};
use parking_lot::Mutex;

use super::{
    bed::{Bed, close, compensation, noon, secs, settlement},
    sqlite,
};

async fn bed(folder: &Path, limits: Limits) -> Bed {
    let clock = ManualClock::new(noon());
    let store = Store::new(sqlite::open(folder, Arc::clone(&clock)), limits);
    Bed::furnish(store, clock, Box::new(())).await
}

/// Runs `ops` while another connection holds the database, and lets go of it once all of them wait. The writer then has
/// one operation (the ping) in hand, and all others are its next batch.
async fn in_one_batch<T>(folder: &Path, bed: &Bed, ops: impl Future<Output = T>) -> T {
    let holder = rusqlite::Connection::open(folder.join("lapse.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let let_go = async {
        // The test's runtime has one thread: when this runs, all operations were polled, and wait.
        tokio::time::sleep(Duration::from_millis(50)).await;
        holder.execute_batch("ROLLBACK").unwrap();
    };
    let held = async { bed.store.ping().await.unwrap() };
    let late = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        ops.await
    };
    let ((), (done, ())) = join(held, join(late, let_go)).await;
    done
}

#[tokio::test]
async fn a_bad_operation_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed(folder.path(), Limits::default()).await;
    let mut new: Vec<_> = (0..20).map(|n| bed.new_timer(&format!("k{n}"), Due::After(secs(60)))).collect();
    new[7].type_id = TypeId(999);
    new[12].id = new[3].id;
    let ids: Vec<_> = new.iter().map(|n| n.id).collect();
    let answers = in_one_batch(folder.path(), &bed, join_all(new.into_iter().map(|n| bed.store.insert(n)))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        match (n, answer) {
            (7 | 12, Err(Error::Data(_))) => {}
            (7 | 12, other) => panic!("{n}: {other:?}"),
            (_, Ok(Inserted::Created(timer))) => assert_eq!(bed.timer(ids[n]).await, timer),
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn duplicates_in_one_batch_are_answered_against_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed(folder.path(), Limits::default()).await;
    let inserts = (0..10).map(|_| bed.store.insert(bed.new_timer("A17", Due::After(secs(60)))));
    let answers = in_one_batch(folder.path(), &bed, join_all(inserts)).await;
    let mut answers = answers.into_iter().map(Result::unwrap);
    let Some(Inserted::Created(first)) = answers.next() else { panic!("the first is new") };
    assert!(answers.all(|answer| matches!(answer, Inserted::Same(timer) if timer == first)));
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_only_its_own_class() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed(folder.path(), Limits { queue: 3, ..Limits::default() }).await;
    let timer = bed.register("old", Due::After(secs(60))).await;
    let insert = |n: usize| bed.store.insert(bed.new_timer(&format!("k{n}"), Due::After(secs(60))));
    let ops = join(join_all((0..5).map(insert)), bed.act(&timer, Command::Cancel));
    let (inserted, cancelled) = in_one_batch(folder.path(), &bed, ops).await;
    let full = inserted.iter().map(|answer| matches!(answer, Err(Error::Full))).collect::<Vec<_>>();
    assert_eq!(full, [false, false, false, true, true]);
    assert!(matches!(cancelled, Acted::Done(_)));
    assert!(matches!(insert(4).await, Ok(Inserted::Created(_))), "and then there is room again");
}

#[tokio::test]
async fn a_stop_writes_what_waits_and_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed(folder.path(), Limits::default()).await;
    let new = |n: usize| bed.new_timer(&format!("k{n}"), Due::After(secs(60)));
    let ops = async {
        let waiting = join_all((0..5).map(|n| bed.store.insert(new(n))));
        let stop = async { bed.store.close().await };
        let late = async {
            tokio::task::yield_now().await;
            bed.store.insert(new(9)).await
        };
        join(waiting, join(stop, late)).await
    };
    let (waiting, ((), late)) = in_one_batch(folder.path(), &bed, ops).await;
    assert!(matches!(late, Err(Error::Stopped)), "{late:?}");
    let again = sqlite::open(folder.path(), ManualClock::new(noon()));
    for answer in waiting {
        let Ok(Inserted::Created(timer)) = answer else { panic!("{answer:?}") };
        assert_eq!(lapse::store::Driver::timer(&*again, timer.id).await.unwrap(), Some(timer));
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn timer_written(&self, timer: &Timer) {
        self.0.lock().push(format!("{} {}", timer.key, timer.state.as_str()));
    }

    fn compensation_written(&self, _: TypeId, kind: &Name, run_at: Timestamp) {
        self.0.lock().push(format!("{kind} {run_at}"));
    }

    fn catalogue_written(&self) {
        self.0.lock().push("catalogue".into());
    }
}

#[tokio::test]
async fn observers_are_told_of_what_was_written_before_it_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed(folder.path(), Limits::default()).await;
    let seen = Arc::new(Seen::default());
    bed.store.observe(Arc::<Seen>::clone(&seen));
    let told = || std::mem::take(&mut *seen.0.lock());
    let timer = bed.due_timer("A17").await;
    assert_eq!(told(), ["A17 scheduled"]);
    bed.store.insert(bed.new_timer("A17", Due::After(secs(10)))).await.unwrap();
    assert!(told().is_empty(), "nothing was written");
    let mut settlement = settlement(&timer, close());
    settlement.compensations = vec![compensation("release", 0), compensation("release", 1)];
    settlement.follow_ups = vec![bed.new_timer("next", Due::After(secs(5)))];
    let Settled::Done { .. } = bed.store.settle(settlement).await.unwrap() else { panic!() };
    assert_eq!(told(), ["A17 closed".into(), "next scheduled".into(), format!("release {}", bed.now())]);
    bed.put_type("other").await;
    assert_eq!(told(), ["catalogue"]);
}

/// Many actions wait, and one registration and one decision behind them: both are in the first batch all the same, and
/// the decision comes after the actions of its batch.
#[tokio::test]
async fn no_class_starves_behind_another() {
    let folder = tempfile::tempdir().unwrap();
    let bed = bed(folder.path(), Limits { batch: 20, ..Limits::default() }).await;
    let mut timers = Vec::new();
    for n in 0..60 {
        timers.push(bed.register(&format!("k{n}"), Due::After(secs(60))).await);
    }
    let due = bed.register("due", Due::At(bed.now())).await;
    let seen = Arc::new(Seen::default());
    bed.store.observe(Arc::<Seen>::clone(&seen));
    let acts = join_all(timers.iter().map(|timer| bed.act(timer, Command::Cancel)));
    let others = join(bed.settle(&due, close()), bed.register("new", Due::After(secs(60))));
    let (acted, _) = in_one_batch(folder.path(), &bed, join(acts, others)).await;
    assert!(acted.iter().all(|acted| matches!(acted, Acted::Done(t) if t.state == State::Cancelled)));
    let told = seen.0.lock();
    assert_eq!(told.len(), 62);
    assert_eq!(told[18..20], ["due closed", "new scheduled"], "{told:?}");
}
