//! Requests as the access log has them.
//!
//! Promise: no credential is in them, and a field is bounded. Not here: the line (`service::requests`).

use std::net::IpAddr;

use http_types::header::{REFERER, USER_AGENT};
use http_types::{HeaderMap, HeaderName};
use service::requests::RequestRecord;

use crate::message::head::{HttpVersion, RequestHead};

/// The record of a request without a login.
pub(crate) fn record(peer: IpAddr, head: &RequestHead) -> RequestRecord {
    let version = match head.version {
        HttpVersion::Http10 => "1.0",
        HttpVersion::Http11 => "1.1",
        HttpVersion::Http2 => "2.0",
    };
    let query = head.query.as_deref().map_or_else(String::new, |query| format!("?{}", without_secrets(query)));
    let mut target: String = format!("{}{query}", head.path);
    if target.len() > 1024 {
        target = target.chars().take(1024).collect();
    }
    RequestRecord {
        peer,
        user: None,
        request: format!("{} {target} HTTP/{version}", head.method),
        referer: field(&head.headers, &REFERER),
        agent: field(&head.headers, &USER_AGENT),
    }
}

/// At most 256 bytes of a field, `-` if there is none.
fn field(headers: &HeaderMap, name: &HeaderName) -> String {
    headers.get(name).map_or_else(
        || "-".to_owned(),
        |value| {
            let bytes = value.as_bytes();
            String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned()
        },
    )
}

/// The query with the number of a signed link alone, and without the code of a login: both are credentials.
fn without_secrets(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some(("share", text)) => text.split_once('-').map_or_else(|| pair.to_owned(), |(id, _)| format!("share={id}-")),
        Some(("code", _)) => "code=-".to_owned(),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_logged() {
        assert_eq!(without_secrets("a=b&share=7-0123&x"), "a=b&share=7-&x");
        assert_eq!(without_secrets("state=a&code=b"), "state=a&code=-");
        assert_eq!(without_secrets("rate=8M"), "rate=8M");
    }
}
