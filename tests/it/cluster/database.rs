//! The database goes, hangs, or is cut off in the middle of a write, under three nodes and their load.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::RngExt as _;
use reqwest::StatusCode;
use serde_json::json;

use super::rig::{Cluster, Load, load};
use crate::{
    faults::{
        ledger::{self, Api, Promise},
        rounds, seeded,
    },
    support::{
        cutter::{Cutter, Fate},
        postgres::{database, own_server},
    },
};

/// Short leases: what was claimed by a lost answer is taken up within the test's time.
const LEASES: [(&str, &str); 2] = [("LAPSE_DISPATCH__LEASE", "4s"), ("LAPSE_COMPENSATION__LEASE", "4s")];

/// For what must come.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_restarts_or_stops_writing_loses_nothing() {
    let mut random = seeded();
    let mut cluster = Cluster::start_on(own_server().await, 3, false, &LEASES).await;
    let mut promises = Vec::new();
    let faults = ["kill", "stop", "read-only"];
    for round in 0..rounds(faults.len(), 12) {
        let load_of = Load { seconds: 3, per_second: 500, seed: random.random(), name: format!("gone-{round}") };
        let running = tokio::spawn(load(cluster.apis(), load_of));
        tokio::time::sleep(Duration::from_millis(random.random_range(500..2500))).await;
        let fault = faults[round % faults.len()];
        let server = cluster.database().server();
        match fault {
            "read-only" => {
                let client = cluster.database().client().await;
                client.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
                client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
                client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
                client.batch_execute("ALTER SYSTEM RESET default_transaction_read_only").await.unwrap();
                client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
            }
            _ => tokio::task::block_in_place(|| {
                if fault == "kill" {
                    server.kill();
                } else {
                    server.stop();
                }
                server.start();
            }),
        }
        let (back, began) = (&cluster.nodes[0].api, Instant::now());
        while back
            .post("/v1/timers/batch", &probe(round))
            .await
            .is_ok_and(|(status, body)| status != StatusCode::OK || body["results"][0]["status"] == 503)
        {
            assert!(began.elapsed() < PATIENCE, "it recovers by itself");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let recovered = began.elapsed();
        promises.extend(running.await.unwrap());
        println!("round {round}: {fault}; written again {recovered:?} after it was back; {} promised", promises.len());
    }
    cluster.audit(&promises, PATIENCE).await;
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}

fn probe(round: usize) -> serde_json::Value {
    let key = format!("probe-{round}");
    json!({ "timers": [{ "type": "order-timeout", "key": key, "payload": ledger::order(&key, 1, 0), "delay": "1s" }] })
}

