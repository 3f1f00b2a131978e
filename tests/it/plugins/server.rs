//! A small HTTP server that keeps what it was asked, and one that speaks raw bytes.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers every request with what `answer` makes of it.
    pub async fn start<R: IntoResponse>(answer: impl Fn(&Asked) -> R + Clone + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let kept = Arc::clone(&asked);
        let handler = move |request: Request| {
            let (answer, kept) = (answer.clone(), Arc::clone(&kept));
            async move { take(request, &kept, answer).await }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await.unwrap() });
        Self { address, asked, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The grant that reaches it from `compensate`.
    pub fn grant(&self) -> String {
        format!("http:{}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take<R: IntoResponse>(request: Request, kept: &Mutex<Vec<Asked>>, answer: impl Fn(&Asked) -> R) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let asked = Asked {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    kept.lock().push(asked.clone());
    answer(&asked).into_response()
}

/// Accepts connections, reads some of the request, and then does with the connection what it likes.
pub async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (SocketAddr, JoinHandle<()>)
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            // It ends when the client gives up.
            let _ = serve(stream).await;
        }
    });
    (address, task)
}

/// A byte of an answer at a time, for ever.
pub async fn drip(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await?;
    loop {
        stream.write_all(b"x").await?;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
