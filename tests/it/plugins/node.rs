//! A whole node in the test's process, and the calls that a test makes of it.

use lapse::{
    app::{App, Bootstrap},
    config::{Config, Secret},
};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;

const TOKEN: &str = "a-token-for-the-first-start";

pub struct Api {
    pub base: String,
    pub http: Client,
}

impl Api {
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(TOKEN);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    pub async fn upload(&self, bytes: Vec<u8>) -> Value {
        let upload = self.http.post(format!("{}/v1/plugins", self.base)).bearer_auth(TOKEN);
        let answer = upload.header("content-type", "application/octet-stream").body(bytes).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        answer.json::<Value>().await.unwrap()["digest"].clone()
    }
}

/// A node with its data in `folder`, on a database of its own if none is given, and the way to it.
pub async fn start(folder: &std::path::Path, database: Option<String>, with: impl FnOnce(&mut Config)) -> (App, Api) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.store.data = folder.to_owned();
    if let Some(url) = database {
        config.store.database = Secret::new(url);
    }
    with(&mut config);
    let app = App::start(config, Bootstrap { admin_token: Some(TOKEN.to_owned()) }).await.unwrap();
    let api = Api { base: format!("http://{}", app.address()), http: Client::new() };
    (app, api)
}
