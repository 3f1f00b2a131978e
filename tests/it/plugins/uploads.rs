//! What is refused at upload, and how that is said.

use std::fmt::Write as _;

use bytes::Bytes;
use lapse::{
    config,
    domain::time::DurationMs,
    plugin::{Host as _, Inspection, Refusal},
};
use rstest::rstest;

use super::host::{host, host_with, load, settings};
use crate::support::guest::{component, rewritten};

async fn inspect_with(settings: &config::Plugin, bytes: impl Into<Bytes>) -> Result<Inspection, Refusal> {
    let host = host(settings);
    let result = host.inspect(bytes.into()).await;
    // Whatever it was, the host goes on.
    load(&host, component("order-timeout")).await;
    result
}

fn said(result: Result<Inspection, Refusal>) -> (&'static str, String) {
    match result.expect_err("it was taken") {
        Refusal::Invalid(why) => ("invalid", why),
        Refusal::OverLimit(why) => ("over_limit", why),
        Refusal::Internal(why) => ("internal", why),
    }
}

async fn refused(bytes: impl Into<Bytes>) -> (&'static str, String) {
    said(inspect_with(&settings(), bytes).await)
}

/// A component that exports our functions' names, with other types.
const OTHER_TYPES: &str = r#"(component
    (core module $m (func (export "f") (result i32) i32.const 0))
    (core instance $i (instantiate $m))
    (func $f (result u32) (canon lift (core func $i "f")))
    (export "describe" (func $f))
    (export "on-expire" (func $f))
    (export "on-remind" (func $f))
    (export "compensate" (func $f)))"#;

#[rstest]
#[case::empty("", "not a whole")]
#[case::text("hello, I am a plugin", "not a whole")]
#[case::core_module("(module)", "core WebAssembly module")]
#[case::empty_component("(component)", "does not export describe, on-expire, on-remind, compensate")]
#[case::other_types(OTHER_TYPES, "does not describe itself")]
#[case::wasi(
    r#"(component (import "wasi:io/poll@0.2.6" (instance)) (import "wasi:http/outgoing-handler@0.2.6" (instance)))"#,
    "imports wasi:http/outgoing-handler@0.2.6; of WASI"
)]
#[case::foreign(r#"(component (import "acme:db/query" (instance)))"#, "imports acme:db/query")]
#[case::takes_components(r#"(component (import "inner" (component)))"#, "imports a component or a module")]
#[tokio::test]
async fn what_is_no_plugin_is_refused(#[case] source: &str, #[case] why: &str) {
    let bytes = if source.starts_with('(') { wat::parse_str(source).unwrap() } else { source.as_bytes().to_vec() };
    let (kind, said) = refused(bytes).await;
    assert_eq!(kind, "invalid");
    assert!(said.contains(why), "{said}");
}

#[tokio::test]
async fn what_is_cut_off_or_damaged_is_refused() {
    let whole = component("order-timeout");
    for length in [1, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        assert_eq!(refused(whole.slice(..length)).await.0, "invalid", "{length} bytes");
    }
    let mut longer = whole.to_vec();
    longer.extend_from_slice(b"and more");
    assert_eq!(refused(longer).await.0, "invalid");
}

#[tokio::test]
async fn what_is_too_large_is_refused_unread() {
    let (kind, said) = refused(vec![0; 200_000_000]).await;
    assert_eq!(kind, "over_limit");
    assert!(said.contains("may have 67108864"), "{said}");
}

#[tokio::test]
async fn what_takes_too_long_to_compile_is_given_up_on() {
    let mut settings = settings();
    settings.compile_timeout = DurationMs::from_millis(1);
    let host = host_with(&settings, None);
    let (kind, said) = said(host.inspect(component("order-timeout")).await);
    assert_eq!(kind, "over_limit");
    assert!(said.contains("takes longer than 1ms"), "{said}");
}

#[tokio::test]
async fn more_functions_than_any_plugin_has_are_refused() {
    let functions = "(func)".repeat(200_001);
    let bytes = wat::parse_str(format!("(component (core module {functions}))")).unwrap();
    let (kind, said) = refused(bytes).await;
    assert_eq!(kind, "over_limit");
    assert!(said.contains("functions"), "{said}");
}

