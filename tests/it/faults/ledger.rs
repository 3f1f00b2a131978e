//! What the test was promised, and whether in the end it was so.

use std::collections::{BTreeMap, HashMap};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use crate::support::dev::Dev;

/// A server's API and its demo shop, called as a service would.
#[derive(Clone)]
pub struct Api {
    pub base: String,
    pub shop: String,
    pub token: String,
    pub http: Client,
}

/// An order whose timer the server has accepted.
#[derive(Clone, Debug)]
pub struct Promise {
    pub key: String,
    pub timer_type: &'static str,
    pub due_at_ms: i64,
    /// The compensations that a close must lead to.
    pub compensations: usize,
    /// What the server answered to `resolve`, if it was asked and did answer.
    pub resolve: Option<(StatusCode, Value)>,
}

pub fn millis(instant: &str) -> i64 {
    chrono::DateTime::parse_from_rfc3339(instant).unwrap().timestamp_millis()
}

pub fn instant(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

pub fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

impl Api {
    pub fn of(dev: &Dev) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { base: dev.url.clone(), shop: dev.shop.clone(), token: dev.token.clone(), http: Client::new() }
    }

    pub async fn post(&self, path: &str, body: &Value) -> reqwest::Result<(StatusCode, Value)> {
        let response =
            self.http.post(format!("{}{path}", self.base)).bearer_auth(&self.token).json(body).send().await?;
        let status = response.status();
        Ok((status, response.json().await?))
    }

    pub async fn get(&self, path: &str) -> reqwest::Result<Value> {
        let request = self.http.get(format!("{}{path}", self.base)).bearer_auth(&self.token);
        request.send().await?.error_for_status()?.json().await
    }

    /// Every item of a list, over all its pages.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let separator = if path.contains('?') { '&' } else { '?' };
            let after = cursor.as_ref().map(|c| format!("&cursor={c}")).unwrap_or_default();
            let page = self.get(&format!("{path}{separator}limit=500{after}")).await.unwrap();
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return items,
            }
        }
    }

    /// Puts an unpaid order into the shop.
    pub async fn place_order(&self, id: &str) {
        let put = self.http.put(format!("{}/orders/{id}", self.shop)).json(&json!({})).send().await.unwrap();
        assert!(put.status().is_success(), "the shop takes an order: {}", put.status());
    }

    /// Returns once nothing is left to do: no timer waits or fires, no compensation is pending or running.
    pub async fn settle_down(&self, within: std::time::Duration) {
        let deadline = std::time::Instant::now() + within;
        loop {
            let mut left = Vec::new();
            for path in [
                "timers?state=scheduled",
                "timers?state=firing",
                "compensations?state=pending",
                "compensations?state=running",
            ] {
                let page = self.get(&format!("/v1/{path}&limit=1")).await.unwrap();
                left.extend(page["items"].as_array().unwrap().iter().cloned());
            }
            if left.is_empty() {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "still to do: {left:#?}");
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        }
    }
}

/// An order's payload with this many items and coupons, so that a close leads to their sum of compensations.
pub fn order(id: &str, items: usize, coupons: usize) -> Value {
    json!({
        "order_id": id,
        "user_id": "u1",
        "total_amount": 1999,
        "payment_method": "online",
        "items": (0..items).map(|i| json!({ "sku": format!("sku-{i}"), "quantity": 1 })).collect::<Vec<_>>(),
        "coupon_ids": (0..coupons).map(|i| format!("c-{i}")).collect::<Vec<_>>(),
    })
}

/// Holds every promise against what the server and the shop say now. Returns how many ended in which state.
pub async fn audit(api: &Api, promises: &[Promise]) -> BTreeMap<String, usize> {
    let timers: HashMap<String, Value> =
        api.all("/v1/timers").await.into_iter().map(|t| (t["key"].as_str().unwrap().to_owned(), t)).collect();
    let mut of_timer: HashMap<String, Vec<Value>> = HashMap::new();
    for compensation in api.all("/v1/compensations").await {
        of_timer.entry(compensation["timer_id"].as_str().unwrap().to_owned()).or_default().push(compensation);
    }
    let calls: HashMap<String, Value> = shop_calls(api).await;
    let mut outcomes = BTreeMap::new();
    for promise in promises {
        let timer = timers.get(&promise.key).unwrap_or_else(|| panic!("a timer with a 201 is gone: {promise:?}"));
        let state = timer["state"].as_str().unwrap();
        *outcomes.entry(state.to_owned()).or_insert(0) += 1;
        let id = timer["id"].as_str().unwrap();
        let compensations = of_timer.remove(id).unwrap_or_default();
        check_resolve(promise, timer);
        if state == "closed" {
            let settled = millis(timer["settled_at"].as_str().unwrap());
            assert!(settled >= promise.due_at_ms, "closed {} ms early: {timer}", promise.due_at_ms - settled);
            assert_eq!(compensations.len(), promise.compensations, "a close has exactly its compensations: {timer}");
        } else {
            assert!(
                compensations.is_empty(),
                "compensations of a timer that did not close: {timer} {compensations:#?}"
            );
        }
        for compensation in &compensations {
            assert_eq!(compensation["state"], "done", "{compensation}");
            let key = compensation["id"].as_str().unwrap();
            let call = calls.get(key).unwrap_or_else(|| panic!("done, but the shop was never called: {compensation}"));
            assert_eq!(call["effects"], 1, "one effect by id: {call}");
        }
    }
    assert!(of_timer.is_empty() || promises.len() < timers.len(), "compensations of timers that nobody registered");
    outcomes
}

/// What `resolve` said stays true: `resolved` is resolved, `too_late` was said of the final state.
fn check_resolve(promise: &Promise, timer: &Value) {
    let Some((status, body)) = &promise.resolve else { return };
    match *status {
        StatusCode::OK => assert_eq!(timer["state"], "resolved", "resolve said 200: {body}"),
        StatusCode::CONFLICT if body["code"] == "too_late" => {
            assert_eq!(timer["state"], body["timer"]["state"], "too_late names a final state: {body}");
            assert_ne!(timer["state"], "resolved", "{body}");
        }
        StatusCode::CONFLICT => assert_eq!(body["code"], "firing", "{body}"),
        _ => assert_eq!(*status, StatusCode::SERVICE_UNAVAILABLE, "{body}"),
    }
}

/// The shop's own account: by idempotency key, how often it was called and how often that had an effect.
async fn shop_calls(api: &Api) -> HashMap<String, Value> {
    api.http.get(format!("{}/calls", api.shop)).send().await.unwrap().json().await.unwrap()
}
