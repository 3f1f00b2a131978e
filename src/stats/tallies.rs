//! A namespace's counts, as the store last gave them: many who ask share one look.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;

use crate::{
    domain::{
        id::{NamespaceId, TypeId},
        time::{DurationMs, Timestamp},
        timer::Timer,
    },
    store::{
        Result, Store,
        read::{Order, Tally, TallyQuery, TimerQuery},
    },
};

/// Where counting stops.
pub const CAP: u64 = 10_000;
/// What is due for less is not overdue: it is being decided.
const OVERDUE: DurationMs = DurationMs::from_secs(1);
/// How long a look answers for; or, where one takes long, so many times what it took, so that looking never costs more
/// than a fiftieth of one reader's time.
const FRESH: Duration = Duration::from_secs(1);
const REST: u32 = 50;
const MOST_REST: Duration = Duration::from_secs(30);

/// One look at the store.
#[derive(Clone, Debug)]
pub struct Counted {
    pub at: Timestamp,
    pub tally: Tally,
    pub oldest_overdue: Option<Timer>,
}

struct Kept {
    until: Instant,
    counted: Arc<Counted>,
}

/// By namespace; there are as many as the catalogue has.
#[derive(Default)]
pub(super) struct Tallies(Mutex<HashMap<NamespaceId, Arc<Turn<Option<Kept>>>>>);

impl Tallies {
    pub async fn of(
        &self,
        namespace: NamespaceId,
        types: Vec<TypeId>,
        store: &Store,
        now: Timestamp,
    ) -> Result<Arc<Counted>> {
        let turn = Arc::clone(self.0.lock().entry(namespace).or_default());
        let mut kept = turn.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| Instant::now() < kept.until) {
            return Ok(Arc::clone(&kept.counted));
        }
        let started = Instant::now();
        let counted = Arc::new(look(types, store, now).await?);
        let rest = (started.elapsed() * REST).clamp(FRESH, MOST_REST);
        *kept = Some(Kept { until: started + rest, counted: Arc::clone(&counted) });
        Ok(counted)
    }
}

async fn look(types: Vec<TypeId>, store: &Store, now: Timestamp) -> Result<Counted> {
    if types.is_empty() {
        return Ok(Counted { at: now, tally: Tally::default(), oldest_overdue: None });
    }
    let overdue_before = now.saturating_sub(OVERDUE);
    let oldest = TimerQuery {
        types: types.clone(),
        states: vec![crate::domain::timer::State::Scheduled, crate::domain::timer::State::Firing],
        due_before: Some(overdue_before),
        order: Order::DueAscending,
        limit: 1,
        ..TimerQuery::default()
    };
    let tally = store.read().tally(TallyQuery { types, overdue_before, cap: CAP }).await?;
    let oldest_overdue = match tally.overdue {
        0 => None,
        _ => store.read().timers(oldest).await?.items.pop(),
    };
    Ok(Counted { at: now, tally, oldest_overdue })
}
