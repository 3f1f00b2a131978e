//! Threads with a connection each, for reading. A job is one call, and holds no snapshot beyond it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::store::{Error, Result};

/// Reads that may wait for a thread.
const MAX_WAITING: usize = 4_096;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

pub(super) struct Pool {
    jobs: Mutex<Option<SyncSender<Job>>>,
}

impl Pool {
    /// Starts a thread for each connection.
    pub(super) fn start(name: &str, connections: Vec<Connection>) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (jobs, waiting) = sync_channel(MAX_WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let threads = connections.into_iter().map(|connection| {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new().name(name.into()).spawn(move || serve(connection, &waiting))
        });
        let threads = threads.collect::<std::io::Result<_>>()?;
        Ok((Self { jobs: Mutex::new(Some(jobs)) }, threads))
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Who has gone meanwhile needs no answer.
            if !answer.is_closed() {
                let _ = answer.send(read(connection));
            }
        });
        match self.jobs.lock().as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => return Err(Error::Full),
            Some(Err(TrySendError::Disconnected(_))) | None => return Err(Error::Stopped),
        }
        answered.await.unwrap_or_else(|_| Err(Error::Unavailable("a read broke off".into())))
    }

    /// Takes nothing more; the threads end when what waits is done.
    pub(super) fn close(&self) {
        self.jobs.lock().take();
    }
}

fn serve(mut connection: Connection, waiting: &Mutex<Receiver<Job>>) {
    loop {
        // The lock is let go before the job runs.
        let job = waiting.lock().recv();
        let Ok(job) = job else { return };
        // A panic was logged by its hook, and its caller is told by the dropped channel.
        let _ = catch_unwind(AssertUnwindSafe(|| job(&mut connection)));
    }
}
