//! What PostgreSQL carries on this machine, beside plain statements on a bare table: not a test, and run only by name.
//!
//! `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo nextest run --run-ignored only --no-capture -E 'test(store::postgres_figures)'`

use std::{sync::Arc, time::Instant};

use lapse::{
    domain::{
        time::DurationMs,
        timer::{Due, Timer},
    },
    store::{
        Driver as _,
        op::{Answer, ClaimBacklog, Inserted, Op, Settled},
        postgres::Postgres,
    },
};

use super::{
    bed::{Bed, close, compensation, secs, settlement},
    postgres::{new_timer, real_bed},
};
use crate::support::postgres::{Database, own_server};

const BATCH: usize = 500;
const TIMERS: usize = 25_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and asserts nothing"]
#[expect(clippy::print_stdout, reason = "it prints a table")]
async fn batches_of_500_by_one_writer() {
    let database = own_server().await;
    let (bed, node) = real_bed(database.params()).await;
    // Rounds in turn, so that what else the machine does falls on both.
    for round in 0..3 {
        let (raw_inserts, raw_settles) = raw(&database, round).await;
        database
            .execute(&format!("ALTER SYSTEM SET wal_compression = {}", if round == 2 { "on" } else { "off" }))
            .await;
        database.execute("SELECT pg_reload_conf()").await;
        let before = Use::now(&database).await;
        let (inserts, settles) = ours(&bed, &node, round * TIMERS).await;
        before.show_since(&database).await;
        let by_two = async |first| tokio::join!(ours(&bed, &node, first), ours(&bed, &node, first + TIMERS));
        let (one, other) = by_two((round * 2 + 100) * TIMERS).await;
        println!(
            "by two writers at once:                                  lapse inserts {:7.0}  settles {:7.0}",
            one.0 + other.0,
            one.1 + other.1
        );
        println!(
            "a second:  bare inserts {raw_inserts:7.0}  settles {raw_settles:7.0}   lapse inserts {inserts:7.0}  settles {settles:7.0}"
        );
    }
    let sizes = "SELECT relname::text, pg_table_size(oid) / greatest(reltuples, 1)::bigint, pg_indexes_size(oid) / greatest(reltuples, 1)::bigint
                 FROM pg_class WHERE relname IN ('timers', 'events', 'compensations') ORDER BY relname";
    let client = database.client().await;
    client.batch_execute("ANALYZE").await.unwrap();
    for row in client.query(sizes, &[]).await.unwrap() {
        let (table, heap, indexes): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
        println!("a row of {table}: {heap} bytes, and {indexes} in its indexes");
    }
    for (first, held) in [(11_000_000, false), (12_000_000, true)] {
        let holder = database.client().await;
        if held {
            holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM timers LIMIT 1").await.unwrap();
        }
        let rates = drain(&bed, &node, first).await;
        println!(
            "backlog drained, an old transaction open: {held:5}   claims and settles a second, by quarter: {rates:.0?}"
        );
        holder.batch_execute("ROLLBACK").await.unwrap();
    }
    bed.store.close().await;
}

/// What a round has used up.
struct Use {
    own_cpu_ms: u64,
    server_cpu_ms: u64,
    table_bytes: i64,
    wal_bytes: i64,
}

impl Use {
    async fn now(database: &Database) -> Self {
        let client = database.client().await;
        client.batch_execute("CHECKPOINT").await.unwrap();
        let sizes =
            "SELECT sum(pg_total_relation_size(c.oid))::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
                     FROM pg_class AS c WHERE c.relname IN ('timers', 'events', 'compensations')";
        let sizes = client.query_one(sizes, &[]).await.unwrap();
        let pids =
            client.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'lapse'", &[]).await.unwrap();
        let server_cpu_ms = pids.iter().map(|row| cpu_ms(row.get(0))).sum();
        let own_cpu_ms = cpu_ms(std::process::id().cast_signed());
        Self { own_cpu_ms, server_cpu_ms, table_bytes: sizes.get(0), wal_bytes: sizes.get(1) }
    }

    #[expect(clippy::print_stdout, reason = "it prints a table")]
    async fn show_since(&self, database: &Database) {
        let now = Self::now(database).await;
        let timers = i64::try_from(TIMERS).unwrap();
        println!(
            "a timer, registered and closed with one compensation: {} bytes in tables, {} in the log; CPU of 1,000: ours {} ms, PostgreSQL's {} ms",
            (now.table_bytes - self.table_bytes) / timers,
            (now.wal_bytes - self.wal_bytes) / timers,
            (now.own_cpu_ms - self.own_cpu_ms) * 1000 / TIMERS as u64,
            (now.server_cpu_ms - self.server_cpu_ms) * 1000 / TIMERS as u64,
        );
    }
}

