//! Closes an order that is still unpaid when its time is up, and gives back what it held: stock and coupons.

mod gateway;
mod payload;

use lapse_plugin::{Capability, Compensation, Decision, Expiry, Export, Failure, Manifest, Plugin, Value, http, json};
use payload::{Config, Coupon, Order, Release};

struct OrderTimeout;

/// The kinds of compensation. Timers in flight name them: a kind is never renamed.
const RELEASE_INVENTORY: &str = "release_inventory";
const RETURN_COUPON: &str = "return_coupon";

impl Plugin for OrderTimeout {
    type Payload = Order;
    type Config = Config;

    fn manifest() -> Manifest {
        Manifest::new("order-timeout", env!("CARGO_PKG_VERSION"))
            .payload_schema(include_str!("../payload.schema.json"))
            .config_schema(include_str!("../config.schema.json"))
            .default_delay("30m")
            .uses(Export::OnExpire, Capability::Http)
            .requires(Export::Compensate, Capability::Http)
    }

    fn on_expire(ctx: &Expiry, order: Order, config: Config) -> Result<Decision, Failure> {
        order.check_amounts()?;
        if let Some(url) = &config.order_url
            && let gateway::Closing::AlreadyPaid = gateway::close_if_unpaid(url, &order.order_id, ctx.fired_at)?
        {
            return Ok(Decision::skip("the order is paid"));
        }
        let order_id = &order.order_id;
        let mut decision =
            Decision::close().result(&json!({"order_id": order_id, "checked": config.order_url.is_some()}));
        for item in &order.items {
            let release = Release { order_id, sku: &item.sku, quantity: item.quantity.0 };
            decision = decision.compensate(RELEASE_INVENTORY, &release);
        }
        for coupon_id in &order.coupon_ids {
            decision = decision.compensate(RETURN_COUPON, &Coupon { order_id, coupon_id });
        }
        Ok(decision)
    }

    fn compensate(task: &Compensation, config: Config) -> Result<Option<Value>, Failure> {
        let url = match task.kind.as_str() {
            RELEASE_INVENTORY => &config.inventory_url,
            RETURN_COUPON => &config.coupon_url,
            other => return Err(Failure::permanent("unknown_kind", format!("there is no compensation {other:?}"))),
        };
        http::post_task(url, task).map(Some)
    }
}

lapse_plugin::export!(OrderTimeout);
