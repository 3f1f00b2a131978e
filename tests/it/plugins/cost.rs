//! What a decision costs, in an instance of its own. Prints, and asserts nothing:
//! `CARGO_PROFILE_TEST_OPT_LEVEL=3 cargo nextest run --no-capture --run-ignored only -E 'test(plugins::cost)'`.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::host::{expiry, host, load, settings};
use crate::support::guest::component;

#[expect(clippy::print_stdout, reason = "that is what it is for")]
#[tokio::test]
#[ignore = "prints figures"]
async fn of_a_pure_call() {
    let plugin = load(&host(&settings()), component("order-timeout")).await;
    let order = json!({
        "order_id": "A17", "user_id": "u-1", "total_amount": 12900, "payment_method": "online",
        "items": [{"sku": "tea", "quantity": 2}, {"sku": "cup", "quantity": 1}], "coupon_ids": ["c-9"],
    });
    let expiry = Arc::new(expiry(&order, &json!({"inventory_url": "http://a/", "coupon_url": "http://b/"})));
    for threads in [1, 2, 4] {
        let until = Instant::now() + Duration::from_secs(3);
        let runs = (0..threads).map(|_| {
            let (plugin, expiry) = (Arc::clone(&plugin), Arc::clone(&expiry));
            thread::spawn(move || {
                let (mut calls, mut cpu_us) = (0u32, 0);
                while Instant::now() < until {
                    let run = plugin.decide(&expiry);
                    assert!(run.result.is_ok());
                    cpu_us += run.cost.cpu_us;
                    calls += 1;
                }
                (calls, cpu_us)
            })
        });
        let (calls, cpu_us) = runs
            .collect::<Vec<_>>()
            .into_iter()
            .map(|t| t.join().unwrap())
            .fold((0u32, 0u64), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (each, rate) = (cpu_us / u64::from(calls), calls / 3);
        println!("{threads} threads: {each} us of CPU a call, {rate} calls/s");
    }
}
