//! A connection that reads no more than it may: one row of a gigabyte would be held in memory whole before anybody could
//! refuse it.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Bytes that may still be read.
#[derive(Debug)]
pub struct Allowance {
    left: AtomicU64,
    used_up: AtomicBool,
}

impl Allowance {
    pub fn new(bytes: u64) -> Self {
        Self { left: AtomicU64::new(bytes), used_up: AtomicBool::new(false) }
    }

    pub fn set(&self, bytes: u64) {
        self.left.store(bytes, Relaxed);
    }

    /// Once it is, the connection is broken for good.
    pub fn is_used_up(&self) -> bool {
        self.used_up.load(Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok();
        if !taken {
            self.used_up.store(true, Relaxed);
        }
        taken
    }
}

#[derive(Debug)]
pub struct Allowed {
    inner: TcpStream,
    allowance: Arc<Allowance>,
}

impl Allowed {
    pub fn new(inner: TcpStream, allowance: Arc<Allowance>) -> Self {
        Self { inner, allowance }
    }
}

impl AsyncRead for Allowed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let read = u64::try_from(buf.filled().len() - before).unwrap_or(u64::MAX);
        if self.allowance.take(read) {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(io::Error::other("the answer has more bytes than it may")))
    }
}

impl AsyncWrite for Allowed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
