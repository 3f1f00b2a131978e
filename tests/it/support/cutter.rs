//! A proxy before PostgreSQL that knows a write when it sees one, and cuts its connection then.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What becomes of the next message to the server that holds the marker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// The connection is cut in its place.
    Before,
    /// It is cut once the server has carried the write out, and the answer is swallowed.
    Behind,
    /// Nothing passes from there on, and the connection stays: as if the node stood still.
    Held,
}

type Armed = Arc<Mutex<Option<(Fate, String)>>>;

/// Ends with its value.
pub struct Cutter {
    pub port: u16,
    armed: Armed,
    _ends: DropGuard,
}

impl Cutter {
    /// Before the server on this port.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let armed = Armed::default();
        let (arming, ending) = (Arc::clone(&armed), CancellationToken::new());
        let end = ending.clone();
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { continue };
                let _nodelay = (client.set_nodelay(true), server.set_nodelay(true));
                tokio::spawn(end.clone().run_until_cancelled_owned(carry(client, server, Arc::clone(&arming))));
            }
        }));
        Self { port, armed, _ends: ending.drop_guard() }
    }

    pub fn arm(&self, fate: Fate, marker: &str) {
        *self.armed.lock() = Some((fate, marker.to_owned()));
    }

    /// False once the message has come.
    pub fn is_armed(&self) -> bool {
        self.armed.lock().is_some()
    }
}

async fn carry(client: TcpStream, server: TcpStream, armed: Armed) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let swallow = Arc::new(AtomicBool::new(false));
    let swallowing = Arc::clone(&swallow);
    let mut back = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            if swallowing.load(Ordering::SeqCst) || to_client.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from_client.read(&mut buffer) => read.unwrap_or(0),
            _ = &mut back => 0,
        };
        if read == 0 {
            break;
        }
        let sent = &buffer[..read];
        let holds = |marker: &str| sent.windows(marker.len()).any(|w| w == marker.as_bytes());
        let fate = {
            let mut armed = armed.lock();
            let is_it = armed.as_ref().is_some_and(|(_, marker)| holds(marker));
            if is_it { armed.take().map(|(fate, _)| fate) } else { None }
        };
        match fate {
            None if to_server.write_all(sent).await.is_ok() => {}
            None | Some(Fate::Before) => break,
            Some(Fate::Behind) => {
                swallow.store(true, Ordering::SeqCst);
                if to_server.write_all(sent).await.is_ok() {
                    // Ends with the write's answer.
                    let _ = (&mut back).await;
                }
                return;
            }
            Some(Fate::Held) => std::future::pending().await,
        }
    }
    back.abort();
}
