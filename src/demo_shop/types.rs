//! The example types, and an order for them: what `lapse dev` and `lapse bench` need to know of the shop's business.

use serde_json::{Value, json};

/// The component that decides for both types, as its file is called.
pub const COMPONENT: &str = "order-timeout.wasm";

/// Closes without a look at the order: right for a shop that commits a payment only after `resolve` answered 200.
pub const UNCHECKED: &str = "order-timeout";
/// Closes on condition that the order is unpaid, by the shop's own compare-and-set.
pub const CHECKED: &str = "order-timeout-checked";

/// A timer type whose plugin calls a shop.
#[derive(Clone, Debug)]
pub struct ExampleType {
    pub name: &'static str,
    pub config: Value,
    pub grants: Vec<String>,
}

/// Both types, for a shop at `url`, whose host and port are `authority`.
pub fn example_types(url: &str, authority: &str) -> [ExampleType; 2] {
    let config = json!({
        "inventory_url": format!("{url}/inventory/release"),
        "coupon_url": format!("{url}/coupons/return"),
    });
    let mut checked = config.clone();
    checked["order_url"] = format!("{url}/orders").into();
    let grant = format!("http:{authority}");
    let on_expire = format!("on-expire:{grant}");
    [
        ExampleType { name: UNCHECKED, config, grants: vec![grant.clone()] },
        ExampleType { name: CHECKED, config: checked, grants: vec![grant, on_expire] },
    ]
}

/// The payload of a small order: one item, no coupon.
pub fn small_order(order_id: &str) -> Value {
    json!({
        "order_id": order_id,
        "user_id": "u1",
        "total_amount": 1990,
        "payment_method": "online",
        "items": [{ "sku": "tea", "quantity": 2 }],
    })
}
