//! `POST /v1/timers/batch`

use serde_json::{Value, json};

use crate::support::app::{TestApp, order};

fn item(key: &str) -> Value {
    json!({ "type": "order-timeout", "key": key, "payload": order(key) })
}

#[tokio::test]
async fn each_of_a_batch_has_its_own_result() {
    let app = TestApp::with_type().await;
    app.register("there").await;
    let mut conflict = item("there");
    conflict["delay"] = json!("1s");
    let timers = json!([
        item("a"), item("there"), conflict, { "type": "order-timeout", "key": 7, "payload": {} }, "nonsense",
        { "type": "order-timeout", "key": "b", "payload": { "order_id": "x", "total": "x" } }, item("a"), item("c"),
    ]);
    let reply = app.post("/v1/timers/batch").key("producer").json(&json!({ "timers": timers })).send().await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let results = reply.json["results"].as_array().unwrap();
    let statuses: Vec<u64> = results.iter().map(|r| r["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 200, 409, 400, 400, 422, 200, 201]);
    for result in results {
        let refused = result["status"].as_u64().unwrap() >= 400;
        assert_eq!(result.get("problem").is_some(), refused, "{result}");
        assert_eq!(result.get("timer").is_some(), !refused, "{result}");
        if refused {
            assert_eq!(result["problem"]["request_id"], reply.header("x-request-id"));
        }
    }
    assert_eq!(results[0]["timer"]["id"], results[6]["timer"]["id"]);
    assert_eq!(results[2]["problem"]["timer"]["key"], "there");
    assert_eq!(results[3]["problem"]["errors"][0]["pointer"], "/timers/3/key");
    assert_eq!(results[5]["problem"]["errors"][0]["pointer"], "/timers/5/payload/total");
    assert_eq!(app.count().await, 3);
}

#[tokio::test]
async fn a_thousand_fit_and_one_more_does_not() {
    let app = TestApp::with_type().await;
    let timers: Vec<Value> = (0..1001).map(|n| item(&format!("k{n}"))).collect();
    let reply = app.post("/v1/timers/batch").json(&json!({ "timers": timers })).send().await;
    assert_eq!(reply.says(), (413, "too_large"));
    assert_eq!(app.count().await, 0);
    let reply = app.post("/v1/timers/batch").json(&json!({ "timers": timers[..1000] })).send().await;
    let results = reply.json["results"].as_array().unwrap();
    assert_eq!(results.iter().filter(|r| r["status"] == 201).count(), 1000);
    let empty = app.post("/v1/timers/batch").json(&json!({ "timers": [] })).send().await;
    assert_eq!((empty.status.as_u16(), &empty.json["results"]), (200, &json!([])));
    for bad in [json!({}), json!({ "timers": {} }), json!([]), json!({ "timers": [], "more": 1 })] {
        assert_eq!(app.post("/v1/timers/batch").json(&bad).send().await.status, 400, "{bad}");
    }
}
