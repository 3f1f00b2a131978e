//! A mass of overdue timers that a cluster finds when it starts: drained at the set rate, and fresh ones do not wait.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lapse::{
    domain::{
        id::TimerId,
        time::DurationMs,
        timer::{Due, NewTimer},
    },
    store::{Driver as _, op::Op},
};
use rand::RngExt as _;

use super::rig::{Cluster, ClusterParams, Load, load};
use crate::{
    faults::{ledger, rounds, seeded},
    support::nats::Nats,
};

/// Those that a copy takes over, whatever has been added to the table.
const COLUMNS: &str = "
    SELECT quote_ident(column_name) FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name = 'timers' AND column_name NOT IN ('id', 'key')";

/// Inserts timers that have been due for an hour, without a node that could see it: one is registered, and the others
/// are its copies under keys of their own. (Their shard and the link of their registration are that one's, which neither
/// the backlog nor this test looks at.)
async fn insert_overdue(cluster: &Cluster, count: usize) {
    let (store, _) = cluster.store().await;
    let catalogue = store.catalogue().await.unwrap();
    let of = catalogue.types.iter().find(|t| t.name.as_str() == "order-timeout").unwrap();
    let new = NewTimer {
        id: TimerId::new(),
        namespace_id: of.namespace_id,
        type_id: of.id,
        key: "overdue-0".parse().unwrap(),
        payload: ledger::order("overdue", 0, 0).to_string(),
        labels: BTreeMap::default(),
        due: Due::At(store.now().await.unwrap().saturating_sub(DurationMs::from_secs(3600))),
        revision: of.active,
        pinned: false,
        depth: 0,
        actor: "key:test".into(),
        message_id: None,
        fingerprint: [0; 32],
    };
    store.write(Arc::new(vec![Op::Insert(new)])).await.unwrap();
    store.close().await;
    let sql = cluster.database().client().await;
    sql.batch_execute("UPDATE timers SET run_at = due_at, created_at = due_at").await.unwrap();
    let columns = sql.query(COLUMNS, &[]).await.unwrap();
    let columns: Vec<String> = columns.iter().map(|row| row.get(0)).collect();
    let columns = columns.join(", ");
    let copy = format!(
        "INSERT INTO timers (id, key, {columns})
         SELECT gen_random_uuid(), 'overdue-' || nth, {columns} FROM timers, generate_series(1, {}) AS nth
         WHERE key = 'overdue-0'",
        count - 1
    );
    sql.batch_execute(&copy).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_timers_drain_at_the_set_rate_and_fresh_ones_fire_on_time() {
    let mut random = seeded();
    let broker = Nats::start().await;
    let (count, rate) = (rounds(200_000, 1_000_000), rounds(150, 2_000));
    let rate_text = rate.to_string();
    let settings = [("LAPSE_DISPATCH__DRAIN_RATE", rate_text.as_str())];
    let params = ClusterParams { size: 1, nats: broker.url(), settings: &settings, ..ClusterParams::default() };
    let mut cluster = Cluster::of(params).await;
    assert!(cluster.terminate(0).success());
    let began = std::time::Instant::now();
    insert_overdue(&cluster, count).await;
    println!("{count} overdue timers inserted in {:?}", began.elapsed());

    cluster.restart(0);
    cluster.join(&[]);
    cluster.join(&[]);
    let sql = cluster.database().client().await;
    let count_of = async |statement: &str| sql.query_one(statement, &[]).await.unwrap().get::<_, i64>(0);
    // Until each node knows of the others, and has for a while.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let from = ledger::now_ms();
    let seconds = 6;
    let fresh = Load { seconds, per_second: 200, seed: random.random(), name: "fresh".into() };
    let promises = load(cluster.apis(), fresh).await;
    let until = ledger::now_ms();
    // Those that were due last are resolved or closed.
    tokio::time::sleep(Duration::from_secs(4)).await;

    // What was claimed in between, by the audit.
    let claimed = format!(
        "SELECT count(*) FROM events
         WHERE body::json ->> 'kind' = 'claimed' AND body::json ->> 'at' >= '{}' AND body::json ->> 'at' < '{}'",
        ledger::instant(from),
        ledger::instant(until)
    );
    let claimed = count_of(&claimed).await;
    let within = f64::from(i32::try_from(until - from).unwrap()) / 1000.0;
    let drained = f64::from(i32::try_from(claimed).unwrap()) / within;
    println!("drained at {drained:.0}/s of {rate}/s over {within:.1} s");
    assert!(drained <= f64::from(u32::try_from(rate).unwrap()) * 1.15, "faster than the rate that is set");
    assert!(claimed > 0, "nothing is drained");

    let rows = sql
        .query(
            "SELECT t.key, t.state, t.settled_at - t.due_at, (
                 SELECT e.body::json ->> 'trigger' FROM events AS e WHERE e.timer_id = t.id AND e.body::json ->> 'trigger' IS NOT NULL
                 ORDER BY e.seq DESC LIMIT 1)
             FROM timers AS t WHERE t.key LIKE 'fresh-%'",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(rows.len(), promises.len(), "every fresh registration is there");
    let (mut late, mut waited) = (Vec::new(), Vec::new());
    for row in rows {
        let (key, state, lateness, trigger): (String, i16, Option<i64>, Option<String>) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let trigger = trigger.unwrap_or_default();
        match state {
            2 if ["slot", "near"].contains(&trigger.as_str()) => {}
            2 => waited.push((key, trigger, lateness)),
            4 => continue,
            other => panic!("{key} is in state {other}"),
        }
        late.push(lateness.unwrap());
    }
    late.sort_unstable();
    let at = |percent: usize| late[(late.len() - 1) * percent / 100];
    assert!(at(0) >= 0, "early");
    assert!(waited.is_empty(), "fresh timers had to wait for the backlog: {waited:?}");
    println!("lateness, fresh: p50 {} ms, p99 {} ms, most {} ms", at(50), at(99), at(100));

    let unsettled = "SELECT count(*) FROM timers WHERE key LIKE 'overdue-%' AND run_at IS NOT NULL";
    if rounds(0, 1) == 1 {
        let patience = Duration::from_secs(2 * (count / rate) as u64 + 60);
        while count_of(unsettled).await > 0 {
            assert!(began.elapsed() < patience, "the mass is not drained in {patience:?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        println!("drained {:?} after the first was inserted", began.elapsed());
    }
    // One outcome each: two events, the claim and the outcome, and nothing that was claimed is left behind.
    let odd = "SELECT count(*) FROM timers AS t WHERE key LIKE 'overdue-%' AND (state NOT IN (0, 1, 2)
               OR version <> CASE state WHEN 0 THEN 1 WHEN 1 THEN 2 ELSE 3 END)";
    assert_eq!(count_of(odd).await, 0, "an overdue timer has more or less than one outcome");
    // In one statement: it goes on draining.
    let doubtful = "SELECT count(*) FROM timers AS t WHERE key LIKE 'overdue-%' AND state = 2 AND 1 <> (
                        SELECT count(*) FROM events AS e
                        WHERE e.timer_id = t.id AND e.body::json ->> 'kind' = 'closed')";
    assert_eq!(count_of(doubtful).await, 0, "a closed timer has more or less than one outcome");
    let closed = count_of("SELECT count(*) FROM timers WHERE key LIKE 'overdue-%' AND state = 2").await;
    println!("{closed} of {count} overdue timers are closed");
}
