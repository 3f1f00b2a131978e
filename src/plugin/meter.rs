//! How long a call has run: CPU time of the threads that ran it, and time on the wall.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use super::limits::Stop;

/// One call's clock. CPU time is what is bounded: on a busy machine an innocent call takes long and uses little.
#[derive(Debug)]
pub struct Meter {
    cpu_limit: Duration,
    wall_limit: Duration,
    started: Instant,
    /// CPU time of the polls that are over, in nanoseconds.
    spent_ns: AtomicU64,
    /// The running thread's CPU clock when the poll that runs began.
    poll_began_ns: AtomicU64,
}

impl Meter {
    pub fn start(cpu_limit: Duration, wall_limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            cpu_limit,
            wall_limit,
            started: Instant::now(),
            spent_ns: AtomicU64::new(0),
            poll_began_ns: AtomicU64::new(thread_cpu_ns()),
        })
    }

    /// From the thread that runs the call.
    pub fn cpu(&self) -> Duration {
        let running = thread_cpu_ns().saturating_sub(self.poll_began_ns.load(Relaxed));
        Duration::from_nanos(self.spent_ns.load(Relaxed).saturating_add(running))
    }

    /// CPU time of the polls that are over: of a whole async call, once it is.
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Relaxed))
    }

    pub fn wall_left(&self) -> Duration {
        self.wall_limit.saturating_sub(self.started.elapsed())
    }

    /// From the thread that runs the call, at every tick.
    pub fn check(&self) -> Result<(), Stop> {
        if self.cpu() > self.cpu_limit {
            Err(Stop::Cpu)
        } else if self.wall_left().is_zero() {
            Err(Stop::Wall)
        } else {
            Ok(())
        }
    }
}

/// Counts the CPU time of a future's polls, whichever threads they are on.
pub struct Metered<F> {
    pub meter: Arc<Meter>,
    pub future: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = thread_cpu_ns();
        self.meter.poll_began_ns.store(began, Relaxed);
        let poll = self.future.as_mut().poll(cx);
        self.meter.spent_ns.fetch_add(thread_cpu_ns().saturating_sub(began), Relaxed);
        poll
    }
}

/// CPU time that the calling thread has used, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to, and the clock is one that every thread has.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
