//! Registrations whose commit takes so long that their slot is read meanwhile.

use std::time::Duration;

use futures_util::future::join_all;
use rand::RngExt as _;

use super::{
    edges::register,
    rig::{Cluster, ClusterParams},
};
use crate::{
    faults::{
        ledger::{Promise, now_ms},
        seeded,
    },
    support::{
        nats::Nats,
        postgres,
        proxy::{Proxy, Way},
    },
};

/// A commit of such a key waits as long as the test holds the lock; others, and other nodes', do not.
const STALL: &str = "
    CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('lock_timeout', '0', true);
        PERFORM pg_advisory_xact_lock_shared(77);
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON timers DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.key LIKE 'stall-%') EXECUTE FUNCTION stall()";

/// Timers registered at each node while their commits are held up for `held`, each due `due_in` after the start.
async fn held_up(cluster: &Cluster, name: &str, held: Duration, dues: impl Iterator<Item = i64>) -> Vec<Promise> {
    let dues: Vec<i64> = dues.collect();
    let lock = cluster.database().client().await;
    lock.batch_execute("SELECT pg_advisory_lock(77)").await.unwrap();
    let now = now_ms();
    let of_node = |nth| {
        let due = move |(i, due_in): (usize, &i64)| Promise {
            key: format!("stall-{name}-{nth}-{i}"),
            timer_type: "order-timeout",
            due_at_ms: now + due_in,
            compensations: 1,
            resolve: None,
        };
        dues.iter().enumerate().map(due).collect::<Vec<_>>()
    };
    let apis = cluster.apis();
    let promises: Vec<Vec<Promise>> = (0..apis.len()).map(of_node).collect();
    let registering = join_all(apis.iter().zip(&promises).map(|(api, some)| register(api, some)));
    let release = async {
        tokio::time::sleep(held).await;
        lock.batch_execute("SELECT pg_advisory_unlock(77)").await.unwrap();
    };
    tokio::join!(registering, release);
    promises.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_that_stall_across_their_slot_fire_near_and_only_long_overdue_ones_by_the_backlog() {
    let mut random = seeded();
    let broker = Nats::start().await;
    let database = postgres::database().await;
    let far = Proxy::to(([127, 0, 0, 1], database.port()).into()).await;
    let own = vec![(2, "LAPSE_STORE__DATABASE", database.url_at(far.address.port()))];
    let params =
        ClusterParams { size: 3, nats: broker.url(), own, database: Some(database), ..ClusterParams::default() };
    let cluster = Cluster::of(params).await;
    cluster.database().execute(STALL).await;

    // Committed when it is due, or up to two seconds before or after: its slot has been read by then.
    let mut promises = held_up(&cluster, "short", Duration::from_millis(3_500), (0..60).map(|n| 1_500 + n * 70)).await;
    // Committed over six seconds after it is due: no node holds what is later than four.
    promises.extend(held_up(&cluster, "long", Duration::from_millis(7_500), (0..20).map(|n| 500 + n * 40)).await);

    // One node's database is far away: a row is there, and its slot read by others, before its writer hears of it.
    far.set(Way::Late(Duration::from_millis(200)));
    for round in 0..8 {
        let due = now_ms() + random.random_range(1_900..2_900);
        let some: Vec<_> = (0..10)
            .map(|n| Promise {
                key: format!("far-{round}-{n}"),
                timer_type: "order-timeout",
                due_at_ms: due + n * 20,
                compensations: 1,
                resolve: None,
            })
            .collect();
        register(&cluster.nodes[2].api, &some).await;
        promises.extend(some);
    }
    let verdict = cluster.verdict(&promises, Duration::from_mins(1)).await;
    assert_eq!(verdict.fired.len(), promises.len(), "all have fired");
    for of in ["stall-short", "stall-long", "far"] {
        println!("lateness, {of}: {}", verdict.lateness(of));
    }
    verdict.assert_undisturbed("stall-short");
    verdict.assert_undisturbed("far");
    assert_eq!(verdict.triggers("stall-long").keys().collect::<Vec<_>>(), [&"backlog"]);
    let late = cluster.metrics("lapse_timer_left_to_backlog_total", "reason=\"late\"").await;
    assert!(late >= 60.0, "what is left to the backlog is counted: {late}");
}
