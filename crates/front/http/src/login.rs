//! The principal of a request, and its permit: a signed link, no login, a password (Basic), a token (Bearer), a browser's login (cookie).
//!
//! Promise: a password is taken over an encrypted connection or from this machine only, unless the settings say otherwise; a program on
//! this machine has no proxy that speaks for it, and that names this machine; a browser's page of another origin never writes, and a cookie
//! counts where something is changed only if a page of this origin sent the request (CSRF). Not here: judging (`service::access`).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_types::header::{AUTHORIZATION, FORWARDED, HOST, ORIGIN, VIA};
use http_types::{HeaderMap, Method, StatusCode};
use service::access::{Denied, OwnPermit, PathRight, Permit, Principal, RightKind, ServerRight, ToSeeBudgets};
use service::accounts::Right;
use service::budget_use::{self, count_request};
use service::contents::ContentPath;
use service::logins::{LoginError, TOKEN_PREFIX};
use service::trash;

use crate::exchange::Exchange;
use crate::message::authority::{RequestHost, host};
use crate::message::cookie::cookie;
use crate::message::reply::Reply;
use crate::{problem, share};

/// A permit for the right `R` over `path`.
///
/// # Errors
/// The answer to a client that has no such right.
pub(crate) async fn permit<R: PathRight>(exchange: &Exchange, path: &ContentPath) -> Result<Permit<R>, Reply> {
    let service = &exchange.shared.service;
    judged(exchange, R::RIGHT, |principal| service.permit(principal, path)).await
}

/// A permit for the right `R` over the path that an item of the trash may have had, before a look at one gives its path.
///
/// # Errors
/// The answer to a client that has the right nowhere.
pub(crate) async fn permit_trash<R: PathRight>(exchange: &Exchange) -> Result<Permit<R>, Reply> {
    let service = &exchange.shared.service;
    uncounted(exchange, R::RIGHT, |principal| trash::permit(service, principal)).await
}

/// A permit for the right `R` over the whole server.
///
/// # Errors
/// The answer to a client that has no such right.
pub(crate) async fn permit_server<R: ServerRight>(exchange: &Exchange) -> Result<Permit<R>, Reply> {
    let service = &exchange.shared.service;
    judged(exchange, R::RIGHT, |principal| service.permit_server(principal)).await
}

/// A permit to see budgets.
///
/// # Errors
/// The answer to a client that has no login.
pub(crate) async fn permit_budgets(exchange: &Exchange) -> Result<Permit<ToSeeBudgets>, Reply> {
    let service = &exchange.shared.service;
    judged(exchange, Right::Read, |principal| budget_use::permit(service, principal)).await
}

/// A permit for an account's own credentials.
///
/// # Errors
/// The answer to a client that has no login.
pub(crate) async fn permit_own(exchange: &Exchange) -> Result<OwnPermit, Reply> {
    let principal = principal(exchange).await?;
    exchange.shared.service.permit_own(&principal).map_err(|denied| refused(exchange, denied, &principal))
}

/// The principal that the login of the request proves; without one, where it comes from.
///
/// # Errors
/// The answer to a login that is wrong.
pub(crate) async fn principal(exchange: &Exchange) -> Result<Principal, Reply> {
    match credentials(exchange) {
        None => Ok(without_login(&exchange.head.headers, exchange.socket_peer, exchange.local.ip())),
        Some(credentials) => {
            let wrong = || problem::of_login(LoginError::Wrong, challenges_passwords(exchange));
            proven(exchange, credentials).await?.ok_or_else(wrong)
        }
    }
}

/// As [`uncounted`], if the budgets that the permit is charged to admit one more request.
async fn judged<R: RightKind>(
    exchange: &Exchange,
    right: Right,
    judge: impl Fn(&Principal) -> Result<Permit<R>, Denied>,
) -> Result<Permit<R>, Reply> {
    let permit = uncounted(exchange, right, judge).await?;
    let service = &exchange.shared.service;
    count_request(service, &permit, exchange.client())?;
    Ok(permit)
}

