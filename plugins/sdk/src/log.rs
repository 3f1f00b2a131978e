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
