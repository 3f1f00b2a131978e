//! Instants to the year 9999, and durations as they are written.

use lapse::domain::time::{DurationMs, TimeError, Timestamp};
use proptest::prelude::*;
use rstest::rstest;

const DAY: u64 = 86_400_000;

#[rstest]
#[case::seconds("90s", 90_000)]
#[case::milliseconds("0ms", 0)]
#[case::days_of_2_31_ms("25d", 25 * DAY)]
#[case::one_over_2_31_ms("2147483648ms", 1 << 31)]
#[case::one_over_2_32_ms("4294967297ms", (1 << 32) + 1)]
#[case::ten_years("3652d", 3652 * DAY)]
#[case::leading_zeros("0030m", 30 * 60_000)]
#[case::iso_all("P1DT2H3M4S", DAY + 2 * 3_600_000 + 3 * 60_000 + 4_000)]
#[case::iso_days("P30D", 30 * DAY)]
#[case::iso_minutes("PT90M", 90 * 60_000)]
fn durations_are_read(#[case] text: &str, #[case] ms: u64) {
    assert_eq!(text.parse::<DurationMs>(), Ok(DurationMs::from_millis(ms)));
}

#[rstest]
fn what_is_no_duration_is_refused(
    #[values(
        "", "s", "5", "-5s", "+5s", "1.5h", "5 s", "5S", "5w", "5y", "1h30m", "5s ", "P", "PT", "P1DT", "P1Y", "P1M",
        "P1W", "PT1.5S", "P-1D", "PT1M1H", "PT1S1S", "P1D2H", "PD", "p1d", "٣s", "P٣D", "5\u{0}s"
    )]
    text: &str,
) {
    assert_eq!(text.parse::<DurationMs>(), Err(TimeError::NotADuration(text.into())));
}

#[rstest]
fn what_is_too_long_is_out_of_range(
    #[values("99999999999d", "253402300800000ms", "P9999999D", "340282366920938463463374607431768211456d")] text: &str,
) {
    assert_eq!(text.parse::<DurationMs>(), Err(TimeError::OutOfRange));
}

#[rstest]
#[case::utc("2026-03-01T12:30:00.000Z", 1_772_368_200_000)]
#[case::an_offset("2026-03-01T20:30:00+08:00", 1_772_368_200_000)]
#[case::finer_is_rounded_up("2026-03-01T12:30:00.000000001Z", 1_772_368_200_001)]
#[case::half_a_millisecond_too("2026-03-01T12:30:00.1235Z", 1_772_368_200_124)]
#[case::the_first("1970-01-01T00:00:00Z", 0)]
#[case::beyond_2038("2038-01-19T03:14:08Z", (1 << 31) * 1000)]
#[case::the_last("9999-12-31T23:59:59.999Z", 253_402_300_799_999)]
fn instants_are_read(#[case] text: &str, #[case] at: i64) {
    assert_eq!(text.parse::<Timestamp>().map(Timestamp::as_millis), Ok(at));
}

#[rstest]
fn instants_out_of_range_are_refused(
    #[values(
        "1969-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59.9991Z",
        "9999-12-31T23:59:59.999-00:01",
        "1970-01-01T00:00:00+00:01"
    )]
    text: &str,
) {
    assert_eq!(text.parse::<Timestamp>(), Err(TimeError::OutOfRange));
}

#[rstest]
fn what_is_no_instant_is_refused(
    #[values(
        "",
        "2026-03-01",
        "2026-03-01T12:30:00",
        "2026-02-30T00:00:00Z",
        "1772368200000",
        "10000-01-01T00:00:00Z"
    )]
    text: &str,
) {
    assert_eq!(text.parse::<Timestamp>(), Err(TimeError::NotAnInstant(text.into())));
}

fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![Just(0), Just(Timestamp::MAX.as_millis()), 0..=Timestamp::MAX.as_millis()]
        .prop_map(|ms| Timestamp::from_millis(ms).unwrap())
}

fn duration() -> impl Strategy<Value = DurationMs> {
    prop_oneof![0..1_000u64, Just(1 << 31), Just(1 << 32), 0..=DurationMs::MAX.as_millis()]
        .prop_map(DurationMs::from_millis)
}

proptest! {
    #[test]
    fn an_instant_is_read_as_it_was_written(at in instant()) {
        prop_assert_eq!(at.to_string().parse(), Ok(at));
        let json = serde_json::to_string(&at).unwrap();
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), at);
    }

    #[test]
    fn a_duration_is_read_as_it_was_written(length in duration()) {
        prop_assert_eq!(length.to_string().parse(), Ok(length));
    }

    /// No sum wraps: it is exact, or an error beyond the last year.
    #[test]
    fn a_sum_is_exact_or_refused(at in instant(), length in prop_oneof![duration(), any::<u64>().prop_map(DurationMs::from_millis)]) {
        let exact = i128::from(at.as_millis()) + i128::from(length.as_millis());
        if let Ok(sum) = at.checked_add(length) {
            prop_assert_eq!(i128::from(sum.as_millis()), exact);
            prop_assert_eq!(sum.since(at), length);
            prop_assert_eq!(sum.saturating_sub(length), at);
        } else {
            prop_assert!(exact > i128::from(Timestamp::MAX.as_millis()));
            prop_assert_eq!(at.saturating_add(length), Timestamp::MAX);
        }
    }

    #[test]
    fn anything_may_be_asked_and_nothing_panics(text in "\\PC*") {
        let _ = text.parse::<Timestamp>();
        let _ = text.parse::<DurationMs>();
        let _ = format!("P{text}").parse::<DurationMs>();
    }
}
