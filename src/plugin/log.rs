//! The capability that every plugin has: lines that are kept with the call.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{LogLine, text::cut};

/// A call's lines, bounded in number and length. Clones write to the same ones: what a guest prints goes there too.
#[derive(Clone, Debug)]
pub struct LogBuffer(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    kept: Vec<LogLine>,
    capacity: usize,
    line_bytes: usize,
    dropped: u64,
}

impl LogBuffer {
    pub fn new(max_lines: usize, max_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Lines { kept: Vec::new(), capacity: max_lines, line_bytes: max_bytes, dropped: 0 })))
    }

    pub fn write(&self, level: &'static str, message: &str) {
        let mut lines = self.0.lock();
        if lines.kept.len() < lines.capacity {
            let message = cut(message, lines.line_bytes).into_owned();
            lines.kept.push(LogLine { level: level.to_owned(), message });
        } else {
            lines.dropped += 1;
        }
    }

    /// Bytes of a line that are kept.
    pub fn line_bytes(&self) -> usize {
        self.0.lock().line_bytes
    }

    /// What the guest said last at level `error`: a panic's message, when it panicked. Lines that were said on end
    /// belong together, as on a standard error.
    pub fn last_error(&self) -> Option<String> {
        let lines = self.0.lock();
        let end = lines.kept.iter().rposition(|l| l.level == "error")? + 1;
        let began = lines.kept[..end].iter().rposition(|l| l.level != "error").map_or(0, |n| n + 1);
        let said: Vec<&str> = lines.kept[began..end].iter().map(|l| l.message.as_str()).collect();
        Some(said.join("\n"))
    }

    /// The lines, and one more that says how many were not kept.
    pub fn take_lines(&self) -> Vec<LogLine> {
        let mut lines = self.0.lock();
        let mut kept = std::mem::take(&mut lines.kept);
        if lines.dropped > 0 {
            let message = format!("{} more lines were not kept", lines.dropped);
            kept.push(LogLine { level: "warn".to_owned(), message });
        }
        kept
    }
}
