//! Clocks that stand still at the call's time. A guest's sleep is a real one, which the call's time on the wall bounds.

use std::time::{Duration, Instant};

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, ResourceTable, async_trait,
    p2::{DynPollable, Pollable, bindings::clocks::monotonic_clock, subscribe},
};

use super::{super::call::CallState, park};
use crate::domain::time::Timestamp;

/// The time of a call.
#[derive(Clone, Copy)]
pub struct Still {
    pub at: Timestamp,
    pub holds_thread: bool,
}

impl Still {
    fn since_1970(self) -> Duration {
        Duration::from_millis(self.at.as_millis().unsigned_abs())
    }

    /// The last one that WASI can say is in the year 2554.
    fn nanoseconds(self) -> u64 {
        u64::try_from(self.since_1970().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        self.since_1970()
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        self.nanoseconds()
    }
}

/// In the place of WASI's own, whose waiting needs a runtime.
pub fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    monotonic_clock::add_to_linker::<CallState, Clock>(linker, |state| {
        let wasi = state.wasi_mut();
        ClockView { still: wasi.clock, table: &mut wasi.table }
    })
}

struct Clock;

impl HasData for Clock {
    type Data<'a> = ClockView<'a>;
}

struct ClockView<'a> {
    still: Still,
    table: &'a mut ResourceTable,
}

impl ClockView<'_> {
    fn sleep(&mut self, length: Duration) -> wasmtime::Result<Resource<DynPollable>> {
        // What is too far away to be said never comes.
        let until = Instant::now().checked_add(length);
        let sleep = self.table.push(Sleep { until, holds_thread: self.still.holds_thread })?;
        subscribe(self.table, sleep)
    }
}

impl monotonic_clock::Host for ClockView<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.still.nanoseconds())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(HostMonotonicClock::resolution(&self.still))
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.sleep(Duration::from_nanos(when.saturating_sub(self.still.nanoseconds())))
    }

    fn subscribe_duration(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.sleep(Duration::from_nanos(when))
    }
}

struct Sleep {
    until: Option<Instant>,
    holds_thread: bool,
}

#[async_trait]
impl Pollable for Sleep {
    async fn ready(&mut self) {
        match self.until {
            None => std::future::pending().await,
            Some(until) if self.holds_thread => park::sleep_until(until).await,
            Some(until) => tokio::time::sleep_until(until.into()).await,
        }
    }
}
