//! The shop's books. A pure fold over requests: replaying them in order leads to the same books.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is in stock of anything that the shop hears of for the first time.
const FIRST_STOCK: i64 = 100;
/// Orders, and idempotency keys, that the shop remembers; beyond it a new one is answered 507.
const MAX_ENTRIES: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    Unpaid,
    Paid,
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub sku: String,
    pub quantity: u32,
}

/// What can be asked of the shop: a line of its journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    Create {
        order_id: String,
        items: Vec<Item>,
    },
    Pay {
        order_id: String,
    },
    Keyed {
        key: String,
        call: Call,
    },
    /// A call that a fault kept from having its effect.
    Failed {
        key: String,
        call: Call,
    },
}

/// What is idempotent by its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Call {
    Close { order_id: String, expected_state: OrderState },
    Release { order_id: String, sku: String, quantity: u32 },
    ReturnCoupon { order_id: String, coupon_id: String },
}

impl Call {
    pub fn order_id(&self) -> &str {
        match self {
            Self::Close { order_id, .. } | Self::Release { order_id, .. } | Self::ReturnCoupon { order_id, .. } => {
                order_id
            }
        }
    }
}

/// A status and a body.
pub type Answer = (u16, Value);

#[derive(Debug, Default)]
pub struct Ledger {
    orders: BTreeMap<String, Order>,
    stock: BTreeMap<String, Stock>,
    coupons: BTreeMap<String, u64>,
    keys: BTreeMap<String, Counts>,
}

#[derive(Debug, Serialize)]
struct Order {
    state: OrderState,
    items: Vec<Item>,
}

#[derive(Debug, Serialize)]
struct Stock {
    available: i64,
    /// Put back in all.
    released: u64,
}

/// One idempotency key's calls.
#[derive(Debug, Serialize)]
struct Counts {
    calls: u64,
    effects: u64,
    #[serde(flatten)]
    call: Call,
}

impl Ledger {
    pub fn apply(&mut self, request: Request) -> Answer {
        match request {
            Request::Create { order_id, items } => self.create(order_id, items),
            Request::Pay { order_id } => self.pay(&order_id),
            Request::Keyed { key, call } => self.keyed(key, call),
            Request::Failed { key, call } => match self.count(key, call) {
                Ok(_) => (503, json!({ "error": "failed as it was told to" })),
                Err(answer) => answer,
            },
        }
    }

    fn create(&mut self, order_id: String, items: Vec<Item>) -> Answer {
        if let Some(order) = self.orders.get(&order_id) {
            return (200, show(&order_id, order));
        }
        if self.orders.len() >= MAX_ENTRIES {
            return full();
        }
        for item in &items {
            self.stock_of(&item.sku).available -= i64::from(item.quantity);
        }
        let order = Order { state: OrderState::Unpaid, items };
        let answer = (201, show(&order_id, &order));
        self.orders.insert(order_id, order);
        answer
    }

    fn pay(&mut self, order_id: &str) -> Answer {
        match self.orders.get_mut(order_id) {
            None => unknown(order_id),
            Some(order) if order.state == OrderState::Closed => (409, show(order_id, order)),
            Some(order) => {
                order.state = OrderState::Paid;
                (200, show(order_id, order))
            }
        }
    }

    fn keyed(&mut self, key: String, call: Call) -> Answer {
        let counts = match self.count(key.clone(), call.clone()) {
            Ok(counts) => counts,
            Err(answer) => return answer,
        };
        if counts.effects > 0 {
            let answer = match &call {
                Call::Close { order_id, .. } => json!({ "order_id": order_id, "state": "closed", "repeated": true }),
                other => json!({ "order_id": other.order_id(), "repeated": true }),
            };
            return (200, answer);
        }
        let answer = self.effect(&call);
        if answer.0 == 200
            && let Some(counts) = self.keys.get_mut(&key)
        {
            counts.effects += 1;
        }
        answer
    }

    /// Counts a call, and refuses a key that was another call's.
    fn count(&mut self, key: String, call: Call) -> Result<&Counts, Answer> {
        if self.keys.len() >= MAX_ENTRIES && !self.keys.contains_key(&key) {
            return Err(full());
        }
        let counts = self.keys.entry(key).or_insert_with(|| Counts { calls: 0, effects: 0, call: call.clone() });
        counts.calls += 1;
        if counts.call != call {
            return Err((
                422,
                json!({ "error": "this Idempotency-Key was used for another call", "first": counts.call }),
            ));
        }
        Ok(counts)
    }

    fn effect(&mut self, call: &Call) -> Answer {
        match call {
            Call::Close { order_id, expected_state } => match self.orders.get_mut(order_id) {
                None => unknown(order_id),
                Some(order) if order.state != *expected_state => (409, show(order_id, order)),
                Some(order) => {
                    order.state = OrderState::Closed;
                    (200, show(order_id, order))
                }
            },
            Call::Release { order_id, sku, quantity } => {
                let stock = self.stock_of(sku);
                stock.available += i64::from(*quantity);
                stock.released += u64::from(*quantity);
                (200, json!({ "order_id": order_id, "sku": sku, "available": stock.available }))
            }
            Call::ReturnCoupon { order_id, coupon_id } => {
                *self.coupons.entry(coupon_id.clone()).or_default() += 1;
                (200, json!({ "order_id": order_id, "coupon_id": coupon_id }))
            }
        }
    }

    fn stock_of(&mut self, sku: &str) -> &mut Stock {
        self.stock.entry(sku.to_owned()).or_insert(Stock { available: FIRST_STOCK, released: 0 })
    }

    pub fn orders(&self) -> Value {
        self.orders.iter().map(|(id, order)| show(id, order)).collect()
    }

    pub fn order(&self, order_id: &str) -> Answer {
        self.orders.get(order_id).map_or_else(|| unknown(order_id), |order| (200, show(order_id, order)))
    }

    /// By SKU: what is available, and what was put back in all.
    pub fn stock(&self) -> Value {
        json!(self.stock)
    }

    /// By coupon: how often it was given back.
    pub fn coupons(&self) -> Value {
        json!(self.coupons)
    }

    /// By idempotency key: calls, effects, and what was asked; of one order, or of all.
    pub fn calls(&self, order_id: Option<&str>) -> Value {
        let wanted = self.keys.iter().filter(|(_, c)| order_id.is_none_or(|id| c.call.order_id() == id));
        wanted.map(|(key, counts)| (key.clone(), json!(counts))).collect::<serde_json::Map<_, _>>().into()
    }
}

fn show(order_id: &str, order: &Order) -> Value {
    json!({ "order_id": order_id, "state": order.state, "items": order.items })
}

fn unknown(order_id: &str) -> Answer {
    (404, json!({ "error": "no such order", "order_id": order_id }))
}

fn full() -> Answer {
    (
        507,
        json!({ "error": "the demo shop remembers no more than a million of a kind: start it with an empty journal" }),
    )
}
