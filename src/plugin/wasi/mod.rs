//! WASI (0.2), for guests whose language cannot do without it: interpreters, and Rust's `wasm32-wasip2`.
//!
//! It gives nothing away. There is no environment, no argument, no file and no socket; standard input is closed, and
//! what is printed goes to the call's bounded log. Clocks stand still at the call's time and randomness comes from the
//! call's key, so that the same call gives the same answer, whenever it is made. Only components that import `wasi:*`
//! are linked with it; what any of them may do beyond that is said by the same grants as for all others.

mod clock;
mod park;
mod random;
mod stdio;

pub use park::block_on;

use wasmtime::component::Linker;
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

use super::{call::CallState, log::LogBuffer};
use crate::domain::time::Timestamp;

/// Streams, pollables and other handles that a guest may hold at once.
const HANDLES: usize = 1024;
/// Bytes of randomness that one call of a host function gives.
const RANDOM_BYTES: u64 = 64 * 1024;

/// What there is of WASI, in words.
pub const OFFERED: &str = "wasi:cli, clocks, filesystem, io, random and sockets of 0.2";

/// Whether the import is of the WASI that there is. Its linker takes any 0.2.
pub fn is_offered(import: &str) -> bool {
    const PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];
    let Some((package, interface)) = import.strip_prefix("wasi:").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    PACKAGES.contains(&package) && interface.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2."))
}

/// What of WASI a call has, in its store.
pub struct Wasi {
    ctx: WasiCtx,
    table: ResourceTable,
    clock: clock::Still,
}

pub struct WasiParams<'a> {
    /// When the call is made, as it is told.
    pub now: Timestamp,
    /// What the call's randomness comes from.
    pub seed: Seed<'a>,
    pub log: &'a LogBuffer,
    /// Whether a guest that sleeps holds its thread, by [`block_on`], rather than give a runtime's back.
    pub holds_thread: bool,
}

/// Two calls with the same seed see the same random numbers.
#[derive(Clone, Copy)]
pub struct Seed<'a> {
    pub idempotency_key: &'a str,
    pub attempt: u32,
}

impl Wasi {
    pub fn new(params: &WasiParams<'_>) -> Self {
        let WasiParams { now, seed, log, holds_thread } = *params;
        let clock = clock::Still { at: now, holds_thread };
        let ctx = WasiCtx::builder()
            .stdin(stdio::NoInput)
            .stdout(stdio::Printed::new(log, "info"))
            .stderr(stdio::Printed::new(log, "error"))
            .secure_random(random::Random::new(seed, "secure"))
            .insecure_random(random::Random::new(seed, "insecure"))
            .insecure_random_seed(random::Random::new(seed, "insecure seed").number())
            .max_random_size(RANDOM_BYTES)
            .wall_clock(clock)
            .monotonic_clock(clock)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Self { ctx, table, clock }
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi_mut();
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut wasi.table }
    }
}

/// Adds all of it.
pub fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    clock::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}
