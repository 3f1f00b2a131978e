//! The capability that every plugin has: lines that are kept with the call.

use super::{LogLine, text::cut};

/// A call's lines, bounded in number and length.
#[derive(Debug)]
pub struct LogBuffer {
    lines: Vec<LogLine>,
    max_lines: usize,
    max_bytes: usize,
    dropped: u64,
}

impl LogBuffer {
    pub fn new(max_lines: usize, max_bytes: usize) -> Self {
        Self { lines: Vec::new(), max_lines, max_bytes, dropped: 0 }
    }

    pub fn write(&mut self, level: &'static str, message: &str) {
        if self.lines.len() < self.max_lines {
            self.lines.push(LogLine { level: level.to_owned(), message: cut(message, self.max_bytes).into_owned() });
        } else {
            self.dropped += 1;
        }
    }

    /// What the guest said last at level `error`: a panic's message, when it panicked.
    pub fn last_error(&self) -> Option<&str> {
        self.lines.iter().rev().find(|l| l.level == "error").map(|l| l.message.as_str())
    }

    /// The lines, and one more that says how many were not kept.
    pub fn into_lines(mut self) -> Vec<LogLine> {
        if self.dropped > 0 {
            let message = format!("{} more lines were not kept", self.dropped);
            self.lines.push(LogLine { level: "warn".to_owned(), message });
        }
        self.lines
    }
}
