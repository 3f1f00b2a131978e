//! What Lapse is about, as pure data and pure rules: no clock, no database, no network, no Wasm.

pub mod audit;
pub mod backoff;
pub mod compensation;
pub mod decision;
pub mod fingerprint;
pub mod id;
pub mod machine;
pub mod pause;
pub mod plugin;
pub mod time;
pub mod timer;
pub mod width;