/// As many as an interpreter has, and no plugin of our world: it is found out within the bounds of a compilation, and the
/// host goes on.
#[tokio::test]
async fn a_hundred_thousand_functions_do_the_host_no_harm() {
    let host = host_with(&settings(), None);
    let functions = "(func (result i32) i32.const 7)".repeat(100_000);
    let bytes = wat::parse_str(format!("(component (core module $m {functions}) (core instance (instantiate $m)))"));
    let (kind, said) = said(host.inspect(bytes.unwrap().into()).await);
    assert!(kind == "invalid" || kind == "over_limit", "{kind}: {said}");
    assert!(host.inspect(component("order-timeout")).await.is_ok());
}

#[tokio::test]
async fn a_thousand_core_instances_are_refused() {
    let instances = "(core instance (instantiate $m))".repeat(1_000);
    let (kind, said) = refused(wat::parse_str(format!("(component (core module $m) {instances})")).unwrap()).await;
    assert_eq!(kind, "over_limit");
    assert!(said.contains("instances"), "{said}");
}

/// Thirty components, each of which instantiates the one before it twice: a billion instances, in a few hundred bytes.
#[tokio::test]
async fn instances_that_multiply_are_refused() {
    let mut source = String::from("(component (component $c0 (core module $m) (core instance (instantiate $m)))");
    for n in 1..30 {
        let inner = n - 1;
        write!(source, "(component $c{n} (instance (instantiate $c{inner})) (instance (instantiate $c{inner})))")
            .unwrap();
    }
    source.push_str("(instance (instantiate $c29)))");
    let (kind, said) = refused(wat::parse_str(source).unwrap()).await;
    assert_eq!(kind, "over_limit");
    assert!(said.contains("instances"), "{said}");
}

#[tokio::test]
async fn memory_beyond_the_bound_is_refused() {
    let mut settings = settings();
    settings.memory_bytes = 64 * 1024;
    let (kind, said) = said(host(&settings).inspect(component("order-timeout")).await);
    assert_eq!(kind, "over_limit");
    assert!(said.contains("bytes of memory, and may have 65536"), "{said}");
}

/// Blanks at the manifest's beginning.
const ROOM: &str = "                                                                                ";

#[rstest]
#[case::reminders(&format!("{{{ROOM}"), r#"{"remind_before": ["10m"],"#, "remind_before")]
#[case::unknown_field(&format!("{{{ROOM}"), r#"{"colour": "red","#, "colour")]
#[case::attempts(&format!("{{{ROOM}"), r#"{"retry": {"attempts": 0, "initial": "1s", "max": "1m"},"#, "retry")]
#[case::spinning(&format!("{{{ROOM}"), r#"{"retry": {"attempts": 9, "initial": "1ms", "max": "1m"},"#, "retry")]
#[case::config_schema(&format!("{{{ROOM}"), r#"{"config_schema": {"type": 7},"#, "config_schema")]
#[case::remote_schema(&format!("{{{ROOM}"), r#"{"config_schema": {"$ref": "http://127.0.0.1:9/x"},"#, "config_schema")]
#[case::abi(r#""abi": "lapse:plugin@1.0.0""#, r#""abi": "lapse:plugin@2.0.0""#, "speaks lapse:plugin@1.0.0")]
#[case::name(r#""name": "hostile""#, r#""name": "Hostile""#, "name")]
#[case::payload_schema(r#"{"type": "object", "#, r#"{"type": "objekt", "#, "payload_schema")]
#[case::capability(r#""optional": ["http", "sql"]"#, r#""optional": ["root"]"#, "root")]
#[tokio::test]
async fn a_manifest_that_cannot_be_honoured_is_refused(#[case] from: &str, #[case] to: &str, #[case] why: &str) {
    let (kind, said) = refused(rewritten("hostile", from, to)).await;
    assert_eq!(kind, "invalid");
    assert!(said.contains(why), "{said}");
}

#[tokio::test]
async fn bytes_of_another_digest_are_not_loaded() {
    let host = host(&settings());
    let other = lapse::domain::id::Digest::of(b"other");
    assert!(matches!(host.load(other, component("hostile")).await, Err(Refusal::Invalid(_))));
}
