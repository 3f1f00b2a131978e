//! The hot tables are read through their indexes: as the server plans it for full tables, and as the driver has it from
//! its first statement on an empty one.

use std::time::Duration;

use lapse::{
    domain::{
        compensation::{CompensationState, RunResult},
        decision::FailureClass,
        machine::{Command, Settle},
        timer::{Due, State},
    },
    store::{
        Driver as _,
        op::{ClaimBacklog, ClaimCompensations, Redrive, RedriveWhich},
        postgres::{migrate_up, statements},
        read::{CompensationQuery, DueQuery, TimerQuery},
    },
};

use super::{
    bed::{act, close, failure, finish, key, name, secs},
    postgres::{overdue, real_bed},
};
use crate::support::postgres::database;

/// What must be used, of a statement.
const EXPECTED: &[(&str, &str)] = &[
    ("timers.by_id", "timers_pkey"),
    ("timers.by_ids", "timers_pkey"),
    ("timers.by_key", "timers_key"),
    ("timers.by_keys", "timers_key"),
    ("timers.ids_by_keys", "timers_key"),
    ("timers.lock", "timers_pkey"),
    ("timers.look", "timers_pkey"),
    ("timers.of_compensations", "timers_pkey"),
    ("timers.of_compensations", "compensations_pkey"),
    ("timers.free", "timers_pkey"),
    ("timers.write", "timers_pkey"),
    ("timers.write", "compensations_pkey"),
    ("timers.due", "timers_by_shard"),
    ("timers.claim_overdue", "timers_by_type"),
    ("timers.claim_lapsed", "timers_firing"),
    ("timers.oldest_of", "timers_pkey"),
    ("timers.overdue_types", "timers_by_type"),
    ("timers.lapsed_types", "timers_firing"),
    ("timers.page", "timers_list"),
    ("timers.page_keys", "timers_list"),
    ("timers.page_ascending", "timers_list"),
    ("timers.page_keys_ascending", "timers_list"),
    ("timers.keys", "timers_key"),
    ("timers.count_due", "timers_list"),
    ("timers.upcoming", "timers_by_type"),
    ("timers.payloads_under", "timers_by_revision"),
    ("catalogue.needed", "compensations_by_revision"),
    ("events.after", "events_pkey"),
    ("compensations.by_id", "compensations_pkey"),
    ("compensations.by_ids", "compensations_pkey"),
    ("compensations.by_timer", "compensations_made_once"),
    ("compensations.timers_of", "compensations_pkey"),
    ("compensations.lock", "compensations_pkey"),
    ("compensations.look", "compensations_pkey"),
    ("compensations.claim", "compensations_lane"),
    ("compensations.lanes", "compensations_lane"),
    ("compensations.page", "compensations_list"),
    ("compensations.page_keys", "compensations_list"),
    ("compensations.dead", "compensations_list"),
    ("compensations.count", "compensations_list"),
    ("compensations.count_by_type", "compensations_list"),
    ("compensations.oldest_at", "compensations_list"),
];

/// Of these the server thinks better to read the whole, as long as the driver does not tell it otherwise.
const GUIDED: &[&str] = &["compensations.count", "compensations.count_by_type", "compensations.page"];

/// What the driver sets on its connections.
const GUIDE: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off";

const FILL: &str = "
    INSERT INTO timers (id, due_at, run_at, created_at, first_due_at, version, namespace_id, type_id, revision, attempt,
        lapses, depth, shard, state, pinned, manual, key, actor, head, payload)
    SELECT gen_random_uuid(), n, CASE WHEN n % 3 = 0 THEN n END, 0, n, 1, 1, n % 7, 1, 1, 0, 0, n % 16,
        CASE WHEN n % 3 > 0 THEN 2 WHEN n % 100 = 0 THEN 1 ELSE 0 END, false, false, 'k' || n, 'a', '', '{}'
    FROM generate_series(1, 40000) AS n;
    INSERT INTO events (timer_id, seq, mac, body) SELECT id, 2, '', '{}' FROM timers;
    INSERT INTO compensations (id, timer_id, seq, run_at, fence, created_at, type_id, revision, attempt, first_attempt,
        state, kind, payload)
    SELECT gen_random_uuid(), id, 3, CASE WHEN due_at % 4 < 2 THEN due_at END, 0, due_at, type_id, 1, 1, 1, due_at % 4,
        'kind-' || due_at % 5, '{}'
    FROM timers;
    ANALYZE";

