//! When a server is told to stop.

use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, listened for from the moment that this is made.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the first signal; from then on a second one ends the process at once.
    pub async fn told(mut self) {
        self.either().await;
        tokio::spawn(async move {
            self.either().await;
            process::exit(1);
        });
    }

    async fn either(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
