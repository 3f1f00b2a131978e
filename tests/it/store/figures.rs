//! What the store carries on this machine: not a test, and run only by name.
//!
//! `cargo nextest run --run-ignored only --no-capture -E 'test(store::figures)'`

use std::{sync::Arc, time::Instant};

use lapse::{
    clock::{Clock as _, SystemClock},
    domain::{
        time::DurationMs,
        timer::{Due, Timer},
    },
    store::{
        Limits, Store,
        op::{Inserted, Settled},
        sqlite::{Sqlite, SqliteParams},
    },
};

use super::bed::{Bed, chain, close, compensation, noon, settlement};

const TIMERS: usize = 60_000;

/// `LAPSE_FIGURES_READ=1`: a reader lists and reads all the while.
#[test]
#[ignore = "measures, and asserts nothing"]
#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints a table of small numbers")]
fn inserts_and_settles_a_second() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("callers   inserts/s   p99 ms  writer µs  all µs   settles/s   p99 ms  writer µs  all µs   log MiB");
    for callers in [1, 64, 256, 1024] {
        let timers = if callers == 1 { 1_000 } else { TIMERS };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lapse.db");
        let line = runtime.block_on(async {
            let clock = Arc::new(SystemClock);
            let params = SqliteParams { path: path.clone(), readers: 2, clock, chain: chain(), migrate: true };
            let store = Store::new(Sqlite::open(params).unwrap(), Limits::default());
            let manual = lapse::clock::ManualClock::new(noon());
            let bed = Arc::new(Bed::furnish(store, manual, Box::new(())).await);
            let reading = std::env::var_os("LAPSE_FIGURES_READ").map(|_| {
                let bed = Arc::clone(&bed);
                tokio::spawn(async move { read_on(&bed).await })
            });
            let began = (writer_us(), process_us());
            let (inserts, insert_p99, made) = insert_all(&bed, callers, timers).await;
            let between = (writer_us(), process_us());
            let (settles, settle_p99) = settle_all(&bed, callers, made).await;
            let ended = (writer_us(), process_us());
            let each = |us: f64| us / (timers / callers * callers) as f64;
            let (insert_us, insert_all_us) = (each(between.0 - began.0), each(between.1 - began.1));
            let (settle_us, settle_all_us) = (each(ended.0 - between.0), each(ended.1 - between.1));
            let log = std::fs::metadata(folder.path().join("lapse.db-wal")).map_or(0, |m| m.len()) >> 20;
            if let Some(reading) = reading {
                reading.abort();
            }
            bed.store.close().await;
            let inserts = format!("{inserts:11.0} {insert_p99:8.1} {insert_us:10.1} {insert_all_us:7.1}");
            let settles = format!("{settles:11.0} {settle_p99:8.1} {settle_us:10.1} {settle_all_us:7.1}");
            format!("{callers:7} {inserts} {settles} {log:9}")
        });
        println!("{line}");
    }
}

/// Processor time of the writer's thread, which does not depend on what else the machine does.
fn writer_us() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|entry| entry.path());
    let writers = threads.filter(|t| std::fs::read_to_string(t.join("comm")).is_ok_and(|c| c.trim() == "lapse-write"));
    let spent = |t: std::path::PathBuf| std::fs::read_to_string(t.join("schedstat")).unwrap_or_default();
    writers.map(|t| spent(t).split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e3).sum()
}

/// Processor time of the whole process, callers included.
fn process_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // User and system time, in hundredths of a second.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) * 1e4
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
async fn insert_all(bed: &Arc<Bed>, callers: usize, timers: usize) -> (f64, f64, Vec<Timer>) {
    let started = Instant::now();
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let bed = Arc::clone(bed);
        tasks.push(tokio::spawn(async move {
            let mut made = Vec::new();
            for n in 0..timers / callers {
                // Due now: it can be settled at once.
                let due = Due::At(SystemClock.now().saturating_sub(DurationMs::from_secs(1)));
                let mut new = bed.new_timer(&format!("order-{}-{n}", caller * 7919), due);
                new.payload = format!(r#"{{"order_id":"{n}","items":"{}"}}"#, "x".repeat(250));
                let asked = Instant::now();
                let Inserted::Created(timer) = bed.store.insert(new).await.unwrap() else { panic!() };
                made.push((timer, asked.elapsed()));
            }
            made
        }));
    }
    let mut made = Vec::new();
    for task in tasks {
        made.extend(task.await.unwrap());
    }
    let rate = made.len() as f64 / started.elapsed().as_secs_f64();
    let mut waits: Vec<_> = made.iter().map(|(_, wait)| *wait).collect();
    waits.sort_unstable();
    let p99 = waits[waits.len() * 99 / 100].as_secs_f64() * 1e3;
    (rate, p99, made.into_iter().map(|(timer, _)| timer).collect())
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
async fn settle_all(bed: &Arc<Bed>, callers: usize, made: Vec<Timer>) -> (f64, f64) {
    let started = Instant::now();
    let each = made.len() / callers;
    let mut tasks = Vec::new();
    for share in made.chunks(each) {
        let (bed, share) = (Arc::clone(bed), share.to_vec());
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            for timer in share {
                let mut settlement = settlement(&timer, close());
                settlement.compensations = vec![compensation("release", 1)];
                let asked = Instant::now();
                let Settled::Done { .. } = bed.store.settle(settlement).await.unwrap() else { panic!() };
                waits.push(asked.elapsed());
            }
            waits
        }));
    }
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    let rate = waits.len() as f64 / started.elapsed().as_secs_f64();
    waits.sort_unstable();
    (rate, waits[waits.len() * 99 / 100].as_secs_f64() * 1e3)
}

async fn read_on(bed: &Bed) {
    let mut query = lapse::store::read::TimerQuery { types: vec![bed.type_id], limit: 500, ..Default::default() };
    loop {
        let page = bed.store.read().timers(query.clone()).await.unwrap();
        query.before = page.next.map(|(at, id)| (at, lapse::domain::id::TimerId(id)));
    }
}
