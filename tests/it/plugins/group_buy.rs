//! The group-buy plugin: what it decides, and that everyone gets the money back once.

use axum::{Json, http::StatusCode, response::IntoResponse as _};
use lapse::{
    domain::decision::{Decision, Failure, FailureClass, Verdict},
    plugin::Host as _,
    schema::Schema,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings, task},
    reference::{Given, payloads, run_to_the_end},
    server::Server,
};
use crate::support::guest::component;

fn group(required: u64, members: u64) -> Value {
    let members =
        (1..=members).map(|n| json!({"user_id": format!("u-{n}"), "order_id": format!("A{n}"), "amount": n * 100}));
    json!({"group_id": "G5", "required": required, "members": members.collect::<Vec<_>>()})
}

fn config() -> Value {
    json!({"refund_url": "http://shop.test/refunds"})
}

#[tokio::test]
async fn a_group_that_is_not_full_is_refunded_member_by_member() {
    let plugin = load(&host(&settings()), component("group-buy")).await;
    let decide = |group: &Value| plugin.decide(&expiry(group, &config())).result;
    let decision = decide(&group(3, 2)).unwrap();
    assert!(matches!(&decision.verdict, Verdict::Close { result: Some(r) } if r == r#"{"group_id":"G5","refunds":2}"#));
    assert_eq!(
        payloads(&decision),
        [
            ("refund", r#"{"group_id":"G5","user_id":"u-1","order_id":"A1","amount":100}"#),
            ("refund", r#"{"group_id":"G5","user_id":"u-2","order_id":"A2","amount":200}"#),
        ]
    );
    assert!(
        decide(&group(3, 0)).unwrap().effects.compensations.is_empty(),
        "nobody has joined: there is nobody to refund"
    );
    assert_eq!(decide(&group(200, 199)).unwrap().effects.compensations.len(), 199);
    for full in [group(3, 3), group(3, 4)] {
        let decision = decide(&full).unwrap();
        assert!(matches!(decision.verdict, Verdict::Skip { .. }) && decision.effects.compensations.is_empty());
    }
    let mut twice = group(5, 3);
    twice["members"][2]["order_id"] = json!("A1");
    let failure = decide(&twice).unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "members_invalid"));
}

#[tokio::test]
async fn its_schemas_are_strict_and_a_day_is_the_default() {
    let manifest = host(&settings()).inspect(component("group-buy")).await.unwrap().manifest;
    assert_eq!(manifest.default_delay.unwrap().as_millis(), 24 * 60 * 60 * 1000);
    let schema = Schema::compile(&manifest.payload_schema).unwrap();
    assert_eq!(schema.check(&group(3, 2), ""), Ok(()));
    for (pointer, value) in [
        ("/required", json!(1)),
        ("/required", json!(201)),
        ("/group_id", json!("")),
        ("/members/0/amount", json!(-1)),
        ("/members/0/amount", json!(1.5)),
        ("/members/1/order_id", json!(7)),
    ] {
        let mut wrong = group(3, 2);
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert_eq!(schema.check(&wrong, "").unwrap_err()[0].pointer, pointer);
    }
    assert!(schema.check(&group(2, 201), "").is_err(), "more than a decision can refund");
}

/// Decides with a `group_url`, against a service that answers so.
async fn checked(status: u16, body: Value) -> Result<Decision, Failure> {
    let server = Server::start(move |_| (StatusCode::from_u16(status).unwrap(), Json(body.clone()))).await;
    let mut config = config();
    config["group_url"] = json!(server.url("/groups"));
    let plugin = load(&host(&settings()), component("group-buy")).await;
    let rights = rights(&[&format!("on-expire:{}", server.grant())]);
    // The payload says that it is full: the service knows better.
    let run = plugin.decide_with_effects(&expiry(&group(3, 3), &config), &rights).await;
    let asked = server.asked().remove(0);
    assert_eq!((asked.path.as_str(), asked.body.as_str()), ("/groups/G5/close", r#"{"expected_state":"open"}"#));
    assert_eq!(asked.header("idempotency-key"), Some("0197-key"));
    run.result
}

#[tokio::test]
async fn the_group_service_says_who_had_joined() {
    let decision =
        checked(200, json!({"members": [{"user_id": "late", "order_id": "B1", "amount": 5}]})).await.unwrap();
    assert_eq!(payloads(&decision), [("refund", r#"{"group_id":"G5","user_id":"late","order_id":"B1","amount":5}"#)]);
    assert!(matches!(checked(409, json!({})).await.unwrap().verdict, Verdict::Skip { .. }));
}

#[rstest]
#[case(200, json!({"closed": true}), FailureClass::Permanent, "members_unknown")]
#[case(404, json!({}), FailureClass::Permanent, "group_not_found")]
#[case(503, json!({}), FailureClass::Downstream, "http_503")]
#[tokio::test]
async fn what_else_the_group_service_answers_is_classified(
    #[case] status: u16,
    #[case] body: Value,
    #[case] class: FailureClass,
    #[case] code: &str,
) {
    let failure = checked(status, body).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (class, code));
}

#[tokio::test]
async fn a_kind_that_it_does_not_know_is_refused() {
    let plugin = load(&host(&settings()), component("group-buy")).await;
    let run = plugin.compensate(&task("gift", &json!({}), &config()), &rights(&[])).await;
    assert_eq!(run.result.unwrap_err().code.as_str(), "unknown_kind");
}

/// On a real server, with a shop that answers the first refund of each member with an error.
#[tokio::test(flavor = "multi_thread")]
async fn every_member_is_refunded_once() {
    let shop = Server::start({
        let refunded = parking_lot::Mutex::new(std::collections::BTreeSet::new());
        let refunded = std::sync::Arc::new(refunded);
        move |asked: &super::server::Asked| {
            if asked.path.ends_with("/close") {
                let members = group(3, 2)["members"].clone();
                return Json(json!({"members": members})).into_response();
            }
            let key = asked.header("idempotency-key").unwrap().to_owned();
            if refunded.lock().insert(key) { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }.into_response()
        }
    })
    .await;
    let grants = [shop.grant(), format!("on-expire:{}", shop.grant())];
    let config = json!({"refund_url": shop.url("/refunds"), "group_url": shop.url("/groups")});
    let given = Given { plugin: "group-buy", config, grants: &grants, key: "G5", payload: group(3, 0) };
    let end = tokio::task::block_in_place(|| run_to_the_end(given));
    assert_eq!((&end.timer["state"], &end.timer["outcome"]["result"]["refunds"]), (&json!("closed"), &json!(2)));
    assert_eq!(end.compensations.iter().map(|c| &c["attempt"]).collect::<Vec<_>>(), [2, 2]);
    let refunds: Vec<_> = shop.asked().into_iter().filter(|a| a.path == "/refunds").collect();
    let keys: std::collections::BTreeSet<_> = refunds.iter().map(|a| a.header("idempotency-key").unwrap()).collect();
    assert_eq!((refunds.len(), keys.len()), (4, 2), "each was tried twice under a key of its own");
}
