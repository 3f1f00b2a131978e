//! What the commands print.

use std::io::{self, Write};

use chrono::{DateTime, Local};
use serde::Serialize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::domain::time::{DurationMs, Timestamp};

use super::{Result, error::Error};

#[derive(Debug)]
pub struct Out {
    json: bool,
}

impl Out {
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// A line of text.
    #[expect(clippy::unused_self, reason = "all that is printed goes through here")]
    pub fn line(&self, text: impl AsRef<str>) -> Result {
        to_stdout(&format!("{}\n", text.as_ref()))
    }

    /// One JSON document, indented for a person who looks at it.
    pub fn json(&self, value: &impl Serialize) -> Result {
        let text = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
        self.line(text)
    }

    /// One JSON document on one line, of a stream of them.
    pub fn json_line(&self, value: &impl Serialize) -> Result {
        self.line(serde_json::to_string(value).map_err(anyhow::Error::from)?)
    }

    /// The value as JSON if that is asked for, and else what `human` makes of it.
    pub fn show<T: Serialize>(&self, value: &T, human: impl FnOnce(&T) -> String) -> Result {
        if self.json { self.json(value) } else { to_stdout(&human(value)) }
    }

    /// A remark that is not part of what was asked for.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.json {
            to_stderr(text.as_ref());
        }
    }
}

/// A field of a row, as text: empty where there is none.
pub fn text(row: &Value, name: &str) -> String {
    match row.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

pub fn to_stderr(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn to_stdout(text: &str) -> Result {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Error::Output)
}

/// Rows under aligned headings. A cell never breaks a line, whatever stands in it.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.iter().map(|h| h.to_uppercase()).collect()] }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|c| clean(c)).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table, or `instead` if it has no rows.
    pub fn or(self, instead: &str) -> String {
        if self.is_empty() { format!("{instead}\n") } else { self.to_string() }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|r| r[column].width()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Names and values, one a line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let widest = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        text.extend([*name, &" ".repeat(widest - name.width()), "  ", &clean(value), "\n"]);
    }
    text
}

/// What others wrote may hold escape sequences: they are shown, never obeyed.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// In the local zone.
pub fn local(at: Timestamp) -> String {
    let at = DateTime::from_timestamp_millis(at.as_millis()).unwrap_or_default().with_timezone(&Local);
    at.format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// A time of the API, in the local zone; nothing for nothing.
pub fn local_text(value: Option<&serde_json::Value>) -> String {
    let text = value.and_then(serde_json::Value::as_str).unwrap_or_default();
    text.parse().map_or_else(|_| text.to_owned(), local)
}

/// In the local zone, with what it is ahead of UTC, and how far off it is.
pub fn local_long(at: Timestamp) -> String {
    let when = DateTime::from_timestamp_millis(at.as_millis()).unwrap_or_default().with_timezone(&Local);
    format!("{} ({})", when.format("%Y-%m-%d %H:%M:%S%.3f %:z"), relative(at))
}

/// `in 9s`, `3m ago`.
pub fn relative(at: Timestamp) -> String {
    let now = now();
    if at >= now { format!("in {}", rough(at.since(now))) } else { format!("{} ago", rough(now.since(at))) }
}

pub fn now() -> Timestamp {
    Timestamp::from_millis_clamped(chrono::Utc::now().timestamp_millis())
}

fn rough(length: DurationMs) -> String {
    let ms = length.as_millis();
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..120_000 => format!("{}s", ms / 1000),
        120_000..7_200_000 => format!("{}m", ms / 60_000),
        7_200_000..172_800_000 => format!("{}h", ms / 3_600_000),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// Bytes for a person.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to a tenth anyway")]
pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}
