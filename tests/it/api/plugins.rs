//! `/v1/plugins`

use std::sync::Arc;

use serde_json::json;

use crate::support::{
    app::{AppOptions, TestApp},
    fake_host::{FakeHost, component},
};

#[tokio::test]
async fn a_plugin_is_uploaded_once_and_described() {
    let app = TestApp::start().await;
    let bytes = component("order-timeout", json!({}));
    let new = app.post("/v1/plugins").key("publisher").octets(bytes.clone()).send().await;
    assert_eq!(new.status, 201, "{new:?}");
    assert_eq!(new.json["size"], bytes.len());
    assert_eq!(new.json["manifest"]["name"], "order-timeout");
    assert_eq!((&new.json["compile_ms"], &new.json["created_by"]), (&json!(1), &json!("key:publisher")));
    let again = app.post("/v1/plugins").key("publisher").octets(bytes).send().await;
    assert_eq!((again.status.as_u16(), &again.json["digest"]), (200, &new.json["digest"]));
    let shown = app.get(&format!("/v1/plugins/{}", new.json["digest"].as_str().unwrap())).key("reader").send().await;
    assert_eq!(shown.json["manifest"], new.json["manifest"]);
    assert_eq!(app.get("/v1/plugins").send().await.items().len(), 1);
    for unknown in ["sha256:00", "x", &format!("sha256:{}", "0".repeat(64))] {
        assert_eq!(app.get(&format!("/v1/plugins/{unknown}")).send().await.says(), (404, "not_found"));
    }
}

#[tokio::test]
async fn what_is_no_plugin_is_refused_and_not_kept() {
    let options = AppOptions { max_component_bytes: 10_000, ..AppOptions::default() };
    let app = TestApp::start_with(options, Arc::new(FakeHost)).await;
    let upload = |bytes: Vec<u8>| app.post("/v1/plugins").octets(bytes).send();
    assert_eq!(upload(Vec::new()).await.says(), (422, "plugin_invalid"));
    assert_eq!(upload(b"\0asm".to_vec()).await.says(), (422, "plugin_invalid"));
    assert_eq!(upload(br#"{"manifest": {"name": "x"}}"#.to_vec()).await.says(), (422, "plugin_invalid"));
    assert_eq!(upload(br#"{"over_limit": true}"#.to_vec()).await.says(), (422, "plugin_over_limit"));
    let large = upload(vec![0; 10_001]).await;
    assert_eq!(large.says(), (413, "plugin_over_limit"));
    assert!(large.json["detail"].as_str().unwrap().contains("10000 bytes"), "it names the limit: {large:?}");
    let wrong_type = app.post("/v1/plugins").bytes("application/json", component("x", json!({}))).send().await;
    assert_eq!(wrong_type.says(), (415, "unsupported_media_type"));
    assert_eq!(app.get("/v1/plugins").send().await.items().len(), 0);
}
