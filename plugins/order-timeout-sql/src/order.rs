//! The order as the business's database has it at the moment, and what is to be unfrozen for it.

use lapse_plugin::{
    Failure,
    sql::{Outcome, Statement, Value},
};

use crate::config::Config;

pub struct Order {
    pub user_id: Value,
    pub status: String,
    pub version: i64,
    method: String,
    total: Value,
    wallet_part: Value,
}

/// What becomes of the wallet when the order is closed.
pub enum Wallet {
    Unfreeze(Value),
    Nothing,
    /// There should be no timer.
    PaidAtCreation,
}

impl Order {
    /// `None`: there is no such order.
    pub fn read(config: &Config, order_id: &str) -> Result<Option<Self>, Failure> {
        let text = format!(
            "SELECT user_id, status, version, payment_method, total_amount, wallet_payment_amount FROM {} WHERE id = $1",
            config.orders_table
        );
        let found: Outcome = Statement::new(text).bind(order_id).read(&config.source)?;
        let Some(row) = found.first() else { return Ok(None) };
        Ok(Some(Self {
            user_id: row.get("user_id")?.clone(),
            status: row.text("status")?.into(),
            version: row.integer("version")?,
            method: row.text("payment_method")?.into(),
            total: row.get("total_amount")?.clone(),
            wallet_part: row.get("wallet_payment_amount")?.clone(),
        }))
    }

    /// | payment method | unfreeze |
    /// |---|---|
    /// | wallet | the total |
    /// | wallet and online | the wallet's part |
    /// | online only | nothing |
    /// | paid at creation | no timer at all |
    pub fn wallet(&self) -> Result<Wallet, Failure> {
        let amount = match self.method.as_str() {
            "wallet" => &self.total,
            "mixed" => &self.wallet_part,
            "online" | "wechat" | "alipay" => return Ok(Wallet::Nothing),
            "backoffice_wallet" | "offline" => return Ok(Wallet::PaidAtCreation),
            other => {
                return Err(Failure::permanent(
                    "payment_method_unknown",
                    format!("there is no payment method {other:?}"),
                ));
            }
        };
        match sign(amount) {
            Some(1) => Ok(Wallet::Unfreeze(amount.clone())),
            // Nothing was frozen for an order that costs nothing.
            Some(0) if self.method == "wallet" => Ok(Wallet::Nothing),
            _ => Err(Failure::permanent(
                "amounts_invalid",
                format!("the order is paid by {}, and what is frozen for it is {}", self.method, shown(amount)),
            )),
        }
    }
}

/// 1, 0 or -1; nothing for what is no exact number.
fn sign(amount: &Value) -> Option<i64> {
    match amount {
        Value::Integer(n) => Some(n.signum()),
        Value::Decimal(digits) => {
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            let is_number = unsigned.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let is_zero = unsigned.bytes().all(|b| matches!(b, b'0' | b'.'));
            is_number.then(|| {
                if is_zero {
                    0
                } else if unsigned.len() < digits.len() {
                    -1
                } else {
                    1
                }
            })
        }
        _ => None,
    }
}

pub fn shown(value: &Value) -> String {
    match value {
        Value::Integer(n) => n.to_string(),
        Value::Decimal(text) | Value::Text(text) => text.clone(),
        Value::Null => "nothing".into(),
        other => format!("{other:?}"),
    }
}
