//! The engine that all components share, and the thread that makes its epochs pass.

use std::{thread, time::Duration};

use wasmtime::{Config, Enabled, Engine, OptLevel, PoolingAllocationConfig};

use super::limits::{
    ASYNC_STACK_BYTES, EFFECT_MEMORIES, INSTANCES, Limits, MEMORIES, PURE_MEMORIES, STACK_BYTES, TABLE_ELEMENTS, TABLES,
};

/// How often a running call is looked at.
pub const TICK: Duration = Duration::from_millis(5);

/// An engine whose guests are deterministic: the same component and input give the same answer on every machine.
pub fn new(limits: &Limits) -> wasmtime::Result<Engine> {
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
    let engine = match Engine::new(config.clone().allocation_strategy(slots(limits))) {
        Ok(engine) => engine,
        Err(error) => {
            tracing::warn!(%error, "the machine has no address space for a pool of sandboxes; each call makes its own, more slowly");
            Engine::new(&config)?
        }
    };
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

/// Bytes of a memory and of a table that are cleaned by hand for the next call, rather than given back to the system.
const KEPT_MEMORY_BYTES: usize = 64 * 1024;
const KEPT_TABLE_BYTES: usize = 16 * 1024;

/// Places for instances, made once and used again: that halves what a call costs (40 to 16 microseconds of CPU for the
/// order-timeout plugin), and threads do not wait for each other to map memory.
fn slots(limits: &Limits) -> PoolingAllocationConfig {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let memories = count(PURE_MEMORIES + EFFECT_MEMORIES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_memories(memories)
        .total_component_instances(memories)
        .total_core_instances(memories * 8)
        .total_tables(memories * 4)
        .total_stacks(memories)
        .max_memory_size(limits.memory_bytes.next_multiple_of(64 * 1024))
        .max_core_instances_per_component(count(INSTANCES))
        .max_memories_per_component(count(MEMORIES))
        .max_tables_per_component(count(TABLES))
        .max_memories_per_module(count(MEMORIES))
        .max_tables_per_module(count(TABLES))
        .table_elements(TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEPT_MEMORY_BYTES)
        .table_keep_resident(KEPT_TABLE_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}
