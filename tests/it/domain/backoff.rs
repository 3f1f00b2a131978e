//! Waits stay within their bounds, whatever the policy and the attempt.

use lapse::domain::{backoff::RetryPolicy, time::DurationMs};
use proptest::prelude::*;

fn policy() -> impl Strategy<Value = RetryPolicy> {
    let length = prop_oneof![0..10_000u64, any::<u64>()].prop_map(DurationMs::from_millis);
    (any::<u32>(), length.clone(), length).prop_map(|(attempts, initial, max)| RetryPolicy { attempts, initial, max })
}

fn attempt() -> impl Strategy<Value = u32> {
    prop_oneof![0..130u32, Just(u32::MAX), Just(u32::MAX - 1), any::<u32>()]
}

proptest! {
    #[test]
    fn a_wait_is_never_shorter_than_the_least_nor_longer_than_the_most(
        policy in policy(), attempt in attempt(), random in prop_oneof![0.0..1.0f64, Just(f64::NAN), any::<f64>()],
    ) {
        let wait = policy.wait(attempt, random);
        let doubled = policy.initial.as_millis().saturating_mul(1 << u64::from(attempt.saturating_sub(1)).min(63));
        let most = doubled.min(policy.max.as_millis()).max(RetryPolicy::MIN_WAIT.as_millis());
        prop_assert!(wait >= RetryPolicy::MIN_WAIT, "a retry never spins");
        prop_assert!(wait.as_millis() <= most);
    }

    #[test]
    fn the_longest_wait_grows_with_the_attempts(policy in policy(), attempt in 1..200u32) {
        let longest = |attempt| policy.wait(attempt, 0.999_999_999);
        prop_assert!(longest(attempt) <= longest(attempt + 1));
    }

    #[test]
    fn a_policy_is_exhausted_by_its_last_attempt(policy in policy(), attempt in attempt()) {
        prop_assert_eq!(policy.is_exhausted(attempt), attempt >= policy.attempts);
    }
}

#[test]
fn jitter_is_full() {
    let policy = RetryPolicy::EXPIRY;
    assert_eq!(policy.wait(1, 0.0), RetryPolicy::MIN_WAIT);
    assert_eq!(policy.wait(3, 0.5).as_millis(), 50 + (4_000 - 50) / 2);
    assert!(policy.wait(u32::MAX, 0.999_999).as_millis() > 299_000);
    assert!(policy.wait(u32::MAX, 1.0).as_millis() <= 300_000);
}
