//! The http capability: what it lets through, and what it does not.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderMap, StatusCode};
use lapse::{
    config,
    domain::time::DurationMs,
    plugin::{Plugin, Run},
};
use serde_json::{Value, json};

use super::{
    host::{host, load, rights, settings, task},
    server::{Server, drip, raw},
};
use crate::support::guest::component;

struct Guest {
    plugin: Arc<dyn Plugin>,
    grants: Vec<String>,
}

impl Guest {
    async fn new(settings: &config::Plugin, grants: &[String]) -> Self {
        Self { plugin: load(&host(settings), component("hostile")).await, grants: grants.to_vec() }
    }

    async fn run(&self, request: Value) -> Run<Option<String>> {
        let mut payload = json!({"do": "http"});
        payload.as_object_mut().unwrap().extend(request.as_object().unwrap().clone());
        let grants: Vec<&str> = self.grants.iter().map(String::as_str).collect();
        self.plugin.compensate(&task("undo", &payload, &json!({})), &rights(&grants)).await
    }

    /// What the guest saw: a status with the body, or the name of the error.
    async fn sees(&self, request: Value) -> String {
        let answer = self.run(request).await.result.unwrap().unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

#[tokio::test]
async fn a_granted_request_arrives_with_the_calls_idempotency_key() {
    let server = Server::start(|_| "hello").await;
    let guest = Guest::new(&settings(), &[server.grant()]).await;
    let headers = json!([["x-one", "1"], ["x-one", "2"]]);
    let request = json!({"url": server.url("/a?b=c#d"), "method": "post", "body_bytes": 3, "headers": headers});
    let run = guest.run(request).await;
    assert_eq!(run.result.unwrap().unwrap(), r#""200 hello""#);
    assert_eq!(run.cost.host_calls, 1);
    let [asked] = &server.asked()[..] else { panic!("one request") };
    assert_eq!((asked.method.as_str(), asked.path.as_str(), asked.body.as_str()), ("POST", "/a?b=c", "xxx"));
    assert_eq!(asked.header("idempotency-key"), Some("0198-key"));
    assert_eq!(asked.headers.get_all("x-one").iter().count(), 2);

    guest.sees(json!({"url": server.url("/"), "headers": [["Idempotency-Key", "mine"]]})).await;
    let asked = server.asked();
    assert_eq!(asked[1].headers.get_all("idempotency-key").iter().collect::<Vec<_>>(), ["mine"]);
}

#[tokio::test]
async fn what_is_not_granted_is_denied() {
    let server = Server::start(|_| "hello").await;
    let port = server.address.port();
    let guest = Guest::new(&settings(), &[format!("http:127.0.0.1:{}", port ^ 1), "http:shop.test".into()]).await;
    let urls = [
        server.url("/"),
        format!("http://localhost:{port}/"),
        // The same address in other clothes.
        format!("http://2130706433:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://shop.test:{port}/"),
        "https://shop.test:80/".into(),
        "http://shop.test.evil.test/".into(),
        "http://169.254.169.254/latest/meta-data".into(),
    ];
    for url in urls {
        assert_eq!(guest.sees(json!({"url": url})).await, "denied", "{url}");
    }
    let run = guest.run(json!({"url": server.url("/")})).await;
    assert_eq!(run.denied, [format!("http to 127.0.0.1:{port} is not granted to compensate")]);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn localhost_is_reached_where_it_is_named() {
    let server = Server::start(|_| "hello").await;
    let port = server.address.port();
    let guest = Guest::new(&settings(), &[format!("http:localhost:{port}")]).await;
    assert_eq!(guest.sees(json!({"url": format!("http://localhost:{port}/")})).await, "200 hello");
    assert_eq!(guest.sees(json!({"url": server.url("/")})).await, "denied");
}

/// A granted name that resolves to this machine or its network is not reached: only an address can be granted there.
#[tokio::test]
async fn a_name_with_a_private_address_is_denied() {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names = hosts.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address: std::net::IpAddr = words.next()?.parse().ok()?;
        (!lapse::plugin::http::address::is_public(address)).then(|| words.map(str::to_ascii_lowercase))
    });
    let name = names
        .flatten()
        .find(|n| n != "localhost" && format!("http:{n}").parse::<lapse::domain::plugin::Grant>().is_ok());
    // Every machine that has a name of its own has one here.
    let Some(name) = name else { return };
    let server = Server::start(|_| "hello").await;
    let port = server.address.port();
    let guest = Guest::new(&settings(), &[format!("http:{name}:{port}")]).await;
    let run = guest.run(json!({"url": format!("http://{name}:{port}/")})).await;
    assert_eq!(run.result.unwrap().unwrap(), r#""denied""#);
    assert!(run.denied[0].contains("no public address"), "{:?}", run.denied);
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn each_redirect_is_checked_again() {
    let elsewhere = Server::start(|_| "secret").await;
    let target = elsewhere.url("/inside");
    let server = Server::start(move |asked| {
        let to = |url: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("location", url.parse().unwrap());
            headers
        };
        match asked.path.as_str() {
            "/away" => (StatusCode::FOUND, to(&target)),
            "/repeat" => (StatusCode::TEMPORARY_REDIRECT, to("/end")),
            "/moved" => (StatusCode::FOUND, to("/end")),
            "/other" => (StatusCode::SEE_OTHER, to("/end")),
            "/round" => (StatusCode::PERMANENT_REDIRECT, to("/round")),
            "/file" => (StatusCode::FOUND, to("file:///etc/passwd")),
            _ => (StatusCode::OK, HeaderMap::new()),
        }
    })
    .await;
    let guest = Guest::new(&settings(), &[server.grant()]).await;
    let get = |path: &str| json!({"url": server.url(path)});
    let post = |path: &str| json!({"url": server.url(path), "method": "post", "body_bytes": 2});
    assert_eq!(guest.sees(get("/away")).await, "denied");
    assert!(elsewhere.asked().is_empty());
    assert_eq!(guest.sees(get("/moved")).await, "200 ");
    assert_eq!(guest.sees(get("/round")).await, "too-many-redirects");
    assert_eq!(guest.sees(get("/file")).await, "connection");
    assert_eq!(guest.sees(post("/repeat")).await, "200 ");
    let last = server.asked().pop().unwrap();
    assert_eq!(
        (last.method.as_str(), last.body.as_str(), last.header("idempotency-key")),
        ("POST", "xx", Some("0198-key"))
    );
    // A POST is not quietly turned into a GET.
    assert_eq!(guest.sees(post("/moved")).await, "302 ");
    assert_eq!(guest.sees(post("/other")).await, "200 ");
    assert_eq!(server.asked().pop().unwrap().method, "GET");
}

#[tokio::test]
async fn bodies_are_bounded_both_ways() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/sized" => axum::body::Body::from(vec![b'x'; 1_048_577]),
        "/streamed" => {
            let chunks = (0..40).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 65_536]));
            axum::body::Body::from_stream(futures_util::stream::iter(chunks))
        }
        _ => axum::body::Body::from(vec![b'x'; 1000]),
    })
    .await;
    let guest = Guest::new(&settings(), &[server.grant()]).await;
    assert_eq!(guest.sees(json!({"url": server.url("/sized")})).await, "too-large");
    assert_eq!(guest.sees(json!({"url": server.url("/streamed")})).await, "too-large");
    assert_eq!(
        guest.sees(json!({"url": server.url("/"), "method": "post", "body_bytes": 1_048_577})).await,
        "too-large"
    );
    assert_eq!(server.asked().len(), 2);
    assert_eq!(guest.sees(json!({"url": server.url("/")})).await.len(), 1004);
}

