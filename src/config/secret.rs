//! A setting that is never shown.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Printed and written as stars, unless it is empty.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// What stands for a secret wherever it would be shown.
pub(super) const STARS: &str = "***";

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn shown(&self) -> &'static str {
        if self.0.is_empty() { "" } else { STARS }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.shown())
    }
}
