//! From the domain's terms into the plugin's.

use super::bindings::lapse::plugin::types as wit;
use crate::domain::{
    decision::{CompensationTask, Expiry},
    time::Timestamp,
    timer::Trigger,
};

fn ms(at: Timestamp) -> u64 {
    // A timestamp is never before 1970.
    at.as_millis().unsigned_abs()
}

pub fn expiry(expiry: &Expiry) -> wit::Expiry {
    wit::Expiry {
        timer_id: expiry.timer_id.to_string(),
        namespace: expiry.namespace.clone(),
        timer_type: expiry.timer_type.clone(),
        key: expiry.key.clone(),
        payload: expiry.payload.clone(),
        attempt: expiry.attempt,
        trigger: match expiry.trigger {
            Trigger::Slot => wit::Trigger::Slot,
            Trigger::Near => wit::Trigger::Near,
            Trigger::Backlog => wit::Trigger::Backlog,
            Trigger::Manual => wit::Trigger::Manual,
        },
        idempotency_key: expiry.idempotency_key.clone(),
        due_at: ms(expiry.due_at),
        fired_at: ms(expiry.fired_at),
        config: expiry.config.clone(),
    }
}

pub fn task(task: &CompensationTask) -> wit::Compensation {
    wit::Compensation {
        id: task.id.to_string(),
        timer_id: task.timer_id.to_string(),
        namespace: task.namespace.clone(),
        timer_type: task.timer_type.clone(),
        key: task.key.clone(),
        kind: task.kind.clone(),
        payload: task.payload.clone(),
        attempt: task.attempt,
        idempotency_key: task.idempotency_key.clone(),
        now: ms(task.now),
        config: task.config.clone(),
    }
}
