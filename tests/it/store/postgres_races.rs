//! Several nodes on one PostgreSQL.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use lapse::{
    domain::{
        compensation::RunResult,
        decision::FailureClass,
        id::{CompensationId, TimerId},
        machine::{Command, Settle},
        time::DurationMs,
        timer::{Due, Timer},
    },
    store::{
        Driver as _,
        op::{
            Acted, Answer, Backlog, Claim, ClaimBacklog, ClaimCompensations, Inserted, Op, Redrive, RedriveWhich,
            Settled,
        },
        postgres::{MarkLimits, Postgres, PostgresParams},
    },
};

use super::{
    bed::{Bed, act_by_id, close, compensation, failure, finish, name, secs, settlement},
    postgres::{another, new_timer, overdue, real_bed},
};
use crate::support::postgres::{Database, database};

/// Two nodes, and a bed on the first.
async fn nodes() -> (Database, Bed, Arc<Postgres>, Arc<Postgres>) {
    let database = database().await;
    let (bed, one) = real_bed(database.params()).await;
    let other = another(&database).await;
    (database, bed, one, other)
}

async fn write(node: &Postgres, ops: Vec<Op>) -> Vec<Answer> {
    node.write(Arc::new(ops)).await.unwrap()
}

fn backlog(bed: &Bed, before: lapse::domain::time::Timestamp, limit: usize) -> ClaimBacklog {
    ClaimBacklog { limits: vec![(bed.type_id, limit)], before, lease: secs(60), node: "n".into(), except: vec![] }
}

