//! Timers that are due within two seconds of their writing are seen to by the node that writes them. One that only
//! registers cannot: it tells the others, and they look for what they were not told.
//!
//! ```text
//!  registers only: commit ─► due shortly? ─► told (shard, ids), together with what came meanwhile
//!                                                 │ NOTIFY: every node that fires hears it
//!                                                 ▼
//!  fires: the shard's owner, by rendezvous hashing ─► reads the rows ─► its holder, trigger `near`
//!         each half second, while a node that only registers lives: what such a node wrote, came due
//!         in the last four seconds, and is still scheduled ─► its holder too
//! ```

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};

use super::nodes::Heard;
use crate::{
    clock::SharedClock,
    dispatch::{Dispatcher, is_near},
    domain::{
        id::{Name, SHARDS, TimerId, TypeId},
        time::{DurationMs, Timestamp},
        timer::Timer,
    },
    store::{
        Observer, Store,
        postgres::{NearTimers, Postgres},
        read::DueQuery,
    },
};

/// Timers that wait to be told; what exceeds it is found by the look.
const MAX_WAITING: usize = 20_000;
/// How long the last words of a node that stops may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often a connection to listen on is tried for.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// How often the firing nodes look for what they were not told.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What came due longer ago is the backlog's.
const LOOK_BACK: DurationMs = DurationMs::from_secs(4);
/// What came due since is on its way. Not much less: on a node that is busy a second run would only add to its work.
const ON_ITS_WAY: DurationMs = DurationMs::from_millis(400);
/// A timer registered longer before it was due has been in its slot.
const SHORT: DurationMs = DurationMs::from_millis(2_500);
/// Timers of one shard that one look takes, and messages that wait for their rows to be read.
const MAX_FOUND: usize = 500;
const MAX_HEARD: usize = 1_000;

/// On a node that only registers.
pub(super) struct Telling {
    waiting: Arc<Waiting>,
    task: JoinHandle<()>,
}

struct Waiting {
    clock: SharedClock,
    timers: Mutex<Vec<(u16, TimerId)>>,
    came: Notify,
}

/// Notes what is due shortly on each commit.
struct Noting(Weak<Waiting>);

impl Observer for Noting {
    fn timer_written(&self, timer: &Timer) {
        let Some(waiting) = self.0.upgrade() else { return };
        if !is_near(timer, waiting.clock.now()) {
            return;
        }
        let mut timers = waiting.timers.lock();
        if timers.len() < MAX_WAITING {
            timers.push((timer.shard(), timer.id));
            waiting.came.notify_one();
        }
    }

    fn timer_found(&self, timer: &Timer) {
        self.timer_written(timer);
    }

    fn compensation_written(&self, _: TypeId, _: &Name, _: Timestamp) {}

    fn catalogue_written(&self) {}
}

impl Telling {
    pub fn start(store: &Store, postgres: Arc<Postgres>, clock: SharedClock) -> Self {
        let waiting = Arc::new(Waiting { clock, timers: Mutex::default(), came: Notify::new() });
        store.observe(Arc::new(Noting(Arc::downgrade(&waiting))));
        let task = tokio::spawn(tell(Arc::clone(&waiting), postgres));
        Self { waiting, task }
    }

    /// Once nothing is registered any more.
    pub async fn stop(self) {
        let told = async {
            while !self.waiting.timers.lock().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _told = tokio::time::timeout(LAST_WORDS, told).await;
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What comes while one message is on its way is the next.
async fn tell(waiting: Arc<Waiting>, postgres: Arc<Postgres>) {
    let mut well = true;
    loop {
        waiting.came.notified().await;
        let timers = waiting.timers.lock().clone();
        let told = postgres.tell_near(&by_shard(&timers)).await;
        // What is lost is found by the look; only now, so that a stop sees what is still to be told.
        waiting.timers.lock().drain(..timers.len());
        if let Err(error) = &told
            && well
        {
            tracing::warn!(%error, "the nodes that fire cannot be told what is due shortly: it may fire a little late");
        }
        well = told.is_ok();
        if !waiting.timers.lock().is_empty() {
            waiting.came.notify_one();
        }
    }
}

fn by_shard(timers: &[(u16, TimerId)]) -> Vec<NearTimers> {
    let of = |shard| timers.iter().filter(move |(of, _)| *of == shard).map(|(_, id)| *id).collect();
    let near = (0..SHARDS).map(|shard| NearTimers { shard, ids: of(shard) });
    near.filter(|near| !near.ids.is_empty()).collect()
}

/// What a firing node listens and looks with.
#[derive(Clone)]
pub(super) struct HearingParams {
    pub postgres: Arc<Postgres>,
    pub store: Store,
    pub clock: SharedClock,
    pub dispatcher: Dispatcher,
    pub heard: Arc<Heard>,
    pub node: String,
}

/// On a node that fires, until it is dropped.
pub(super) struct Hearing([JoinHandle<()>; 3]);

impl Hearing {
    pub fn start(params: HearingParams) -> Self {
        let (heard, hearing) = mpsc::channel(MAX_HEARD);
        Self([
            tokio::spawn(listen(params.clone(), heard)),
            tokio::spawn(take(params.clone(), hearing)),
            tokio::spawn(look(params)),
        ])
    }
}

/// It takes nothing over any more.
impl Drop for Hearing {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

async fn listen(params: HearingParams, heard: mpsc::Sender<NearTimers>) {
    loop {
        let mine = |near: NearTimers| {
            if params.heard.owns(&params.node, near.shard) {
                let _dropped = heard.try_send(near);
            }
        };
        let Err(error) = params.postgres.hear_near(mine).await;
        tracing::debug!(%error, "what other nodes only register is not heard of; trying again");
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn take(params: HearingParams, mut hearing: mpsc::Receiver<NearTimers>) {
    while let Some(near) = hearing.recv().await {
        match params.postgres.timers_by_id(&near.ids).await {
            Ok(timers) => params.dispatcher.take_over(timers),
            Err(error) => tracing::debug!(%error, "timers that another node told of cannot be read"),
        }
    }
}

async fn look(params: HearingParams) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if !params.heard.any_registers_only() {
            continue;
        }
        let now = params.clock.now();
        for shard in (0..SHARDS).filter(|shard| params.heard.owns(&params.node, *shard)) {
            let query = DueQuery {
                shard,
                from: now.saturating_sub(LOOK_BACK),
                until: now.saturating_sub(ON_ITS_WAY),
                after: None,
                limit: MAX_FOUND,
            };
            match params.store.read().due(query).await {
                Ok(found) => params.dispatcher.take_over(found.into_iter().filter(is_short)),
                Err(error) => {
                    tracing::debug!(%error, "what other nodes only registered cannot be looked for");
                    break;
                }
            }
        }
    }
}

/// Whether its slot may have been read before it was written. Of a later version that is not known.
fn is_short(timer: &Timer) -> bool {
    timer.version > 1 || timer.run_at.is_some_and(|at| at.since(timer.created_at) < SHORT)
}
