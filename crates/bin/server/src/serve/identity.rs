//! The provider of identities, as the configuration names it: requests to it, and random bytes.
//!
//! Not here: the proof (`openid`).

use std::sync::Arc;

use anyhow::Context as _;
use client::HttpClient;
use http::config::OpenIdLogins;
use openid::{Provider, ProviderAnswer, ProviderPort, ProviderRequest, ProviderSettings};

use crate::config::OpenIdConfig;

/// Largest document of a provider that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Logins by the provider. The start sends it no request: a server starts without it.
///
/// # Errors
/// The file with the secret cannot be read.
pub(super) fn logins(config: Option<&OpenIdConfig>) -> anyhow::Result<Option<OpenIdLogins>> {
    let Some(config) = config else { return Ok(None) };
    let secret = config.secret.as_ref().map(|file| {
        let text = std::fs::read_to_string(file).with_context(|| format!("openid.secret: {}", file.display()))?;
        let text = text.trim();
        anyhow::ensure!(!text.is_empty(), "openid.secret: {} is empty", file.display());
        Ok(text.to_owned())
    });
    let settings = ProviderSettings {
        issuer: config.issuer.clone(),
        client: config.client.clone(),
        secret: secret.transpose()?,
        scopes: config.scopes.join(" "),
        name_claim: config.name_claim.clone(),
        groups_claim: config.groups_claim.clone(),
    };
    let provider = Provider::new(settings, Arc::new(ProviderNetwork));
    Ok(Some(OpenIdLogins { provider, adds_users: config.add_users }))
}

/// The network, and the system's random bytes.
struct ProviderNetwork;

impl ProviderPort for ProviderNetwork {
    fn ask(&self, request: &ProviderRequest) -> Result<ProviderAnswer, String> {
        // Made for each request: the authorities that are trusted by then count.
        let client = HttpClient::new(None);
        let (authorization, form) = (request.authorization.as_deref(), request.form.as_deref());
        let answer = client.document(&request.address, authorization, form, ANSWER_BYTES_MAX);
        answer.map(|(status, body)| ProviderAnswer { status, body }).map_err(|error| format!("{error:#}"))
    }

    fn random_text(&self) -> Result<String, String> {
        accounts::random_text().map_err(|error| error.to_string())
    }
}
