//! The audit: one event for each version of a timer, each chained to the one before by a keyed hash.

use hmac::{Hmac, KeyInit, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{
    id::{Digest, TimerId},
    time::Timestamp,
    timer::{State, Timer, Trigger},
};

/// The code over an event and all before it.
pub type Mac = [u8; 32];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Registered,
    Rescheduled,
    FireRequested,
    Reminded,
    Claimed,
    LeaseLapsed,
    RetryScheduled,
    Closed,
    Skipped,
    Failed,
    Resolved,
    Cancelled,
    Retried,
    CompensationCreated,
    CompensationRetried,
    CompensationDone,
    CompensationDead,
    CompensationRedriven,
}

/// What happened to a timer. Its serialised bytes are what the chain covers and what is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub timer_id: TimerId,
    pub seq: i64,
    pub at: Timestamp,
    pub kind: EventKind,
    /// `key:NAME`, `plugin:NAME`, `engine` or `bootstrap`.
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_before: Option<State>,
    pub state_after: State,
    /// The timer's version after it; the same as `seq`.
    pub version: i64,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(default)]
    pub detail: Value,
}

impl Event {
    /// The bytes that are stored and chained.
    pub fn body(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|e| unreachable!("an event is plain data: {e}"))
    }

    /// A registration's event. It has no row of its own: it is computed from the timer's, so that registering is one
    /// insert, and altering what was registered breaks the chain.
    pub fn registered(timer: &Timer) -> Self {
        Self {
            timer_id: timer.id,
            seq: 1,
            at: timer.created_at,
            kind: EventKind::Registered,
            actor: timer.origin.actor.clone(),
            state_before: None,
            state_after: State::Scheduled,
            version: 1,
            attempt: 1,
            trigger: None,
            digest: None,
            message_id: timer.origin.message_id.clone(),
            detail: json!({
                "namespace_id": timer.namespace_id,
                "type_id": timer.type_id,
                "key": timer.key,
                "due_at": timer.origin.due_at,
                "payload": Digest::of(timer.payload.as_bytes()),
                "labels": timer.labels,
                "revision": timer.revision,
                "pinned": timer.pinned,
                "depth": timer.depth,
                "fingerprint": timer.origin.fingerprint.map(hex::encode),
            }),
        }
    }
}

/// Chains events with the server's key.
#[derive(Clone)]
pub struct Chain {
    key: [u8; 32],
}

impl Chain {
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// The head after an event with this body, when the head before was `previous` (zeros before the first).
    pub fn link(&self, previous: &Mac, body: &str) -> Mac {
        let mut hmac =
            Hmac::<Sha256>::new_from_slice(&self.key).unwrap_or_else(|_| unreachable!("any key length will do"));
        hmac.update(previous);
        hmac.update(body.as_bytes());
        hmac.finalize().into_bytes().into()
    }

    /// Tells one key from another, and nothing about either. A positive number that fits a database's column.
    pub fn fingerprint(&self) -> i64 {
        let mac = self.link(&[0; 32], "fingerprint");
        i64::from_be_bytes(mac[..8].try_into().unwrap_or_else(|_| unreachable!("eight bytes"))) & i64::MAX
    }

    /// The head of a timer that has only been registered.
    pub fn first(&self, timer: &Timer) -> Mac {
        self.link(&[0; 32], &Event::registered(timer).body())
    }

    /// Whether the stored events (from seq 2 on, as `(body, mac)`) lead from the timer's registration to its head, and to
    /// the state that it is in. Says which sequence number is the first that does not fit; one past the last if that is
    /// the timer's row.
    pub fn verify<'a>(&self, timer: &Timer, stored: impl IntoIterator<Item = (&'a str, &'a Mac)>) -> Result<(), i64> {
        let mut head = self.first(timer);
        let mut seq = 1;
        let mut state = State::Scheduled;
        for (body, mac) in stored {
            seq += 1;
            head = self.link(&head, body);
            let event = serde_json::from_str::<Event>(body).ok();
            let Some(event) = event.filter(|e| head == *mac && e.seq == seq && e.timer_id == timer.id) else {
                return Err(seq);
            };
            state = event.state_after;
        }
        if seq == timer.version && head == timer.head && state == timer.state { Ok(()) } else { Err(seq + 1) }
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chain")
    }
}
