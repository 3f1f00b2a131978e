//! `lapse timer register`.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::{Map, Value, json};

use crate::client::Timer;

use super::{Connect, Error, Out, Result, load, look::describe};

/// The most that is read of a payload; what the server takes is less.
const MAX_PAYLOAD_BYTES: u64 = 1024 * 1024;

#[derive(Args)]
#[command(
    about = "Register a timer, or a file of them",
    long_about = "Registers a timer. Registering the same again changes nothing, whatever has become of the timer.\n\n\
                  With --file, registers a file of them: one JSON object a line, either a whole registration \
                  {type, key, payload, delay or due_at, labels} or, with --type, without its type. What is refused is \
                  listed by line at the end (exit code 1); loading the file again is harmless.",
    after_help = "Examples:\n  \
        lapse timer register --type order-timeout --key A17 --delay 30m --payload @order.json\n  \
        echo '{\"order_id\": \"A18\"}' | lapse timer register --type my-type --key A18 --payload -\n  \
        lapse timer register --type order-timeout --file examples/orders.ndjson"
)]
pub struct Register {
    /// The timer's type
    #[arg(long = "type", short = 't', value_name = "TYPE", required_unless_present = "file")]
    timer_type: Option<String>,
    /// The business's own key, unique with the type
    #[arg(long, short = 'k', value_name = "KEY", required_unless_present = "file")]
    key: Option<String>,
    /// JSON, or @FILE, or - for standard input
    #[arg(long, short = 'p', value_name = "JSON", default_value = "{}")]
    payload: String,
    /// Due so long from now: 500ms, 30s, 15m, 2h, 7d [default: the type's]
    #[arg(long, value_name = "DURATION", conflicts_with = "due_at")]
    delay: Option<String>,
    /// Due at this instant: 2026-03-01T12:30:00Z
    #[arg(long, value_name = "INSTANT")]
    due_at: Option<String>,
    /// A label to find it by; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    /// Run this revision of the type, whatever is active
    #[arg(long, value_name = "N")]
    revision: Option<i64>,
    /// Register each line of this file (NDJSON); - for standard input
    #[arg(long, short = 'f', value_name = "FILE", conflicts_with_all = ["key", "payload", "delay", "due_at", "label", "revision"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

impl Register {
    pub async fn run(self, out: &Out) -> Result {
        let client = self.connect.client()?;
        if let Some(file) = &self.file {
            return load::load(load::Params { client, file, timer_type: self.timer_type.as_deref(), out }).await;
        }
        let (Some(timer_type), Some(key)) = (self.timer_type, self.key) else {
            return Err(Error::usage("--type and --key are needed"));
        };
        let mut body = json!({ "type": timer_type, "key": key, "payload": payload(&self.payload)? });
        if let Some(delay) = self.delay {
            body["delay"] = delay.into();
        }
        if let Some(due_at) = self.due_at {
            body["due_at"] = due_at.into();
        }
        if !self.label.is_empty() {
            body["labels"] = labels(&self.label)?.into();
        }
        if let Some(revision) = self.revision {
            body["revision"] = revision.into();
        }
        let (created, timer): (bool, Timer) = client.create("v1/timers", &body).await?;
        if !created {
            out.note("it was registered before; nothing has changed");
        }
        out.show(&timer, describe)
    }
}

fn labels(given: &[String]) -> Result<Map<String, Value>> {
    let pair = |label: &String| match label.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.into())),
        _ => Err(Error::usage(format!("--label {label:?} is not NAME=VALUE"))),
    };
    given.iter().map(pair).collect()
}

/// JSON, `@FILE`, or `-` for standard input.
pub fn payload(given: &str) -> Result<Value> {
    let (text, from) = match given.strip_prefix('@') {
        Some(file) => (read(std::fs::File::open(file).map_err(|e| unreadable(Path::new(file), &e))?)?, file),
        None if given == "-" => (read(std::io::stdin().lock())?, "standard input"),
        None => (given.to_owned(), "--payload"),
    };
    serde_json::from_str(&text).map_err(|e| Error::usage(format!("{from} is not JSON: {e}")))
}

fn read(from: impl Read) -> Result<String> {
    let mut text = String::new();
    from.take(MAX_PAYLOAD_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

pub fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::usage(format!("{} cannot be read: {error}", path.display()))
}
