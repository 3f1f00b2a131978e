//! Due times where one way of firing ends and another begins: on the edges of slots, at two and at ten seconds, all at
//! once, and alone.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use reqwest::StatusCode;
use serde_json::json;

use super::rig::Cluster;
use crate::faults::{
    ledger::{self, Api, Promise, now_ms},
    rounds, seeded,
};

const TYPE: &str = "order-timeout";

fn promise(key: String, due_at_ms: i64) -> Promise {
    Promise { key, timer_type: TYPE, due_at_ms, compensations: 1, resolve: None }
}

/// Registers in one call; all are taken.
pub async fn register(api: &Api, promises: &[Promise]) {
    for some in promises.chunks(500) {
        let timers: Vec<_> = some
            .iter()
            .map(|p| {
                let payload = ledger::order(&p.key, p.compensations, 0);
                json!({ "type": TYPE, "key": p.key, "payload": payload, "due_at": ledger::instant(p.due_at_ms) })
            })
            .collect();
        let (_, answer) = api.post("/v1/timers/batch", &json!({ "timers": timers })).await.unwrap();
        assert!(answer["results"].as_array().unwrap().iter().all(|r| r["status"] == 201), "{answer}");
    }
}

/// The first whole second after `ms`.
fn second_after(ms: i64) -> i64 {
    (ms / 1000 + 1) * 1000
}

/// Around each bound, for a while, at every part of the second in turn.
async fn on_the_edges(apis: Vec<Api>, seed: u64) -> Vec<Promise> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    for round in 0..rounds(60, 600) {
        let now = now_ms();
        let mut dues: Vec<i64> =
            [1, 1_500, 2_000, 10_000].into_iter().flat_map(|d| [d - 1, d, d + 1]).map(|d| now + d).collect();
        for ahead in [500, 1_000, 2_000, 3_000, 9_500, 10_500] {
            let edge = second_after(now + ahead);
            dues.extend([edge - 1, edge, edge + 1, edge + 999]);
        }
        let named = dues.into_iter().enumerate().map(|(nth, due)| promise(format!("edge-{round}-{nth}"), due));
        let promises: Vec<_> = named.collect();
        register(&apis[random.random_range(0..apis.len())], &promises).await;
        all.extend(promises);
        tokio::time::sleep(Duration::from_millis(97)).await;
    }
    all
}

/// From so far ahead, after so long, to so far ahead, in milliseconds: over each bound, both ways.
const MOVES: [(i64, u64, i64); 10] = [
    (20_000, 400, 1_200),
    (20_000, 400, 1_995),
    (20_000, 400, 2_005),
    (20_000, 400, 9_995),
    (3_000, 1_400, 1_700),
    (3_000, 1_400, 11_000),
    (1_500, 300, 2_600),
    (1_500, 300, 10_050),
    (2_600, 1_900, 2_050),
    (11_000, 1_100, 9_900),
];

/// Each is moved by another node than the one that wrote it, and then once more.
async fn moved(apis: Vec<Api>, round: usize) -> Vec<Promise> {
    let each = MOVES.iter().enumerate().map(|(nth, (first, after, then))| {
        let (writes, moves) = (&apis[(round + nth) % apis.len()], &apis[(round + nth + 1) % apis.len()]);
        async move {
            let mut promise = promise(format!("moved-{round}-{nth}"), now_ms() + first);
            register(writes, std::slice::from_ref(&promise)).await;
            for by in [*then, then + 3] {
                tokio::time::sleep(Duration::from_millis(*after)).await;
                let due = now_ms() + by;
                let path = format!("/v1/types/{TYPE}/timers/{}/reschedule", promise.key);
                let (status, timer) = moves.post(&path, &json!({ "due_at": ledger::instant(due) })).await.unwrap();
                if status == StatusCode::OK {
                    promise.due_at_ms = due;
                } else {
                    // On a busy machine it may have fired before.
                    assert_eq!(timer["code"], "too_late", "{timer}");
                }
            }
            promise
        }
    });
    join_all(each).await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_every_edge_all_at_once_and_alone_timers_fire_without_the_backlog() {
    let mut random = seeded();
    let cluster = Cluster::start(3, true, &[("LAPSE_DISPATCH__BACKLOG", "false")]).await;
    let apis = cluster.apis();

    let alone = promise("alone".into(), now_ms() + 3_500);
    register(&apis[1], std::slice::from_ref(&alone)).await;
    apis[0].settle_down(Duration::from_mins(1)).await;

    let due = second_after(now_ms() + 3_000);
    let once: Vec<_> =
        (0..1_000).map(|nth| promise(format!("once-{nth}"), due + if nth % 2 == 0 { 0 } else { nth })).collect();
    let began = Instant::now();
    join_all(apis.iter().zip(once.chunks(334)).map(|(api, some)| register(api, some))).await;
    println!("1,000 timers of one second were registered in {:?}", began.elapsed());

    let (edges, moves) = tokio::join!(
        on_the_edges(apis.clone(), random.random()),
        join_all((0..rounds(12, 100)).map(|round| moved(apis.clone(), round))),
    );
    let mut promises = vec![alone];
    promises.extend(once);
    promises.extend(edges);
    promises.extend(moves.into_iter().flatten());
    let verdict = cluster.verdict(&promises, Duration::from_mins(1)).await;
    assert_eq!(verdict.fired.len(), promises.len(), "all have fired");
    verdict.assert_undisturbed("");
    assert_eq!(verdict.triggers("alone").keys().collect::<Vec<_>>(), [&"slot"], "an idle cluster has its slots");
    for of in ["alone", "once", "edge", "moved"] {
        println!("lateness, {of}: {}", verdict.lateness(of));
    }
}
