//! The provider's public keys (RFC 7517), and the signatures that they verify (RFC 7515, RFC 7518, RFC 8037).
//!
//! Promise: the algorithm belongs to the key, so that no token chooses another; symmetric ones and `none` are none.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use crate::OpenIdError;

/// Keys that are read; a provider has a few.
const KEYS_MAX: usize = 64;

/// The public keys of a provider.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

/// A key: the parameters of all kinds.
#[derive(Debug, Clone, Deserialize)]
struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads the keys.
    ///
    /// # Errors
    /// It is another document.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, OpenIdError> {
        let mut set: Self = serde_json::from_slice(bytes)
            .map_err(|error| OpenIdError::Document("the list of keys", error.to_string()))?;
        set.keys.truncate(KEYS_MAX);
        Ok(set)
    }

    /// Verifies a signature by the key named `kid`, or by any that is for `algorithm` if the token names none. No key of that name: none.
    pub(crate) fn verifies(
        &self,
        algorithm: &str,
        kid: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let is_named = |key: &&Key| kid.is_none() || key.kid.as_deref() == kid;
        let mut named = self.keys.iter().filter(is_named).filter(|key| key.is_for(algorithm)).peekable();
        named.peek()?;
        Some(named.any(|key| key.verifies(algorithm, message, signature).is_some()))
    }
}

impl Key {
    fn is_for(&self, algorithm: &str) -> bool {
        let signs = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        signs && self.alg.as_deref().is_none_or(|own| own == algorithm)
    }

    /// Something, if the signature is this key's.
    fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> Option<()> {
        let curve = self.crv.as_deref();
        match (algorithm, self.kty.as_str(), curve) {
            ("RS256", "RSA", _) => self.rsa(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            ("RS384", "RSA", _) => self.rsa(&RSA_PKCS1_2048_8192_SHA384, message, signature),
            ("RS512", "RSA", _) => self.rsa(&RSA_PKCS1_2048_8192_SHA512, message, signature),
            ("PS256", "RSA", _) => self.rsa(&RSA_PSS_2048_8192_SHA256, message, signature),
            ("PS384", "RSA", _) => self.rsa(&RSA_PSS_2048_8192_SHA384, message, signature),
            ("PS512", "RSA", _) => self.rsa(&RSA_PSS_2048_8192_SHA512, message, signature),
            ("ES256", "EC", Some("P-256")) => self.point(&ECDSA_P256_SHA256_FIXED, message, signature),
            ("ES384", "EC", Some("P-384")) => self.point(&ECDSA_P384_SHA384_FIXED, message, signature),
            ("EdDSA", "OKP", Some("Ed25519")) => {
                let key = UnparsedPublicKey::new(&ED25519, bytes_of(self.x.as_ref())?);
                key.verify(message, signature).ok()
            }
            _ => None,
        }
    }

    fn rsa(&self, parameters: &'static RsaParameters, message: &[u8], signature: &[u8]) -> Option<()> {
        let key = RsaPublicKeyComponents { n: bytes_of(self.n.as_ref())?, e: bytes_of(self.e.as_ref())? };
        key.verify(parameters, message, signature).ok()
    }

    /// A key of an elliptic curve: its point, uncompressed (SEC 1 §2.3.3).
    fn point(&self, algorithm: &'static dyn VerificationAlgorithm, message: &[u8], signature: &[u8]) -> Option<()> {
        let point = [vec![4], bytes_of(self.x.as_ref())?, bytes_of(self.y.as_ref())?].concat();
        UnparsedPublicKey::new(algorithm, point).verify(message, signature).ok()
    }
}

/// The bytes of a text in base64url without padding.
pub(crate) fn unencoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn bytes_of(text: Option<&String>) -> Option<Vec<u8>> {
    unencoded(text?)
}
