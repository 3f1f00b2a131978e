//! Keeps the write-ahead log short, from a connection of its own, so that the writer never stops to copy pages.
//!
//! ```text
//!  writer ── commit ─► the log has so many pages ─► over SOFT? wake
//!  checkpointer: PASSIVE (beside the writer) ─► little left, or over HARD? ─► RESTART, with the writer held for a moment
//! ```
//!
//! Passive checkpoints alone would never end under load: the log starts anew only when all of it has been copied, and
//! the writer always adds more meanwhile.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, MAIN_DB, wal::CheckpointMode};

/// Pages in the log (4 KiB each) from which it is copied into the database.
const SOFT_PAGES: u32 = 8_000;
/// Pages from which the writer is held whatever is left to copy: 256 MiB.
const HARD_PAGES: u32 = 64_000;
/// What may be left to copy while the writer is held.
const HELD_PAGES: u32 = 1_000;
/// Passive rounds in a row, each for what the writer added during the one before.
const MAX_ROUNDS: u32 = 4;
/// How long the writer is held for readers to let go of the log.
const HOLD_TIMEOUT: Duration = Duration::from_millis(50);
/// The shortest time between two attempts that could not finish.
const PAUSE: Duration = Duration::from_millis(100);

/// What the writer and the checkpointer share.
#[derive(Default)]
pub(super) struct Wal {
    state: Mutex<State>,
    changed: Condvar,
    /// Held by the writer for each batch.
    gate: Mutex<()>,
}

#[derive(Default)]
struct State {
    pages: u32,
    closing: bool,
}

impl Wal {
    /// Runs one batch, alone.
    pub(super) fn with_gate<T>(&self, batch: impl FnOnce() -> T) -> T {
        let gate = self.gate.lock();
        let done = batch();
        // Fairly: a busy writer would otherwise take it again before the checkpointer wakes.
        parking_lot::MutexGuard::unlock_fair(gate);
        done
    }

    /// The log has so many pages now.
    pub(super) fn grown(&self, pages: u32) {
        self.state.lock().pages = pages;
        if pages >= SOFT_PAGES {
            self.changed.notify_one();
        }
    }

    /// Copies all of the log and ends.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.changed.notify_one();
    }

    /// True when it is time for a checkpoint, false when it is time to end.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.closing && state.pages < SOFT_PAGES {
            self.changed.wait(&mut state);
        }
        !state.closing
    }

    /// Waits, but not for the end.
    fn pause(&self) {
        let until = Instant::now() + PAUSE;
        let mut state = self.state.lock();
        while !state.closing && !self.changed.wait_until(&mut state, until).timed_out() {}
    }
}

pub(super) fn start(wal: Arc<Wal>, connection: Connection) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("lapse-checkpoint".into()).spawn(move || {
        if let Err(error) = connection.busy_timeout(HOLD_TIMEOUT) {
            tracing::warn!(%error, "checkpoints may hold the writer for longer than they should");
        }
        while wal.wait() {
            match checkpoint(&wal, &connection) {
                Ok(true) => {}
                Ok(false) => wal.pause(),
                Err(error) => {
                    tracing::warn!(%error, "a checkpoint failed; it is tried again");
                    wal.pause();
                }
            }
        }
        if let Err(error) = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::TRUNCATE) {
            tracing::warn!(%error, "the last checkpoint failed; the next start makes up for it");
        }
    })
}

/// True if the log starts anew.
fn checkpoint(wal: &Wal, connection: &Connection) -> rusqlite::Result<bool> {
    let (mut pages, mut left) = (0, u32::MAX);
    for _ in 0..MAX_ROUNDS {
        let (in_log, copied) = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE)?;
        pages = u32::try_from(in_log).unwrap_or(0);
        left = pages.saturating_sub(u32::try_from(copied).unwrap_or(0));
        if left <= HELD_PAGES {
            break;
        }
    }
    if left > HELD_PAGES && pages < HARD_PAGES {
        return Ok(false);
    }
    let restarted: rusqlite::Result<()> = wal.with_gate(|| {
        connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::RESTART)?;
        wal.grown(0);
        Ok(())
    });
    match restarted {
        Ok(()) => Ok(true),
        // A reader is still looking at the log.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        Err(error) => Err(error),
    }
}
