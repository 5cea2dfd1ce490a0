//! The principal of a request, and its permit.
//!
//! Promise: a program on this machine is one that no proxy speaks for, and that names this machine; a browser's page of
//! another origin never writes (CSRF). Not here: judging (`service::access`).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_types::header::{AUTHORIZATION, FORWARDED, HOST, ORIGIN, VIA};
use http_types::{HeaderMap, Method, StatusCode};
use service::access::{Denied, PathRight, Permit, Principal, RightKind, ServerRight, ToAdminister};
use service::accounts::Right;
use service::contents::ContentPath;

use crate::exchange::Exchange;
use crate::message::authority::{RequestHost, host};
use crate::message::reply::Reply;
use crate::problem;

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

/// The permit that `judge` gives: without a login if that is enough, else after the login that the request carries. The name of the
/// account goes to the access log.
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
    let denied = match judge(&without_login(headers, peer, exchange.local.ip())) {
        Ok(permit) => return Ok(permit),
        Err(denied) => denied,
    };
    let (Denied::UserNeeded(_), Some((name, password))) = (denied, basic_credentials(headers)) else {
        return Err(problem::of_denied(denied));
    };
    match service.login(&name, &password, peer).await {
        Ok(principal) => {
            let permit = judge(&principal).map_err(problem::of_denied)?;
            exchange.note_user(permit.user());
            Ok(permit)
        }
        Err(error) => Err(problem::of_login(error).unwrap_or_else(|| problem::of_denied(denied))),
    }
}

/// `Authorization: Basic …`, decoded.
fn basic_credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// The principal of a request without login: this machine, if the request is from there to there, under its loopback name,
/// not through a proxy.
fn without_login(headers: &HeaderMap, peer: IpAddr, local: IpAddr) -> Principal {
    if !is_loopback(peer) || !is_loopback(local) {
        return Principal::Remote("are accepted from this machine only");
    }
    let proxied =
        headers.keys().any(|name| *name == FORWARDED || *name == VIA || name.as_str().starts_with("x-forwarded-"));
    if proxied {
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
    fn basic_credentials_are_decoded() {
        let read = |value| basic_credentials(&headers(&[("authorization", value)]));
        assert_eq!(read("Basic YWRhOnA6cQ=="), Some(("ada".to_owned(), "p:q".to_owned())));
        assert_eq!(read("basic YWRhOnA6cQ=="), Some(("ada".to_owned(), "p:q".to_owned())));
        for value in ["Bearer x", "Basic", "Basic ???", "Basic YWRh", "Basic /w=="] {
            assert_eq!(read(value), None, "{value}");
        }
    }
}
