//! What servers are trusted: the machine's certificates, or those that the settings name instead.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::Error;

/// An error if the certificates cannot be read.
pub fn client_config(ca: &Path) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted(ca)?);
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(e.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The certificates themselves; each of them can be read.
pub fn trusted(ca: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let is_readable = |certificate: &CertificateDer<'static>| RootCertStore::empty().add(certificate.clone()).is_ok();
    if ca.as_os_str().is_empty() {
        let mut machines = rustls_native_certs::load_native_certs().certs;
        machines.retain(is_readable);
        return Ok(machines);
    }
    let named = |why: String| bad(format!("sql.tls_ca, {}: {why}", ca.display()));
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(ca)
        .and_then(Iterator::collect)
        .map_err(|e: rustls::pki_types::pem::Error| named(e.to_string()))?;
    if certificates.is_empty() || !certificates.iter().all(is_readable) {
        return Err(named("it does not hold certificates in PEM".to_owned()));
    }
    Ok(certificates)
}

fn bad(why: String) -> Error {
    Error::Misplaced(format!("TLS cannot be set up: {why}"))
}
