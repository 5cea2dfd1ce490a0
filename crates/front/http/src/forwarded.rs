//! The client for which a trusted proxy speaks: `X-Forwarded-For`, `Forwarded` (RFC 7239), `X-Forwarded-Proto`.
//!
//! Promise: only the fields of a proxy in the settings' networks count; each proxy adds an address at the end, so the last address that is
//! no trusted proxy's is the client. Two fields that name different clients count as none: a proxy that writes one of them passes the other
//! one on as its client sent it. Not here: the networks (the crate `proxy`).

use std::net::{IpAddr, SocketAddr};

use http_types::header::FORWARDED;
use http_types::{HeaderMap, HeaderName};
use proxy::TrustedProxies;

use crate::message::conditional::joined;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Addresses of a chain that are looked at.
const CHAIN_MAX: usize = 16;

/// The sender of a request, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestSender {
    /// The client.
    pub(crate) address: IpAddr,
    /// A trusted proxy took the request over an encrypted connection.
    pub(crate) encrypted: bool,
}

/// The sender of a request that came from `peer`.
pub(crate) fn sender(headers: &HeaderMap, peer: IpAddr, trusted: &TrustedProxies) -> RequestSender {
    if !trusted.has(peer) {
        return RequestSender { address: peer, encrypted: false };
    }
    let chains = [
        joined(headers, &X_FORWARDED_FOR).and_then(|chain| client(chain.rsplit(','), trusted)),
        joined(headers, &FORWARDED).and_then(|chain| client(chain.rsplit(',').map(forwarded_for), trusted)),
    ];
    let address = match chains {
        [Some(one), Some(other)] if one != other => None,
        [one, other] => one.or(other),
    };
    let last = |chain: String| chain.rsplit(',').next().map(str::trim).is_some_and(|scheme| scheme == "https");
    let encrypted = joined(headers, &X_FORWARDED_PROTO).is_some_and(last)
        || joined(headers, &FORWARDED).is_some_and(|chain| chain.rsplit(',').next().is_some_and(is_https));
    RequestSender { address: address.unwrap_or(peer), encrypted }
}

/// The last address of a chain, given from its end, that is no trusted proxy's; the chain ends where something is no address.
fn client<'a>(backwards: impl Iterator<Item = &'a str>, trusted: &TrustedProxies) -> Option<IpAddr> {
    let mut client = None;
    for text in backwards.take(CHAIN_MAX) {
        let Some(address) = address(text.trim()) else { break };
        client = Some(address);
        if !trusted.has(address) {
            break;
        }
    }
    client
}

/// An address with or without a port; one of IPv6 in brackets if there is a port.
fn address(text: &str) -> Option<IpAddr> {
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = bracketed.unwrap_or(text).parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address| address.to_canonical())
}

/// The value of `for` of one element of `Forwarded`; empty without one.
fn forwarded_for(element: &str) -> &str {
    parameter(element, "for").unwrap_or_default()
}

fn is_https(element: &str) -> bool {
    parameter(element, "proto").is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
}

fn parameter<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_types::HeaderValue;

    fn sent(peer: &str, fields: &[(&'static str, &'static str)]) -> (String, bool) {
        let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().expect("a network")).to_vec();
        let trusted = TrustedProxies { networks, send_header: false };
        let headers = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let sender = sender(&headers, peer.parse().expect("an address"), &trusted);
        (sender.address.to_string(), sender.encrypted)
    }

    #[test]
    fn the_last_address_that_is_no_proxys_is_the_client() {
        for (value, client) in [
            ("192.0.2.1", "192.0.2.1"),
            ("198.51.100.9, 192.0.2.1", "192.0.2.1"),
            ("198.51.100.9, 192.0.2.1, 10.2.3.4", "192.0.2.1"),
            ("10.9.9.9, 10.2.3.4", "10.9.9.9"),
            ("192.0.2.1:4711", "192.0.2.1"),
            ("[2001:db9::1]:80", "2001:db9::1"),
            ("2001:db9::1", "2001:db9::1"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("192.0.2.1, unknown", "10.1.1.1"),
            ("192.0.2.1, unknown, 10.2.3.4", "10.2.3.4"),
            ("", "10.1.1.1"),
        ] {
            assert_eq!(sent("10.1.1.1", &[("x-forwarded-for", value)]).0, client, "{value}");
        }
        for value in ["for=192.0.2.1;proto=http", "For=\"192.0.2.1:80\"", "for=1.1.1.1, for=192.0.2.1, for=10.0.0.1"] {
            assert_eq!(sent("10.1.1.1", &[("forwarded", value)]).0, "192.0.2.1", "{value}");
        }
    }

    #[test]
    fn fields_of_others_and_fields_that_disagree_count_for_nothing() {
        let field = ("x-forwarded-for", "192.0.2.1");
        assert_eq!(sent("198.51.100.1", &[field, ("x-forwarded-proto", "https")]), ("198.51.100.1".to_owned(), false));
        assert_eq!(sent("10.1.1.1", &[field, ("forwarded", "for=192.0.2.9")]).0, "10.1.1.1");
        assert_eq!(sent("10.1.1.1", &[field, ("forwarded", "for=192.0.2.1")]).0, "192.0.2.1");
    }

    #[test]
    fn the_proxy_nearest_to_us_says_whether_its_client_encrypts() {
        assert!(sent("10.1.1.1", &[("x-forwarded-proto", "https")]).1);
        assert!(sent("10.1.1.1", &[("forwarded", "for=192.0.2.1;proto=https")]).1);
        assert!(!sent("10.1.1.1", &[("x-forwarded-proto", "https, http")]).1);
        assert!(!sent("10.1.1.1", &[("forwarded", "for=192.0.2.1;proto=https, for=192.0.2.1")]).1);
    }
}
