//! What calls cost: sums and quantiles.

use lapse::{costs::Tally, domain::plugin::Export, plugin::Cost};
use proptest::prelude::*;

fn cost(cpu_us: u64) -> Cost {
    Cost { cpu_us, memory_bytes: cpu_us * 10, host_calls: 3, http_calls: 1 }
}

#[test]
fn sums_peaks_and_capabilities() {
    let mut tally = Tally::default();
    assert_eq!(tally.summary(1, Export::OnExpire).cpu_us_p99, 0);
    for us in 1..=100 {
        tally.add(&cost(us));
    }
    let summary = tally.summary(7, Export::Compensate);
    assert_eq!((summary.revision, summary.export, summary.calls), (7, Export::Compensate, 100));
    assert_eq!((summary.cpu_us_total, summary.cpu_us_max, summary.memory_bytes_peak), (5050, 100, 1000));
    assert_eq!((summary.http_calls, summary.sql_calls), (100, 200));
}

proptest! {
    /// A quantile is that of the calls themselves, and never too small nor over an eighth too large.
    #[test]
    fn quantiles_are_off_by_an_eighth_at_most(mut times in prop::collection::vec(0u64..1 << 36, 1..200)) {
        let mut tally = Tally::default();
        for us in &times {
            tally.add(&cost(*us));
        }
        let summary = tally.summary(1, Export::OnExpire);
        times.sort_unstable();
        for (percent, said) in [(50, summary.cpu_us_p50), (99, summary.cpu_us_p99)] {
            let exact = times[(times.len() * percent).div_ceil(100).max(1) - 1];
            prop_assert!(said >= exact && said <= exact + exact / 8, "p{percent} is {exact}, and {said} was said");
        }
    }
}
