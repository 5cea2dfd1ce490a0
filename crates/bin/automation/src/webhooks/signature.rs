//! Signatures of webhooks, as the specification Standard Webhooks 1.0.0 has them: HMAC-SHA256 over `ID.TIMESTAMP.BODY`.
//!
//! Promise: a receiver that has the secret can tell that an event is ours and how old it is; libraries of that name
//! verify it. Not here: the other fields of a request.

use std::path::Path;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// The specification requires 24; 16 random bytes are still not guessed.
const SECRET_BYTES_MIN: usize = 16;
const PREFIX: &str = "whsec_";

/// The key that signs.
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    /// Reads a secret: base64, with `whsec_` in front or without, as the libraries of receivers take it.
    ///
    /// # Errors
    /// It cannot be read, is no base64, or is too short.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the secret {shown}"))?;
        Self::new(text.trim()).with_context(|| shown.to_string())
    }

    fn new(text: &str) -> anyhow::Result<Self> {
        let key = STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).unwrap_or_default();
        ensure!(
            key.len() >= SECRET_BYTES_MIN,
            "the base64 of {SECRET_BYTES_MIN} bytes or more is needed: `openssl rand -base64 32` makes a secret"
        );
        Ok(Self(Hmac::new_from_slice(&key).expect("a key of any length will do")))
    }

    /// The field `webhook-signature`.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_specification() {
        // The example of https://www.standardwebhooks.com/verify.
        // Libraries take the same secret without its prefix, as `openssl rand -base64` writes it.
        for text in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
            let secret = Secret::new(text).expect("a secret");
            let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
            assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        }
    }

    #[test]
    fn a_secret_that_is_none_is_refused() {
        let said = |text: &str| Secret::new(text).err().map(|error| format!("{error:#}")).unwrap_or_default();
        for text in ["short", "whsec_not base64", "plain words are no secret", ""] {
            assert!(said(text).contains("base64 of 16 bytes or more"), "{}", said(text));
        }
        let path = Path::new("/nonexistent");
        assert!(Secret::read(path).err().is_some_and(|error| error.to_string().contains("/nonexistent")));
    }
}
