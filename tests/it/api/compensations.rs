//! `/v1/compensations`

use lapse::{
    domain::{
        compensation::RunResult,
        decision::{CompensationSpec, Failure, FailureClass},
        id::CompensationId,
        machine::Settle,
        timer::Trigger,
    },
    store::op::{ClaimCompensations, FinishCompensation, Settlement},
};
use serde_json::{Value, json};

use crate::support::app::TestApp;

/// A timer that closed with compensations of these kinds; gives their ids.
pub async fn closed_with(app: &TestApp, key: &str, kinds: &[&str]) -> Vec<CompensationId> {
    let timer = app.register(key).await;
    let id = timer["id"].as_str().unwrap().parse().unwrap();
    let row = app.store.read().timer(id).await.unwrap().unwrap();
    app.clock.set(app.now().max(row.due_at));
    let spec = |kind: &&str| {
        let payload = format!(r#"{{"sku": "{kind}",  "quantity": 1}}"#);
        (CompensationId::new(), CompensationSpec { kind: kind.parse().unwrap(), payload })
    };
    let compensations: Vec<_> = kinds.iter().map(spec).collect();
    let ids = compensations.iter().map(|(id, _)| *id).collect();
    let settlement = Settlement {
        id,
        version: row.version,
        settle: Settle::Close { result: None },
        trigger: Trigger::Slot,
        digest: None,
        actor: "plugin:order-timeout".to_owned(),
        detail: Value::Null,
        revision: 1,
        compensations,
        follow_ups: Vec::new(),
        events: Vec::new(),
        counters: Vec::new(),
    };
    app.store.settle(settlement).await.unwrap();
    ids
}

/// Runs all that wait in a lane, and lets them die.
pub async fn kill(app: &TestApp, kind: &str) {
    let snapshot = app.catalog.snapshot();
    let namespace = snapshot.catalogue.namespace("default").unwrap();
    let type_id = snapshot.by_name(namespace, "order-timeout").unwrap().row.id;
    let lease = "60s".parse().unwrap();
    let claim = ClaimCompensations { type_id, kind: kind.parse().unwrap(), limit: 100, lease };
    for run in app.store.claim_compensations(claim).await.unwrap() {
        let failure = Failure::new(FailureClass::Permanent, "refused", "the service refuses it");
        let result = RunResult::Dead { failure };
        let finish = FinishCompensation { id: run.id, fence: run.fence, result, detail: Value::Null };
        assert!(app.store.finish_compensation(finish).await.unwrap());
    }
}

#[tokio::test]
async fn compensations_are_shown_filtered_and_redriven_by_hand() {
    let app = TestApp::with_type().await;
    let ids = closed_with(&app, "A", &["release", "release", "coupon"]).await;
    closed_with(&app, "B", &["release"]).await;
    let timer = app.get("/v1/types/order-timeout/timers/A").send().await.json["id"].as_str().unwrap().to_owned();

    let shown = app.get(&format!("/v1/compensations/{}", ids[0])).key("reader").send().await;
    let expected = json!({ "sku": "release", "quantity": 1 });
    assert_eq!((&shown.json["payload"], &shown.json["state"]), (&expected, &json!("pending")));
    assert!(shown.text.contains(r#"{"sku": "release",  "quantity": 1}"#), "as it was given: {}", shown.text);
    assert_eq!((&shown.json["timer_id"], &shown.json["timer_key"]), (&json!(timer), &json!("A")));

    let pending = app.post(&format!("/v1/compensations/{}/redrive", ids[0])).send().await;
    assert_eq!(pending.says(), (409, "wrong_state"));
    kill(&app, "release").await;
    for (query, count) in [
        ("", 4),
        ("state=dead", 3),
        ("state=pending", 1),
        ("kind=coupon", 1),
        ("kind=Not%20One", 0),
        ("type=order-timeout&state=dead", 3),
        ("type=other", 0),
        (&format!("timer_id={timer}"), 3),
        ("limit=2", 2),
    ] {
        let page = app.get(&format!("/v1/compensations?{query}")).send().await;
        assert_eq!(page.items().len(), count, "{query}");
    }
    let dead = app.get(&format!("/v1/compensations/{}", ids[0])).send().await.json;
    assert_eq!((&dead["last_error"]["class"], dead.get("run_at")), (&json!("permanent"), None));

    let note = json!({ "note": "the service is back" });
    let redriven = app.post(&format!("/v1/compensations/{}/redrive", ids[0])).key("operator").json(&note).send().await;
    assert_eq!((redriven.status.as_u16(), &redriven.json["state"]), (200, &json!("pending")), "{redriven:?}");
    let events = app.get(&format!("/v1/timers/{timer}/events")).send().await;
    let event = events.items().iter().find(|e| e["kind"] == "compensation_redriven").unwrap();
    assert_eq!(event["actor"], "key:operator");
    assert!(event["detail"].to_string().contains("the service is back"), "{event}");

    let one = app.post("/v1/compensations/redrive").json(&json!({ "kind": "release", "limit": 1 })).send().await;
    assert_eq!(one.json, json!({ "count": 1, "skipped": 0, "more": true }));
    let rest = app.post("/v1/compensations/redrive").json(&json!({ "type": "order-timeout" })).send().await;
    assert_eq!(rest.json, json!({ "count": 1, "skipped": 0, "more": false }));
    assert_eq!(
        app.post("/v1/compensations/redrive").send().await.json,
        json!({ "count": 0, "skipped": 0, "more": false })
    );
}

#[tokio::test]
async fn bad_redrives_are_refused() {
    let app = TestApp::with_type().await;
    let cases = [
        (json!({ "limit": 0 }), 422, "payload_invalid"),
        (json!({ "limit": 501 }), 422, "payload_invalid"),
        (json!({ "limit": -1 }), 400, "malformed"),
        (json!({ "type": "other" }), 422, "unknown_type"),
        (json!({ "kind": "Not One" }), 422, "payload_invalid"),
        (json!({ "note": "x".repeat(1001) }), 422, "payload_invalid"),
        (json!({ "state": "dead" }), 400, "unknown_field"),
        (json!([]), 400, "malformed"),
    ];
    for (body, status, code) in cases {
        let reply = app.post("/v1/compensations/redrive").json(&body).send().await;
        assert_eq!(reply.says(), (status, code), "{body}: {reply:?}");
    }
    let nobody = app.post("/v1/compensations/0198c0de-0000-7000-8000-000000000001/redrive").send().await;
    assert_eq!(nobody.says(), (404, "not_found"));
}

#[tokio::test]
async fn those_named_are_redriven_and_no_others() {
    let app = TestApp::with_type().await;
    let dead = closed_with(&app, "A", &["release", "release", "release"]).await;
    kill(&app, "release").await;
    let waiting = closed_with(&app, "B", &["release"]).await;
    let ids = json!([dead[0], dead[2], dead[2], waiting[0], "0198c0de-0000-7000-8000-000000000001"]);
    let body = json!({ "ids": ids, "note": "the service is back" });
    let redriven = app.post("/v1/compensations/redrive").key("operator").json(&body).send().await;
    let skipped = json!(["0198c0de-0000-7000-8000-000000000001", waiting[0]]);
    let wanted = json!({ "count": 2, "skipped": 2, "skipped_ids": skipped, "more": false });
    assert_eq!(redriven.json, wanted, "{redriven:?}");
    let still = app.get("/v1/compensations?state=dead").send().await;
    assert_eq!(still.items().iter().map(|c| c["id"].clone()).collect::<Vec<_>>(), [json!(dead[1])]);
    for (body, code) in [
        (json!({ "ids": [] }), "payload_invalid"),
        (json!({ "ids": [dead[1]], "kind": "release" }), "malformed"),
        (json!({ "ids": ["seventeen"] }), "malformed"),
        (json!({ "ids": vec![lapse::domain::id::CompensationId::new(); 501] }), "not_dead"),
    ] {
        let refused = app.post("/v1/compensations/redrive").json(&body).send().await;
        if code == "not_dead" {
            assert_eq!((refused.status.as_u16(), &refused.json["skipped"]), (200, &json!(1)), "the same one 501 times");
        } else {
            assert_eq!(refused.says().1, code, "{body}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn a_dead_one_names_the_host_that_it_failed_at() {
    let app = TestApp::with_type().await;
    let ids = closed_with(&app, "A", &["release"]).await;
    let snapshot = app.catalog.snapshot();
    let namespace = snapshot.catalogue.namespace("default").unwrap();
    let type_id = snapshot.by_name(namespace, "order-timeout").unwrap().row.id;
    let lease = "60s".parse().unwrap();
    let claim = ClaimCompensations { type_id, kind: "release".parse().unwrap(), limit: 1, lease };
    let run = app.store.claim_compensations(claim).await.unwrap().remove(0);
    let mut failure = Failure::new(FailureClass::Downstream, "unreachable", "no answer");
    failure.host = Some("inventory.example:8443".into());
    let result = RunResult::Dead { failure };
    let finish = FinishCompensation { id: run.id, fence: run.fence, result, detail: Value::Null };
    app.store.finish_compensation(finish).await.unwrap();
    let shown = app.get(&format!("/v1/compensations/{}", ids[0])).send().await.json;
    assert_eq!(shown["host"], "inventory.example:8443");
    assert_eq!(shown["last_error"]["host"], "inventory.example:8443");
}
