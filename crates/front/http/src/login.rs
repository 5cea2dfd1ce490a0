//! The principal of a request, and its permit: a signed link, no login, a password (Basic), a token (Bearer).
//!
//! Promise: a password is taken over an encrypted connection or from this machine only, unless the settings say otherwise; a program on this machine is one that no proxy speaks for, and that names this machine; a browser's page of
//! another origin never writes (CSRF). Not here: judging (`service::access`).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_types::header::{AUTHORIZATION, FORWARDED, HOST, ORIGIN, VIA};
use http_types::{HeaderMap, Method, StatusCode};
use service::access::{Denied, PathRight, Permit, Principal, RightKind, ServerRight, ToAdminister};
use service::accounts::Right;
use service::contents::ContentPath;
use service::logins::TOKEN_PREFIX;

use crate::exchange::Exchange;
use crate::message::authority::{RequestHost, host};
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

/// A permit for the right `R` over the whole server.
///
/// # Errors
/// The answer to a client that has no such right.
pub(crate) async fn permit_server<R: ServerRight>(exchange: &Exchange) -> Result<Permit<R>, Reply> {
    let service = &exchange.shared.service;
    judged(exchange, R::RIGHT, |principal| service.permit_server(principal)).await
}

/// A permit for a `POST`, which steers the server.
pub(crate) async fn permit_post(exchange: &Exchange) -> Result<Permit<ToAdminister>, Reply> {
    if exchange.head.method != Method::POST {
        return Err(problem::not_allowed("POST"));
    }
    permit_server(exchange).await
}

/// The permit that `judge` gives: by the signed link in the query, else without a login if that is enough, else after the login that the
/// request carries. The name of the account goes to the access log.
async fn judged<R: RightKind>(
    exchange: &Exchange,
    right: Right,
    judge: impl Fn(&Principal) -> Result<Permit<R>, Denied>,
) -> Result<Permit<R>, Reply> {
    let (service, headers) = (&exchange.shared.service, &exchange.head.headers);
    if right != Right::Read && is_cross_origin(headers) {
        let detail = "a page of another origin may not write here";
        return Err(Reply::problem(StatusCode::FORBIDDEN, detail));
    }
    let peer = exchange.peer.ip();
    let first = match share::text(&exchange.head)? {
        Some(text) => service.login_by_link(&text, peer).map_err(|error| problem::of_link(&error))?,
        None => without_login(headers, exchange.socket_peer, exchange.local.ip()),
    };
    let denied = match judge(&first) {
        Ok(permit) => {
            if let Some(link) = permit.link() {
                exchange.note_user(Some(&format!("link:{}", link.id)));
            }
            return Ok(permit);
        }
        Err(denied) => denied,
    };
    let credentials = match denied {
        Denied::UserNeeded(_) | Denied::NotByLink(_) => credentials(headers),
        Denied::NoWriters | Denied::LocalOnly(..) | Denied::NoRight(_) => None,
    };
    let principal = match credentials {
        None => return Err(refused(exchange, denied)),
        Some(Credentials::Token(text)) => {
            let login = service.login_by_token(&text);
            login.map_err(|error| problem::of_token(&error))?
        }
        Some(Credentials::Password(..)) if !takes_passwords(exchange) => {
            let detail = "passwords are taken over TLS, or from this machine; `access.plain_passwords = true` permits \
                          them without (tokens need no such permission)";
            return Err(Reply::problem(StatusCode::FORBIDDEN, detail));
        }
        Some(Credentials::Password(name, password)) => match service.login(&name, &password, peer).await {
            Ok(principal) => principal,
            Err(error) => return Err(problem::of_login(error).unwrap_or_else(|| refused(exchange, denied))),
        },
    };
    if let Principal::Account(account) = &principal {
        exchange.note_user(Some(account.name()));
    }
    judge(&principal).map_err(|denied| refused(exchange, denied))
}

/// The answer to a client that may not do that, with the logins that it may try.
fn refused(exchange: &Exchange, denied: Denied) -> Reply {
    problem::of_denied(denied, takes_passwords(exchange))
}

/// True if nobody on the way can read a password.
fn takes_passwords(exchange: &Exchange) -> bool {
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
}

/// `Authorization`: `Basic` with a name and a password, or `Bearer` with a token. A token may also be the password of its account's name:
/// programs that know Basic alone use it so.
fn credentials(headers: &HeaderMap) -> Option<Credentials> {
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

fn is_proxied(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| *name == FORWARDED || *name == VIA || name.as_str().starts_with("x-forwarded-"))
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
fn is_cross_origin(headers: &HeaderMap) -> bool {
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
        let read = |value| credentials(&headers(&[("authorization", value)]));
        let ada = Credentials::Password("ada".to_owned(), "p:q".to_owned());
        assert_eq!(read("Basic YWRhOnA6cQ=="), Some(ada));
        assert_eq!(read("bearer  x"), Some(Credentials::Token("x".to_owned())));
        let token = format!("Basic {}", STANDARD.encode(format!("ada:{TOKEN_PREFIX}x")));
        let map = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&token).expect("ASCII"))]);
        assert_eq!(credentials(&map), Some(Credentials::Token(format!("{TOKEN_PREFIX}x"))));
        for value in ["Bearer", "Basic", "Basic ???", "Basic YWRh", "Basic /w==", "Digest x"] {
            assert_eq!(read(value), None, "{value}");
        }
    }
}
