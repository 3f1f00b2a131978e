//! What was answered stands; one process has the database; and a fault of the file is said, with nothing half done.

use std::{sync::Arc, time::Duration};

use lapse::{
    clock::ManualClock,
    domain::{
        machine::MAX_LAPSES,
        timer::{Due, State},
    },
    store::{
        Error, Limits, Store,
        op::{ClaimBacklog, ClaimCompensations},
        sqlite::{OpenError, Sqlite, SqliteParams, migrate_up},
    },
};

use super::{
    bed::{Bed, chain, name, noon, secs},
    sqlite,
};

fn params(folder: &std::path::Path) -> SqliteParams {
    let path = folder.join("lapse.db");
    SqliteParams { path, readers: 1, clock: ManualClock::new(noon()), chain: chain(), migrate: true }
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(noon());
    let open = || Store::new(sqlite::open(folder.path(), Arc::clone(&clock)), Limits::default());
    let bed = Bed::furnish(open(), Arc::clone(&clock), Box::new(())).await;
    let waiting = bed.register("A17", Due::After(secs(60))).await;
    let due = bed.due_timer("B4").await;
    let (closed, ids) = bed.close(&due, 2).await;
    // Dropped, not closed; the writer's task lets go of the driver a moment later.
    let Bed { store, namespace, type_id, .. } = bed;
    drop(store);
    let mut tries = 0;
    while let Err(error) = Sqlite::open(params(folder.path())).map(drop) {
        assert!(matches!(error, OpenError::Locked { .. }) && tries < 500, "{error}");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let bed = Bed { store: open(), clock, namespace, type_id, _home: Box::new(()) };
    assert_eq!(bed.timer(waiting.id).await, waiting);
    assert_eq!(bed.timer(due.id).await, closed);
    assert_eq!(closed.state, State::Closed);
    for id in ids {
        assert!(bed.store.read().compensation(id).await.unwrap().is_some());
    }
    assert_eq!(bed.verify(due.id).await, Ok(()));
}

/// The process that held a lease is gone, since another has the file: what it had claimed is taken up at once, as an
/// attempt that counts, until it is set aside as poison.
#[tokio::test]
async fn the_leases_of_a_process_that_died_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(noon());
    let open = || Store::new(sqlite::open(folder.path(), Arc::clone(&clock)), Limits::default());
    let mut bed = Bed::furnish(open(), Arc::clone(&clock), Box::new(())).await;
    let due = bed.due_timer("B4").await;
    let lane = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit: 5, lease: secs(600) };
    let closing = bed.due_timer("A17").await;
    bed.close(&closing, 1).await;
    let run = bed.store.claim_compensations(lane.clone()).await.unwrap().remove(0);
    bed.claim(&due, secs(600)).await;
    let backlog = ClaimBacklog {
        limits: vec![(bed.type_id, 5)],
        before: bed.now(),
        lease: secs(600),
        node: "n".into(),
        except: Vec::new(),
    };
    for lapses in 1..=MAX_LAPSES {
        assert!(bed.store.claim_backlog(backlog.clone()).await.unwrap().is_empty(), "the lease holds while it runs");
        assert!(bed.store.claim_compensations(lane.clone()).await.unwrap().is_empty());
        bed.store.close().await;
        bed.store = open();
        let taken = bed.store.claim_backlog(backlog.clone()).await.unwrap();
        let timer = bed.timer(due.id).await;
        if lapses < MAX_LAPSES {
            assert_eq!(taken, std::slice::from_ref(&timer));
            assert_eq!((timer.state, timer.attempt, timer.lapses), (State::Firing, lapses + 1, lapses));
        } else {
            assert_eq!((taken.len(), timer.state), (0, State::Failed), "poison");
        }
        let again = bed.store.claim_compensations(lane.clone()).await.unwrap().remove(0);
        assert_eq!((again.id, again.attempt), (run.id, lapses + 1));
        assert_eq!(bed.verify(due.id).await, Ok(()));
    }
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = Sqlite::open(params(folder.path())).unwrap();
    let Err(refused) = Sqlite::open(params(folder.path())) else { panic!("opened twice") };
    assert!(matches!(refused, OpenError::Locked { .. }));
    let sentence = refused.to_string();
    assert!(sentence.contains("in use by another process") && sentence.contains(&std::process::id().to_string()));
    assert!(matches!(migrate_up(&folder.path().join("lapse.db")), Err(OpenError::Locked { .. })));
    lapse::store::Driver::close(&*first).await;
    Sqlite::open(params(folder.path())).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lapse.db"), "this was never a database. ".repeat(400)).unwrap();
    let Err(refused) = Sqlite::open(params(folder.path())) else { panic!("opened") };
    assert!(refused.to_string().contains("is no SQLite database"), "{refused}");
    let Err(refused) = Sqlite::open(SqliteParams { path: folder.path().into(), ..params(folder.path()) }) else {
        panic!("opened a folder")
    };
    assert!(matches!(refused, OpenError::Database { .. }), "{refused}");
}

