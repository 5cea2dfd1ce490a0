//! The provider: its documents, read when a login needs them, and the two steps of a login.
//!
//! Promise: the provider's documents are read again after an hour, or if a token names an unknown key, but not within
//! [`FAILURE_KEPT`] after a failure: clients that begin logins cause few requests to the provider.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::OpenIdError;
use crate::discovery::{self, Discovery};
use crate::id_token::{Expected, UnprovenToken};
use crate::keys::KeySet;
use crate::login::{LoginAnswer, LoginSecret, authorization_address, encoded, form, shown};

/// Time for which documents are used, s.
const DOCUMENTS_KEPT: u64 = 3600;
/// Least time between two readings of the keys because of an unknown key, s.
const KEYS_KEPT: u64 = 10;
/// Time after a failed reading without another attempt, s.
const FAILURE_KEPT: u64 = 5;
/// Most groups of an account that are used.
const GROUPS_MAX: usize = 256;

/// A request to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRequest {
    /// The address.
    pub address: String,
    /// The value of `Authorization`.
    pub authorization: Option<String>,
    /// The form of a POST; `None`: a GET.
    pub form: Option<String>,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The port to the outside: requests and random bits. Both calls may block.
pub trait ProviderPort: Send + Sync {
    /// Makes a request; over TLS, only to a server that this machine trusts. The length of an answer is bounded.
    ///
    /// # Errors
    /// The reason why there is no answer.
    fn ask(&self, request: &ProviderRequest) -> Result<ProviderAnswer, String>;

    /// 256 random bits as 43 characters of base64url.
    ///
    /// # Errors
    /// The system has no random bits.
    fn random_text(&self) -> Result<String, String>;
}

/// The settings of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// URL of the issuer.
    pub issuer: String,
    /// The client identifier of this server at the provider.
    pub client: String,
    /// The client secret, if there is one.
    pub secret: Option<String>,
    /// Scopes of the request, `openid` among them.
    pub scopes: String,
    /// The claim with an account's name.
    pub name_claim: String,
    /// The claim with an account's groups.
    pub groups_claim: Option<String>,
}

/// A user that the provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    /// Issuer and subject: they identify one user for ever.
    pub subject: String,
    /// The account's name.
    pub name: String,
    /// The groups; `None`: the settings name no claim of groups.
    pub groups: Option<Vec<String>>,
}

/// A provider of logins.
#[derive(Clone)]
pub struct Provider {
    settings: Arc<ProviderSettings>,
    port: Arc<dyn ProviderPort>,
    documents: Arc<Mutex<Documents>>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.settings.issuer).finish()
    }
}

/// The documents of the last reading.
#[derive(Default)]
struct Documents {
    read: Option<(Discovery, KeySet, u64)>,
    failed: Option<(OpenIdError, u64)>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
    error_description: Option<String>,
}

impl Provider {
    /// A provider; makes no request yet.
    #[must_use]
    pub fn new(settings: ProviderSettings, port: Arc<dyn ProviderPort>) -> Self {
        Self { settings: Arc::new(settings), port, documents: Arc::default() }
    }

    /// The provider's host name, for display.
    #[must_use]
    pub fn host(&self) -> &str {
        let issuer = self.settings.issuer.as_str();
        let rest = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }

    /// Begins a login at `now` (seconds since 1970) that returns to `callback`. Returns the login's secret, and the address of
    /// the provider's page.
    ///
    /// # Errors
    /// The provider cannot be used now.
    pub fn begin(&self, callback: &str, now: u64) -> Result<(LoginSecret, String), OpenIdError> {
        let (discovery, _) = self.documents(now, DOCUMENTS_KEPT)?;
        let text = self.port.random_text().map_err(OpenIdError::Unreached)?;
        let secret = LoginSecret::parse(&text).ok_or_else(|| OpenIdError::Unreached("no random bytes".to_owned()))?;
        let words = (self.settings.client.as_str(), self.settings.scopes.as_str(), callback);
        let address = authorization_address(&discovery.authorization_endpoint, &secret, words);
        Ok((secret, address))
    }

    /// The identity that the answer to a login proves.
    ///
    /// # Errors
    /// The answer proves no identity.
    pub fn finish(
        &self,
        secret: &LoginSecret,
        answer: &LoginAnswer,
        (callback, now): (&str, u64),
    ) -> Result<UserIdentity, OpenIdError> {
        let code = answer.code_for(secret, &self.settings.issuer)?;
        let (discovery, mut keys) = self.documents(now, DOCUMENTS_KEPT)?;
        let tokens = self.redeem(&discovery, secret, (code, callback))?;
        let token = UnprovenToken::read(&tokens.id_token)?;
        if !token.has_key_in(&keys) {
            keys = self.documents(now, KEYS_KEPT)?.1;
        }
        let nonce = secret.nonce();
        let expected = Expected { issuer: &self.settings.issuer, client: &self.settings.client, nonce: &nonce, now };
        let mut claims = token.proven(&keys, &expected)?;
        self.add_user_info(&discovery, tokens.access_token.as_deref(), &mut claims)?;
        self.identity(&claims)
    }

