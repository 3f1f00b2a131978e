//! The trait that a plugin implements, and what stands between it and the component's exports.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Compensation, Decision, Expiry, Failure, Manifest, Reminder};

/// A timer type's logic. Each call has an instance of its own: nothing is kept from one to the next.
pub trait Plugin {
    /// What a timer of the type carries. Fits the manifest's payload schema.
    type Payload: DeserializeOwned;
    /// What the operator sets for the type; `()` for nothing.
    type Config: DeserializeOwned;

    /// Who it is and what it wants. The same whenever it is asked.
    fn manifest() -> Manifest;

    /// Decides what becomes of a timer that is due.
    fn on_expire(ctx: &Expiry, payload: Self::Payload, config: Self::Config) -> Result<Decision, Failure>;

    /// A reminder before the due time.
    fn on_remind(_ctx: &Reminder, _payload: Self::Payload, _config: Self::Config) -> Result<Option<Value>, Failure> {
        Ok(None)
    }

    /// Carries out one compensation, which may have been carried out before. What it answers is kept in the audit.
    fn compensate(task: &Compensation, _config: Self::Config) -> Result<Option<Value>, Failure> {
        Err(Failure::permanent("unknown_kind", format!("there is no compensation of kind {:?}", task.kind)))
    }
}

impl Compensation {
    /// The payload, as the decision gave it.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        parse("payload", &self.payload)
    }
}

fn parse<T: DeserializeOwned>(what: &str, json: &str) -> Result<T, Failure> {
    serde_json::from_str(json)
        .map_err(|e| Failure::permanent(&format!("{what}_invalid"), format!("the {what} does not fit: {e}")))
}

#[doc(hidden)]
pub mod adapter {
    use super::*;
    use crate::{bindings, log::log_panics};

    /// No configuration is `{}` to the host; a plugin without one says `()`, which is `null` to serde.
    fn config<T: DeserializeOwned>(json: &str) -> Result<T, Failure> {
        if json.trim() == "{}"
            && let Ok(unit) = serde_json::from_str("null")
        {
            return Ok(unit);
        }
        parse("config", json)
    }

    fn text(value: Result<Option<Value>, Failure>) -> Result<Option<String>, bindings::Failure> {
        value.map(|v| v.map(|v| v.to_string())).map_err(Into::into)
    }

    pub fn describe<P: Plugin>() -> String {
        log_panics();
        P::manifest().into_json()
    }

    pub fn on_expire<P: Plugin>(ctx: Expiry) -> Result<bindings::Decision, bindings::Failure> {
        log_panics();
        let decided =
            parse("payload", &ctx.payload).and_then(|p| config(&ctx.config).and_then(|c| P::on_expire(&ctx, p, c)));
        decided.map(Into::into).map_err(Into::into)
    }

    pub fn on_remind<P: Plugin>(ctx: Reminder) -> Result<Option<String>, bindings::Failure> {
        log_panics();
        text(parse("payload", &ctx.payload).and_then(|p| config(&ctx.config).and_then(|c| P::on_remind(&ctx, p, c))))
    }

    pub fn compensate<P: Plugin>(task: Compensation) -> Result<Option<String>, bindings::Failure> {
        log_panics();
        text(config(&task.config).and_then(|c| P::compensate(&task, c)))
    }
}
