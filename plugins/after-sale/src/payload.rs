//! What a timer of the type carries, as the schemas have it.

use lapse_plugin::Whole;
use serde::{Deserialize, Serialize};

/// A case; also the payload of both compensations.
#[derive(Deserialize, Serialize)]
pub struct Case {
    pub case_id: String,
    pub order_id: String,
    pub user_id: String,
    pub merchant_id: String,
    pub request: Request,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<Whole>,
}

/// What the customer asks for.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Refund,
    Return,
    Exchange,
}

#[derive(Deserialize)]
pub struct Config {
    pub case_url: String,
    #[serde(default)]
    pub checked: bool,
    #[serde(default)]
    pub notify_url: Option<String>,
}
