//! `/v1/secrets`

use axum::http::Method;
use lapse::{
    domain::id::Name,
    store::admin::{AdminOp, PutSealed, SealedKind},
    vault::{Error, Vault},
};
use serde_json::json;

use crate::support::app::TestApp;

const VALUE: &str = "tr0ub4dor&3 żółć";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_secret_is_set_and_never_answered_again() {
    let app = TestApp::start().await;
    let put = |value: &str| app.put("/v1/secrets/shop-token").key("operator").json(&json!({ "value": value }));
    let made = put("first").send().await;
    assert_eq!(made.status, 201, "{made:?}");
    let again = put(VALUE).send().await;
    assert_eq!((again.status.as_u16(), &again.json["name"]), (200, &json!("shop-token")));
    let listed = app.get("/v1/secrets").key("reader").send().await;
    assert_eq!(listed.items().len(), 1);
    assert_eq!(listed.items()[0]["updated_by"], "key:operator");
    let vault = Vault::new(app.store.clone(), [9; 32]);
    assert_eq!(vault.secret("default", &name("shop-token")).await.unwrap().unwrap().reveal(), VALUE);
    let gone = app.call(Method::DELETE, "/v1/secrets/shop-token").key("operator").send().await;
    assert_eq!(gone.status, 200);
    for reply in [&made, &again, &listed, &gone] {
        assert!(!reply.text.contains("first") && !reply.text.contains("ub4dor"), "{reply:?}");
    }
    let twice = app.call(Method::DELETE, "/v1/secrets/shop-token").send().await;
    assert_eq!(twice.says(), (404, "not_found"));
    assert!(vault.secret("default", &name("shop-token")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_secret_lies_sealed_and_bound_to_its_place() {
    let app = TestApp::start().await;
    let other = app.namespace("other").await;
    app.put("/v1/secrets/a").json(&json!({ "value": VALUE })).send().await;
    let row = app.store.read().sealed_by_name("default".into(), SealedKind::Secret, name("a")).await.unwrap().unwrap();
    let shows = |bytes: &[u8]| bytes.windows(6).any(|w| w == b"ub4dor");
    assert!(!shows(&row.sealed) && !row.open.contains("ub4dor") && !format!("{row:?}").contains("sealed:"));
    // The same bytes under another name, in another namespace, or as another thing, do not open.
    let moves = [
        (row.namespace_id, SealedKind::Secret, "b", ""),
        (other, SealedKind::Secret, "a", ""),
        (row.namespace_id, SealedKind::DataSource, "a", r#"{"url":"postgres://evil.example/x"}"#),
    ];
    let vault = Vault::new(app.store.clone(), [9; 32]);
    for (namespace_id, kind, to, open) in moves {
        let (sealed, updated_by) = (row.sealed.clone(), "thief".to_owned());
        let put = PutSealed { namespace_id, kind, name: name(to), open: open.into(), sealed, updated_by };
        app.store.admin(AdminOp::PutSealed(put)).await.unwrap();
        let namespace = if namespace_id == other { "other" } else { "default" };
        let opened = match kind {
            SealedKind::Secret => vault.secret(namespace, &name(to)).await.map(drop),
            SealedKind::DataSource => vault.source(namespace, &name(to)).await.map(drop),
        };
        assert!(matches!(opened, Err(Error::Broken(_))), "{to}: {opened:?}");
    }
}

#[tokio::test]
async fn another_server_s_key_is_told_apart() {
    let app = TestApp::start().await;
    app.put("/v1/secrets/a").json(&json!({ "value": VALUE })).send().await;
    let error = Vault::new(app.store.clone(), [8; 32]).secret("default", &name("a")).await.unwrap_err();
    assert!(matches!(&error, Error::WrongKey { sealed_with, ours, .. } if sealed_with != ours), "{error:?}");
    assert!(error.to_string().contains("start it with the key that it was sealed with"), "{error}");
}

#[tokio::test]
async fn what_is_no_secret_is_refused_without_being_repeated() {
    let app = TestApp::start().await;
    let cases = [
        ("/v1/secrets/a", json!({ "value": "" }), (422, "payload_invalid")),
        ("/v1/secrets/a", json!({ "value": "hush".repeat(2049) }), (422, "payload_invalid")),
        ("/v1/secrets/a", json!({ "value": "hush\0" }), (422, "payload_invalid")),
        ("/v1/secrets/Shop", json!({ "value": "hush" }), (422, "payload_invalid")),
        ("/v1/secrets/a", json!({ "value": "hush", "name": "b" }), (400, "unknown_field")),
        ("/v1/secrets/a", json!({}), (400, "malformed")),
    ];
    for (path, body, says) in cases {
        let reply = app.put(path).json(&body).send().await;
        assert_eq!(reply.says(), says, "{path}: {reply:?}");
        assert!(!reply.text.contains("hush"), "{reply:?}");
    }
    assert!(app.get("/v1/secrets").send().await.items().is_empty());
}
