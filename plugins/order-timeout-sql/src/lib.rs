//! Closes an order that is still unpaid when its time is up, in the business's own database: the order by its status and
//! version, its outbox row and the wallet's unfreeze in one transaction, all of it or nothing.

mod config;
mod order;

use config::Config;
use lapse_plugin::{
    Capability, Decision, Expiry, Export, Failure, Manifest, Plugin, json, log,
    sql::{SqlError, Statement, Transaction},
};
use order::{Order, Wallet, shown};
use serde::Deserialize;

struct OrderTimeout;

#[derive(Deserialize)]
struct Payload {
    order_id: String,
    /// The order's own row has the last word on it.
    #[serde(rename = "payment_method")]
    _payment_method: String,
}

/// Looks at an order that changes under the hand; then the timer is tried again later.
const TRIES: u32 = 3;
/// The places of the batch's statements.
const OUTBOX: u32 = 0;
const ORDER: u32 = 1;
const WALLET: u32 = 2;

impl Plugin for OrderTimeout {
    type Payload = Payload;
    type Config = Config;

    fn manifest() -> Manifest {
        Manifest::new("order-timeout-sql", env!("CARGO_PKG_VERSION"))
            .payload_schema(include_str!("../payload.schema.json"))
            .config_schema(include_str!("../config.schema.json"))
            .default_delay("30m")
            .requires(Export::OnExpire, Capability::Sql)
    }

    fn on_expire(ctx: &Expiry, payload: Payload, config: Config) -> Result<Decision, Failure> {
        config.check()?;
        let order_id = &payload.order_id;
        for _ in 0..TRIES {
            let Some(order) = Order::read(&config, order_id)? else {
                return Err(Failure::permanent("order_not_found", format!("there is no order {order_id}")));
            };
            if order.status == config.paid_status {
                return Ok(Decision::skip("the order is paid"));
            }
            if order.status == config.closed_status {
                return closed_before(ctx, &config, order_id);
            }
            if order.status != config.pending_status {
                return Ok(Decision::skip(format!("the order is {}", order.status)));
            }
            let wallet = order.wallet()?;
            if let Wallet::PaidAtCreation = wallet {
                return Ok(Decision::skip("the order was paid at its creation, and has no timer"));
            }
            match close(ctx, &config, order_id, &order, &wallet) {
                Ok(()) => return Ok(closed(order_id, &wallet)),
                // Paid, or changed, in between; or an earlier run has closed it: look again.
                Err(SqlError::GuardFailed(guard)) if guard.statement == ORDER => {}
                Err(SqlError::Unique(fault)) if fault.statement == OUTBOX => {}
                Err(SqlError::GuardFailed(guard)) if guard.statement == WALLET => {
                    return Err(not_unfrozen(&config, &order, &wallet));
                }
                Err(other) => return Err(other.into()),
            }
        }
        Err(Failure::transient("order_changes", "the order changed each time that it was to be closed"))
    }
}

/// The idempotency key comes first: a second run of the call stops there.
fn close(ctx: &Expiry, config: &Config, order_id: &str, order: &Order, wallet: &Wallet) -> Result<(), SqlError> {
    let Config { orders_table, outbox_table, wallets_table, .. } = config;
    let unfreeze = match wallet {
        Wallet::Unfreeze(amount) => Some(amount),
        Wallet::Nothing | Wallet::PaidAtCreation => None,
    };
    let note = json!({ "order_id": order_id, "unfrozen": unfreeze.map(shown) });
    let mut batch = Transaction::on(&config.source)
        .then(
            Statement::new(format!(
                "INSERT INTO {outbox_table} (id, order_id, kind, payload, created_at) VALUES ($1, $2, $3, $4, $5)"
            ))
            .bind(&ctx.idempotency_key)
            .bind(order_id)
            .bind("order_closed")
            .bind_json(&note)
            .bind_time_ms(ctx.fired_at)
            .expect_rows(1),
        )
        .then(
            Statement::new(format!(
                "UPDATE {orders_table} SET status = $1, version = version + 1, closed_at = $2
                 WHERE id = $3 AND status = $4 AND version = $5"
            ))
            .bind(&config.closed_status)
            .bind_time_ms(ctx.fired_at)
            .bind(order_id)
            .bind(&config.pending_status)
            .bind(order.version)
            .expect_rows(1),
        );
    if let Some(amount) = unfreeze {
        batch = batch.then(
            Statement::new(format!(
                "UPDATE {wallets_table} SET frozen = frozen - $1 WHERE user_id = $2 AND frozen >= $3"
            ))
            .bind(amount)
            .bind(&order.user_id)
            .bind(amount)
            .expect_rows(1),
        );
    }
    batch.run().map(drop)
}

fn closed(order_id: &str, wallet: &Wallet) -> Decision {
    let unfrozen = match wallet {
        Wallet::Unfreeze(amount) => Some(shown(amount)),
        Wallet::Nothing | Wallet::PaidAtCreation => None,
    };
    let decision = Decision::close().result(&json!({ "order_id": order_id, "unfrozen": unfrozen }));
    if unfrozen.is_some() { decision.count("wallet_unfrozen", 1) } else { decision }
}

/// By an earlier run of this call, whose outbox row says so; or by somebody else.
fn closed_before(ctx: &Expiry, config: &Config, order_id: &str) -> Result<Decision, Failure> {
    let text = format!("SELECT id FROM {} WHERE id = $1", config.outbox_table);
    let ours = Statement::new(text).bind(&ctx.idempotency_key).read(&config.source)?;
    if ours.is_empty() {
        return Ok(Decision::skip("the order was closed by someone else"));
    }
    Ok(Decision::close().result(&json!({ "order_id": order_id, "closed_before": true })))
}

/// Nothing was done: the order is still pending, and a person has to look at the wallet.
fn not_unfrozen(config: &Config, order: &Order, wallet: &Wallet) -> Failure {
    log::count("wallet_unfreeze_failed", 1);
    let user = shown(&order.user_id);
    let wanted = match wallet {
        Wallet::Unfreeze(amount) => shown(amount),
        Wallet::Nothing | Wallet::PaidAtCreation => String::new(),
    };
    let text = format!("SELECT frozen FROM {} WHERE user_id = $1", config.wallets_table);
    let message = match Statement::new(text).bind(&order.user_id).read(&config.source) {
        Ok(found) => match found.first().and_then(|row| row.get("frozen").ok()) {
            Some(frozen) => {
                format!("the wallet of {user} has {} frozen, and {wanted} is to be unfrozen", shown(frozen))
            }
            None => format!("there is no wallet of {user}, and {wanted} is to be unfrozen"),
        },
        Err(_) => format!("{wanted} could not be unfrozen in the wallet of {user}"),
    };
    Failure::permanent("wallet_unfreeze_failed", message)
}

lapse_plugin::export!(OrderTimeout);
