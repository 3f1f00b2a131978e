//! Standard input, which is closed, and what a guest prints, which becomes lines of its call's log.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdinStream, StdoutStream},
    p2::{InputStream, OutputStream, Pollable, StreamResult, pipe::ClosedInputStream},
};

use super::super::log::LogBuffer;

/// Bytes that a guest may print at once.
const PERMIT_BYTES: usize = 64 * 1024;

pub struct NoInput;

impl IsTerminal for NoInput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for NoInput {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(ClosedInputStream)
    }
}

/// Standard output or error. All streams on it share one line.
#[derive(Clone)]
pub struct Printed(Arc<Mutex<Line>>);

struct Line {
    log: LogBuffer,
    level: &'static str,
    /// Not ended yet, and cut off where the log would.
    begun: Vec<u8>,
    limit: usize,
}

impl Printed {
    pub fn new(log: &LogBuffer, level: &'static str) -> Self {
        let line = Line { log: log.clone(), level, begun: Vec::new(), limit: log.line_bytes() };
        Self(Arc::new(Mutex::new(line)))
    }
}

impl Line {
    fn print(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = self.limit.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        self.log.write(self.level, String::from_utf8_lossy(&self.begun).trim_end_matches('\r'));
        self.begun.clear();
    }
}

/// What was begun and never ended is kept as well, when the call's last stream goes.
impl Drop for Line {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            self.end();
        }
    }
}

impl IsTerminal for Printed {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printed {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Printed {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.0.lock().print(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl OutputStream for Printed {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.lock().print(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT_BYTES)
    }
}

#[async_trait]
impl Pollable for Printed {
    async fn ready(&mut self) {}
}