#[tokio::test]
async fn every_statement_is_served_by_its_index() {
    let database = database().await;
    migrate_up(&database.params()).await.unwrap();
    database.execute(FILL).await;
    let mut faults = Vec::new();
    for guide in ["", GUIDE] {
        let client = database.client().await;
        client.batch_execute("SET plan_cache_mode = force_generic_plan").await.unwrap();
        client.batch_execute(guide).await.unwrap();
        for (name, text) in statements().filter(|(name, _)| !guide.is_empty() || !GUIDED.contains(name)) {
            let plan = plan(&client, name, text).await;
            if ["timers", "events", "compensations"].iter().any(|t| plan.contains(&format!("Seq Scan on {t}"))) {
                faults.push(format!("{name} reads the whole table:\n{plan}"));
            }
            for (_, index) in EXPECTED.iter().filter(|(expecting, _)| *expecting == name) {
                if !plan.contains(index) {
                    faults.push(format!("{name} is not served by {index}:\n{plan}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(EXPECTED.iter().all(|(expecting, _)| statements().any(|(name, _)| name == *expecting)));
}

/// Whatever its parameters.
async fn plan(client: &tokio_postgres::Client, name: &str, text: &str) -> String {
    let parameters = (1..100).take_while(|n| text.contains(&format!("${n}"))).count();
    let values = if parameters == 0 { String::new() } else { format!("({})", vec!["NULL"; parameters].join(", ")) };
    let name = name.replace('.', "_");
    client.batch_execute(&format!("PREPARE {name} AS {text}")).await.unwrap();
    let rows = client.query(&format!("EXPLAIN (COSTS OFF) EXECUTE {name} {values}"), &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect::<Vec<String>>().join("\n")
}

#[tokio::test]
async fn no_hot_table_is_ever_read_whole() {
    let database = database().await;
    migrate_up(&database.params()).await.unwrap();
    let scans = async || {
        // A connection's counts are in when it has ended.
        let client = database.client().await;
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
        while client.query_one(open, &[]).await.unwrap().get::<_, i64>(0) > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let counted = "SELECT sum(seq_scan)::bigint, sum(idx_scan)::bigint FROM pg_stat_user_tables
                       WHERE relname IN ('timers', 'events', 'compensations')";
        let row = client.query_one(counted, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    let before = scans().await;

    let (bed, node) = real_bed(database.params()).await;
    for round in 0..3 {
        let timers = overdue(&bed, &node, round * 300..round * 300 + 300).await;
        let now = node.now().await.unwrap();
        bed.close(&timers[0], 2).await;
        bed.settle(&timers[1], Settle::Fail { failure: failure(FailureClass::Permanent) }).await;
        bed.claim(&timers[2], secs(60)).await;
        bed.act(&timers[3], Command::Reschedule(Due::After(secs(60)))).await;
        let target = lapse::store::op::Target::Key { type_id: bed.type_id, key: key("order-4") };
        bed.store.act(act(target, Command::Cancel)).await.unwrap();
        bed.store.insert(bed.new_timer("order-5", Due::After(secs(1)))).await.unwrap();
        let except = vec![timers[5].id, timers[6].id];
        let limits = vec![(bed.type_id, 20)];
        let claim = ClaimBacklog { limits, before: now, lease: secs(60), node: "n".into(), except };
        bed.store.claim_backlog(claim).await.unwrap();
        node.overdue_types(now).await.unwrap();
        let until = now.saturating_add(secs(100));
        let due = DueQuery { shard: 3, from: lapse::domain::time::Timestamp::MIN, until, after: None, limit: 100 };
        node.due(due).await.unwrap();
        node.events(timers[0].id, 0, 10).await.unwrap();
        let query = TimerQuery { types: vec![bed.type_id], limit: 10, ..TimerQuery::default() };
        let label = Some(("team".into(), "checkout".into()));
        for query in [
            TimerQuery { key: Some("order-7".into()), ..query.clone() },
            TimerQuery { expired: Some(true), states: vec![State::Scheduled], ..query.clone() },
            TimerQuery { label, ..query.clone() },
            query,
        ] {
            node.timers(query).await.unwrap();
        }
        let lane = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit: 5, lease: secs(60) };
        for run in bed.store.claim_compensations(lane).await.unwrap() {
            let dead = RunResult::Dead { failure: failure(FailureClass::Permanent) };
            bed.store.finish_compensation(finish(run.id, run.fence, dead)).await.unwrap();
            node.compensation(run.id).await.unwrap().unwrap();
        }
        let redrive = Redrive {
            namespace_id: bed.namespace,
            which: RedriveWhich::Filter { type_id: None, kind: Some(name("release")), limit: 1 },
            to_active: false,
            note: "again".into(),
            actor: "key:test".into(),
        };
        bed.store.redrive(redrive).await.unwrap();
        let query = CompensationQuery { types: vec![bed.type_id], limit: 10, ..CompensationQuery::default() };
        for query in [
            CompensationQuery { timer_id: Some(timers[0].id), ..query.clone() },
            CompensationQuery { kind: Some(name("release")), states: vec![CompensationState::Dead], ..query.clone() },
            query,
        ] {
            node.compensations(query).await.unwrap();
        }
        node.compensation_lanes(now).await.unwrap();
        node.next_compensation_at().await.unwrap();
        node.compensation_counts(100).await.unwrap();
        bed.settle(&timers[7], close()).await;
    }
    bed.store.close().await;
    let after = scans().await;
    assert_eq!(after.0, before.0, "a hot table was read whole");
    assert!(after.1 > before.1 + 100, "the indexes were used: {before:?}, {after:?}");
}
