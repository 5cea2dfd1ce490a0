//! Who may write.
//!
//! Promise: without users, only programs on this machine that no proxy speaks for; a browser's page of another origin
//! never (CSRF). Not here: reads, which are open to all who reach the server.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, FORWARDED, HOST, ORIGIN, VIA, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;

use crate::config::Config;

use crate::message::reply::Reply;
use crate::router::Exchange;
use crate::shared::lock;

/// A verified login is not verified again for so long.
const REMEMBERED_TIME: Duration = Duration::from_secs(300);
/// Verified logins remembered at once.
const REMEMBERED_MAX: usize = 1024;

/// Lets a write pass, with the user's name if there is one.
pub(crate) async fn may_write(exchange: &Exchange) -> Result<Option<String>, Reply> {
    let headers = &exchange.head.headers;
    if is_cross_origin(headers) {
        let detail = "a page of another origin may not write here";
        return Err(Reply::problem(StatusCode::FORBIDDEN, detail));
    }
    if exchange.shared.config().users.is_empty() {
        return local_only(headers, exchange.peer.ip(), exchange.local.ip())
            .map(|()| None)
            .map_err(|reason| Reply::problem(StatusCode::FORBIDDEN, reason));
    }
    match basic_credentials(headers) {
        Some((name, password)) if exchange.shared.logins.verify(&exchange.shared.config(), &name, &password).await => {
            Ok(Some(name))
        }
        _ => Err(Reply::problem(StatusCode::UNAUTHORIZED, "writes need a user's name and password (Basic)")
            .field(WWW_AUTHENTICATE, "Basic realm=\"isocast\", charset=\"UTF-8\"")),
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

/// Verified logins, remembered for a while: argon2 is slow on purpose, and a player that records sends many PUTs.
pub(crate) struct Logins {
    /// Keyed hashes of what was verified, and until when. Two independent 64-bit hashes: no password is kept.
    verified: Mutex<HashMap<(u64, u64), Instant>>,
    keys: (RandomState, RandomState),
    /// Verifications at once: guessing must not take all processors.
    verifying: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Self { verified: Mutex::default(), keys: Default::default(), verifying: Semaphore::new(1) }
    }
}

impl Logins {
    async fn verify(&self, config: &Config, name: &str, password: &str) -> bool {
        let Some(user) = config.users.iter().find(|user| user.name == name) else { return false };
        let secret = (&user.name, &user.password_hash, password);
        let key = (self.keys.0.hash_one(secret), self.keys.1.hash_one(secret));
        let now = Instant::now();
        if lock(&self.verified).get(&key).is_some_and(|until| *until > now) {
            return true;
        }
        let Ok(_permit) = self.verifying.acquire().await else { return false };
        let (hash, password) = (user.password_hash.clone(), password.to_owned());
        let verification = tokio::task::spawn_blocking(move || {
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        let valid = verification.await.unwrap_or(false);
        if valid {
            let mut verified = lock(&self.verified);
            verified.retain(|_, until| *until > now);
            if verified.len() < REMEMBERED_MAX {
                verified.insert(key, now + REMEMBERED_TIME);
            }
        }
        valid
    }
}

/// Writes without login: from this machine to this machine, under its loopback name, not through a proxy.
fn local_only(headers: &HeaderMap, peer: IpAddr, local: IpAddr) -> Result<(), &'static str> {
    if !is_loopback(peer) || !is_loopback(local) {
        return Err("without configured users, writes are accepted from this machine only; configure a user");
    }
    let proxied =
        headers.keys().any(|name| *name == FORWARDED || *name == VIA || name.as_str().starts_with("x-forwarded-"));
    if proxied {
        return Err("without configured users, writes through a proxy are refused; configure a user");
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A foreign name that resolves to 127.0.0.1 is a page's trick to reach this server (DNS rebinding).
    if is_loopback_name(host) {
        Ok(())
    } else {
        Err("without configured users, writes need a loopback name in Host; configure a user")
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// `localhost`, `127.x.y.z` or `[::1]`, with or without a port.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(is_loopback)
}

/// True if a browser says that the page which writes is of another origin.
fn is_cross_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = headers.get(HOST).map(http::HeaderValue::as_bytes).unwrap_or_default();
    let origin = origin.as_bytes();
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn without_users_only_this_machine_writes() {
        let here: IpAddr = "127.0.0.1".parse().expect("an address");
        let there: IpAddr = "192.0.2.1".parse().expect("an address");
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().expect("an address");
        let local = |fields: &[(&'static str, &'static str)], peer| local_only(&headers(fields), peer, here).is_ok();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:80", "127.9.9.9"] {
            assert!(local_only(&headers(&[]), here, here).is_err(), "no Host");
            let host = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            assert!(local_only(&host, here, here).is_ok(), "{host:?}");
        }
        assert!(local(&[("host", "localhost")], mapped));
        assert!(!local(&[("host", "localhost")], there));
        assert!(!local(&[("host", "media.example")], here), "DNS rebinding");
        assert!(!local(&[("host", "localhost.evil.example")], here));
        assert!(!local(&[("host", "localhost"), ("x-forwarded-for", "192.0.2.1")], here));
        assert!(!local(&[("host", "localhost"), ("x-forwarded-host", "a")], here));
        assert!(!local(&[("host", "localhost"), ("forwarded", "for=x")], here));
        assert!(!local(&[("host", "localhost"), ("via", "1.1 proxy")], here));
        assert!(local_only(&headers(&[("host", "localhost")]), here, there).is_err());
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
