//! OpenID Connect: the addresses, documents and signatures by which one provider proves the identity of a browser's user
//! (OpenID Connect Core 1.0 and Discovery 1.0, RFC 7636, RFC 9207).
//!
//! Promise: an identity comes from an ID token with a valid signature of the provider's keys, made for this client and for the login that
//! this very browser began; anything else is an error that names the part that is wrong. Nothing of a login is kept here between its
//! beginning and its end. Not here: requests to the provider and random bytes (the port [`ProviderPort`]), accounts (`service`).

mod discovery;
mod error;
mod id_token;
mod keys;
mod login;
mod provider;

pub use error::OpenIdError;
pub use login::{LoginAnswer, LoginSecret};
pub use provider::{Provider, ProviderAnswer, ProviderPort, ProviderRequest, ProviderSettings, UserIdentity};
