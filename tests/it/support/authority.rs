//! A certificate authority of a test's own.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

pub struct Authority {
    pub pem: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(folder: &TempDir, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = folder.path().join(name);
        std::fs::write(&pem, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names, with its key.
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}