#[tokio::test]
async fn a_server_that_drips_its_answer_is_given_up_on() {
    let (address, task) = raw(drip).await;
    let mut settings = settings();
    settings.http_timeout = DurationMs::from_millis(300);
    let guest = Guest::new(&settings, &[format!("http:{address}")]).await;
    assert_eq!(guest.sees(json!({"url": format!("http://{address}/")})).await, "timeout");
    // The plugin may ask for less.
    settings.http_timeout = DurationMs::from_secs(600);
    let guest = Guest::new(&settings, &[format!("http:{address}")]).await;
    assert_eq!(guest.sees(json!({"url": format!("http://{address}/"), "timeout_ms": 100})).await, "timeout");
    // And the whole call has a bound of its own.
    settings.effect_wall = DurationMs::from_millis(300);
    let guest = Guest::new(&settings, &[format!("http:{address}")]).await;
    match guest.run(json!({"url": format!("http://{address}/")})).await.result {
        Ok(answer) => assert_eq!(answer.unwrap(), r#""timeout""#),
        Err(failure) => assert_eq!(failure.code, "timeout"),
    }
    task.abort();
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_broken_connection() {
    let (address, task) = raw(|mut stream| async move {
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.2\r\n").await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    })
    .await;
    let guest = Guest::new(&settings(), &[format!("http:{address}")]).await;
    assert_eq!(guest.sees(json!({"url": format!("http://{address}/")})).await, "connection");
    task.abort();
}

#[tokio::test]
async fn requests_that_cannot_be_honest_are_invalid() {
    let server = Server::start(|_| "hello").await;
    let guest = Guest::new(&settings(), &[server.grant()]).await;
    let url = server.url("/");
    for headers in [
        json!([["x-a", "1\r\nx-b: 2"]]),
        json!([["x-a\r\nx-b", "1"]]),
        json!([["Host", "other"]]),
        json!([["Content-Length", "0"]]),
        json!([["Transfer-Encoding", "chunked"]]),
        json!([["Connection", "close"]]),
        json!([["X-Forwarded-For", "10.0.0.1"]]),
        json!(vec![["x-a", "1"]; 65]),
        json!([["x-a", "v".repeat(16 * 1024)]]),
    ] {
        assert_eq!(guest.sees(json!({"url": url, "headers": headers})).await, "invalid", "{headers}");
    }
    let credentials = format!("http://user:word@{}/", server.address);
    let long = format!("{url}{}", "x".repeat(8 * 1024));
    for url in ["ftp://127.0.0.1/", "file:///etc/passwd", "http://", "/path", &credentials, &long] {
        assert_eq!(guest.sees(json!({"url": url})).await, "invalid", "{url}");
    }
    assert!(server.asked().is_empty());
}