/// At each step of registering, claiming, settling, resolving and compensating, before the write and behind it.
#[tokio::test(flavor = "multi_thread")]
async fn connections_cut_at_every_step_lose_nothing_and_do_nothing_twice() {
    let mut random = seeded();
    let database = database().await;
    let cutter = Cutter::to(database.port()).await;
    let through = database.url_at(cutter.port);
    let settings = [&LEASES[..], &[("LAPSE_STORE__DATABASE", &through)]].concat();
    let mut cluster = Cluster::start_on(database, 3, true, &settings).await;
    let mut promises = Vec::new();
    for round in 0..rounds(1, 4) {
        let name = format!("cut-{round}");
        let load_of =
            Load { seconds: rounds(6, 10) as u64, per_second: 500, seed: random.random(), name: name.clone() };
        let running = tokio::spawn(load(cluster.apis(), load_of));
        let checked = tokio::spawn(checked(cluster.apis(), round, rounds(100, 400)));
        let steps = [
            ("register", name.as_str()),
            ("claim", r#""kind":"claimed""#),
            ("settle", r#""kind":"closed""#),
            ("resolve", r#""kind":"resolved""#),
            ("compensate", r#""kind":"compensation_done""#),
        ];
        for fate in [Fate::Before, Fate::Behind] {
            for (step, marker) in steps {
                cutter.arm(fate, marker);
                let began = Instant::now();
                while cutter.is_armed() && !(running.is_finished() && checked.is_finished()) {
                    assert!(began.elapsed() < PATIENCE, "a write of this kind comes: {step}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert!(!cutter.is_armed(), "the load ended before a write of this kind came: {fate:?} {step}");
                println!("cut: {fate:?} {step}");
            }
        }
        promises.extend(running.await.unwrap());
        promises.extend(checked.await.unwrap());
    }
    cluster.audit(&promises, PATIENCE).await;
    for nth in 0..3 {
        assert!(cluster.terminate(nth).success());
    }
}

/// Registers orders whose plugin asks the shop, and whose timers are claimed for that, some at a time for as long as the
/// other load runs.
async fn checked(apis: Vec<Api>, round: usize, count: usize) -> Vec<Promise> {
    let mut promises = Vec::new();
    for nth in 0..count {
        let api = &apis[nth % apis.len()];
        let key = format!("checked-{round}-{nth}");
        api.place_order(&key).await;
        let due_at_ms = ledger::now_ms() + 500;
        let body = json!({
            "type": "order-timeout-checked",
            "key": key,
            "payload": ledger::order(&key, 1, 0),
            "due_at": ledger::instant(due_at_ms),
        });
        if let Ok((StatusCode::CREATED, _)) = api.post("/v1/timers", &body).await {
            let timer_type = "order-timeout-checked";
            promises.push(Promise { key, timer_type, due_at_ms, compensations: 1, resolve: None });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    promises
}

/// Somebody's forgotten transaction keeps every dead row in the tables and the indexes.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_open_transaction_changes_nothing_but_the_pace() {
    let mut random = seeded();
    let cluster = Cluster::start(3, true, &LEASES).await;
    let mut promises = Vec::new();
    let holder = cluster.database().client().await;
    for held in [false, true] {
        if held {
            holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM timers LIMIT 1").await.unwrap();
        }
        let began = Instant::now();
        let calls = (0..rounds(4, 20)).map(|nth| {
            let seconds = 1;
            let name = format!("old-{held}-{nth}");
            load(cluster.apis(), Load { seconds, per_second: 200, seed: random.random(), name })
        });
        let taken: Vec<Promise> = join_all(calls).await.into_iter().flatten().collect();
        cluster.nodes[0].api.settle_down(PATIENCE).await;
        println!("old transaction open: {held:5}; {} timers through in {:?}", taken.len(), began.elapsed());
        promises.extend(taken);
    }
    cluster.audit(&promises, PATIENCE).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
}

/// While a node stands still, no other waits for a lock of its.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_is_in_no_others_way() {
    let mut random = seeded();
    let cluster = Cluster::start(3, true, &LEASES).await;
    let mut promises = Vec::new();
    let client = cluster.database().client().await;
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND clock_timestamp() - state_change > interval '1 second'";
    let idle = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'
                    AND clock_timestamp() - state_change > interval '2 seconds'";
    for round in 0..rounds(1, 8) {
        let nth = random.random_range(0..3);
        let others: Vec<Api> =
            cluster.apis().into_iter().enumerate().filter(|(i, _)| *i != nth).map(|(_, api)| api).collect();
        let load_of = Load { seconds: 1, per_second: 500, seed: random.random(), name: format!("before-{round}") };
        promises.extend(load(cluster.apis(), load_of).await);
        let load_of = Load { seconds: 5, per_second: 500, seed: random.random(), name: format!("still-{round}") };
        let running = tokio::spawn(load(others, load_of));
        tokio::time::sleep(Duration::from_millis(random.random_range(100..900))).await;
        cluster.freeze(nth, true);
        let began = Instant::now();
        let (mut waits, mut idles) = (0, 0);
        while began.elapsed() < Duration::from_secs(6) {
            waits += client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0);
            idles += client.query_one(idle, &[]).await.unwrap().get::<_, i64>(0);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        cluster.freeze(nth, false);
        println!("round {round}: node {nth} stood still; waits over a second {waits}, idle transactions {idles}");
        assert_eq!((waits, idles), (0, 0));
        promises.extend(running.await.unwrap());
    }
    cluster.audit(&promises, PATIENCE).await;
}
