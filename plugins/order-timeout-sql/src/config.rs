//! What the type's operator sets.

use lapse_plugin::Failure;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(default)]
pub struct Config {
    pub source: String,
    pub orders_table: String,
    pub outbox_table: String,
    pub wallets_table: String,
    pub pending_status: String,
    pub paid_status: String,
    pub closed_status: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: String::new(),
            orders_table: "orders".into(),
            outbox_table: "order_outbox".into(),
            wallets_table: "wallets".into(),
            pending_status: "pending".into(),
            paid_status: "paid".into(),
            closed_status: "closed".into(),
        }
    }
}

impl Config {
    /// The names stand in the statements as they are. The schema says the same; this does not rely on it.
    pub fn check(&self) -> Result<(), Failure> {
        for name in [&self.orders_table, &self.outbox_table, &self.wallets_table] {
            if !is_table(name) {
                return Err(Failure::permanent("config_invalid", format!("{name:?} is no name of a table")));
            }
        }
        Ok(())
    }
}

fn is_table(name: &str) -> bool {
    let is_part = |part: &str| {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && part.len() <= 63
    };
    name.split('.').count() <= 2 && name.split('.').all(is_part)
}
