//! Slots: what the delivery wakes this node for is read from the store and held.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Engine,
    holder::{Held, Put},
    meter::Left,
};
use crate::{
    clock::nap,
    delivery::Slot,
    domain::{
        time::{DurationMs, Timestamp},
        timer::Trigger,
    },
    store::read::DueQuery,
};

/// Timers read at once.
const PAGE: usize = 500;
/// Slots read at once: as many as the store has connections for.
const READS_AT_ONCE: usize = 4;
/// How long a read that failed waits before it is tried again, until the slot's deadline.
const READ_AGAIN: DurationMs = DurationMs::from_millis(200);

/// The slots that are neither done nor given back. Bounded by what the delivery yields within a slot's deadline.
#[derive(Default)]
pub(super) struct Open(Mutex<HashSet<Slot>>);

impl Open {
    /// True for the one that closes it.
    fn close(&self, slot: Slot) -> bool {
        self.0.lock().remove(&slot)
    }

    pub fn take_all(&self) -> Vec<Slot> {
        self.0.lock().drain().collect()
    }

    /// Four seconds after its second a slot is closed, whatever became of its timers: the backlog has them.
    pub fn take_past(&self, now: Timestamp) -> Vec<Slot> {
        let mut open = self.0.lock();
        let past: Vec<Slot> = open.iter().filter(|s| s.closes() < now).copied().collect();
        for slot in &past {
            open.remove(slot);
        }
        past
    }
}

/// Held by every timer that a slot brought. The last one closes the slot, or, if this node stopped before it had read all
/// of them, gives it back.
pub(super) struct Ticket {
    slot: Slot,
    engine: Arc<Engine>,
    broken_off: AtomicBool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.engine.open.close(self.slot) {
            let (engine, slot) = (Arc::clone(&self.engine), self.slot);
            let broken_off = *self.broken_off.get_mut();
            let closing = async move {
                if broken_off {
                    engine.delivery.give_back(slot).await;
                } else {
                    engine.delivery.done(slot).await;
                }
            };
            self.engine.tasks.spawn_on(closing, &self.engine.runtime);
        }
    }
}

/// Takes slots in until the engine stops taking.
pub(super) async fn take_in(engine: Arc<Engine>) {
    let reads = Arc::new(tokio::sync::Semaphore::new(READS_AT_ONCE));
    loop {
        let slot = tokio::select! {
            slot = engine.delivery.next() => slot,
            () = engine.stop_taking.cancelled() => return,
        };
        if slot.closes() < engine.clock.now() {
            engine.delivery.done(slot).await;
            continue;
        }
        let Ok(permit) = Arc::clone(&reads).acquire_owned().await else { return };
        engine.open.0.lock().insert(slot);
        let ticket = Arc::new(Ticket { slot, engine: Arc::clone(&engine), broken_off: AtomicBool::new(false) });
        let engine = Arc::clone(&engine);
        engine.tasks.clone().spawn(async move {
            read(&engine, slot, ticket).await;
            drop(permit);
        });
    }
}

async fn read(engine: &Arc<Engine>, slot: Slot, ticket: Arc<Ticket>) {
    let mut query = DueQuery {
        shard: slot.shard,
        from: slot.starts(),
        until: Slot { second: slot.second + 1, ..slot }.starts(),
        after: None,
        limit: PAGE,
    };
    while !engine.stop_taking.is_cancelled() && engine.clock.now() <= slot.closes() {
        let page = match engine.store.read().due(query.clone()).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, slot.shard, slot.second, "a slot's timers cannot be read; trying again");
                nap(&*engine.clock, engine.clock.now().saturating_add(READ_AGAIN)).await;
                continue;
            }
        };
        query.after = page.last().and_then(|t| Some((t.run_at?, t.id)));
        let last = page.len() < PAGE;
        for timer in page {
            let trigger = if timer.manual { Trigger::Manual } else { Trigger::Slot };
            let type_id = timer.type_id;
            let put = engine.holder.put(Held { timer, trigger, ticket: Some(Arc::clone(&ticket)) }, Timestamp::MIN);
            match put {
                Put::Known { by: Trigger::Slot } => engine.meter.duplicate(type_id),
                // What its writer armed comes with its slot once more: that is the rule, and no duplicate.
                Put::Held | Put::Known { .. } => {}
                Put::Full => {
                    engine.meter.left_to_backlog(type_id, Left::HolderFull);
                    return;
                }
            }
        }
        if last {
            return;
        }
    }
    if engine.stop_taking.is_cancelled() {
        ticket.broken_off.store(true, Ordering::Relaxed);
    }
}