/// The permit that `judge` gives: by the signed link in the query, else without a login if that is enough, else after the login that the
/// request carries. The name of the account goes to the access log.
async fn uncounted<R: RightKind>(
    exchange: &Exchange,
    right: Right,
    judge: impl Fn(&Principal) -> Result<Permit<R>, Denied>,
) -> Result<Permit<R>, Reply> {
    let (service, headers) = (&exchange.shared.service, &exchange.head.headers);
    if right != Right::Read && is_cross_origin(headers) {
        return Err(other_origin());
    }
    let peer = exchange.peer.ip();
    let with_judgement = |principal: Principal| (judge(&principal), principal);
    let (judgement, first) = match share::text(&exchange.head)? {
        Some(text) => with_judgement(service.credentials.by_link(&text, peer).map_err(|error| {
            exchange.tell_refused(None, &error.to_string());
            problem::of_link(&error)
        })?),
        // It reads with the budgets of its account, also where no login is needed.
        None => without_password(exchange)
            .map(with_judgement)
            .filter(|(judgement, _)| judgement.is_ok())
            .unwrap_or_else(|| with_judgement(without_login(headers, exchange.socket_peer, exchange.local.ip()))),
    };
    let denied = match judgement {
        Ok(permit) => {
            let own = with_password(exchange, &first).await.and_then(|account| judge(&account).ok());
            let permit = own.unwrap_or(permit);
            exchange.note_user(permit.holder());
            return Ok(permit);
        }
        Err(denied) => denied,
    };
    let credentials = match denied {
        Denied::UserNeeded(_) | Denied::NotByLink(_) => credentials(exchange),
        Denied::NoWriters | Denied::LocalOnly(..) | Denied::NoRight(_) | Denied::ByToken => None,
    };
    let Some(credentials) = credentials else { return Err(refused(exchange, denied, &first)) };
    let principal = proven(exchange, credentials).await?.ok_or_else(|| refused(exchange, denied, &first))?;
    judge(&principal).map_err(|denied| refused(exchange, denied, &principal))
}

/// The account of a valid token or login of a browser that the request carries.
fn without_password(exchange: &Exchange) -> Option<Principal> {
    let service = &exchange.shared.service;
    match credentials(exchange)? {
        Credentials::Token(text) => service.credentials.by_token(&text).ok(),
        Credentials::Browser(text) => service.credentials.by_browser(&text).ok().map(|(_, principal)| principal),
        Credentials::Password(..) => None,
    }
}

/// The account whose right password a request carries that needs none. With a wrong one it stays a request without login.
async fn with_password(exchange: &Exchange, first: &Principal) -> Option<Principal> {
    if !matches!(first, Principal::Local | Principal::Remote(_)) || !takes_passwords(exchange) {
        return None;
    }
    let Credentials::Password(name, password) = credentials(exchange)? else { return None };
    exchange.shared.service.credentials.by_password(&name, &password, exchange.peer.ip()).await.ok()
}

/// The account that the credentials prove; none: the login of a browser that has ended. Its name goes to the access log.
///
/// # Errors
/// The answer where they are wrong, or that cannot be found out.
async fn proven(exchange: &Exchange, credentials: Credentials) -> Result<Option<Principal>, Reply> {
    let service = &exchange.shared.service;
    let principal = match credentials {
        Credentials::Token(text) => service.credentials.by_token(&text).map_err(|error| {
            exchange.tell_refused(None, &error.to_string());
            problem::of_token(&error)
        })?,
        Credentials::Browser(text) => match service.credentials.by_browser(&text) {
            Ok((_, principal)) => principal,
            Err(_) => return Ok(None),
        },
        Credentials::Password(..) if !takes_passwords(exchange) => return Err(password_refused(exchange)),
        Credentials::Password(name, password) => {
            let login = service.credentials.by_password(&name, &password, exchange.peer.ip()).await;
            login.map_err(|error| problem::of_login(error, challenges_passwords(exchange)))?
        }
    };
    exchange.note_user(principal.name());
    Ok(Some(principal))
}

