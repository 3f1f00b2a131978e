//! The demo shop: what the tests of Lapse count its effects by must itself be right.

use std::{io::Write as _, path::Path};

use lapse::demo_shop::{Error, Options, Shop};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::dev::ShopProcess;

async fn start(journal: Option<&Path>) -> Shop {
    let listen = "127.0.0.1:0".parse().unwrap();
    Shop::start(Options { listen, journal: journal.map(Into::into) }).await.unwrap()
}

/// A caller of one shop.
struct Caller {
    http: reqwest::Client,
    url: String,
}

impl Caller {
    fn of(shop: &Shop) -> Self {
        Self::at(format!("http://{}", shop.address()))
    }

    fn at(url: String) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { http: reqwest::Client::builder().no_proxy().build().unwrap(), url }
    }

    async fn call(&self, method: Method, path: &str, key: Option<&str>, body: Value) -> (u16, Value) {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).json(&body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn create(&self, order: &str) -> (u16, Value) {
        let body = json!({ "items": [{ "sku": "tea", "quantity": 2 }] });
        self.call(Method::PUT, &format!("/orders/{order}"), None, body).await
    }

    async fn pay(&self, order: &str) -> (u16, Value) {
        self.call(Method::POST, &format!("/orders/{order}/pay"), None, json!({})).await
    }

    async fn close(&self, order: &str, key: &str) -> (u16, Value) {
        let body = json!({ "expected_state": "unpaid" });
        self.call(Method::POST, &format!("/orders/{order}/close"), Some(key), body).await
    }

    async fn release(&self, order: &str, key: &str) -> (u16, Value) {
        let body = json!({ "order_id": order, "sku": "tea", "quantity": 2 });
        self.call(Method::POST, "/inventory/release", Some(key), body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None, json!({})).await.1
    }
}

#[tokio::test]
async fn an_order_closes_by_compare_and_set() {
    let shop = start(None).await;
    let caller = Caller::of(&shop);
    assert_eq!(caller.close("a", "k0").await.0, 404);
    assert_eq!(caller.create("a").await.0, 201);
    assert_eq!(caller.create("a").await.0, 200);
    assert_eq!(caller.get("/stock").await["tea"]["available"], 98, "reserved once");
    assert_eq!(caller.close("a", "k1").await.0, 200);
    assert_eq!(caller.pay("a").await.0, 409, "a closed order cannot be paid");
    // The same call again is the same; another one finds the order as it is.
    assert_eq!(caller.close("a", "k1").await.0, 200);
    let (status, body) = caller.close("a", "k2").await;
    assert_eq!((status, &body["state"]), (409, &json!("closed")));

    caller.create("b").await;
    assert_eq!(caller.pay("b").await.0, 200);
    let (status, body) = caller.close("b", "k3").await;
    assert_eq!((status, &body["state"]), (409, &json!("paid")));
    assert_eq!(caller.get("/orders/b").await["state"], "paid");
    shop.stop().await;
}

#[tokio::test]
async fn of_many_payers_and_closers_at_once_one_side_wins() {
    let shop = start(None).await;
    let caller = Caller::of(&shop);
    for n in 0..30 {
        let order = format!("o{n}");
        caller.create(&order).await;
        let key = format!("k{n}");
        let (paid, closed) = tokio::join!(caller.pay(&order), caller.close(&order, &key));
        assert!((paid.0 == 200) != (closed.0 == 200), "paid {paid:?}, closed {closed:?}");
    }
    shop.stop().await;
}

#[tokio::test]
async fn a_repeated_key_counts_a_call_and_no_effect() {
    let shop = start(None).await;
    let caller = Caller::of(&shop);
    for _ in 0..3 {
        assert_eq!(caller.release("a", "r1").await.0, 200);
    }
    assert_eq!(caller.get("/stock").await["tea"], json!({ "available": 102, "released": 2 }));
    let calls = caller.get("/calls?order_id=a").await;
    assert_eq!((&calls["r1"]["calls"], &calls["r1"]["effects"]), (&json!(3), &json!(1)));
    // A key stands for one call.
    let other = json!({ "order_id": "a", "sku": "tea", "quantity": 3 });
    assert_eq!(caller.call(Method::POST, "/inventory/release", Some("r1"), other).await.0, 422);
    assert_eq!(
        caller.call(Method::POST, "/coupons/return", None, json!({ "order_id": "a", "coupon_id": "c" })).await.0,
        400
    );
    assert_eq!(caller.get("/stock").await["tea"]["available"], 102);
    shop.stop().await;
}

#[tokio::test]
async fn calls_go_wrong_as_they_are_told_to() {
    let shop = start(None).await;
    let caller = Caller::of(&shop);
    caller.call(Method::POST, "/faults", None, json!({ "fail_next": 2, "status": 503 })).await;
    assert_eq!(caller.release("a", "r1").await.0, 503);
    assert_eq!(caller.release("a", "r1").await.0, 503);
    assert_eq!(caller.release("a", "r1").await.0, 200);
    let calls = caller.get("/calls").await;
    assert_eq!((&calls["r1"]["calls"], &calls["r1"]["effects"]), (&json!(3), &json!(1)));
    // The answer is lost, the effect is not.
    caller.call(Method::POST, "/faults", None, json!({ "fail_next": 1, "status": 500, "after_effect": true })).await;
    assert_eq!(caller.release("a", "r2").await.0, 500);
    assert_eq!(caller.release("a", "r2").await.0, 200);
    assert_eq!(caller.get("/stock").await["tea"]["released"], 4);
    shop.stop().await;
}

#[tokio::test]
async fn the_journal_brings_the_books_back_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let before = {
        // A process of its own, killed without notice when it is dropped.
        let shop = ShopProcess::start(folder.path());
        let caller = Caller::at(shop.url.clone());
        caller.create("a").await;
        caller.create("b").await;
        caller.pay("b").await;
        caller.close("a", "k1").await;
        caller.release("a", "r1").await;
        caller.release("a", "r1").await;
        (caller.get("/orders").await, caller.get("/stock").await, caller.get("/calls").await)
    };
    let journal = folder.path().join("shop.journal");
    // A record that the kill left unfinished, in the middle of a character.
    let mut file = std::fs::OpenOptions::new().append(true).open(&journal).unwrap();
    file.write_all("{\"op\":\"pay\",\"order_id\":\"й".as_bytes().split_last().unwrap().1).unwrap();
    drop(file);

    let shop = start(Some(&journal)).await;
    let caller = Caller::of(&shop);
    assert_eq!((caller.get("/orders").await, caller.get("/stock").await, caller.get("/calls").await), before);
    assert_eq!(caller.release("a", "r1").await.1["repeated"], true, "keys are remembered");
    caller.create("c").await;
    let taken = Shop::start(Options { listen: "127.0.0.1:0".parse().unwrap(), journal: Some(journal.clone()) }).await;
    assert!(matches!(taken, Err(Error::InUse(_))), "one process a journal");
    shop.stop().await;
}
