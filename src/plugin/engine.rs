//! The engine that all components share, and the thread that makes its epochs pass.

use std::{thread, time::Duration};

use wasmtime::{Config, Engine, OptLevel};

use super::limits::{ASYNC_STACK_BYTES, STACK_BYTES};

/// How often a running call is looked at.
pub const TICK: Duration = Duration::from_millis(5);

/// An engine whose guests are deterministic: the same component and input give the same answer on every machine.
pub fn new() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(ASYNC_STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_component_model(true)
        .concurrency_support(false)
        .wasm_memory64(false)
        // A compilation keeps to its own thread: those that dispatch need the other cores.
        .parallel_compilation(false)
        .wasm_backtrace_max_frames(None);
    let engine = Engine::new(&config)?;
    let ticked = engine.weak();
    // One for the engine, asleep but for an atomic increment; it ends with the last user of the engine.
    thread::Builder::new().name("lapse-epoch".to_owned()).spawn(move || {
        while let Some(engine) = ticked.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    })?;
    Ok(engine)
}
