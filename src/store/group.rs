//! Group commit.

use std::sync::Arc;

use super::{
    Driver, Observer, Result,
    op::{Answer, Op},
};

/// Bounds of the queues and batches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations of one class that may wait.
    pub queue: usize,
    /// Operations in one transaction.
    pub batch: usize,
    /// Bytes of payload in one transaction.
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { queue: 20_000, batch: 500, batch_bytes: 1024 * 1024 }
    }
}

#[derive(Clone)]
pub(super) struct Group {}

impl Group {
    pub(super) fn start(_driver: Arc<dyn Driver>, _limits: Limits) -> Self {
        Self {}
    }
    pub(super) fn observe(&self, _observer: Arc<dyn Observer>) {}
    pub(super) async fn submit(&self, _op: Op) -> Result<Answer> {
        todo!()
    }
    pub(super) async fn stop(&self) {}
}
