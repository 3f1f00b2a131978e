//! The broker.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Secret;

/// NATS with JetStream. Without one, a node keeps the time by itself. What is empty is not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// Addresses with commas between them; empty for no broker.
    pub url: String,
    /// What the names of streams and subjects begin with.
    pub prefix: String,
    /// How many servers keep each message.
    pub replicas: usize,
    /// A credentials file: a JWT with its NKey seed.
    pub credentials: PathBuf,
    /// A file that holds an NKey seed.
    pub seed: PathBuf,
    pub user: String,
    pub password: Secret,
    pub token: Secret,
    /// Whether a server that offers no TLS is refused.
    pub tls_required: bool,
    /// Certificates that are trusted instead of the machine's.
    pub tls_ca: PathBuf,
    /// This client's certificate and its key.
    pub tls_cert: PathBuf,
    pub tls_key: PathBuf,
}
