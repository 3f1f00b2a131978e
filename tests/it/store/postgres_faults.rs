//! PostgreSQL that goes away, hangs, or changes its role; connections that break at each step.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    bed::{Bed, act, close, compensation, finish, name, secs, settlement},
    postgres::{overdue, real_bed},
};
use crate::support::{
    cutter::{Cutter, Fate},
    postgres::{database, own_server},
    proxy::{Proxy, Way},
};
use lapse::{
    domain::{
        compensation::RunResult,
        machine::Command,
        time::DurationMs,
        timer::{Due, State, Timer},
    },
    store::{
        Driver as _, Error,
        op::{Answer, ClaimBacklog, ClaimCompensations, Inserted, Op, Settled, Target},
        postgres::{Postgres, PostgresParams, migrate_up},
    },
};

/// Long enough for a slow machine; what waits for it fails.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    let database = database().await;
    let cutter = Cutter::to(database.port()).await;
    let (bed, _) = real_bed(PostgresParams { url: database.url_at(cutter.port), ..database.params() }).await;
    for (n, when) in [Fate::Before, Fate::Behind].into_iter().enumerate() {
        let new = bed.new_timer(&format!("order-{n}"), Due::At("2026-01-01T00:00:00Z".parse().unwrap()));
        cutter.arm(when, "order-");
        let answer = bed.store.insert(new.clone()).await;
        assert!(matches!(answer, Err(Error::OutcomeUnknown(_))), "{answer:?}");
        let there = bed.store.read().timer_by_key(bed.type_id, new.key.clone()).await.unwrap();
        assert_eq!(there.is_some(), when == Fate::Behind);
        // Asked again, it is the same registration, and its own.
        let Inserted::Created(timer) = bed.store.insert(new).await.unwrap() else { panic!("another's") };

        let mut closing = settlement(&timer, close());
        closing.compensations = vec![compensation("release", 1)];
        cutter.arm(when, r#""kind":"closed""#);
        let answer = bed.store.settle(closing.clone()).await;
        assert!(matches!(answer, Err(Error::OutcomeUnknown(_))), "{answer:?}");
        match (when, bed.store.settle(closing).await.unwrap()) {
            (Fate::Before, Settled::Done { .. }) => {}
            (Fate::Behind, Settled::Lost(there)) => assert_eq!(there.state, State::Closed),
            other => panic!("{other:?}"),
        }

        // A claim whose answer is lost runs once its lease has lapsed; one that never came is made anew.
        let lease = DurationMs::from_millis(300);
        let lane = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit: 1, lease };
        cutter.arm(when, "release");
        let mut runs = bed.store.claim_compensations(lane.clone()).await.unwrap();
        assert_eq!(runs.is_empty(), when == Fate::Behind);
        let began = Instant::now();
        while runs.is_empty() {
            assert!(began.elapsed() < PATIENCE, "the lease lapses");
            tokio::time::sleep(Duration::from_millis(20)).await;
            runs = bed.store.claim_compensations(ClaimCompensations { lease: secs(60), ..lane.clone() }).await.unwrap();
        }
        let run = runs.remove(0);
        assert_eq!(run.attempt, if when == Fate::Behind { 2 } else { 1 });
        let done = finish(run.id, run.fence, RunResult::Done { result: None, skipped: None });
        cutter.arm(when, r#""kind":"compensation_done""#);
        let answer = bed.store.finish_compensation(done.clone()).await;
        assert!(matches!(answer, Err(Error::OutcomeUnknown(_))), "{answer:?}");
        assert_eq!(bed.store.finish_compensation(done).await.unwrap(), when == Fate::Before, "reported once");
        assert_eq!(bed.verify(timer.id).await, Ok(()));
    }
    assert!(!cutter.is_armed(), "each write was seen");
}

