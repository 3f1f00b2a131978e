//! What a timer of the type carries, as the schemas have it.

use lapse_plugin::{Failure, Whole};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
pub struct Order {
    pub order_id: String,
    pub total_amount: Whole,
    pub payment_method: PaymentMethod,
    #[serde(default)]
    pub wallet_payment_amount: Option<Whole>,
    pub items: Vec<Item>,
    #[serde(default)]
    pub coupon_ids: Vec<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PaymentMethod {
    Wallet,
    Mixed,
    Online,
}

#[derive(Deserialize)]
pub struct Item {
    pub sku: String,
    pub quantity: Whole,
}

#[derive(Deserialize)]
pub struct Config {
    pub inventory_url: String,
    pub coupon_url: String,
    #[serde(default)]
    pub order_url: Option<String>,
}

/// The payload of `release_inventory`, and the body that is posted.
#[derive(Serialize)]
pub struct Release<'a> {
    pub order_id: &'a str,
    pub sku: &'a str,
    pub quantity: u64,
}

/// The payload of `return_coupon`, and the body that is posted.
#[derive(Serialize)]
pub struct Coupon<'a> {
    pub order_id: &'a str,
    pub coupon_id: &'a str,
}

impl Order {
    /// What a schema cannot say of two amounts: no more is frozen in the wallet than the order costs, and all of it
    /// when the wallet pays alone.
    pub fn check_amounts(&self) -> Result<(), Failure> {
        let Some(frozen) = self.wallet_payment_amount else { return Ok(()) };
        let fits = match self.payment_method {
            PaymentMethod::Wallet => frozen == self.total_amount,
            PaymentMethod::Mixed | PaymentMethod::Online => frozen <= self.total_amount,
        };
        if fits {
            return Ok(());
        }
        let message =
            format!("wallet_payment_amount {} does not go with total_amount {}", frozen.0, self.total_amount.0);
        Err(Failure::permanent("amounts_invalid", message))
    }
}
