//! Serving the API: how many connections there are at once, and how long one may take to say what it wants.
//!
//! `axum::serve` leaves both open, so that a client who sends a byte at a time holds a connection for ever.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore, watch},
    task::{JoinHandle, JoinSet},
};

/// Connections at once; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 10_000;
/// How long is waited after a connection could not be accepted (too many open files), before another is.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Serves until `stop`; then answers what was asked and ends. `head_within` is the time that the head of a request may
/// take, from when the connection is ready for it.
pub(super) fn serve(listener: TcpListener, router: Router, head_within: Duration, stop: Arc<Notify>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(head_within);
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (stopping, stopped) = watch::channel(());
        // Dropped with this task, which ends what is left of them.
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener, &places) => accepted,
                Some(_) = connections.join_next() => continue,
                () = stop.notified() => break,
            };
            match accepted {
                Ok((stream, place)) => {
                    let service = TowerToHyperService::new(router.clone());
                    let (builder, mut stopped) = (builder.clone(), stopped.clone());
                    connections.spawn(async move {
                        let _place = place;
                        let connection = builder.serve_connection(TokioIo::new(stream), service);
                        tokio::pin!(connection);
                        // A client that goes away, or is too slow, is nothing to tell of.
                        tokio::select! {
                            _ended = connection.as_mut() => return,
                            _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
                        }
                        let _ended = connection.await;
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection cannot be accepted; trying again");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        drop(listener);
        drop(stopping);
        while connections.join_next().await.is_some() {}
    })
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // Small answers go out at once.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}
