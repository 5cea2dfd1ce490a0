//! One login of a browser: the secret that its browser keeps meanwhile, and the address that leads to the provider.
//!
//! The secret has 256 random bits and lies in a cookie. State, nonce and PKCE verifier are hashes of it, so that nothing is kept here, and
//! an answer counts in the browser that began the login, and there only.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::OpenIdError;

/// Characters to escape in a value of a query or form: all but the unreserved ones (RFC 3986 §2.3).
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Length of a secret's text: 32 bytes in base64url.
const SECRET_CHARS: usize = 43;

/// The secret of one login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSecret(String);

/// The parameters by which the provider sends a browser back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginAnswer {
    /// `code`.
    pub code: Option<String>,
    /// `state`.
    pub state: Option<String>,
    /// `iss` (RFC 9207).
    pub issuer: Option<String>,
    /// `error`, and its description.
    pub error: Option<String>,
}

impl LoginSecret {
    /// The secret with this text, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (text.len() == SECRET_CHARS && is_plain).then(|| Self(text.to_owned()))
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value by which an answer is known as this login's.
    pub(crate) fn state(&self) -> String {
        self.hashed("state")
    }

    /// The value by which an ID token is.
    pub(crate) fn nonce(&self) -> String {
        self.hashed("nonce")
    }

    /// The verifier of the code (RFC 7636).
    pub(crate) fn verifier(&self) -> String {
        self.hashed("verifier")
    }

    fn hashed(&self, purpose: &str) -> String {
        hash(&format!("isocast login {purpose} {}", self.0))
    }
}

fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

/// `name=value&…`, encoded.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| format!("{name}={}", encoded(value));
    fields.iter().map(field).collect::<Vec<_>>().join("&")
}

/// A value of a form, encoded.
pub(crate) fn encoded(value: &str) -> String {
    utf8_percent_encode(value, VALUE).to_string()
}

/// The address of the provider's page for this login.
pub(crate) fn authorization_address(
    endpoint: &str,
    secret: &LoginSecret,
    (client, scopes, callback): (&str, &str, &str),
) -> String {
    let (state, nonce, challenge) = (secret.state(), secret.nonce(), hash(&secret.verifier()));
    let query = form(&[
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", callback),
        ("scope", scopes),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    format!("{endpoint}{}{query}", if endpoint.contains('?') { '&' } else { '?' })
}

impl LoginAnswer {
    /// The code, if this is the answer to the login of `secret` by `issuer`.
    ///
    /// # Errors
    /// It is not, or the provider refuses.
    pub(crate) fn code_for(&self, secret: &LoginSecret, issuer: &str) -> Result<&str, OpenIdError> {
        if self.state.as_deref() != Some(secret.state().as_str()) {
            return Err(OpenIdError::OtherLogin);
        }
        if self.issuer.as_deref().is_some_and(|other| other != issuer) {
            return Err(OpenIdError::Refused("the answer is of another issuer (`iss`)".to_owned()));
        }
        if let Some(error) = &self.error {
            return Err(OpenIdError::Refused(shown(error)));
        }
        self.code.as_deref().ok_or_else(|| OpenIdError::Refused("its answer has no code".to_owned()))
    }
}

/// A text of the provider, cut, as it may be shown.
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_in_the_browser_that_began_the_login() {
        let secret = |letter: &str| LoginSecret::parse(&letter.repeat(43)).expect("a secret");
        let (own, other) = (secret("a"), secret("b"));
        let issuer = "https://id.example";
        let answer = LoginAnswer {
            code: Some("c".to_owned()),
            state: Some(own.state()),
            issuer: Some(issuer.to_owned()),
            error: None,
        };
        assert_eq!(answer.code_for(&own, issuer), Ok("c"));
        assert_eq!(answer.code_for(&other, issuer), Err(OpenIdError::OtherLogin));
        assert_eq!(LoginAnswer::default().code_for(&own, issuer), Err(OpenIdError::OtherLogin));
        assert!(matches!(answer.code_for(&own, "https://other.example"), Err(OpenIdError::Refused(_))));
        let denied = LoginAnswer { error: Some("access_denied\r\n".to_owned()), ..answer };
        assert_eq!(denied.code_for(&own, issuer), Err(OpenIdError::Refused("access_denied".to_owned())));
        for text in ["", "a", &"a".repeat(44), &"é".repeat(21), &"=".repeat(43)] {
            assert_eq!(LoginSecret::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_address_shows_hashes_of_the_secret_alone() {
        let secret = LoginSecret::parse(&"a".repeat(43)).expect("a secret");
        let address = authorization_address("https://id.example/a?x=1", &secret, ("me", "openid x", "https://m/login"));
        let begin = "https://id.example/a?x=1&response_type=code&client_id=me&redirect_uri=https%3A%2F%2Fm%2Flogin&scope=openid%20x&";
        assert!(address.starts_with(begin), "{address}");
        assert!(!address.contains(secret.text()) && !address.contains(&secret.verifier()), "{address}");
        assert!(address.contains(&format!("code_challenge={}", hash(&secret.verifier()))), "{address}");
    }
}
