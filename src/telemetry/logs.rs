//! The log: to standard error, for people or as JSON, a line an event.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{Log, LogFormat};

#[derive(Debug, thiserror::Error)]
#[error("log.filter {0:?} is not one: {1}")]
pub struct FilterError(String, String);

/// Starts the log. A second call changes nothing: tests start many nodes in one process.
///
/// # Errors
/// If the filter is not one.
pub fn init_logs(config: &Log) -> Result<(), FilterError> {
    let filter = EnvFilter::try_new(&config.filter).map_err(|e| FilterError(config.filter.clone(), e.to_string()))?;
    let lines = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(true);
    let _already = match config.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
    Ok(())
}
