//! `lapse openapi`.

use clap::{Args, ValueEnum};

use crate::api;

use super::{Result, output::Out};

#[derive(Args)]
#[command(
    about = "Print the API's OpenAPI document",
    long_about = "Prints the OpenAPI document of the HTTP API. A running server has the one of version 3.1 at \
                  /openapi.json; the one of version 3.0 is derived from it, for generators of clients that read nothing newer.",
    after_help = "Examples:\n  lapse openapi > openapi.json\n  lapse openapi --version 3.0 > openapi-3.0.json"
)]
pub struct Openapi {
    /// The version of OpenAPI
    #[arg(id = "openapi_version", long = "version", value_name = "VERSION", value_enum, default_value = "3.1")]
    version: Version,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Version {
    #[value(name = "3.1")]
    V3_1,
    #[value(name = "3.0")]
    V3_0,
}

impl Openapi {
    pub fn run(self, out: &Out) -> Result {
        match self.version {
            Version::V3_1 => out.json(&api::document()),
            Version::V3_0 => out.json(&api::document_3_0()),
        }
    }
}
