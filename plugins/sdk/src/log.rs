//! Lines that are kept with the call, bounded in number and length.

use crate::bindings::lapse::plugin::log::{Level, write};

pub fn debug(message: &str) {
    write(Level::Debug, message);
}

pub fn info(message: &str) {
    write(Level::Info, message);
}

pub fn warn(message: &str) {
    write(Level::Warn, message);
}

pub fn error(message: &str) {
    write(Level::Error, message);
}

/// A step of a counter of the plugin's own that counts also if the call fails. With a decision, [`crate::Decision::count`]
/// is the better place.
pub fn count(name: &str, step: u64) {
    crate::bindings::lapse::plugin::log::count(name, step);
}

/// Has a panic's message logged before the instance is gone. [`crate::export!`] sees to it.
pub fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|info| error(&info.to_string()))));
}