async fn claim_backlog(node: &Postgres, claim: ClaimBacklog) -> Backlog {
    match write(node, vec![Op::ClaimBacklog(claim)]).await.remove(0) {
        Answer::Backlog(backlog) => backlog,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_two_nodes_insert_is_one_timer() {
    let (_database, bed, one, other) = nodes().await;
    let inserts =
        |order: Vec<usize>| order.into_iter().map(|n| Op::Insert(new_timer(&bed, n, Due::After(secs(60))))).collect();
    for round in 0..5 {
        let keys: Vec<usize> = (round * 200..round * 200 + 200).collect();
        let backwards = keys.iter().rev().copied().collect();
        let (mine, mut theirs) = join(write(&one, inserts(keys)), write(&other, inserts(backwards))).await;
        theirs.reverse();
        for pair in mine.into_iter().zip(theirs) {
            let ((Answer::Inserted(Inserted::Created(a)), Answer::Inserted(Inserted::Same(b)))
            | (Answer::Inserted(Inserted::Same(b)), Answer::Inserted(Inserted::Created(a)))) = &pair
            else {
                panic!("{pair:?}")
            };
            assert_eq!(a, b);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_two_nodes_settle_is_settled_once() {
    let (_database, bed, one, other) = nodes().await;
    let timers = overdue(&bed, &one, 0..300).await;
    let settles = |timers: Vec<Timer>| {
        let settle = |timer: &Timer| {
            let mut settlement = settlement(timer, close());
            settlement.compensations = vec![compensation("release", 1)];
            Op::Settle(settlement)
        };
        timers.iter().map(settle).collect::<Vec<_>>()
    };
    let backwards = timers.iter().rev().cloned().collect();
    let (mine, mut theirs) = join(write(&one, settles(timers.clone())), write(&other, settles(backwards))).await;
    theirs.reverse();
    for pair in mine.into_iter().zip(theirs) {
        let ((Answer::Settled(Settled::Done { timer: a, .. }), Answer::Settled(Settled::Lost(b)))
        | (Answer::Settled(Settled::Lost(b)), Answer::Settled(Settled::Done { timer: a, .. }))) = &pair
        else {
            panic!("{pair:?}")
        };
        assert_eq!(a, b);
        assert_eq!(bed.verify(a.id).await, Ok(()));
    }
    let (pending, ..) = one.compensation_counts(1_000).await.unwrap();
    assert_eq!(pending, 300);

    let lane = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit: 40, lease: secs(60) };
    let claims = |node: Arc<Postgres>| {
        let lane = lane.clone();
        async move { write(&node, vec![Op::ClaimCompensations(lane.clone()), Op::ClaimCompensations(lane)]).await }
    };
    let mut runs = HashSet::new();
    for _ in 0..4 {
        let (mine, theirs) = join(claims(Arc::clone(&one)), claims(Arc::clone(&other))).await;
        for answer in mine.into_iter().chain(theirs) {
            let Answer::Compensations(claimed) = answer else { panic!("{answer:?}") };
            for run in claimed {
                assert!(runs.insert(run.id), "two runs of {}", run.id);
            }
        }
    }
    assert_eq!(runs.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_the_backlog_are_disjoint() {
    let (_database, bed, one, other) = nodes().await;
    overdue(&bed, &one, 0..400).await;
    let now = one.now().await.unwrap();
    let mut taken = HashSet::new();
    for _ in 0..5 {
        let claims = join_all([&one, &one, &other, &other].map(|node| claim_backlog(node, backlog(&bed, now, 30))));
        for timer in claims.await.into_iter().flat_map(|backlog| backlog.claimed) {
            assert!(taken.insert(timer.id), "{} was claimed twice", timer.id);
        }
    }
    assert_eq!(taken.len(), 400);
    assert!(one.overdue_types(now).await.unwrap().is_empty());
}

/// Where another's transaction holds a row while a scan passes it, the row is found again if that rolls back; once the
/// mark has passed it, only by a scan of the whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_locked_is_not_lost_to_the_mark() {
    let database = database().await;
    let marks = MarkLimits { lag: Duration::from_millis(800), whole_every: Duration::from_secs(4) };
    let (bed, node) = real_bed(PostgresParams { marks, ..database.params() }).await;
    let timers = overdue(&bed, &node, 0..3).await;
    let now = node.now().await.unwrap();
    let claim = async || claim_backlog(&node, backlog(&bed, now, 10)).await.claimed.len();
    let mut client = database.client().await;
    let lock = "SELECT 1 FROM timers WHERE id = $1 FOR UPDATE";

    let briefly = client.transaction().await.unwrap();
    briefly.execute(lock, &[&timers[0].id.0]).await.unwrap();
    briefly.execute(lock, &[&timers[1].id.0]).await.unwrap();
    let began = std::time::Instant::now();
    assert_eq!(claim().await, 1);
    briefly.rollback().await.unwrap();
    let at_length = client.transaction().await.unwrap();
    at_length.execute(lock, &[&timers[1].id.0]).await.unwrap();
    assert_eq!(claim().await, 1, "the mark lags");
    assert!(began.elapsed() < marks.lag, "this machine is too slow for what the test is about");

    tokio::time::sleep(marks.lag).await;
    assert_eq!(claim().await, 0);
    at_length.rollback().await.unwrap();
    let early = claim().await;
    assert!(early == 0 || began.elapsed() >= marks.whole_every, "the mark holds");
    while node.overdue_types(now).await.unwrap().is_empty() && early == 0 {
        assert!(began.elapsed() < Duration::from_mins(1), "the whole is scanned now and then");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(early + claim().await, 1);
}

/// As long as nothing is claimed, the mark stays below what is there; and what lies below it all the same is found by a
/// look from the start.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_pause_of_any_length_left_is_found() {
    let database = database().await;
    let marks = MarkLimits { lag: Duration::from_millis(1), whole_every: Duration::from_hours(1) };
    let (bed, node) = real_bed(PostgresParams { marks, ..database.params() }).await;
    overdue(&bed, &node, 0..2).await;
    let now = node.now().await.unwrap();
    for _ in 0..5 {
        assert_eq!(node.overdue_types(now).await.unwrap(), [bed.type_id]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let claim = async || claim_backlog(&node, backlog(&bed, now, 10)).await.claimed.len();
    assert_eq!(claim().await, 2);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(node.overdue_types(now).await.unwrap().is_empty());
    tokio::time::sleep(Duration::from_millis(5)).await;
    let timer = overdue(&bed, &node, 2..3).await.remove(0);
    let long_ago = "UPDATE timers SET run_at = 1, due_at = 1 WHERE id = $1";
    database.client().await.execute(long_ago, &[&timer.id.0]).await.unwrap();
    assert_eq!(claim().await, 0, "the mark has passed it");
    node.look_from_the_start(&[bed.type_id]);
    assert_eq!(claim().await, 1);
}

/// All kinds of writes at once, over few timers, from two nodes in every lane: no answer is an error, no deadlock has to
/// be resolved by the server, and every audit is whole.
#[tokio::test(flavor = "multi_thread")]
async fn no_two_writes_wait_for_each_other_in_a_ring() {
    let (database, bed, one, other) = nodes().await;
    let bed = Arc::new(bed);
    let timers = overdue(&bed, &one, 0..120).await;
    let ids: Arc<Vec<TimerId>> = Arc::new(timers.iter().map(|timer| timer.id).collect());
    let mut tasks = Vec::new();
    for lane in 0..6 {
        let (bed, ids) = (Arc::clone(&bed), Arc::clone(&ids));
        let node = Arc::clone(if lane % 2 == 0 { &one } else { &other });
        tasks.push(tokio::spawn(async move {
            for round in 0..25 {
                let ops = match lane / 2 {
                    0 => steps(&bed, &node, &ids, round).await,
                    1 => inserts(&bed, round),
                    _ => reports(&bed, &node).await,
                };
                write(&node, ops).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for id in &*ids {
        assert_eq!(bed.verify(*id).await, Ok(()));
    }
    bed.store.close().await;
    other.close().await;
    let client = database.client().await;
    let row = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    // A connection's counts are in when it has ended.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    while client.query_one(open, &[]).await.unwrap().get::<_, i64>(0) > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(client.query_one(row, &[]).await.unwrap().get::<_, i64>(0), 0);
}

async fn steps(bed: &Bed, node: &Postgres, ids: &[TimerId], round: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    for _ in 0..30 {
        let id = ids[rand::random_range(0..ids.len())];
        let timer = node.timer(id).await.unwrap().unwrap();
        ops.push(match rand::random_range(0..6) {
            0 => Op::Act(act_by_id(&timer, Command::Fire)),
            1 => Op::Act(act_by_id(&timer, Command::Retry)),
            2 => Op::Claim(Claim {
                id,
                version: timer.version,
                lease: DurationMs::from_millis(50),
                trigger: lapse::domain::timer::Trigger::Slot,
                node: "n".into(),
            }),
            3 => Op::Settle(settlement(&timer, Settle::Fail { failure: failure(FailureClass::Permanent) })),
            4 if round > 15 => {
                let mut closing = settlement(&timer, close());
                closing.compensations = vec![compensation("release", 1), compensation("return", 1)];
                Op::Settle(closing)
            }
            _ => Op::ClaimBacklog(backlog(bed, timer.created_at, 5)),
        });
    }
    ops
}

fn inserts(bed: &Bed, round: usize) -> Vec<Op> {
    let near = round * 10;
    let new = |_| {
        let n = rand::random_range(0..near + 50);
        Op::Insert(new_timer(bed, n, Due::After(secs(3600))))
    };
    (0..40).map(new).collect()
}

async fn reports(bed: &Bed, node: &Postgres) -> Vec<Op> {
    let mut ops = Vec::new();
    for kind in ["release", "return"] {
        let lane = ClaimCompensations { type_id: bed.type_id, kind: name(kind), limit: 5, lease: secs(60) };
        for answer in write(node, vec![Op::ClaimCompensations(lane)]).await {
            let Answer::Compensations(claimed) = answer else { panic!("{answer:?}") };
            ops.extend(claimed.into_iter().map(|run| {
                let result = if rand::random() {
                    RunResult::Dead { failure: failure(FailureClass::Permanent) }
                } else {
                    RunResult::Retry { failure: failure(FailureClass::Transient), at: run.created_at, counts: true }
                };
                Op::FinishCompensation(finish(run.id, run.fence, result))
            }));
        }
    }
    let which = RedriveWhich::Filter { type_id: None, kind: None, limit: 10 };
    ops.push(Op::Redrive(Redrive {
        namespace_id: bed.namespace,
        which,
        to_active: false,
        note: "again".into(),
        actor: "key:t".into(),
    }));
    ops.push(Op::Redrive(Redrive {
        namespace_id: bed.namespace,
        which: RedriveWhich::One(CompensationId::new()),
        to_active: false,
        note: "again".into(),
        actor: "key:t".into(),
    }));
    ops
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolve_on_one_node_races_a_close_on_another() {
    let (_database, bed, one, other) = nodes().await;
    let timers = overdue(&bed, &one, 0..300).await;
    let resolves = timers.iter().rev().map(|timer| Op::Act(act_by_id(timer, Command::Resolve))).collect();
    let closes = timers.iter().map(|timer| Op::Settle(settlement(timer, close()))).collect();
    let (mut resolved, closed) = join(write(&one, resolves), write(&other, closes)).await;
    resolved.reverse();
    for pair in resolved.into_iter().zip(closed) {
        match &pair {
            (Answer::Acted(Acted::Done(a)), Answer::Settled(Settled::Lost(b)))
            | (Answer::Acted(Acted::TooLate(a)), Answer::Settled(Settled::Done { timer: b, .. })) => assert_eq!(a, b),
            _ => panic!("{pair:?}"),
        }
    }
}

#[tokio::test]
async fn nodes_know_which_of_them_live() {
    let (_database, _bed, one, other) = nodes().await;
    let beat = async |node: &Postgres, id: &str, fires: bool, within: DurationMs| -> Vec<(String, bool)> {
        let live = node.beat(id, fires, within).await.unwrap();
        live.into_iter().map(|node| (node.id, node.fires)).collect()
    };
    let a = ("a".to_owned(), true);
    assert_eq!(beat(&one, "a", true, secs(60)).await, std::slice::from_ref(&a));
    let b = ("b".to_owned(), false);
    assert_eq!(beat(&other, "b", false, secs(60)).await, [a.clone(), b.clone()]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(beat(&other, "b", false, DurationMs::from_millis(250)).await, [b]);
    other.leave("b", secs(3600)).await.unwrap();
    assert_eq!(beat(&one, "a", true, secs(60)).await, [a]);
}
