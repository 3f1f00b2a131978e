//! A type that is upgraded and rolled back under load, on a real server and either database.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    node::{self, Api},
    server::Server,
};
use crate::{
    faults::ledger::{instant, now_ms},
    support::{
        guest::{component, rewritten},
        postgres,
    },
};

/// Half of them fit both schemas, half of them only the first.
const TIMERS: usize = 1000;

async fn count(api: &Api, state: &str) -> usize {
    let mut path = format!("/v1/timers?type=hostile&limit=500&state={state}");
    let mut count = 0;
    loop {
        let (_, page) = api.call(Method::GET, &path, None).await;
        count += page["items"].as_array().unwrap().len();
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("/v1/timers?type=hostile&limit=500&state={state}&cursor={next}"),
            None => return count,
        }
    }
}

async fn upgraded_and_rolled_back(database: Option<String>) {
    let slow = Server::start(|_| "done").await;
    let folder = tempfile::tempdir().unwrap();
    let (app, api) = node::start(&folder.path().join("data"), database, |_| {}).await;

    let first = api.upload(component("hostile").to_vec()).await;
    // What needs `v2` does not take what the first took.
    let second = api.upload(rewritten("hostile", r#""required": ["do"]"#, r#""required": ["v2"]"#)).await;
    let body = |digest: &Value| json!({ "digest": digest, "grants": [format!("on-expire:{}", slow.grant())] });
    let (status, _) = api.call(Method::PUT, "/v1/types/hostile", Some(body(&first))).await;
    assert_eq!(status, StatusCode::CREATED);

    let start = now_ms() + 1500;
    for batch in 0..TIMERS / 500 {
        let timers: Vec<_> = (0..500)
            .map(|n| batch * 500 + n)
            .map(|n| {
                let mut payload = json!({ "do": "http", "url": slow.url("/") });
                if n % 2 == 0 {
                    payload["v2"] = json!(true);
                }
                let due = instant(start + i64::try_from(n).unwrap() * 4);
                json!({ "type": "hostile", "key": format!("t-{n}"), "payload": payload, "due_at": due })
            })
            .collect();
        let (status, answer) = api.call(Method::POST, "/v1/timers/batch", Some(json!({ "timers": timers }))).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    // Changes of mind while they fire: some are claimed, some held, some still far.
    let wait_until = async |ms: i64| {
        tokio::time::sleep(Duration::from_millis(u64::try_from(start + ms - now_ms()).unwrap_or(0))).await;
    };
    wait_until(500).await;
    let (_, upgraded) = api.call(Method::PUT, "/v1/types/hostile", Some(body(&second))).await;
    assert_eq!(upgraded["revision"], 2);
    assert!(upgraded["left_behind"]["timers"].as_u64().unwrap() > 0, "{upgraded}");
    for (ms, revision) in [(1200, 1), (1900, 2), (2600, 1), (3300, 2)] {
        wait_until(ms).await;
        let activate = Some(json!({ "revision": revision }));
        let (status, _) = api.call(Method::POST, "/v1/types/hostile/activate", activate).await;
        assert_eq!(status, StatusCode::OK);
        let (status, refused) = api.call(Method::DELETE, "/v1/types/hostile/revisions/1", None).await;
        assert_eq!((status, &refused["code"]), (StatusCode::CONFLICT, &json!("revision_in_use")));
    }
    let patience = std::time::Instant::now();
    while count(&api, "closed").await < TIMERS {
        assert!(patience.elapsed() < Duration::from_mins(1), "{} of {TIMERS} are closed", count(&api, "closed").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let mut by_key: HashMap<String, usize> = HashMap::new();
    for asked in slow.asked() {
        *by_key.entry(asked.header("idempotency-key").unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(by_key.len(), TIMERS, "each has called once");
    assert!(by_key.values().all(|times| *times == 1), "none has called twice");
    let mut ran: BTreeMap<(bool, i64), usize> = BTreeMap::new();
    for n in 0..TIMERS {
        let (_, timer) = api.call(Method::GET, &format!("/v1/types/hostile/timers/t-{n}"), None).await;
        let id = timer["id"].as_str().unwrap();
        assert!(by_key.contains_key(id));
        let (_, events) = api.call(Method::GET, &format!("/v1/timers/{id}/events"), None).await;
        let closed: Vec<_> = events["items"].as_array().unwrap().iter().filter(|e| e["kind"] == "closed").collect();
        assert_eq!(closed.len(), 1, "{events}");
        let revision = closed[0]["detail"]["revision"].as_i64().unwrap();
        *ran.entry((n % 2 == 0, revision)).or_default() += 1;
    }
    println!("by (fits both, revision): {ran:?}");
    assert_eq!(ran.get(&(false, 2)), None, "none was run by a revision that does not take its payload");
    assert!(ran[&(true, 2)] > 50 && ran[&(true, 1)] > 50, "both have served: {ran:?}");
    let (status, _) = api.call(Method::DELETE, "/v1/types/hostile/revisions/1", None).await;
    assert_eq!(status, StatusCode::OK, "nothing stands under it any more");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_upgraded_and_rolled_back_under_load_on_sqlite() {
    upgraded_and_rolled_back(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_upgraded_and_rolled_back_under_load_on_postgres() {
    let database = postgres::database().await;
    upgraded_and_rolled_back(Some(database.url.clone())).await;
}
