//! What a plugin decides, with its effects as data.

use serde::Serialize;

use crate::bindings::lapse::plugin::types as wit;

/// What becomes of a timer. Nothing happens by returning it: Lapse writes the state and all effects in one
/// transaction, and carries the effects out after it.
#[derive(Debug)]
pub struct Decision(wit::Decision);

/// When a follow-up timer is due.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    AtMs(u64),
    /// Milliseconds after the decision.
    AfterMs(u64),
}

/// Another timer, of a type in the same namespace.
#[derive(Debug)]
pub struct FollowUp(wit::FollowUp);

impl FollowUp {
    /// Due after the type's default delay. The key is unique with the type for the life of the timer.
    pub fn new(timer_type: &str, key: &str, payload: &impl Serialize) -> Self {
        Self(wit::FollowUp { timer_type: timer_type.into(), key: key.into(), payload: json(payload), due: None })
    }

    pub fn due(mut self, due: Due) -> Self {
        self.0.due = Some(match due {
            Due::AtMs(at) => wit::Due::At(at),
            Due::AfterMs(after) => wit::Due::After(after),
        });
        self
    }
}

impl Decision {
    fn new(verdict: wit::Verdict) -> Self {
        let effects = wit::Effects { compensations: vec![], follow_ups: vec![], events: vec![], counters: vec![] };
        Self(wit::Decision { verdict, effects })
    }

    /// The timer has done its work.
    pub fn close() -> Self {
        Self::new(wit::Verdict::Close(None))
    }

    /// It is settled otherwise.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::new(wit::Verdict::Skip(reason.into()))
    }

    /// Ask again, after the type's own backoff.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::new(wit::Verdict::Retry(wit::Retry { after: None, reason: reason.into() }))
    }

    /// Ask again after so many milliseconds.
    pub fn retry_after_ms(after_ms: u64, reason: impl Into<String>) -> Self {
        Self::new(wit::Verdict::Retry(wit::Retry { after: Some(after_ms), reason: reason.into() }))
    }

    /// What stands in the timer's outcome. Only for `close`.
    pub fn result(mut self, result: &impl Serialize) -> Self {
        if let wit::Verdict::Close(slot) = &mut self.0.verdict {
            *slot = Some(json(result));
        }
        self
    }

    /// A call of `compensate` to come. Only with `close`.
    pub fn compensate(mut self, kind: &str, payload: &impl Serialize) -> Self {
        self.0.effects.compensations.push(wit::CompensationSpec { kind: kind.into(), payload: json(payload) });
        self
    }

    /// Another timer. Only with `close`.
    pub fn follow_up(mut self, timer: FollowUp) -> Self {
        self.0.effects.follow_ups.push(timer.0);
        self
    }

    /// Something for the timer's audit.
    pub fn event(mut self, name: &str, data: &impl Serialize) -> Self {
        self.0.effects.events.push(wit::Event { name: name.into(), data: json(data) });
        self
    }

    /// A step of a counter of the plugin's own.
    pub fn count(mut self, name: &str, value: u64) -> Self {
        self.0.effects.counters.push(wit::Counter { name: name.into(), value });
        self
    }
}

impl From<Decision> for wit::Decision {
    fn from(decision: Decision) -> Self {
        decision.0
    }
}

/// A value that cannot be JSON (a map with keys that are no strings) is a mistake in the plugin.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| panic!("a value that is to be JSON cannot be: {e}"))
}
