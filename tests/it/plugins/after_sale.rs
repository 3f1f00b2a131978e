//! The after-sale plugin: it approves for the customer, unless the merchant has answered.

use std::sync::Arc;

use axum::{http::StatusCode, response::IntoResponse as _};
use lapse::{
    domain::decision::{FailureClass, Verdict},
    plugin::Host as _,
    schema::Schema,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings, task},
    reference::{Given, payloads, run_to_the_end},
    server::{Asked, Server},
};
use crate::support::guest::component;

fn case() -> Value {
    json!({"case_id": "S3", "order_id": "A17", "user_id": "u-1", "merchant_id": "m-9", "request": "refund", "amount": 12900})
}

const APPROVAL: &str = r#"{"amount":12900,"expected_state":"awaiting_merchant","reason":"the merchant did not answer in time","request":"refund"}"#;

#[tokio::test]
async fn by_default_the_timer_closes_and_the_approval_follows() {
    let plugin = load(&host(&settings()), component("after-sale")).await;
    let decide = |config: Value| plugin.decide(&expiry(&case(), &config)).result.unwrap();
    let whole =
        r#"{"case_id":"S3","order_id":"A17","user_id":"u-1","merchant_id":"m-9","request":"refund","amount":12900}"#;
    assert_eq!(payloads(&decide(json!({"case_url": "http://c/"}))), [("approve", whole)]);
    let told = decide(json!({"case_url": "http://c/", "notify_url": "http://n/"}));
    assert_eq!(payloads(&told), [("approve", whole), ("notify", whole)]);
}

#[rstest]
#[case(200, None)]
#[case(409, Some((FailureClass::Conflict, "merchant_answered")))]
#[case(404, Some((FailureClass::Permanent, "case_not_found")))]
#[case(503, Some((FailureClass::Downstream, "http_503")))]
#[tokio::test]
async fn the_case_service_has_the_last_word(#[case] status: u16, #[case] fails: Option<(FailureClass, &str)>) {
    let server = Server::start(move |_| StatusCode::from_u16(status).unwrap()).await;
    let plugin = load(&host(&settings()), component("after-sale")).await;

    // After the timer.
    let config = json!({"case_url": server.url("/cases/")});
    let run = plugin.compensate(&task("approve", &case(), &config), &rights(&[&server.grant()])).await;
    assert_eq!(run.result.as_ref().err().map(|f| (f.class, f.code.as_str())), fails, "{run:?}");

    // Before it.
    let config = json!({"case_url": server.url("/cases"), "checked": true});
    let granted = rights(&[&format!("on-expire:{}", server.grant())]);
    let decided = plugin.decide_with_effects(&expiry(&case(), &config), &granted).await.result;
    match fails {
        None => assert!(matches!(decided.unwrap().verdict, Verdict::Close { .. })),
        Some((FailureClass::Conflict, _)) => assert!(matches!(decided.unwrap().verdict, Verdict::Skip { .. })),
        Some(_) => {
            assert_eq!(decided.as_ref().err().map(|f| (f.class, f.code.as_str())), fails);
        }
    }
    for asked in server.asked() {
        assert_eq!((asked.path.as_str(), asked.body.as_str()), ("/cases/S3/approve", APPROVAL));
    }
}

#[tokio::test]
async fn its_schemas_are_strict_and_a_week_is_the_default() {
    let manifest = host(&settings()).inspect(component("after-sale")).await.unwrap().manifest;
    assert_eq!(manifest.default_delay.unwrap().as_millis(), 7 * 24 * 60 * 60 * 1000);
    let schema = Schema::compile(&manifest.payload_schema).unwrap();
    let with = |name: &str, value: Value| {
        let mut case = case();
        case[name] = value;
        case
    };
    assert_eq!(schema.check(&case(), ""), Ok(()));
    for (name, value) in [("request", json!("gift")), ("amount", json!(-1)), ("case_id", json!(""))] {
        assert!(schema.check(&with(name, value), "").is_err(), "{name}");
    }
    let mut exchange = with("request", json!("exchange"));
    exchange.as_object_mut().unwrap().remove("amount");
    assert_eq!(schema.check(&exchange, ""), Ok(()), "nothing is paid back");
    exchange["request"] = json!("return");
    assert!(schema.check(&exchange, "").is_err(), "what is to be refunded must be said");
}

/// On a real server, with a case service that keeps its state.
#[rstest]
#[case::unanswered(false, false, "closed", 1)]
#[case::unanswered_and_checked(true, false, "closed", 1)]
#[case::answered(false, true, "closed", 0)]
#[case::answered_and_checked(true, true, "skipped", 0)]
#[tokio::test(flavor = "multi_thread")]
async fn a_case_is_approved_only_while_the_merchant_is_silent(
    #[case] checked: bool,
    #[case] answered: bool,
    #[case] state: &str,
    #[case] approvals: usize,
) {
    let approved = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let cases = Server::start({
        let approved = Arc::clone(&approved);
        move |asked: &Asked| {
            if asked.path == "/notify" {
                return StatusCode::OK.into_response();
            }
            let key = asked.header("idempotency-key").unwrap().to_owned();
            let mut approved = approved.lock();
            if answered {
                return StatusCode::CONFLICT.into_response();
            }
            if !approved.contains(&key) {
                approved.push(key);
            }
            StatusCode::OK.into_response()
        }
    })
    .await;
    let grants = [cases.grant(), format!("on-expire:{}", cases.grant())];
    let config = json!({"case_url": cases.url("/cases"), "checked": checked, "notify_url": cases.url("/notify")});
    let given = Given { plugin: "after-sale", config, grants: &grants, key: "S3", payload: case() };
    let end = tokio::task::block_in_place(|| run_to_the_end(given));
    assert_eq!(end.timer["state"], state, "{:?}", end.timer);
    assert_eq!(approved.lock().len(), approvals);
    let told = cases.asked().iter().filter(|a| a.path == "/notify").count();
    assert_eq!(told, usize::from(state == "closed"));
}
