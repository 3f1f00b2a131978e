//! Clients that take their time.

use std::time::{Duration, Instant};

use lapse::{
    app::{App, Bootstrap},
    config::Config,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_comes_a_byte_at_a_time_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.server.listen = "127.0.0.1:0".parse().unwrap();
    config.server.header_timeout = "400ms".parse().unwrap();
    config.store.data = folder.path().join("data");
    let app = App::start(config, Bootstrap::default()).await.unwrap();

    let mut slow = TcpStream::connect(app.address()).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nx-slow: ").await.unwrap();
    let since = Instant::now();
    let mut answer = Vec::new();
    loop {
        assert!(since.elapsed() < Duration::from_secs(20), "a byte now and then keeps the connection open");
        let dripped = slow.write_all(b"x").await;
        let read = tokio::time::timeout(Duration::from_millis(50), slow.read_buf(&mut answer)).await;
        if dripped.is_err() || matches!(read, Ok(Ok(0) | Err(_))) {
            break;
        }
    }
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));

    // One that has been answered is asked again on the same connection, and closed once it is idle for too long.
    let mut quick = TcpStream::connect(app.address()).await.unwrap();
    for _ in 0..2 {
        quick.write_all(b"GET /healthz HTTP/1.1\r\nhost: lapse\r\n\r\n").await.unwrap();
        let mut answer = [0; 4096];
        let n = quick.read(&mut answer).await.unwrap();
        assert!(answer[..n].starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer[..n]));
    }
    // A stop waits for no idle connection.
    let stopping = Instant::now();
    app.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(10));
    let mut rest = Vec::new();
    assert_eq!(quick.read_to_end(&mut rest).await.unwrap_or(0), 0, "it is closed");
}
