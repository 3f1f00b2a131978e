//! Compiled JSON Schemas (2020-12), written by others: what a check may take is bounded.

mod load;

use std::thread;

use jsonschema::PatternOptions;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use self::load::Load;

/// The most faults that one answer names.
const MAX_FAULTS: usize = 50;
/// The most subschemas that one instance is checked against, over all its nodes: some hundred milliseconds.
const MAX_LOOKS: u64 = 5_000_000;
/// Up to here each fault is named; beyond it the check only says whether there is one, since to name them multiplies it.
const NAMED_LOOKS: u64 = 200_000;
/// Schemas are compiled on a stack of their own, since each subschema may stand within another.
const STACK_BYTES: usize = 64 << 20;
/// The most that one pattern may take, in bytes, compiled.
const PATTERN_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub struct Schema {
    validator: jsonschema::Validator,
    load: Load,
}

/// One way in which an instance does not fit, or a request is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// JSON pointer (RFC 6901) into the body; `?name` for a query parameter; empty for the whole.
    pub pointer: String,
    pub code: String,
    pub detail: String,
}

impl Schema {
    /// Compiles a schema. References outside the document are refused, not fetched; so is a schema against which even a
    /// small instance could not be checked in bounded time.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let load = Load::of(schema)?;
        let validator = thread::scope(|scope| {
            let compile = || {
                let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
                jsonschema::options()
                    .with_draft(jsonschema::Draft::Draft202012)
                    .should_validate_formats(true)
                    .with_pattern_options(patterns)
                    .build(schema)
                    .map_err(|e| format!("the schema is not valid at {:?}: {e}", e.instance_path().to_string()))
            };
            let thread = thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES);
            let running = thread.spawn_scoped(scope, compile).map_err(|e| format!("no thread can be started: {e}"))?;
            running.join().map_err(|_| "the schema cannot be compiled".to_owned())?
        })?;
        Ok(Self { validator, load })
    }

    pub fn takes(&self, instance: &Value) -> bool {
        self.looks(instance).is_some() && self.validator.is_valid(instance)
    }

    /// Every fault, with its pointer below `base`.
    pub fn check(&self, instance: &Value, base: &str) -> Result<(), Vec<Fault>> {
        let whole = |code: &str, detail: &str| Fault {
            pointer: base.to_owned(),
            code: code.to_owned(),
            detail: detail.to_owned(),
        };
        let Some(looks) = self.looks(instance) else {
            let detail =
                "it is too large or too deep to be checked against its schema; send less, or simplify the schema";
            return Err(vec![whole("too_costly", detail)]);
        };
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        if looks > NAMED_LOOKS {
            let detail = "it does not fit its schema, and is too large for each fault to be named";
            return Err(vec![whole("schema", detail)]);
        }
        let fault = |e: jsonschema::ValidationError<'_>| Fault {
            pointer: format!("{base}{}", e.instance_path()),
            code: e.kind().keyword().to_owned(),
            detail: e.masked().to_string(),
        };
        Err(self.validator.iter_errors(instance).take(MAX_FAULTS).map(fault).collect())
    }

    /// What a check takes, if that is within the bounds.
    fn looks(&self, instance: &Value) -> Option<u64> {
        self.load.looks(instance).filter(|looks| *looks <= MAX_LOOKS)
    }
}