/// In user and system mode, as Linux counts it: in hundredths of a second.
fn cpu_ms(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |nth: usize| fields.get(nth).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10
}

fn rate(count: usize, began: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a count of timers")]
    let count = count as f64;
    count / began.elapsed().as_secs_f64()
}

async fn insert(bed: &Bed, node: &Postgres, keys: std::ops::Range<usize>) -> Vec<Timer> {
    let due = Due::At(node.now().await.unwrap().saturating_sub(DurationMs::from_secs(1)));
    let new = |n| {
        let mut new = new_timer(bed, n, due);
        new.payload = format!(r#"{{"order_id":"{n}","items":"{}"}}"#, "x".repeat(250));
        Op::Insert(new)
    };
    let answers = node.write(Arc::new(keys.map(new).collect())).await.unwrap();
    let created = |answer| match answer {
        Answer::Inserted(Inserted::Created(timer)) => timer,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(created).collect()
}

async fn settle(node: &Postgres, timers: &[Timer]) {
    let op = |timer: &Timer| {
        let mut settlement = settlement(timer, close());
        settlement.compensations = vec![compensation("release", 1)];
        Op::Settle(settlement)
    };
    let answers = node.write(Arc::new(timers.iter().map(op).collect())).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Settled(Settled::Done { .. }))));
}

async fn ours(bed: &Bed, node: &Postgres, first: usize) -> (f64, f64) {
    let began = Instant::now();
    let mut made = Vec::new();
    for start in (first..first + TIMERS).step_by(BATCH) {
        made.push(insert(bed, node, start..start + BATCH).await);
    }
    let inserts = rate(TIMERS, began);
    let began = Instant::now();
    for timers in &made {
        settle(node, timers).await;
    }
    (inserts, rate(TIMERS, began))
}

/// Claims and settles a backlog.
async fn drain(bed: &Bed, node: &Postgres, first: usize) -> Vec<f64> {
    for start in (first..first + TIMERS).step_by(BATCH) {
        insert(bed, node, start..start + BATCH).await;
    }
    let mut rates = Vec::new();
    for _ in 0..4 {
        let began = Instant::now();
        for _ in 0..TIMERS / BATCH / 4 {
            let claim = ClaimBacklog {
                limits: vec![(bed.type_id, BATCH)],
                before: node.now().await.unwrap(),
                lease: secs(60),
                node: "n".into(),
                except: Vec::new(),
            };
            match node.write(Arc::new(vec![Op::ClaimBacklog(claim)])).await.unwrap().remove(0) {
                Answer::Backlog(backlog) => settle(node, &backlog.claimed).await,
                other => panic!("{other:?}"),
            }
        }
        rates.push(rate(TIMERS / 4, began));
    }
    rates
}

/// The floor: the same weight in plain statements, with no state machine, no audit chain and no answers.
async fn raw(database: &Database, round: usize) -> (f64, f64) {
    let client = database.client().await;
    let tables = format!(
        "CREATE TABLE bare_{round} (id uuid PRIMARY KEY, key text COLLATE \"C\" UNIQUE, run_at bigint, state int, payload text);
         CREATE INDEX ON bare_{round} (run_at) WHERE run_at IS NOT NULL;
         CREATE TABLE bare_events_{round} (id uuid, seq bigint, body text, PRIMARY KEY (id, seq));
         CREATE TABLE bare_compensations_{round} (id uuid PRIMARY KEY, timer uuid, payload text)"
    );
    client.batch_execute(&tables).await.unwrap();
    let insert = format!("INSERT INTO bare_{round} SELECT u.*, 1, 0, $3 FROM unnest($1::uuid[], $2::text[]) AS u");
    let insert = client.prepare(&insert).await.unwrap();
    let settle = format!(
        "WITH u AS (UPDATE bare_{round} SET state = 2, run_at = NULL WHERE id = ANY ($1) AND state = 0 RETURNING id),
             e AS (INSERT INTO bare_events_{round} SELECT id, 1, $2 FROM u)
         INSERT INTO bare_compensations_{round} SELECT gen_random_uuid(), id, $2 FROM u"
    );
    let settle = client.prepare(&settle).await.unwrap();
    let ids: Vec<uuid::Uuid> = (0..TIMERS).map(|_| uuid::Uuid::now_v7()).collect();
    let payload = "x".repeat(300);
    let began = Instant::now();
    for batch in ids.chunks(BATCH) {
        let keys: Vec<String> = batch.iter().map(|id| format!("order-{id}")).collect();
        client.execute(&insert, &[&batch, &keys, &payload]).await.unwrap();
    }
    let inserts = rate(TIMERS, began);
    let began = Instant::now();
    for batch in ids.chunks(BATCH) {
        assert_eq!(client.execute(&settle, &[&batch, &payload]).await.unwrap(), batch.len() as u64);
    }
    (inserts, rate(TIMERS, began))
}
