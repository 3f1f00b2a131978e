//! A guest in Python: its own library finds nothing outside, and is told the call's time.
//!
//! Compiling it takes a while, once: the tests of plugins share a cache of what was compiled.

use std::sync::Arc;

use lapse::{
    domain::{decision::FailureClass, time::DurationMs},
    plugin::Plugin,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    host::{expiry, host, load, rights, settings},
    purity::closed_with,
};
use crate::support::guest::component;

async fn python() -> Arc<dyn Plugin> {
    let mut settings = settings();
    settings.compile_timeout = DurationMs::from_secs(1800);
    settings.wall = DurationMs::from_secs(2);
    load(&host(&settings), component("python")).await
}

fn found(plugin: &dyn Plugin, look: &str) -> Value {
    serde_json::from_str(&closed_with(&plugin.decide(&expiry(&json!({ "look": look }), &json!({}))))).unwrap()
}

#[tokio::test]
async fn there_is_nothing_to_find_and_the_time_is_the_calls() {
    let plugin = python().await;
    assert_eq!(found(&*plugin, "environment"), json!([{}, []]));
    assert_eq!(found(&*plugin, "files"), json!(["FileNotFoundError", "FileNotFoundError"]));
    let sockets = found(&*plugin, "sockets");
    assert!(sockets.as_str().is_some_and(|error| error.ends_with("Error")), "{sockets}");
    assert_eq!(found(&*plugin, "time"), json!([1_772_368_200.004, true]));
    let run = plugin.decide(&expiry(&json!({"look": "print"}), &json!({})));
    assert_eq!((run.logs[0].level.as_str(), run.logs[0].message.as_str()), ("info", "printed ü"));
}

#[tokio::test]
async fn replayed_it_decides_the_same() {
    let plugin = python().await;
    let first = found(&*plugin, "random");
    assert_eq!(found(&*plugin, "random"), first);
    let mut again = expiry(&json!({"look": "random"}), &json!({}));
    let read = |run| serde_json::from_str::<Value>(&closed_with(&run)).unwrap();
    assert_eq!(read(plugin.decide_with_effects(&again, &rights(&[])).await), first);
    again.attempt = 2;
    assert_ne!(read(plugin.decide(&again)), first);
}

#[rstest]
#[case::its_own_failure("fail", FailureClass::Conflict, "taken", "it is taken")]
#[case::exception("raise", FailureClass::Permanent, "panic", "ValueError: nobody meant this")]
#[case::exit("exit", FailureClass::Permanent, "exit", "ended itself")]
#[case::sleep("sleep", FailureClass::Transient, "timeout", "longer than it may")]
#[tokio::test]
async fn its_failures_are_classified(
    #[case] look: &str,
    #[case] class: FailureClass,
    #[case] code: &str,
    #[case] said: &str,
) {
    let failure =
        python().await.decide(&expiry(&json!({ "look": look }), &json!({}))).result.expect_err("it is to fail");
    assert_eq!((failure.class, &*failure.code), (class, code), "{failure:?}");
    assert!(failure.message.contains(said), "{failure:?}");
}
