//! The group service: the call carries the idempotency key, so that a second one changes nothing.

use lapse_plugin::{
    Failure,
    http::{Request, below},
    json,
};
use serde::Deserialize;

use crate::payload::Member;

pub enum Closing {
    /// With those who had joined.
    Closed(Vec<Member>),
    Full,
}

#[derive(Deserialize)]
struct Answer {
    members: Vec<Member>,
}

/// Closes the group on condition that it is still open, by the group service's own compare-and-set.
pub fn close_if_open(group_url: &str, group_id: &str, now_ms: u64) -> Result<Closing, Failure> {
    let url = below(group_url, group_id, "close")?;
    let response = Request::post(&url).json(&json!({"expected_state": "open"})).send()?;
    match response.status() {
        200..300 => match serde_json::from_slice::<Answer>(response.body()) {
            Ok(answer) => Ok(Closing::Closed(answer.members)),
            Err(error) => {
                let message = format!("the group service closed the group but does not say who was in it: {error}");
                Err(Failure::permanent("members_unknown", message))
            }
        },
        409 => Ok(Closing::Full),
        404 => Err(Failure::permanent("group_not_found", "the group service does not know the group")),
        _ => Err(response.failure("closing the group", now_ms)),
    }
}
