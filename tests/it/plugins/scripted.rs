//! A guest in an interpreter: TypeScript in QuickJS, by the guest SDK for it.

use std::sync::Arc;

use axum::{Json, http::StatusCode, response::IntoResponse as _};
use lapse::{
    domain::{
        decision::{FailureClass, Verdict},
        time::DurationMs,
        timer::Due,
    },
    plugin::{Host as _, Plugin},
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings, task},
    purity::closed_with,
    server::Server,
};
use crate::support::guest::component;

async fn scripted() -> Arc<dyn Plugin> {
    let mut settings = settings();
    // An interpreter takes a while to compile, on a machine that runs other tests.
    settings.compile_timeout = DurationMs::from_secs(600);
    load(&host(&settings), component("scripted")).await
}

#[tokio::test]
async fn it_describes_itself_and_is_told_all() {
    let mut settings = settings();
    settings.compile_timeout = DurationMs::from_secs(600);
    let inspection = host(&settings).inspect(component("scripted")).await.unwrap();
    let manifest = inspection.manifest;
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("scripted", "1.0.0"));
    assert_eq!(manifest.default_delay, Some(DurationMs::from_secs(600)));
    let payload = json!({"do": "close", "text": "ü€𝄞\u{0}"});
    let run = scripted().await.decide(&expiry(&payload, &json!({})));
    let told: Value = serde_json::from_str(&closed_with(&run)).unwrap();
    let due_at = 1_772_368_200_000_u64;
    assert_eq!(told, json!({"key": "A17", "payload": payload, "attempt": 1, "trigger": "slot", "due_at": due_at}));
}

#[tokio::test]
async fn its_decisions_and_their_effects_arrive() {
    let plugin = scripted().await;
    let decide = |what: &str| plugin.decide(&expiry(&json!({"do": what, "text": "é"}), &json!({}))).result;
    let effects = decide("effects").unwrap().effects;
    assert_eq!(
        (effects.compensations[0].kind.as_str(), &*effects.compensations[0].payload),
        ("undo", r#"{"text":"é"}"#)
    );
    let due: Vec<_> = effects.follow_ups.iter().map(|f| (f.key.to_string(), f.due)).collect();
    assert!(matches!(due[0], (ref key, Some(Due::After(after))) if key == "A17/next" && after.as_millis() == 90_000));
    assert!(matches!(due[1], (_, Some(Due::At(at))) if at.as_millis() == 1_772_368_201_000));
    assert_eq!((effects.events[0].data.get(), effects.counters[0].value), ("[1,null]", 3));
    assert!(matches!(decide("skip").unwrap().verdict, Verdict::Skip { reason } if reason == "not today"));
    let Verdict::Retry { after, .. } = decide("retry").unwrap().verdict else { panic!("it does not retry") };
    assert_eq!(after, Some(DurationMs::from_secs(120)));
    let failure = decide("fail").unwrap_err();
    assert_eq!((failure.class, &*failure.code), (FailureClass::Downstream, "shop_away"));
    assert_eq!(failure.retry_after, Some(DurationMs::from_secs(5)));
}

#[rstest]
#[case::exception("throw", FailureClass::Permanent, "exception", "TypeError: nobody meant this")]
#[case::endless_loop("loop", FailureClass::Transient, "timeout", "CPU")]
#[case::memory_bomb("bomb", FailureClass::Permanent, "out_of_memory", "memory")]
#[case::deep_recursion("recursion", FailureClass::Permanent, "stack_overflow", "stack")]
#[case::huge_result("huge", FailureClass::Permanent, "output_too_large", "bytes")]
#[case::denied_host("http", FailureClass::Permanent, "http_denied", "not granted")]
#[tokio::test]
async fn it_is_held_to_the_same_bounds(
    #[case] what: &str,
    #[case] class: FailureClass,
    #[case] code: &str,
    #[case] said: &str,
) {
    let plugin = scripted().await;
    let failure =
        plugin.decide(&expiry(&json!({"do": what, "url": "http://shop.test/"}), &json!({}))).result.unwrap_err();
    assert_eq!((failure.class, &*failure.code), (class, code), "{failure:?}");
    assert!(failure.message.contains(said), "{failure:?}");
    assert!(plugin.decide(&expiry(&json!({"do": "close"}), &json!({}))).result.is_ok());
}

#[tokio::test]
async fn its_time_is_the_calls_and_nothing_else_is_there() {
    let plugin = scripted().await;
    let decide = |what: &str| closed_with(&plugin.decide(&expiry(&json!({"do": what}), &json!({}))));
    let time: Value = serde_json::from_str(&decide("time")).unwrap();
    assert_eq!(time["now"], 1_772_368_200_004_u64);
    assert_eq!(decide("time"), decide("time"), "replayed, it is the same");
    assert_eq!(decide("globals"), r#"{"process":false,"require":false,"fetch":false,"Deno":false,"WebSocket":false}"#);
}

#[tokio::test]
async fn it_carries_compensations_out() {
    let server = Server::start(|asked| match asked.header("x-kind") {
        Some("undo") => (StatusCode::OK, Json(json!({"heard": asked.body}))).into_response(),
        _ => StatusCode::BAD_REQUEST.into_response(),
    })
    .await;
    let plugin = scripted().await;
    let payload = json!({"url": server.url("/undo"), "text": "ü€𝄞"});
    let run = plugin.compensate(&task("undo", &payload, &json!({})), &rights(&[&server.grant()])).await;
    let answer: Value = serde_json::from_str(&run.result.unwrap().unwrap()).unwrap();
    assert_eq!(answer, json!({"status": 200, "text": {"heard": r#"{"text":"ü€𝄞"}"#}}));
    assert_eq!(server.asked()[0].header("idempotency-key"), Some("0198-key"));
    let unknown = plugin.compensate(&task("redo", &payload, &json!({})), &rights(&[])).await;
    assert_eq!(unknown.result.unwrap_err().code, "unknown_kind");
}
