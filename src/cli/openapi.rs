//! `lapse openapi`.

use clap::Args;

use crate::api;

use super::{Result, output::Out};

#[derive(Args)]
#[command(
    about = "Print the API's OpenAPI document",
    long_about = "Prints the OpenAPI 3.1 document of the HTTP API. A running server has it at /openapi.json.",
    after_help = "Examples:\n  lapse openapi > openapi.json"
)]
pub struct Openapi {}

impl Openapi {
    #[expect(clippy::unused_self, reason = "every command runs alike")]
    pub fn run(self, out: &Out) -> Result {
        out.json(&api::document())
    }
}
