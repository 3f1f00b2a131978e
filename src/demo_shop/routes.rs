//! The shop's HTTP calls.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    Counter, Faults,
    ledger::{Answer, Call, Item, OrderState, Request},
};

/// The longest delay that a fault may ask for.
const MAX_DELAY: Duration = Duration::from_mins(1);

type Shop = State<Arc<Counter>>;

pub fn router(counter: Arc<Counter>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/orders", get(orders))
        .route("/orders/{id}", get(order).put(create))
        .route("/orders/{id}/pay", post(pay))
        .route("/orders/{id}/close", post(close))
        .route("/inventory/release", post(release))
        .route("/coupons/return", post(return_coupon))
        .route("/stock", get(stock))
        .route("/coupons", get(coupons))
        .route("/calls", get(calls))
        .route("/faults", get(faults).post(set_faults))
        .with_state(counter)
}

async fn index() -> &'static str {
    "The demo shop.\n\
     PUT  /orders/{id}           {\"items\": [{\"sku\", \"quantity\"}]}\n\
     POST /orders/{id}/pay\n\
     POST /orders/{id}/close     {\"expected_state\": \"unpaid\"}      with an Idempotency-Key\n\
     POST /inventory/release     {\"order_id\", \"sku\", \"quantity\"}  with an Idempotency-Key\n\
     POST /coupons/return        {\"order_id\", \"coupon_id\"}        with an Idempotency-Key\n\
     POST /faults                {\"fail_next\", \"status\", \"delay_ms\", \"after_effect\"}\n\
     GET  /orders  /orders/{id}  /stock  /coupons  /calls\n"
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CreateBody {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct CloseBody {
    expected_state: OrderState,
}

#[derive(Deserialize)]
struct ReleaseBody {
    order_id: String,
    sku: String,
    quantity: u32,
}

#[derive(Deserialize)]
struct CouponBody {
    order_id: String,
    coupon_id: String,
}

/// The body is optional, and may come without a content type, so that a bare `curl -X PUT` will do.
async fn create(State(shop): Shop, Path(order_id): Path<String>, body: axum::body::Bytes) -> Response {
    let body = if body.is_empty() { Ok(CreateBody::default()) } else { serde_json::from_slice(&body) };
    match body {
        Ok(CreateBody { items }) => answer(shop.carry_out(Request::Create { order_id, items }).await),
        Err(error) => show((400, json!({ "error": error.to_string() }))),
    }
}

async fn pay(State(shop): Shop, Path(order_id): Path<String>) -> Response {
    answer(shop.carry_out(Request::Pay { order_id }).await)
}

async fn close(
    State(shop): Shop,
    Path(order_id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<CloseBody>,
) -> Response {
    keyed(&shop, &headers, Call::Close { order_id, expected_state: body.expected_state }).await
}

async fn release(State(shop): Shop, headers: HeaderMap, Json(body): Json<ReleaseBody>) -> Response {
    let ReleaseBody { order_id, sku, quantity } = body;
    keyed(&shop, &headers, Call::Release { order_id, sku, quantity }).await
}

async fn return_coupon(State(shop): Shop, headers: HeaderMap, Json(body): Json<CouponBody>) -> Response {
    let CouponBody { order_id, coupon_id } = body;
    keyed(&shop, &headers, Call::ReturnCoupon { order_id, coupon_id }).await
}

async fn keyed(shop: &Counter, headers: &HeaderMap, call: Call) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|v| v.to_str().ok()).map(str::to_owned) else {
        return show((400, json!({ "error": "an Idempotency-Key is needed" })));
    };
    let Some(fault) = shop.next_fault() else {
        return answer(shop.carry_out(Request::Keyed { key, call }).await);
    };
    tokio::time::sleep(Duration::from_millis(fault.delay_ms).min(MAX_DELAY)).await;
    let Some(status) = fault.status else {
        return answer(shop.carry_out(Request::Keyed { key, call }).await);
    };
    let request = if fault.after_effect { Request::Keyed { key, call } } else { Request::Failed { key, call } };
    match shop.carry_out(request).await {
        Ok(_) => show((status, json!({ "error": "failed as it was told to" }))),
        Err(error) => answer(Err(error)),
    }
}

async fn orders(State(shop): Shop) -> Response {
    show((200, shop.books.lock().ledger.orders()))
}

async fn order(State(shop): Shop, Path(order_id): Path<String>) -> Response {
    show(shop.books.lock().ledger.order(&order_id))
}

async fn stock(State(shop): Shop) -> Response {
    show((200, shop.books.lock().ledger.stock()))
}

async fn coupons(State(shop): Shop) -> Response {
    show((200, shop.books.lock().ledger.coupons()))
}

#[derive(Deserialize)]
struct CallsQuery {
    order_id: Option<String>,
}

async fn calls(State(shop): Shop, Query(query): Query<CallsQuery>) -> Response {
    show((200, shop.books.lock().ledger.calls(query.order_id.as_deref())))
}

async fn faults(State(shop): Shop) -> Json<Faults> {
    Json(shop.faults.lock().clone())
}

async fn set_faults(State(shop): Shop, Json(faults): Json<Faults>) -> Response {
    if faults.status.is_some_and(|s| !(400..=599).contains(&s)) {
        return show((422, json!({ "error": "status is 400 to 599" })));
    }
    *shop.faults.lock() = faults.clone();
    Json(faults).into_response()
}

fn answer(result: Result<Answer, String>) -> Response {
    show(result.unwrap_or_else(|error| (500, json!({ "error": error }))))
}

/// JSON with a line's end, since people look at it in a terminal.
fn show((status, body): Answer) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
