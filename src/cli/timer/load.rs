//! Registering a file, a line each: read as a stream, sent in batches, and summed up by line.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::{self, BatchAnswer, Client, Problem};

use super::{
    super::output::{Table, facts},
    Error, Out, Result,
    register::unreadable,
};

/// Registrations in one call, and their bytes: the API's own bounds, or below them.
const BATCH_LINES: usize = 1000;
const BATCH_BYTES: usize = 1024 * 1024;
/// The longest line. The largest registration that can be accepted is a fraction of it.
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Refusals that are kept, and those that a table shows. All are counted.
const MAX_REFUSALS: usize = 10_000;
const SHOWN_REFUSALS: usize = 100;

pub struct Params<'a> {
    pub client: Client,
    pub file: &'a Path,
    /// The type of lines that name none.
    pub timer_type: Option<&'a str>,
    pub out: &'a Out,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    lines: u64,
    registered: u64,
    /// Registered before, and the same.
    already: u64,
    refused: u64,
    refused_by_code: BTreeMap<String, u64>,
    /// The first ten thousand.
    refusals: Vec<Refusal>,
}

#[derive(Debug, Serialize)]
struct Refusal {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    code: String,
    detail: String,
}

/// A line that can be sent.
struct Line {
    number: u64,
    body: Box<RawValue>,
}

pub async fn load(params: Params<'_>) -> Result {
    let (input, length): (Box<dyn Read>, _) = if params.file == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let file = File::open(params.file).map_err(|e| unreadable(params.file, &e))?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
        (Box::new(file), length)
    };
    let bar = progress(length, params.out);
    let mut loader = Loader { client: params.client, summary: Summary::default() };
    let mut reader = BufReader::with_capacity(256 * 1024, input);
    let mut batch = Vec::new();
    let mut batch_bytes = 0;
    loop {
        let read = read_line(&mut reader)?;
        let size = match &read {
            Some(Found::Line(bytes)) => bytes.len(),
            Some(Found::TooLong(size)) => *size,
            None => 0,
        };
        let at_end = read.is_none();
        if let Some(line) = loader.parse(read, params.timer_type) {
            batch_bytes += line.body.get().len();
            batch.push(line);
        }
        bar.inc(size as u64);
        if at_end || batch.len() >= BATCH_LINES || batch_bytes >= BATCH_BYTES {
            if let Err(error) = loader.send(std::mem::take(&mut batch)).await {
                bar.abandon();
                params.out.note(format!(
                    "{} lines were registered or known before it; loading the file again is harmless",
                    loader.summary.registered + loader.summary.already
                ));
                return Err(error);
            }
            batch_bytes = 0;
            bar.set_message(loader.summary.brief());
        }
        if at_end {
            break;
        }
    }
    bar.finish_and_clear();
    // What is no registration at all is known before its batch is answered.
    loader.summary.refusals.sort_by_key(|r| r.line);
    params.out.show(&loader.summary, Summary::describe)?;
    if loader.summary.refused > 0 { Err(Error::Said) } else { Ok(()) }
}

