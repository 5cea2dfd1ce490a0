//! Logins of browsers by a provider of identities (OpenID Connect): `/login` leads to its page, and its page back to `/login/callback`.
//!
//! Promise: between both steps the browser alone keeps the login's secret, in a cookie; an answer without that cookie logs no browser in,
//! so that no other site can log one in as another user; few logins wait for the provider at once. Not here: what an answer
//! proves (`openid`), its account (`service::administration`).

use std::time::{Duration, SystemTime};

use http_types::header::{HOST, LOCATION, SET_COOKIE, USER_AGENT};
use http_types::{Method, StatusCode};
use openid::{LoginAnswer, LoginSecret, OpenIdError, Provider};
use service::access::Principal;
use service::account_changes::ProvenIdentity;
use service::administration::{self, LOGIN_LIFE, WishError};
use service::events;

use super::session::{cookie as login_cookie, end_present};
use crate::config::OpenIdLogins;
use crate::exchange::Exchange;
use crate::login;
use crate::message::cookie::{cookie, set_cookie};
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::problem;

/// Path of the first step.
const BEGIN: &str = "/login";
/// Path of the second.
const CALLBACK: &str = "/login/callback";
/// Time for the user to log in at the provider, s.
const LOGIN_TIME_MAX: u32 = 600;
/// Longest wait for such a turn.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The answer at a path of these logins; none: it is another path, or there is no provider.
pub(crate) async fn answer(exchange: &Exchange) -> Option<Reply> {
    let path = exchange.head.path.as_str();
    if !matches!(path, BEGIN | CALLBACK) {
        return None;
    }
    let openid = exchange.shared.config().openid.clone()?;
    if exchange.head.method != Method::GET {
        return Some(problem::not_allowed("GET"));
    }
    let reply = if path == BEGIN { begin(exchange, openid).await } else { finish(exchange, openid).await };
    Some(reply.unwrap_or_else(|reply| reply).uncached())
}

async fn begin(exchange: &Exchange, openid: OpenIdLogins) -> Result<Reply, Reply> {
    if !login::takes_passwords(exchange) {
        return Err(login::password_refused(exchange));
    }
    let (callback, now) = (callback(exchange), now());
    let begun = asked(exchange, openid.provider, move |provider| provider.begin(&callback, now)).await?;
    let (secret, address) = begun.map_err(|error| failed(exchange, &error))?;
    let cookie = set_cookie(secret_cookie(exchange), secret.text(), LOGIN_TIME_MAX);
    Ok(Reply::empty(StatusCode::SEE_OTHER).field(LOCATION, address).field(SET_COOKIE, cookie))
}

/// The end of a login. However it ends, its secret is used.
async fn finish(exchange: &Exchange, openid: OpenIdLogins) -> Result<Reply, Reply> {
    let forgotten = set_cookie(secret_cookie(exchange), "", 0);
    match log_in(exchange, openid).await {
        Ok(reply) => Ok(reply.field(SET_COOKIE, forgotten)),
        Err(reply) => Err(reply.field(SET_COOKIE, forgotten)),
    }
}

async fn log_in(exchange: &Exchange, openid: OpenIdLogins) -> Result<Reply, Reply> {
    if !login::takes_passwords(exchange) {
        return Err(login::password_refused(exchange));
    }
    let secret = cookie(&exchange.head.headers, secret_cookie(exchange)).and_then(LoginSecret::parse);
    let secret = secret.ok_or_else(|| failed(exchange, &OpenIdError::OtherLogin))?;
    let (answer, callback, now) = (login_answer(exchange), callback(exchange), now());
    let finished =
        asked(exchange, openid.provider, move |provider| provider.finish(&secret, &answer, (&callback, now))).await?;
    let identity = finished.map_err(|error| failed(exchange, &error))?;
    let identity = ProvenIdentity {
        subject: identity.subject,
        name: identity.name,
        groups: identity.groups,
        may_add: openid.adds_users,
    };
    let service = &exchange.shared.service;
    let agent = exchange.head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let begun = administration::begin_proven_login(service, identity, agent).await;
    let text = begun.map_err(|error| refused(exchange, &error))?;
    end_present(exchange).await?;
    if let Ok((_, Principal::Account(account))) = service.credentials.by_browser(&text) {
        service.events.tell(events::login(account.name(), (exchange.peer.ip(), true), SystemTime::now()));
        exchange.note_user(Some(account.name()));
    }
    let cookie = login_cookie(exchange, &text, LOGIN_LIFE);
    Ok(Reply::empty(StatusCode::SEE_OTHER).field(LOCATION, "/").field(SET_COOKIE, cookie))
}

/// Queries the provider on a thread that may wait, in this login's turn.
async fn asked<T: Send + 'static>(
    exchange: &Exchange,
    provider: Provider,
    ask: impl FnOnce(&Provider) -> T + Send + 'static,
) -> Result<T, Reply> {
    let turn = tokio::time::timeout(WAIT_MAX, exchange.shared.provider_turns.acquire()).await;
    let _turn = turn.ok().and_then(Result::ok).ok_or_else(problem::busy)?;
    tokio::task::spawn_blocking(move || ask(&provider)).await.map_err(|_| problem::stopping())
}

/// The parameters by which the provider sent the browser back.
fn login_answer(exchange: &Exchange) -> LoginAnswer {
    let mut answer = LoginAnswer::default();
    let mut description = None;
    for (key, value) in pairs(exchange.head.query.as_deref()) {
        match key {
            "code" => answer.code = Some(value),
            "state" => answer.state = Some(value),
            "iss" => answer.issuer = Some(value),
            "error" => answer.error = Some(value),
            "error_description" => description = Some(value),
            _ => {}
        }
    }
    if let Some((error, words)) = answer.error.as_mut().zip(description) {
        *error = format!("{error}: {words}");
    }
    answer
}

/// The address to which the provider's page leads back: this server, by the name that the browser knows it by.
fn callback(exchange: &Exchange) -> String {
    let scheme = if exchange.is_sealed { "https" } else { "http" };
    let host = exchange.head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("{scheme}://{host}{CALLBACK}")
}

/// Name of the cookie with a login's secret.
const fn secret_cookie(exchange: &Exchange) -> &'static str {
    if exchange.is_sealed { "__Host-isocast-login" } else { "isocast-login" }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The answer to a failed login, which is logged.
fn failed(exchange: &Exchange, error: &OpenIdError) -> Reply {
    tell(exchange, &error.to_string());
    problem::of_openid(error)
}

/// The answer to a proven user who has no account.
fn refused(exchange: &Exchange, error: &WishError) -> Reply {
    tell(exchange, &error.to_string());
    problem::of_wish(error)
}

fn tell(exchange: &Exchange, reason: &str) {
    let event = events::provider_failed(reason, exchange.peer.ip(), SystemTime::now());
    exchange.shared.service.events.tell(event);
}
