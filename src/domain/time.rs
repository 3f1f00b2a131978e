//! Instants and durations: milliseconds, from 1970 to the end of the year 9999.

use std::{fmt, str::FromStr};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// An instant in milliseconds since 1970-01-01T00:00:00Z, at most 9999-12-31T23:59:59.999Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A length of time in milliseconds; at most the whole range of [`Timestamp`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DurationMs(u64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("{0:?} is not an RFC 3339 instant; write it like 2026-03-01T12:30:00.000Z")]
    NotAnInstant(String),
    #[error("the instant is outside 1970-01-01T00:00:00Z to 9999-12-31T23:59:59.999Z")]
    OutOfRange,
    #[error("{0:?} is not a duration; write it like 500ms, 30s, 15m, 2h, 7d or P1DT2H")]
    NotADuration(String),
}

impl Timestamp {
    pub const MIN: Self = Self(0);
    pub const MAX: Self = Self(253_402_300_799_999);

    pub fn from_millis(ms: i64) -> Result<Self, TimeError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&ms) { Ok(Self(ms)) } else { Err(TimeError::OutOfRange) }
    }

    /// For values that come from a clock or a row, and so cannot be out of range unless the machine is.
    pub fn from_millis_clamped(ms: i64) -> Self {
        Self(ms.clamp(Self::MIN.0, Self::MAX.0))
    }

    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// The instant `after` later; an error beyond the year 9999.
    pub fn checked_add(self, after: DurationMs) -> Result<Self, TimeError> {
        let ms = i64::try_from(after.0).ok().and_then(|a| self.0.checked_add(a)).ok_or(TimeError::OutOfRange)?;
        Self::from_millis(ms)
    }

    pub fn saturating_add(self, after: DurationMs) -> Self {
        self.checked_add(after).unwrap_or(Self::MAX)
    }

    pub fn saturating_sub(self, before: DurationMs) -> Self {
        Self(self.0.saturating_sub(i64::try_from(before.0).unwrap_or(i64::MAX)).max(0))
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Self) -> DurationMs {
        DurationMs(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// The whole second that this instant lies in, as seconds since 1970.
    pub fn second(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

impl DurationMs {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(Timestamp::MAX.0 as u64);

    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1000)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    pub fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    /// Parts finer than a millisecond are rounded up: a timer is never early.
    fn from_str(s: &str) -> Result<Self, TimeError> {
        let at = DateTime::parse_from_rfc3339(s).map_err(|_| TimeError::NotAnInstant(s.to_owned()))?;
        let finer = i64::from(at.timestamp_subsec_nanos() % 1_000_000 != 0);
        Self::from_millis(at.timestamp_millis() + finer)
    }
}

impl FromStr for DurationMs {
    type Err = TimeError;

    /// `[0-9]+(ms|s|m|h|d)` or ISO 8601 `PnDTnHnMnS` without years, months, weeks and fractions.
    fn from_str(s: &str) -> Result<Self, TimeError> {
        let bad = || TimeError::NotADuration(s.to_owned());
        let ms = if let Some(iso) = s.strip_prefix('P') {
            parse_iso(iso).ok_or_else(bad)?
        } else {
            let digits = s.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let unit = match &s[digits..] {
                "ms" => 1,
                "s" => 1000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(bad()),
            };
            if digits == 0 {
                return Err(bad());
            }
            s[..digits].parse::<u128>().ok().and_then(|n| n.checked_mul(unit)).ok_or(TimeError::OutOfRange)?
        };
        match u64::try_from(ms) {
            Ok(ms) if ms <= Self::MAX.0 => Ok(Self(ms)),
            _ => Err(TimeError::OutOfRange),
        }
    }
}

/// What follows the `P`; `None` if it is not of the form. Each unit stands at most once, in order.
fn parse_iso(iso: &str) -> Option<u128> {
    let (date, time) = match iso.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (iso, ""),
    };
    let mut total = 0u128;
    let mut any = false;
    for (mut part, units) in
        [(date, &[('D', 86_400_000u128)][..]), (time, &[('H', 3_600_000), ('M', 60_000), ('S', 1000)])]
    {
        for (letter, unit) in units {
            let Some((number, rest)) = part.split_once(*letter) else { continue };
            if number.is_empty() || number.len() > 30 || !number.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            total = total.checked_add(number.parse::<u128>().ok()?.checked_mul(*unit)?)?;
            any = true;
            part = rest;
        }
        if !part.is_empty() {
            return None;
        }
    }
    any.then_some(total)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        f.write_str(&at.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DurationMs {
    /// The shortest whole unit: `90s` rather than `90000ms`, `2h` rather than `120m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        match units.into_iter().find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None if self.0 == 0 => f.write_str("0s"),
            None => write!(f, "{}ms", self.0),
        }
    }
}

impl fmt::Debug for DurationMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for DurationMs {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationMs {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}