fn progress(length: Option<u64>, out: &Out) -> ProgressBar {
    // Drawn on standard error, and only if that is a terminal.
    let (bar, template) = match length {
        _ if out.is_json() => return ProgressBar::hidden(),
        Some(length) => (ProgressBar::new(length), "{bar:30} {percent:>3}%  {msg}  {elapsed}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What stood on a line.
enum Found {
    Line(Vec<u8>),
    /// It was skipped; so many bytes.
    TooLong(usize),
}

fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Found>> {
    let mut line = Vec::new();
    let read = reader.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.len() <= MAX_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(Some(Found::Line(line)));
    }
    let rest = reader.skip_until(b'\n')?;
    Ok(Some(Found::TooLong(read + rest)))
}

struct Loader {
    client: Client,
    summary: Summary,
}

impl Loader {
    /// The line as it is sent: byte for byte as it stands in the file, but for a type that it does not name.
    fn parse(&mut self, read: Option<Found>, timer_type: Option<&str>) -> Option<Line> {
        self.summary.lines += u64::from(read.is_some());
        let number = self.summary.lines;
        let mut refuse = |code: &str, detail: String| {
            self.summary.refuse(Refusal { line: number, key: None, code: code.to_owned(), detail });
            None
        };
        let bytes = match read? {
            Found::Line(bytes) => bytes,
            Found::TooLong(size) => return refuse("too_large", format!("the line has {size} bytes")),
        };
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text.trim(),
            Err(error) => return refuse("malformed", format!("not UTF-8: {error}")),
        };
        // A blank line is no registration, but has its number.
        if text.is_empty() {
            return None;
        }
        let object: BTreeMap<String, &RawValue> = match serde_json::from_str(text) {
            Ok(object) => object,
            Err(error) => return refuse("malformed", format!("not a JSON object: {error}")),
        };
        let body = match (object.contains_key("type"), timer_type) {
            (true, _) => text.to_owned(),
            (false, Some(timer_type)) => {
                let comma = if object.is_empty() { "" } else { "," };
                format!("{{\"type\":{}{comma}{}", serde_json::json!(timer_type), &text[1..])
            }
            (false, None) => return refuse("malformed", "it names no type, and --type is not given".into()),
        };
        match RawValue::from_string(body) {
            Ok(body) => Some(Line { number, body }),
            Err(error) => refuse("malformed", error.to_string()),
        }
    }

    /// Sends a batch. If the server refuses it whole, it is halved until the line that is at fault stands alone.
    async fn send(&mut self, batch: Vec<Line>) -> Result {
        let mut parts = vec![batch];
        while let Some(mut batch) = parts.pop() {
            if batch.is_empty() {
                continue;
            }
            let bodies: Vec<&RawValue> = batch.iter().map(|l| &*l.body).collect();
            match self.client.register_batch(&bodies).await {
                Ok(answer) => self.note_all(&batch, answer)?,
                Err(client::Error::Problem(problem)) if matches!(problem.status, 400 | 413 | 415 | 422) => {
                    if batch.len() == 1 {
                        self.refused(&batch[0], &problem);
                    } else {
                        let second = batch.split_off(batch.len() / 2);
                        parts.push(second);
                        parts.push(batch);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn note_all(&mut self, batch: &[Line], answer: BatchAnswer) -> Result {
        if answer.results.len() != batch.len() {
            return Err(anyhow::anyhow!("{} lines were sent and {} answered", batch.len(), answer.results.len()).into());
        }
        for (line, item) in batch.iter().zip(answer.results) {
            match (item.status, item.problem) {
                (201, _) => self.summary.registered += 1,
                (200, _) => self.summary.already += 1,
                (_, Some(problem)) => self.refused(line, &problem),
                (status, None) => {
                    let detail = format!("answered with status {status}");
                    self.summary.refuse(Refusal { line: line.number, key: key(line), code: "unknown".into(), detail });
                }
            }
        }
        Ok(())
    }

    fn refused(&mut self, line: &Line, problem: &Problem) {
        let detail = match problem.errors.as_slice() {
            [] => problem.detail.clone().unwrap_or_else(|| problem.title.clone()),
            faults => faults
                .iter()
                .map(|f| format!("{} {}", item_pointer(&f.pointer), f.detail).trim().to_owned())
                .collect::<Vec<_>>()
                .join("; "),
        };
        self.summary.refuse(Refusal { line: line.number, key: key(line), code: problem.code.clone(), detail });
    }
}

/// A fault's place within its line: without the number that the line had in the call.
fn item_pointer(pointer: &str) -> &str {
    let Some(rest) = pointer.strip_prefix("/timers/").or_else(|| pointer.strip_prefix("/items/")) else {
        return pointer;
    };
    rest.find('/').map_or("", |at| &rest[at..])
}

fn key(line: &Line) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Key {
        key: String,
    }
    serde_json::from_str::<Key>(line.body.get()).ok().map(|k| k.key)
}

impl Summary {
    fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        *self.refused_by_code.entry(refusal.code.clone()).or_default() += 1;
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push(refusal);
        }
    }

    fn brief(&self) -> String {
        format!("{} registered, {} known, {} refused", self.registered, self.already, self.refused)
    }

    fn describe(&self) -> String {
        let mut text = facts(&[
            ("registered", self.registered.to_string()),
            ("known before", self.already.to_string()),
            ("refused", self.refused.to_string()),
        ]);
        if self.refused == 0 {
            return text;
        }
        let mut table = Table::new(["line", "code", "key", "why"]);
        for r in self.refusals.iter().take(SHOWN_REFUSALS) {
            table.row([
                r.line.to_string(),
                r.code.clone(),
                short(r.key.as_deref().unwrap_or_default()),
                r.detail.clone(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.to_string());
        let more = self.refused.saturating_sub(SHOWN_REFUSALS as u64);
        if more > 0 {
            text.extend(["and ", &more.to_string(), " more; --json has the first ", &MAX_REFUSALS.to_string(), "\n"]);
        }
        text
    }
}

/// A key as far as a table has room for it.
fn short(key: &str) -> String {
    match key.char_indices().nth(24) {
        Some((at, _)) => format!("{}…", &key[..at]),
        None => key.to_owned(),
    }
}
