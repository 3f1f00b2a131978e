//! Names, keys and ids. What a caller can write is checked once, here, and stored byte for byte.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use uuid::Uuid;

/// How many shards the timers are spread over. Recorded in the database: it cannot be changed under live timers.
pub const SHARDS: u16 = 16;

/// The longest business key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 256;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id, in order of creation (UUIDv7).
            #[expect(clippy::new_without_default, reason = "a default id would suggest that ids may be equal")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(s: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(s).map(Self)
            }
        }
    };
}

uuid_id!(
    /// A timer's id; also the idempotency key of its decision.
    TimerId
);
uuid_id!(
    /// A compensation's id; also its idempotency key, the same over attempts and redrives.
    CompensationId
);
uuid_id!(
    /// An API key's public id.
    ApiKeyId
);

/// A namespace's row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NamespaceId(pub i64);

/// A timer type's row; unique over namespaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TypeId(pub i64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a name is 1 to 63 of a-z, 0-9 and '-', and starts with a letter; {0:?} is not one")]
    Name(String),
    #[error("a key is 1 to {MAX_KEY_BYTES} bytes of UTF-8; this one has {0}")]
    KeyLength(usize),
    #[error("a key has no control characters; this one has U+{0:04X}")]
    KeyControl(u32),
}

/// The name of a type, a namespace, a compensation kind or the like: `[a-z][a-z0-9_-]{0,62}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(s: &str) -> Result<Self, NameError> {
        let fits = (1..=63).contains(&s.len())
            && s.starts_with(|c: char| c.is_ascii_lowercase())
            && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        if fits { Ok(Self(s.to_owned())) } else { Err(NameError::Name(s.chars().take(80).collect())) }
    }
}

/// A business key, unique with its type for the life of the row. Opaque: kept byte for byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TimerKey(String);

impl TimerKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shard that this key of this type belongs to (FNV-1a, the same on every machine and version).
    pub fn shard(&self, type_id: TypeId) -> u16 {
        let bytes = type_id.0.to_be_bytes().into_iter().chain(self.0.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        // The low bits of FNV-1a are its weakest: fold the high half in.
        u16::try_from((hash ^ (hash >> 32)) % u64::from(SHARDS)).unwrap_or(0)
    }
}

impl FromStr for TimerKey {
    type Err = NameError;

    fn from_str(s: &str) -> Result<Self, NameError> {
        if s.is_empty() || s.len() > MAX_KEY_BYTES {
            return Err(NameError::KeyLength(s.len()));
        }
        match s.chars().find(|c| c.is_control()) {
            Some(c) => Err(NameError::KeyControl(u32::from(c))),
            None => Ok(Self(s.to_owned())),
        }
    }
}

macro_rules! text_type {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

text_type!(Name);
text_type!(TimerKey);

/// The SHA-256 of a component's bytes, written `sha256:` and 64 hex digits: what names a plugin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is sha256: and 64 hex digits")]
pub struct DigestError;

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(s: &str) -> Result<Self, DigestError> {
        let digits = s.strip_prefix("sha256:").ok_or(DigestError)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| DigestError)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}
