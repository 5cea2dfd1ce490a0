//! The names that this server goes by.
//!
//! Promise: a page of a site that lets its own name resolve to this server (DNS rebinding) reads nothing here: a name that another
//! host can have is no name of this server unless the settings say so. Not here: the rights of a program on this machine
//! (`login`), pages of other origins that use a right name (`cors`).

use std::net::IpAddr;

use http_types::StatusCode;
use http_types::header::{HOST, LOCATION};

use crate::config::HttpConfig;
use crate::exchange::Exchange;
use crate::login::is_loopback_name;
use crate::management::is_health;
use crate::message::authority::{RequestHost, host};
use crate::message::head::RequestHead;
use crate::message::reply::{Reply, location};

/// Top domains in which names cannot be registered: RFC 6761, RFC 6762, RFC 8375, ICANN's resolution of 2024-07-29, and the domain that
/// OpenWrt gives to its clients.
const PRIVATE_DOMAINS: [&str; 5] = [".localhost", ".local", ".home.arpa", ".internal", ".lan"];

/// Before the names of files that an authority looks at (RFC 8555 §8.3); it asks for them without TLS.
const PROOFS: &str = "/.well-known/acme-challenge/";

/// The file that an authority looks at.
pub(crate) fn proof(config: &HttpConfig, head: &RequestHead) -> Option<Reply> {
    let text = config.challenges.as_ref()?.file(head.path.strip_prefix(PROOFS)?)?;
    Some(Reply::with_body(StatusCode::OK, "application/octet-stream", text))
}

/// 421 where the request is for a name that is not this server's.
pub(crate) fn refusal(config: &HttpConfig, head: &RequestHead) -> Option<Reply> {
    let name = head.headers.get(HOST)?.to_str().ok()?;
    let Some(RequestHost::Name(name)) = host(name) else { return None };
    (!is_own(config, name)).then(|| {
        let detail = format!("this server does not go by the name `{name}`; add it to `access.hosts` if it does");
        Reply::problem(StatusCode::MISDIRECTED_REQUEST, detail)
    })
}

/// 308 to the same target by TLS where the settings want that. Programs on this machine that name it `localhost` and clients that ask for
/// its health are answered: their bytes pass no network, and monitors follow no redirect.
pub(crate) fn to_tls(config: &HttpConfig, exchange: &Exchange) -> Option<Reply> {
    let (port, head) = (config.redirect_to.filter(|_| !exchange.is_sealed)?, &exchange.head);
    let authority = head.headers.get(HOST)?.to_str().ok()?;
    if is_loopback_name(authority) || is_health(&head.path) || head.path.starts_with(PROOFS) {
        return None;
    }
    let host = match host(authority)? {
        RequestHost::Address(IpAddr::V6(address)) => format!("[{address}]"),
        RequestHost::Address(address) => address.to_string(),
        RequestHost::Name(name) => name.to_owned(),
    };
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let query = head.query.as_deref().map_or_else(String::new, |query| format!("?{query}"));
    let target = location(&format!("{}{query}", head.path));
    Some(Reply::empty(StatusCode::PERMANENT_REDIRECT).field(LOCATION, format!("https://{host}{port}{target}")))
}

/// True for names of the settings, and for those that cannot be registered: without a dot, or in a private domain.
fn is_own(config: &HttpConfig, name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    !name.contains('.')
        || PRIVATE_DOMAINS.iter().any(|domain| name.ends_with(domain))
        || config.hosts.iter().any(|own| own == "*" || own.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::head::parse_head;

    fn status(hosts: &[&str], host: &str) -> Option<StatusCode> {
        let config =
            HttpConfig { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..HttpConfig::default() };
        let head = parse_head(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        refusal(&config, &head.expect("a head").expect("a whole one")).map(|reply| reply.status)
    }

    #[test]
    fn names_that_others_can_register_are_misdirected() {
        let misdirected = Some(StatusCode::MISDIRECTED_REQUEST);
        for own in ["", "nas", "nas:8080", "localhost", "nas.local", "NAS.Home.Arpa.", "192.0.2.1", "[2001:db8::1]:80"]
        {
            assert_eq!(status(&[], own), None, "{own}");
        }
        for foreign in ["evil.example", "127.0.0.1.nip.io", "local.evil.example:80", "evil.example.", "127.1"] {
            assert_eq!(status(&["media.example"], foreign), misdirected, "{foreign}");
            assert_eq!(status(&["*"], foreign), None, "{foreign}");
        }
        assert_eq!(status(&["media.example"], "Media.Example:8080"), None);
    }
}
