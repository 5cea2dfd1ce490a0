//! The authority of a request: the name or address, and the port, that a client has for this server (RFC 3986 §3.2, without user
//! information, which RFC 9110 §4.2.4 forbids here).
//!
//! Promise: pure; a text that is no authority as a whole is none in part. Not here: which names are this server's (`hosts`).

use std::net::{IpAddr, Ipv6Addr};

/// The host of an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestHost<'a> {
    /// An address.
    Address(IpAddr),
    /// A name, as it was written; empty where a client has none.
    Name(&'a str),
}

/// The host of `text`, if that is an authority.
#[must_use]
pub fn host(text: &str) -> Option<RequestHost<'_>> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let address = address.parse::<Ipv6Addr>().ok()?;
        return is_port(port).then_some(RequestHost::Address(address.into()));
    }
    let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    if !is_port(port) || !name.bytes().all(is_name_byte) {
        return None;
    }
    Some(name.parse::<IpAddr>().map_or(RequestHost::Name(name), RequestHost::Address))
}

/// Nothing, or a colon and digits, of which there may be none.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|digit| digit.is_ascii_digit()))
}

/// True for bytes of a registered name: unreserved characters, escapes, and delimiters within.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_taken_as_a_whole() {
        let address = |text: &str| Some(RequestHost::Address(text.parse().expect("an address")));
        for (text, expected) in [
            ("h", Some(RequestHost::Name("h"))),
            ("h:80", Some(RequestHost::Name("h"))),
            ("h:", Some(RequestHost::Name("h"))),
            ("", Some(RequestHost::Name(""))),
            ("media.example", Some(RequestHost::Name("media.example"))),
            ("127.0.0.1", address("127.0.0.1")),
            ("127.0.0.1:8080", address("127.0.0.1")),
            ("[::1]", address("::1")),
            ("[::1]:80", address("::1")),
            ("[::1]evil.example", None),
            ("[::1]:80:90", None),
            ("[::1", None),
            ("[127.0.0.1]", None),
            ("127.0.0.1:80.evil.example", None),
            ("localhost:evil", None),
            ("::1", None),
            ("user@h", None),
            ("a/b", None),
            ("127.1", Some(RequestHost::Name("127.1"))),
        ] {
            assert_eq!(host(text), expected, "{text}");
        }
    }
}
