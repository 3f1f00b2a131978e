//! What must hold whatever dies, and whoever is faster: against the real binary, over HTTP.
//!
//! A failing run prints its seed; `LAPSE_SEED=…` repeats it. `LAPSE_SOAK=1` makes the runs long.

mod kill;
pub mod ledger;
mod race;

use rand::{SeedableRng as _, rngs::StdRng};

/// The run's random numbers, from `LAPSE_SEED` if it is set. The seed is printed, so a failing run shows it.
pub fn seeded() -> StdRng {
    let seed = std::env::var("LAPSE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random::<u64>);
    println!("LAPSE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// `short` in `make test`, `long` in `make soak`.
pub fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("LAPSE_SOAK").is_some() { long } else { short }
}