/// A damaged page: what touches it fails with a sentence, and the process goes on.
#[tokio::test]
async fn a_damaged_page_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(noon());
    let open = || Store::new(sqlite::open(folder.path(), Arc::clone(&clock)), Limits::default());
    let bed = Bed::furnish(open(), Arc::clone(&clock), Box::new(())).await;
    for n in 0..50 {
        bed.register(&format!("k{n}"), Due::After(secs(60))).await;
    }
    bed.store.close().await;
    let path = folder.path().join("lapse.db");
    let root: usize = rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'timers'", [], |row| row.get(0))
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(root - 1) * 4096..root * 4096].fill(0xAA);
    std::fs::write(&path, bytes).unwrap();
    let bed = Bed { store: open(), ..bed };
    let refused = bed.store.insert(bed.new_timer("new", Due::After(secs(60)))).await;
    assert!(matches!(&refused, Err(Error::Unavailable(why)) if why.contains("damaged")), "{refused:?}");
    bed.store.ping().await.unwrap();
}

/// A reader that keeps its snapshot holds up neither writes nor other reads.
#[tokio::test]
async fn a_long_read_does_not_stop_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let bed = sqlite::bed_in(folder.path()).await;
    let reader = rusqlite::Connection::open(folder.path().join("lapse.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM timers").unwrap();
    let timer = tokio::time::timeout(Duration::from_secs(4), bed.register("A17", Due::After(secs(60)))).await.unwrap();
    assert_eq!(bed.timer(timer.id).await, timer);
    let seen: i64 = reader.query_row("SELECT count(*) FROM timers", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 0, "its snapshot is from before");
}

/// Another program holds the file for longer than the writer waits: the call fails, and nothing of it is done later.
#[tokio::test]
async fn a_write_that_cannot_be_done_is_not_done_later() {
    let folder = tempfile::tempdir().unwrap();
    let bed = sqlite::bed_in(folder.path()).await;
    let holder = rusqlite::Connection::open(folder.path().join("lapse.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let new = bed.new_timer("A17", Due::After(secs(60)));
    let id = new.id;
    let refused = bed.store.insert(new).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    holder.execute_batch("ROLLBACK").unwrap();
    bed.store.ping().await.unwrap();
    assert_eq!(bed.store.read().timer(id).await.unwrap(), None);
}

/// The file cannot grow, as on a full disk: refused, with nothing half done; and it goes on once there is room again.
/// In a process of its own, since the limit is one of the process.
#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::durability::with_a_bounded_file", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

#[tokio::test]
#[ignore = "the child of the test above"]
async fn with_a_bounded_file() {
    let folder = tempfile::tempdir().unwrap();
    let bed = sqlite::bed_in(folder.path()).await;
    limit_file_size(Some(2 << 20));
    let mut kept = Vec::new();
    let refused = loop {
        let new = bed.new_timer(&format!("k{}", kept.len()), Due::After(secs(60)));
        let id = new.id;
        match bed.store.insert(new).await {
            Ok(_) => kept.push(id),
            Err(error) => break (id, error),
        }
        assert!(kept.len() < 100_000, "the limit is none");
    };
    assert!(matches!(refused.1, Error::Unavailable(_)), "{:?}", refused.1);
    assert_eq!(bed.store.read().timer(refused.0).await.unwrap(), None);
    limit_file_size(None);
    bed.store.ping().await.unwrap();
    bed.store.close().await;
    let again = sqlite::open(folder.path(), ManualClock::new(noon()));
    for id in &kept {
        assert!(lapse::store::Driver::timer(&*again, *id).await.unwrap().is_some(), "what was answered stands");
    }
    assert_eq!(lapse::store::Driver::timer(&*again, refused.0).await.unwrap(), None);
}

/// Writes beyond it fail; the signal that would end the process is ignored.
fn limit_file_size(bytes: Option<u64>) {
    // SAFETY: plain calls with plain values; SIG_IGN is a valid disposition, and the limit lives through the call.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        assert_eq!(libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit), 0);
        limit.rlim_cur = bytes.unwrap_or(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}