/// The answer to a page of another origin.
pub(crate) fn other_origin() -> Reply {
    Reply::problem(StatusCode::FORBIDDEN, "a page of another origin may not write here")
}

/// The answer to a password where none is taken.
pub(crate) fn password_refused(exchange: &Exchange) -> Reply {
    let detail = "passwords are taken over TLS, or from this machine; `access.plain_passwords = true` permits them without \
                  (tokens need no such permission)";
    exchange.tell_refused(None, detail);
    Reply::problem(StatusCode::FORBIDDEN, detail)
}

/// The answer to a principal that may not do that, with the logins that its client may try. A client that sent a login, token or link is
/// logged.
fn refused(exchange: &Exchange, denied: Denied, principal: &Principal) -> Reply {
    if let Some(user) = principal.name() {
        exchange.tell_refused(Some(user), &denied.to_string());
    }
    problem::of_denied(denied, challenges_passwords(exchange))
}

/// True if a client may be challenged for a password. The page has a form of its own, and a browser would show another.
fn challenges_passwords(exchange: &Exchange) -> bool {
    takes_passwords(exchange) && !exchange.head.headers.contains_key(PAGE_FIELD)
}

/// True if no program on the way can read a password.
pub(crate) fn takes_passwords(exchange: &Exchange) -> bool {
    let headers = &exchange.head.headers;
    exchange.is_sealed
        || exchange.shared.config().plain_passwords
        || (is_loopback(exchange.socket_peer) && !is_proxied(headers))
}

/// Proof of an account.
#[derive(Debug, PartialEq, Eq)]
enum Credentials {
    Password(String, String),
    Token(String),
    Browser(String),
}

/// A field that pages of this origin send: pages of others cannot without its leave (Fetch's CORS), and have none.
const PAGE_FIELD: &str = "x-isocast-page";

/// Name of the cookie with a browser's login.
pub(crate) const fn cookie_name(exchange: &Exchange) -> &'static str {
    if exchange.is_sealed { "__Host-isocast" } else { "isocast" }
}

/// The text of the login that the request's cookie carries.
pub(crate) fn cookie_text(exchange: &Exchange) -> Option<String> {
    cookie(&exchange.head.headers, cookie_name(exchange)).map(str::to_owned)
}

/// The credentials of a request: its `Authorization`, else its cookie, which counts for reads, and for what a page of this origin sends.
fn credentials(exchange: &Exchange) -> Option<Credentials> {
    let head = &exchange.head;
    if head.headers.contains_key(AUTHORIZATION) {
        return authorization(&head.headers);
    }
    let reads = head.method == Method::GET || head.method == Method::HEAD;
    let counts = reads || head.headers.contains_key(PAGE_FIELD);
    cookie_text(exchange).filter(|_| counts).map(Credentials::Browser)
}

