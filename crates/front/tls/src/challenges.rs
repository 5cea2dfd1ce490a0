//! Proofs to an authority that this server has the names for which it wants a certificate (ACME): a file (RFC 8555 §8.3), or a certificate
//! of its own in a handshake that asks for nothing else (RFC 8737).
//!
//! Promise: they are shown only while an authority is to see them. Not here: the protocol of the authority.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// The protocol (ALPN) of a handshake in which an authority looks at a proof.
pub(crate) const PROOF_PROTOCOL: &[u8] = b"acme-tls/1";

/// The proofs that are shown now.
#[derive(Debug, Default)]
pub struct Challenges {
    shown: Mutex<ShownProofs>,
}

#[derive(Debug, Default)]
struct ShownProofs {
    /// By token.
    files: HashMap<String, String>,
    /// By name, in lower case.
    certificates: HashMap<String, Arc<CertifiedKey>>,
}

impl Challenges {
    /// Shows a file with this text under the name `token`.
    pub fn show_file(&self, token: &str, text: &str) {
        self.lock().files.insert(token.to_owned(), text.to_owned());
    }

    /// Shows a certificate for `name` with the digest of the authority's challenge.
    ///
    /// # Errors
    /// None can be made for it.
    pub fn show_certificate(&self, name: &str, digest: &[u8]) -> Result<(), String> {
        let made = || -> Result<CertifiedKey, Box<dyn std::error::Error>> {
            let mut params = CertificateParams::new(vec![name.to_owned()])?;
            params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
            let key = KeyPair::generate()?;
            let chain = vec![params.self_signed(&key)?.der().clone()];
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            // Not compared with the certificate: its critical extension is unknown to the function that would.
            Ok(CertifiedKey::new(chain, ring::sign::any_supported_type(&key)?))
        };
        let certificate = made().map_err(|error| format!("no certificate can be made for `{name}`: {error}"))?;
        self.lock().certificates.insert(name.to_ascii_lowercase(), Arc::new(certificate));
        Ok(())
    }

    /// Shows none any more.
    pub fn clear(&self) {
        *self.lock() = ShownProofs::default();
    }

    /// The file that is shown under this name.
    #[must_use]
    pub fn file(&self, token: &str) -> Option<String> {
        self.lock().files.get(token).cloned()
    }

    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.lock().certificates.get(&name.to_ascii_lowercase()).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, ShownProofs> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