    /// Redeems the code for tokens (Core §3.1.3).
    fn redeem(
        &self,
        discovery: &Discovery,
        secret: &LoginSecret,
        (code, callback): (&str, &str),
    ) -> Result<TokenAnswer, OpenIdError> {
        let (client, verifier) = (self.settings.client.as_str(), secret.verifier());
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", callback),
            ("code_verifier", &verifier),
        ];
        let mut authorization = None;
        match &self.settings.secret {
            // RFC 6749 §2.3.1: client identifier and secret are form-encoded first.
            Some(shared) if !discovery.wants_secret_in_body() => {
                let both = format!("{}:{}", encoded(client), encoded(shared));
                authorization = Some(format!("Basic {}", STANDARD.encode(both)));
            }
            Some(shared) => fields.extend([("client_id", client), ("client_secret", shared)]),
            None => fields.push(("client_id", client)),
        }
        let request =
            ProviderRequest { address: discovery.token_endpoint.clone(), authorization, form: Some(form(&fields)) };
        let answer = self.port.ask(&request).map_err(OpenIdError::Unreached)?;
        if answer.status != 200 {
            let refusal: Option<ErrorAnswer> = serde_json::from_slice(&answer.body).ok();
            return Err(OpenIdError::Refused(refusal.map_or_else(
                || format!("{} answers {}", request.address, answer.status),
                |ErrorAnswer { error, error_description }| match error_description {
                    Some(words) => shown(&format!("{error}: {words}")),
                    None => shown(&error),
                },
            )));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|error| OpenIdError::Document("the answer to the code", error.to_string()))
    }

    /// Adds claims that the ID token lacks from the UserInfo endpoint (Core §5.3), if its subject is the same.
    fn add_user_info(
        &self,
        discovery: &Discovery,
        access_token: Option<&str>,
        claims: &mut Map<String, Value>,
    ) -> Result<(), OpenIdError> {
        let wanted = [Some(&self.settings.name_claim), self.settings.groups_claim.as_ref()];
        let lacks = wanted.into_iter().flatten().any(|name| !claims.contains_key(name));
        let Some((address, token)) = discovery.userinfo_endpoint.as_ref().zip(access_token).filter(|_| lacks) else {
            return Ok(());
        };
        let authorization = Some(format!("Bearer {token}"));
        let more: Map<String, Value> = self.read(
            "the account of the user",
            &ProviderRequest { address: address.clone(), authorization, form: None },
        )?;
        if more.get("sub") != claims.get("sub") {
            return Err(OpenIdError::Document("the account of the user", "it is another user's (`sub`)".to_owned()));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn identity(&self, claims: &Map<String, Value>) -> Result<UserIdentity, OpenIdError> {
        let claim = &self.settings.name_claim;
        let unfit = |reason| OpenIdError::Claim(claim.clone(), reason);
        let name = claims.get(claim).and_then(Value::as_str).ok_or_else(|| unfit("there is no text in it"))?;
        if claim == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err(unfit("the provider has not verified the address (`email_verified`)"));
        }
        let groups = self.settings.groups_claim.as_ref().map(|claim| match claims.get(claim) {
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(one)) => vec![one.clone()],
            _ => Vec::new(),
        });
        let groups = groups.map(|groups: Vec<String>| groups.into_iter().take(GROUPS_MAX).collect());
        let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        Ok(UserIdentity { subject: format!("{} {subject}", self.settings.issuer), name: name.to_owned(), groups })
    }

    /// The provider's documents, at most `age_max` seconds old.
    fn documents(&self, now: u64, age_max: u64) -> Result<(Discovery, KeySet), OpenIdError> {
        let mut known = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        let is_young = |at: u64, age: u64| now.saturating_sub(at) < age;
        if let Some((discovery, keys, _)) = known.read.as_ref().filter(|(.., at)| is_young(*at, age_max)) {
            return Ok((discovery.clone(), keys.clone()));
        }
        if let Some((error, _)) = known.failed.as_ref().filter(|(_, at)| is_young(*at, FAILURE_KEPT)) {
            return Err(error.clone());
        }
        match self.read_documents() {
            Ok((discovery, keys)) => {
                *known = Documents { read: Some((discovery.clone(), keys.clone(), now)), failed: None };
                Ok((discovery, keys))
            }
            Err(error) => {
                known.failed = Some((error.clone(), now));
                Err(error)
            }
        }
    }

    fn read_documents(&self) -> Result<(Discovery, KeySet), OpenIdError> {
        let issuer = &self.settings.issuer;
        let discovery = Discovery::read(&self.body(&plain(discovery::address(issuer)))?, issuer)?;
        let keys = KeySet::read(&self.body(&plain(discovery.jwks_uri.clone()))?)?;
        Ok((discovery, keys))
    }

    fn read<T: serde::de::DeserializeOwned>(
        &self,
        name: &'static str,
        request: &ProviderRequest,
    ) -> Result<T, OpenIdError> {
        let body = self.body(request)?;
        serde_json::from_slice(&body).map_err(|error| OpenIdError::Document(name, error.to_string()))
    }

    /// The body of an answer with status 200.
    fn body(&self, request: &ProviderRequest) -> Result<Vec<u8>, OpenIdError> {
        let answer = self.port.ask(request).map_err(OpenIdError::Unreached)?;
        match answer.status {
            200 => Ok(answer.body),
            status => Err(OpenIdError::Unreached(format!("{} answers {status}", request.address))),
        }
    }
}

fn plain(address: String) -> ProviderRequest {
    ProviderRequest { address, authorization: None, form: None }
}
