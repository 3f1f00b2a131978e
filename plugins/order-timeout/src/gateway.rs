//! The order service: each call carries the idempotency key, so that a second one changes nothing.

use lapse_plugin::{
    Failure,
    http::{Request, below},
    json,
};

pub enum Closing {
    Closed,
    AlreadyPaid,
}

/// Closes the order on condition that it is unpaid, by the order service's own compare-and-set.
pub fn close_if_unpaid(order_url: &str, order_id: &str, now_ms: u64) -> Result<Closing, Failure> {
    let url = below(order_url, order_id, "close")?;
    let response = Request::post(&url).json(&json!({"expected_state": "unpaid"})).send()?;
    match response.status() {
        200..300 => Ok(Closing::Closed),
        409 => Ok(Closing::AlreadyPaid),
        404 => Err(Failure::permanent("order_not_found", "the order service does not know the order")),
        _ => Err(response.failure("closing the order", now_ms)),
    }
}
