//! The provider's description of itself (OpenID Connect Discovery 1.0 §3).

use serde::Deserialize;

use crate::OpenIdError;

/// Path of the description, below the issuer.
const PATH: &str = "/.well-known/openid-configuration";

/// The parts of the description that a login needs.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Discovery {
    issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) jwks_uri: String,
    pub(crate) userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// Address of the description of `issuer`.
pub(crate) fn address(issuer: &str) -> String {
    format!("{}{PATH}", issuer.trim_end_matches('/'))
}

impl Discovery {
    /// Reads the description of `issuer`.
    ///
    /// # Errors
    /// It is another's, or names an address that a network could read along.
    pub(crate) fn read(bytes: &[u8], issuer: &str) -> Result<Self, OpenIdError> {
        let unfit = |reason: String| OpenIdError::Document("the description", reason);
        let this: Self = serde_json::from_slice(bytes).map_err(|error| unfit(error.to_string()))?;
        if this.issuer != issuer {
            return Err(unfit(format!("it is of the issuer `{}`; `openid.issuer` names `{issuer}`", this.issuer)));
        }
        let needed = [&this.authorization_endpoint, &this.token_endpoint, &this.jwks_uri];
        let is_plain = |address: &&String| !address.starts_with("https://") && issuer.starts_with("https://");
        if let Some(plain) = needed.into_iter().chain(&this.userinfo_endpoint).find(is_plain) {
            return Err(unfit(format!("`{plain}` is no address of HTTPS")));
        }
        Ok(this)
    }

    /// True if the client's secret goes into the body, for want of HTTP Basic, which is usual (§3).
    pub(crate) fn wants_secret_in_body(&self) -> bool {
        let supported = &self.token_endpoint_auth_methods_supported;
        let has = |method: &str| supported.iter().any(|each| each == method);
        !has("client_secret_basic") && has("client_secret_post")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_of_its_issuer_and_stays_sealed() {
        let read = |issuer: &str, token: &str| {
            let text = format!(
                r#"{{"issuer":"{issuer}","authorization_endpoint":"https://id.example/a","token_endpoint":"{token}",
                    "jwks_uri":"https://id.example/k","token_endpoint_auth_methods_supported":["client_secret_post"]}}"#
            );
            Discovery::read(text.as_bytes(), "https://id.example/realm")
        };
        assert!(read("https://id.example/realm", "https://id.example/t").is_ok_and(|one| one.wants_secret_in_body()));
        let other = read("https://evil.example", "https://id.example/t").expect_err("another").to_string();
        assert!(other.contains("`https://evil.example`; `openid.issuer` names"), "{other}");
        let plain = read("https://id.example/realm", "http://id.example/t").expect_err("plain").to_string();
        assert!(plain.contains("`http://id.example/t` is no address of HTTPS"), "{plain}");
        assert!(Discovery::read(b"<html>", "https://id.example").is_err());
        assert_eq!(address("https://id.example/realm/"), "https://id.example/realm/.well-known/openid-configuration");
    }
}
