//! What servers are trusted: the machine's certificates, or those that the settings name instead.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::Error;

/// An error if the certificates cannot be read.
pub fn client_config(ca: &Path) -> Result<ClientConfig, Error> {
    let bad = |why: String| Error::Misplaced(format!("TLS cannot be set up: {why}"));
    let mut roots = RootCertStore::empty();
    if ca.as_os_str().is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        let named = |e: rustls::pki_types::pem::Error| bad(format!("sql.tls_ca, {}: {e}", ca.display()));
        for certificate in CertificateDer::pem_file_iter(ca).map_err(named)? {
            roots.add(certificate.map_err(named)?).map_err(|e| bad(e.to_string()))?;
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(e.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
