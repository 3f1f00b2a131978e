//! The case service: each call carries the idempotency key, so that a second one changes nothing.

use lapse_plugin::{
    Failure,
    http::{Request, below},
    json,
};

use crate::payload::Case;

pub enum Approval {
    Approved,
    MerchantAnswered,
}

/// Approves the case on condition that the merchant has not answered, by the case service's own compare-and-set.
pub fn approve_if_unanswered(case_url: &str, case: &Case, now_ms: u64) -> Result<Approval, Failure> {
    let body = json!({
        "expected_state": "awaiting_merchant",
        "request": case.request,
        "amount": case.amount,
        "reason": "the merchant did not answer in time",
    });
    let response = Request::post(&below(case_url, &case.case_id, "approve")?).json(&body).send()?;
    match response.status() {
        200..300 => Ok(Approval::Approved),
        409 => Ok(Approval::MerchantAnswered),
        404 => Err(Failure::permanent("case_not_found", "the case service does not know the case")),
        _ => Err(response.failure("approving the case", now_ms)),
    }
}
