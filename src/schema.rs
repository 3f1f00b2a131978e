//! Compiled JSON Schemas (2020-12).

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The most faults that one answer names.
const MAX_FAULTS: usize = 50;

#[derive(Debug)]
pub struct Schema {
    validator: jsonschema::Validator,
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
    /// Compiles a schema. References outside the document are refused, not fetched.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .build(schema)
            .map_err(|e| format!("the schema is not valid at {:?}: {e}", e.instance_path().to_string()))?;
        Ok(Self { validator })
    }

    pub fn takes(&self, instance: &Value) -> bool {
        self.validator.is_valid(instance)
    }

    /// Every fault, with its pointer below `base`.
    pub fn check(&self, instance: &Value, base: &str) -> Result<(), Vec<Fault>> {
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        let fault = |e: jsonschema::ValidationError<'_>| Fault {
            pointer: format!("{base}{}", e.instance_path()),
            code: e.kind().keyword().to_owned(),
            detail: e.masked().to_string(),
        };
        Err(self.validator.iter_errors(instance).take(MAX_FAULTS).map(fault).collect())
    }
}
