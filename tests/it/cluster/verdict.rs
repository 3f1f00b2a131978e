//! What became of a cluster's timers, by their audit: every chain holds, and each expiry says what triggered it.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use lapse::{
    domain::{
        id::TimerId,
        timer::{State, Trigger},
    },
    store::Driver as _,
};

use super::rig::Cluster;

/// Timers that are read at once.
const AT_ONCE: usize = 8;

/// A timer that closed.
pub struct Fired {
    pub key: String,
    pub trigger: Trigger,
    /// From its due time, or its registration if that came later, to its outcome, by the database's clock.
    pub late_ms: i64,
}

pub struct Verdict {
    pub fired: Vec<Fired>,
}

impl Verdict {
    /// Verifies the chain of every timer.
    pub async fn of(cluster: &Cluster) -> Self {
        let (store, chain) = cluster.store().await;
        let ids = cluster.nodes[0].api.all("/v1/timers").await;
        let read = ids.iter().map(|row| {
            let id = TimerId(row["id"].as_str().unwrap().parse().unwrap());
            let (store, chain) = (&store, &chain);
            async move {
                let timer = store.timer(id).await.unwrap().unwrap();
                // After the registration's, which is computed from the row.
                let events = store.events(id, 1, 100).await.unwrap();
                chain.verify(&timer, events.iter().map(|e| (e.body.as_str(), &e.mac))).unwrap_or_else(|seq| {
                    panic!("the audit of {id:?} does not hold from event {seq} on: {events:#?}");
                });
                let trigger = events.iter().filter_map(|e| e.event.trigger).next_back();
                (timer.state == State::Closed).then(|| Fired {
                    key: timer.key.to_string(),
                    trigger: trigger.expect("an expiry says what triggered it"),
                    late_ms: timer.settled_at.unwrap().as_millis() - timer.due_at.max(timer.created_at).as_millis(),
                })
            }
        });
        let fired = stream::iter(read).buffer_unordered(AT_ONCE).filter_map(async |fired| fired).collect().await;
        store.close().await;
        Self { fired }
    }

    fn of_keys<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Fired> {
        self.fired.iter().filter(move |f| f.key.starts_with(prefix))
    }

    /// Expiries of the keys that begin so, by what triggered them.
    pub fn triggers(&self, prefix: &str) -> BTreeMap<&'static str, usize> {
        let mut triggers = BTreeMap::new();
        for fired in self.of_keys(prefix) {
            *triggers.entry(fired.trigger.as_str()).or_default() += 1;
        }
        triggers
    }

    /// Everything fired by its slot or by the node that wrote it; the backlog was not needed.
    pub fn assert_undisturbed(&self, prefix: &str) {
        let others: Vec<_> = self
            .of_keys(prefix)
            .filter(|f| !matches!(f.trigger, Trigger::Slot | Trigger::Near))
            .map(|f| (&f.key, f.trigger, f.late_ms))
            .collect();
        assert!(others.is_empty(), "neither by slot nor near: {others:?}");
    }

    /// How late the expiries of the keys that begin so were, for a person.
    pub fn lateness(&self, prefix: &str) -> String {
        let mut late: Vec<i64> = self.of_keys(prefix).map(|f| f.late_ms).collect();
        late.sort_unstable();
        let Some(last) = late.len().checked_sub(1) else { return "none".into() };
        let at = |percent: usize| late[last * percent / 100];
        format!("p50 {} ms, p99 {} ms, most {} ms; {:?}", at(50), at(99), at(100), self.triggers(prefix))
    }
}