/// A node that stands still between reading and writing is in nobody's way; and where it holds a lock all the same, for a
/// claim of the backlog, not for long.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_holds_nobody_up() {
    let database = database().await;
    let cutter = Cutter::to(database.port()).await;
    let (bed, still) = real_bed(PostgresParams { url: database.url_at(cutter.port), ..database.params() }).await;
    let other = Postgres::connect(PostgresParams { lock_timeout: DurationMs::from_millis(100), ..database.params() });
    let other = other.await.unwrap();
    let timers = overdue(&bed, &still, 0..20).await;
    let settles = || timers[..10].iter().map(|timer| Op::Settle(settlement(timer, close()))).collect::<Vec<_>>();
    let comes = async || {
        let began = Instant::now();
        while cutter.is_armed() {
            assert!(began.elapsed() < PATIENCE, "it comes to its write");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    cutter.arm(Fate::Held, r#""kind":"closed""#);
    let node = Arc::clone(&still);
    let ops = settles();
    let standing = tokio::spawn(async move { node.write(Arc::new(ops)).await });
    comes().await;
    let answers = other.write(Arc::new(settles())).await.unwrap();
    assert!(answers.iter().all(|a| matches!(a, Answer::Settled(Settled::Done { .. }))), "{answers:?}");
    standing.abort();

    let now = other.now().await.unwrap();
    let claim = |node: &str| {
        let limits = vec![(bed.type_id, 20)];
        Op::ClaimBacklog(ClaimBacklog { limits, before: now, lease: secs(60), node: node.into(), except: vec![] })
    };
    cutter.arm(Fate::Held, r#""kind":"claimed""#);
    let (node, ops) = (Arc::clone(&still), vec![claim("still")]);
    let standing = tokio::spawn(async move { node.write(Arc::new(ops)).await });
    comes().await;
    let (mut claimed, began) = (0, Instant::now());
    while claimed < 10 {
        assert!(began.elapsed() < PATIENCE, "the server ends a transaction that stands idle");
        match other.write(Arc::new(vec![claim("other")])).await.unwrap().remove(0) {
            Answer::Backlog(backlog) => claimed += backlog.claimed.len(),
            answer => panic!("{answer:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    standing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_sits_on_does_not_hold_up_its_batch() {
    let database = database().await;
    let params = PostgresParams { lock_timeout: DurationMs::from_millis(200), ..database.params() };
    let (bed, node) = real_bed(params).await;
    let timers = overdue(&bed, &node, 0..5).await;
    let mut client = database.client().await;
    let holder = client.transaction().await.unwrap();
    for taken in [1, 3] {
        holder.execute("SELECT 1 FROM timers WHERE id = $1 FOR UPDATE", &[&timers[taken].id.0]).await.unwrap();
    }
    let mut ops: Vec<Op> = timers.iter().map(|timer| Op::Settle(settlement(timer, close()))).collect();
    let target = Target::Key { type_id: bed.type_id, key: timers[3].key.clone() };
    ops[3] = Op::Act(act(target, Command::Resolve));
    let answers = node.write(Arc::new(ops)).await.unwrap();
    for (n, answer) in answers.iter().enumerate() {
        let is_done = matches!(answer, Answer::Settled(Settled::Done { .. }));
        let is_refused = matches!(answer, Answer::Refused(Error::Unavailable(_)));
        assert!(if n == 1 || n == 3 { is_refused } else { is_done }, "{n}: {answer:?}");
    }
    holder.rollback().await.unwrap();
    bed.close(&timers[1], 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_before_the_commit_is_begun_anew() {
    let database = database().await;
    let (bed, node) = real_bed(database.params()).await;
    let timer = overdue(&bed, &node, 0..1).await.remove(0);
    // What a transaction knows of others' activity stands still in it, so another connection kills.
    let (mut client, killer) = (database.client().await, database.client().await);
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name = 'lapse' AND datname = current_database()";
    // Idle connections, those that read and those that write.
    killer.execute(kill, &[]).await.unwrap();
    bed.store.ping().await.unwrap();
    assert_eq!(bed.timer(timer.id).await, timer);

    // One that waits in the middle of its transaction.
    let holder = client.transaction().await.unwrap();
    holder.execute("SELECT 1 FROM timers FOR UPDATE", &[]).await.unwrap();
    let settling = {
        let (store, closing) = (bed.store.clone(), settlement(&timer, close()));
        tokio::spawn(async move { store.settle(closing).await })
    };
    let waiting = format!("{kill} AND wait_event_type = 'Lock'");
    let began = Instant::now();
    while killer.query_one(&waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(began.elapsed() < PATIENCE, "the settlement waits for its row");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    holder.rollback().await.unwrap();
    assert!(matches!(settling.await.unwrap(), Ok(Settled::Done { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_waited_for_only_so_long() {
    let database = database().await;
    let params = PostgresParams { lock_timeout: DurationMs::from_millis(200), ..database.params() };
    let (bed, node) = real_bed(params).await;
    let timer = overdue(&bed, &node, 0..1).await.remove(0);
    let mut client = database.client().await;
    let holder = client.transaction().await.unwrap();
    holder.execute("SELECT 1 FROM timers FOR UPDATE", &[]).await.unwrap();
    let answer = bed.store.settle(settlement(&timer, close())).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    // Another lane is not held up.
    bed.register("another", Due::After(secs(60))).await;
    holder.rollback().await.unwrap();
    assert_eq!(bed.timer(timer.id).await, timer);
    bed.close(&timer, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_given_up() {
    let database = database().await;
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, database.port()))).await;
    let params = PostgresParams {
        url: database.url_at(proxy.address.port()),
        statement_timeout: secs(1),
        connect_timeout: secs(1),
        ..database.params()
    };
    let (bed, node) = real_bed(params).await;
    proxy.set(Way::BlackHole);
    let (write, read) = tokio::join!(bed.store.ping(), node.now());
    assert!(matches!(write, Err(Error::Unavailable(_) | Error::OutcomeUnknown(_))), "{write:?}");
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
    proxy.set(Way::Through);
    let began = Instant::now();
    while bed.store.ping().await.is_err() || node.now().await.is_err() {
        assert!(began.elapsed() < PATIENCE, "it recovers by itself");
    }
    proxy.set(Way::Cut);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let away = bed.store.ping().await;
    assert!(matches!(away, Err(Error::Unavailable(_))), "{away:?}");
    proxy.set(Way::Through);
    bed.store.ping().await.unwrap();
    node.now().await.unwrap();
}

/// The server is killed while registrations and closes are under way, and started again.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_with_the_server() {
    let database = own_server().await;
    let (bed, _) = real_bed(database.params()).await;
    let bed = Arc::new(bed);
    let ends = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> =
        (0..16).map(|caller| tokio::spawn(register_and_close(Arc::clone(&bed), caller, Arc::clone(&ends)))).collect();
    for how in ["kill", "stop"] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let server = database.server();
        tokio::task::block_in_place(|| {
            if how == "kill" {
                server.kill();
            } else {
                server.stop();
            }
            server.start();
        });
    }
    let began = Instant::now();
    while bed.store.ping().await.is_err() {
        assert!(began.elapsed() < PATIENCE, "it recovers by itself");
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    ends.store(true, Ordering::SeqCst);
    let (mut closed, mut unknown) = (0, 0);
    for caller in callers {
        for (timer, fate) in caller.await.unwrap() {
            let there = bed.timer(timer.id).await;
            match fate {
                Said::Closed => assert_eq!(there.state, State::Closed),
                Said::Unknown => assert!(matches!(there.state, State::Closed | State::Scheduled)),
            }
            assert_eq!(bed.verify(timer.id).await, Ok(()));
            closed += usize::from(there.state == State::Closed);
            unknown += usize::from(matches!(fate, Said::Unknown));
        }
    }
    assert!(closed > 100, "{closed} closed");
    let (pending, ..) = bed.store.read().compensation_counts(1_000_000).await.unwrap();
    assert_eq!(pending, closed as u64, "each close has its one compensation; {unknown} were in doubt");
    bed.store.close().await;
}

enum Said {
    Closed,
    Unknown,
}

/// Registers and closes, one after another; what was answered must be so.
async fn register_and_close(bed: Arc<Bed>, caller: usize, ends: Arc<AtomicBool>) -> Vec<(Timer, Said)> {
    let mut fates = Vec::new();
    let mut n = 0;
    while !ends.load(Ordering::SeqCst) {
        n += 1;
        let new = bed.new_timer(&format!("{caller}-{n}"), Due::At("2026-01-01T00:00:00Z".parse().unwrap()));
        let timer = loop {
            match bed.store.insert(new.clone()).await {
                Ok(Inserted::Created(timer) | Inserted::Same(timer)) => break timer,
                Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => panic!("{other:?}"),
            }
        };
        let mut closing = settlement(&timer, close());
        closing.compensations = vec![compensation("release", 1)];
        let fate = match bed.store.settle(closing).await {
            Ok(Settled::Done { .. }) => Said::Closed,
            Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => Said::Unknown,
            other => panic!("{other:?}"),
        };
        fates.push((timer, fate));
    }
    fates
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_became_read_only_is_left_for_the_one_that_writes() {
    let (old, new) = tokio::join!(own_server(), own_server());
    migrate_up(&new.params()).await.unwrap();
    let both = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", old.port(), new.port());
    let (bed, node) = real_bed(PostgresParams { url: both, ..old.params() }).await;
    let before = bed.register("before", Due::After(secs(60))).await;
    let client = old.client().await;
    client.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let began = Instant::now();
    let read_only = "SHOW default_transaction_read_only";
    while client.query_one(read_only, &[]).await.unwrap().get::<_, String>(0) == "off" {
        assert!(began.elapsed() < PATIENCE, "the server takes its setting in");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    // Written on the new server at once, since nothing was done on the old one; and reads have moved too.
    bed.store.ping().await.unwrap();
    let moved = node.timer_by_key(bed.type_id, before.key.clone()).await.unwrap();
    assert_eq!(moved, None);
    let pinged = |client: tokio_postgres::Client| async move {
        let row = client.query_one("SELECT value FROM settings WHERE name = 'pinged_at'", &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    assert_eq!(pinged(old.client().await).await, 0);
    assert!(pinged(new.client().await).await > 0);

    // With no server that writes, it says so, and goes on once there is one.
    let alone = PostgresParams { migrate: false, ..old.params() };
    let Err(refused) = Postgres::connect(alone).await else { panic!("connected to a server that does not write") };
    assert!(refused.to_string().contains("cannot be used"), "{refused}");
}
