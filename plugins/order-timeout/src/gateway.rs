//! The services around an order: each call carries the idempotency key, so that a second one changes nothing.

use lapse_plugin::{Compensation, Failure, Value, http::Request, json};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub enum Closing {
    Closed,
    AlreadyPaid,
}

/// What may stand in a path segment as it is (RFC 3986, 2.3).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Closes the order on condition that it is unpaid, by the order service's own compare-and-set.
pub fn close_if_unpaid(order_url: &str, order_id: &str, now_ms: u64) -> Result<Closing, Failure> {
    // A segment that is only dots would be taken for a step in the path, however it is escaped.
    if matches!(order_id, "." | "..") {
        return Err(Failure::permanent("order_id_invalid", "an order id of dots alone cannot stand in a path"));
    }
    let url = format!("{}/{}/close", order_url.trim_end_matches('/'), utf8_percent_encode(order_id, SEGMENT));
    let response = Request::post(&url).json(&json!({"expected_state": "unpaid"})).send()?;
    match response.status() {
        200..300 => Ok(Closing::Closed),
        409 => Ok(Closing::AlreadyPaid),
        404 => Err(Failure::permanent("order_not_found", "the order service does not know the order")),
        _ => Err(response.failure("closing the order", now_ms)),
    }
}

/// Posts a compensation's payload as it is.
pub fn give_back(url: &str, task: &Compensation) -> Result<Value, Failure> {
    let body = task.payload.clone().into_bytes();
    let response = Request::post(url).header("content-type", "application/json").body(body).send()?;
    if response.is_success() {
        return Ok(json!({"status": response.status()}));
    }
    Err(response.failure(&task.kind, task.now))
}