/// `Authorization`: `Basic` with a name and a password, or `Bearer` with a token. A token may also be the password of its account's name:
/// programs that know Basic alone use it so.
fn authorization(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Token(encoded.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    if password.starts_with(TOKEN_PREFIX) {
        return Some(Credentials::Token(password.to_owned()));
    }
    Some(Credentials::Password(name.to_owned(), password.to_owned()))
}

/// Fields by which proxies name their client, in addition to `Forwarded`, `X-Forwarded-…` and `Via`.
const CLIENT_FIELDS: [&str; 5] =
    ["x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip", "x-envoy-external-address"];

fn is_proxied(headers: &HeaderMap) -> bool {
    let is_of_proxy = |name: &str| name.starts_with("x-forwarded-") || CLIENT_FIELDS.contains(&name);
    headers.keys().any(|name| *name == FORWARDED || *name == VIA || is_of_proxy(name.as_str()))
}

/// The principal of a request without login: this machine, if the request is from there to there, under its loopback name,
/// not through a proxy.
fn without_login(headers: &HeaderMap, peer: IpAddr, local: IpAddr) -> Principal {
    if !is_loopback(peer) || !is_loopback(local) {
        return Principal::Remote("are accepted from this machine only");
    }
    if is_proxied(headers) {
        return Principal::Remote("through a proxy are refused");
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A foreign name that resolves to 127.0.0.1 is a page's trick to reach this server (DNS rebinding).
    if is_loopback_name(host) { Principal::Local } else { Principal::Remote("need a loopback name in Host") }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// `localhost`, `127.x.y.z` or `[::1]`, with or without a port.
pub(crate) fn is_loopback_name(authority: &str) -> bool {
    match host(authority) {
        Some(RequestHost::Name(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(RequestHost::Address(address)) => is_loopback(address),
        None => false,
    }
}

/// True if a browser says that the page which writes is of another origin.
pub(crate) fn is_cross_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = headers.get(HOST).map(http_types::HeaderValue::as_bytes).unwrap_or_default();
    let origin = origin.as_bytes();
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_types::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn without_users_only_this_machine_writes() {
        let here: IpAddr = "127.0.0.1".parse().expect("an address");
        let there: IpAddr = "192.0.2.1".parse().expect("an address");
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().expect("an address");
        let is_local = |headers: &HeaderMap, peer, local| without_login(headers, peer, local) == Principal::Local;
        let local = |fields: &[(&'static str, &'static str)], peer| is_local(&headers(fields), peer, here);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:80", "127.9.9.9"] {
            assert!(!local(&[], here), "no Host");
            let host = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            assert!(is_local(&host, here, here), "{host:?}");
        }
        assert!(local(&[("host", "localhost")], mapped));
        assert!(!local(&[("host", "localhost")], there));
        assert!(!local(&[("host", "media.example")], here), "DNS rebinding");
        assert!(!local(&[("host", "localhost.evil.example")], here));
        for host in ["[::1]evil.example", "127.0.0.1:80.evil.example", "localhost:evil"] {
            assert!(!local(&[("host", host)], here), "{host} is no authority");
        }
        assert!(!local(&[("host", "localhost"), ("x-forwarded-for", "192.0.2.1")], here));
        assert!(!local(&[("host", "localhost"), ("x-forwarded-host", "a")], here));
        assert!(!local(&[("host", "localhost"), ("x-real-ip", "192.0.2.1")], here), "as nginx is often told");
        assert!(!local(&[("host", "localhost"), ("forwarded", "for=x")], here));
        assert!(!local(&[("host", "localhost"), ("via", "1.1 proxy")], here));
        assert!(!is_local(&headers(&[("host", "localhost")]), here, there));
    }

    #[test]
    fn pages_of_other_origins_do_not_write() {
        let cross = |origin| is_cross_origin(&headers(&[("host", "localhost:8080"), ("origin", origin)]));
        assert!(!is_cross_origin(&headers(&[("host", "localhost:8080")])));
        assert!(!cross("http://localhost:8080"));
        assert!(cross("http://evil.example"));
        assert!(cross("http://localhost:9090"));
        assert!(cross("null"));
    }

    #[test]
    fn credentials_are_decoded() {
        let read = |value| authorization(&headers(&[("authorization", value)]));
        let ada = Credentials::Password("ada".to_owned(), "p:q".to_owned());
        assert_eq!(read("Basic YWRhOnA6cQ=="), Some(ada));
        assert_eq!(read("bearer  x"), Some(Credentials::Token("x".to_owned())));
        let token = format!("Basic {}", STANDARD.encode(format!("ada:{TOKEN_PREFIX}x")));
        let map = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&token).expect("ASCII"))]);
        assert_eq!(authorization(&map), Some(Credentials::Token(format!("{TOKEN_PREFIX}x"))));
        for value in ["Bearer", "Basic", "Basic ???", "Basic YWRh", "Basic /w==", "Digest x"] {
            assert_eq!(read(value), None, "{value}");
        }
    }
}
