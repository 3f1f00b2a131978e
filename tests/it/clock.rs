//! The store's clock as a node knows it: never ahead, close behind, whatever the machine's clock shows.

use std::{sync::Arc, time::Duration};

use lapse::{
    clock::{Clock, StoreClock, SystemClock},
    domain::time::{DurationMs, Timestamp},
};
use rstest::rstest;

const HOUR: i64 = 3_600_000;

/// A store whose clock stands `by` milliseconds off this machine's.
fn store_now(by: i64) -> Timestamp {
    Timestamp::from_millis(SystemClock.now().as_millis() + by).unwrap()
}

/// Waits for `there` and `back` with the store's clock read in between, as an exchange does.
async fn exchange(clock: &StoreClock, by: i64, there: Duration, back: Duration) {
    let asked = std::time::Instant::now();
    tokio::time::sleep(there).await;
    let answer = store_now(by);
    tokio::time::sleep(back).await;
    clock.observe(answer, asked.elapsed());
}

#[tokio::test]
async fn before_the_first_answer_it_is_the_machines_clock() {
    let clock = StoreClock::new();
    assert_eq!(clock.ahead_of_system_ms(), None);
    assert!(clock.now().since(SystemClock.now()) <= DurationMs::from_millis(1));
    assert!(SystemClock.now().since(clock.now()) < DurationMs::from_secs(1));
}

#[rstest]
#[case::behind(-HOUR)]
#[case::ahead(HOUR)]
#[tokio::test]
async fn it_follows_a_store_an_hour_off_and_is_never_ahead_of_it(#[case] by: i64) {
    let clock = StoreClock::new();
    let ms = Duration::from_millis;
    // Slow answers on either way, and one quick one among them.
    for (there, back) in [(0, 40), (40, 0), (20, 20), (1, 1), (30, 5), (5, 30)] {
        exchange(&clock, by, ms(there), ms(back)).await;
        let (known, truth) = (clock.now(), store_now(by));
        assert!(known <= truth, "{known} is ahead of the store's {truth}");
    }
    // The quick answer's bound outlives the slower ones after it.
    let (known, truth) = (clock.now(), store_now(by));
    assert!(truth.since(known) < DurationMs::from_millis(30), "{known} is far behind {truth}");
    assert!((clock.ahead_of_system_ms().unwrap() - by).abs() < 1000);
}

#[tokio::test]
async fn a_store_whose_clock_is_set_is_followed_either_way() {
    let clock = StoreClock::new();
    for by in [0, 10_000, -10_000, 500] {
        exchange(&clock, by, Duration::ZERO, Duration::ZERO).await;
        let (known, truth) = (clock.now(), store_now(by));
        assert!(known <= truth && truth.since(known) < DurationMs::from_millis(500), "{known}, and the store {truth}");
    }
}

#[tokio::test]
async fn a_wait_is_by_the_stores_clock_even_if_that_is_set_back_meanwhile() {
    let clock = StoreClock::new();
    exchange(&clock, 0, Duration::ZERO, Duration::ZERO).await;
    let until = clock.now().saturating_add(DurationMs::from_millis(200));
    let waiting = tokio::spawn({
        let clock = Arc::clone(&clock);
        async move { clock.sleep_until(until).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    exchange(&clock, -400, Duration::ZERO, Duration::ZERO).await;
    waiting.await.unwrap();
    assert!(store_now(-400) >= until, "woken before the store had reached {until}");
}

#[tokio::test]
async fn a_wait_notices_a_store_that_is_set_forwards() {
    let clock = StoreClock::new();
    exchange(&clock, 0, Duration::ZERO, Duration::ZERO).await;
    let until = clock.now().saturating_add(DurationMs::from_secs(3_600));
    exchange(&clock, 2 * HOUR, Duration::ZERO, Duration::ZERO).await;
    tokio::time::timeout(Duration::from_secs(10), clock.sleep_until(until)).await.expect("it goes on within a step");
}
