//! Every bound of the sandbox in one struct, and the limiter that holds a call's memory to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use wasmtime::ResourceLimiter;

use crate::config;

/// What every call, upload and request is held to. What an operator may choose comes from [`config::Plugin`]; the rest
/// is fixed here, wide enough for interpreters that are compiled to WebAssembly.
#[derive(Clone, Debug)]
pub struct Limits {
    pub component_bytes: u64,
    pub compile_time: Duration,
    pub cpu: Duration,
    pub wall: Duration,
    pub effect_wall: Duration,
    pub memory_bytes: usize,
    pub output_bytes: usize,
    pub host_calls: u32,
    pub log_lines: usize,
    pub log_line_bytes: usize,
    pub http_timeout: Duration,
    pub http_body_bytes: usize,
}

/// A call's stack, in bytes of native stack.
pub const STACK_BYTES: usize = 512 * 1024;
/// The stack that an async call runs on: the guest's, and the host functions' above it.
pub const ASYNC_STACK_BYTES: usize = STACK_BYTES + 512 * 1024;
/// Core instances, memories and tables of one call. An interpreter with its adapters needs up to 14, 3 and 6.
pub const INSTANCES: usize = 64;
pub const MEMORIES: usize = 8;
pub const TABLES: usize = 32;
/// Elements in all tables of one call.
pub const TABLE_ELEMENTS: usize = 100_000;
/// Memories of all calls with effects that run at once; more calls wait, at most so long.
pub const EFFECT_MEMORIES: usize = 1024;
pub const EFFECT_WAIT: Duration = Duration::from_secs(10);
/// Memories of all pure calls at once, which the threads that make them bound already.
pub const PURE_MEMORIES: usize = 512;
/// Functions in one component, and bytes in the body of one: the compiler's time grows faster than a body does. (An
/// interpreter has tens of thousands of functions, its main loop 100 to 200 kB.)
pub const FUNCTIONS: usize = 200_000;
pub const FUNCTION_BYTES: usize = 512 * 1024;
/// Core modules and components within one component, and how deep components are nested.
pub const MODULES: usize = 64;
pub const COMPONENTS: usize = 64;
pub const NESTING: usize = 8;
/// Compilations that run at once, with those that were given up on and run to their end. More wait for them.
pub const COMPILATIONS: usize = 2;
/// Refused host calls that a run names; more are only counted.
pub const DENIALS: usize = 20;
/// Bytes of a failure's message or of a reason; the rest is cut off.
pub const MESSAGE_BYTES: usize = 2048;

impl Limits {
    pub fn new(config: &config::Plugin) -> Self {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            component_bytes: config.max_component_bytes,
            compile_time: config.compile_timeout.as_std(),
            cpu: config.cpu.as_std(),
            wall: config.wall.as_std(),
            effect_wall: config.effect_wall.as_std(),
            memory_bytes: size(config.memory_bytes),
            output_bytes: size(config.output_bytes),
            host_calls: config.host_calls,
            log_lines: count(config.log_lines),
            log_line_bytes: count(config.log_line_bytes),
            http_timeout: config.http_timeout.as_std(),
            http_body_bytes: size(config.http_body_bytes),
        }
    }

    /// How much one crossing from guest to host may carry, before anything is copied: an answer or a request's body,
    /// with some room for what stands around it.
    pub fn crossing_bytes(&self) -> usize {
        self.output_bytes.max(self.http_body_bytes).saturating_add(256 * 1024)
    }
}

/// Why the host itself stopped a call. Not a trap of the guest's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    #[error("the call used more CPU time than it may")]
    Cpu,
    #[error("the call took longer than it may")]
    Wall,
    #[error("the call asked for more memory than it may have")]
    Memory,
    #[error("the call asked for more table elements than it may have")]
    Table,
    #[error("all calls together use as much memory as they may")]
    Crowded,
}

/// The memory of all calls together: no more than half the machine's, so that no crowd of greedy calls has the system
/// kill the server.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    pub fn of_machine() -> Self {
        Self { limit: machine_memory() / 2, used: AtomicUsize::new(0) }
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.used.fetch_add(bytes, Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit;
        if !fits {
            self.used.fetch_sub(bytes, Relaxed);
        }
        fits
    }
}

/// Bytes of memory that this process may use: the machine's, or its control group's if that is less.
fn machine_memory() -> usize {
    // SAFETY: it only reads two numbers of the system.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let physical = usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0));
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|s| s.trim().parse().ok());
    let known = physical.min(group.unwrap_or(usize::MAX));
    if known == 0 { usize::MAX } else { known }
}

/// Holds all memories and tables of one call together to their bounds.
#[derive(Debug)]
pub struct Limiter {
    memory_limit: usize,
    budget: Arc<Budget>,
    memory: usize,
    peak: usize,
    elements: usize,
}

impl Limiter {
    pub fn new(memory_limit: usize, budget: Arc<Budget>) -> Self {
        Self { memory_limit, budget, memory: 0, peak: 0, elements: 0 }
    }

    /// The most bytes of linear memory that were in use at once.
    pub fn peak_bytes(&self) -> u64 {
        u64::try_from(self.peak).unwrap_or(u64::MAX)
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.memory, Relaxed);
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        // Stopped at once, rather than told no: what a guest does without memory is abort, under any name.
        if total > self.memory_limit {
            return Err(Stop::Memory.into());
        }
        // A memory never shrinks.
        if !self.budget.take(total.saturating_sub(self.memory)) {
            return Err(Stop::Crowded.into());
        }
        self.memory = total;
        self.peak = self.peak.max(total);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.elements.saturating_sub(current).saturating_add(desired);
        if total > TABLE_ELEMENTS {
            return Err(Stop::Table.into());
        }
        self.elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}
