//! Whole numbers as JSON Schema understands them.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A whole number that is not negative. JSON Schema calls `12.0` an integer, and so does this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whole(pub u64);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that is not negative")
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Whole, E> {
                Ok(Whole(n))
            }

            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Whole, E> {
                // Above 2^53 a float no longer names one whole number.
                if n.fract() == 0.0 && (0.0..=9_007_199_254_740_991.0).contains(&n) {
                    Ok(Whole(n as u64))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(n), &self))
                }
            }
        }

        d.deserialize_any(Visitor)
    }
}
