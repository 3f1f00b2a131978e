//! Runs a pure call of a WASI guest on the thread that asked for it, without a runtime: WASI's host functions are
//! futures, but all that a guest can wait for here is its own sleep.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use super::super::{limits::Stop, meter::Meter};

thread_local! {
    /// When the first of what is waited for on this thread comes.
    static WAKE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Only within [`block_on`].
pub async fn sleep_until(until: Instant) {
    poll_fn(|_| {
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        let first = WAKE.get().map_or(until, |wake| wake.min(until));
        WAKE.set(Some(first));
        Poll::Pending
    })
    .await;
}

/// Runs it to its end, or until the call's time on the wall is over.
pub fn block_on<T>(meter: &Meter, future: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        WAKE.set(None);
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        let left = meter.wall_left();
        if left.is_zero() {
            return Err(Stop::Wall.into());
        }
        let wait = WAKE.get().map_or(left, |wake| wake.saturating_duration_since(Instant::now()).min(left));
        thread::sleep(wait);
    }
}
