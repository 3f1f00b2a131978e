//! A TCP proxy that delays, cuts and swallows.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What becomes of what passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Through,
    /// Each way, this much later.
    Late(Duration),
    /// Connections stay, and nothing passes until the way is another.
    BlackHole,
    /// Connections are closed, and new ones as soon as they are made.
    Cut,
}

/// Ends with its value.
pub struct Proxy {
    pub address: SocketAddr,
    way: watch::Sender<Way>,
    _ends: DropGuard,
}

impl Proxy {
    /// Between whoever connects to [`Proxy::address`] and `target`.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let way = watch::Sender::new(Way::Through);
        let ending = CancellationToken::new();
        let (ways, end) = (way.clone(), ending.clone());
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = end.cancelled() => return,
                };
                let Ok((client, _)) = accepted else { continue };
                if *ways.borrow() == Way::Cut {
                    continue;
                }
                let (ways, end) = (ways.subscribe(), end.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = carry(client, target, ways) => {}
                        () = end.cancelled() => {}
                    }
                });
            }
        });
        Self { address, way, _ends: ending.drop_guard() }
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Closes the connections that there are; new ones pass.
    pub async fn cut_once(&self) {
        self.set(Way::Cut);
        // Each connection sees it: a watch keeps only the last value.
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.set(Way::Through);
    }
}

async fn carry(client: TcpStream, target: SocketAddr, mut ways: watch::Receiver<Way>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let _nodelay = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let cut = {
        let mut ways = ways.clone();
        async move { drop(ways.wait_for(|w| *w == Way::Cut).await.map(|w| *w)) }
    };
    ways.mark_unchanged();
    tokio::select! {
        () = one_way(client_read, server_write, ways.clone()) => {}
        () = one_way(server_read, client_write, ways) => {}
        () = cut => {}
    }
}

/// Bytes of one read.
const CHUNK: usize = 16 * 1024;
/// Chunks that are on their way at once.
const ON_THE_WAY: usize = 1024;

async fn one_way(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, ways: watch::Receiver<Way>) {
    let (late, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let mut passing = ways.clone();
    let reading = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            match from.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(n) => chunk.truncate(n),
            }
            let by = match *ways.borrow() {
                Way::Late(by) => by,
                _ => Duration::ZERO,
            };
            if late.send((Instant::now() + by, chunk)).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((at, chunk)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if passing.wait_for(|w| *w != Way::BlackHole).await.is_err() || to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
