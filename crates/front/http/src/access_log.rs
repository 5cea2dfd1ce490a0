//! Lines of the access log, in the combined format.
//!
//! Promise: nothing a client sends breaks out of its field, and a line is bounded. Not here: writing them (`service::log`).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use http_types::header::{REFERER, USER_AGENT};
use http_types::{HeaderMap, HeaderName, StatusCode};

use crate::message::head::HttpVersion;

/// Facts that the access log records of a finished request.
#[derive(Debug, Clone)]
pub(crate) struct AccessRecord {
    /// The client.
    pub(crate) peer: IpAddr,
    /// The account that it logged in as.
    pub(crate) user: Option<String>,
    /// `GET /media/x HTTP/1.1`, as far as it was understood.
    pub(crate) request: String,
    /// `Referer`, bounded.
    pub(crate) referer: String,
    /// `User-Agent`, bounded.
    pub(crate) agent: String,
}

impl AccessRecord {
    /// The combined-format line: `client - user [date] "request" status bytes "referer" "agent"`.
    #[must_use]
    pub(crate) fn line(&self, status: StatusCode, bytes: u64, now: SystemTime) -> String {
        let user = self.user.as_deref().unwrap_or("-");
        let mut line = String::with_capacity(160);
        let _ = write!(line, "{} - {} [{}] \"", self.peer, quoted(user), clf_date(now));
        let request = quoted(&self.request);
        let (referer, agent) = (quoted(&self.referer), quoted(&self.agent));
        let _ = write!(line, "{request}\" {} {bytes} \"{referer}\" \"{agent}\"", status.as_u16());
        line
    }

    /// The field as it is logged: at most 256 bytes of it, `-` if there is none.
    #[must_use]
    pub(crate) fn field(headers: &HeaderMap, name: &HeaderName) -> String {
        headers.get(name).map_or_else(
            || "-".to_owned(),
            |value| {
                let bytes = value.as_bytes();
                String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned()
            },
        )
    }

    /// Of a request head.
    #[must_use]
    pub(crate) fn of(peer: IpAddr, head: &crate::message::head::RequestHead) -> Self {
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
        Self {
            peer,
            user: None,
            request: format!("{} {target} HTTP/{version}", head.method),
            referer: Self::field(&head.headers, &REFERER),
            agent: Self::field(&head.headers, &USER_AGENT),
        }
    }
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

/// Quotes and control characters cannot break out of their field.
fn quoted(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => safe.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(safe, "\\x{:02x}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// `21/Nov/2026:22:15:00 +0000`, from the HTTP date `Sat, 21 Nov 2026 22:15:00 GMT`.
fn clf_date(now: SystemTime) -> String {
    // Formatting panics beyond the year 9999: a clock that wrong is shown as that year.
    let now = now.min(SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799));
    let date = httpdate::fmt_http_date(now);
    format!("{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_line_in_the_combined_format() {
        let access = AccessRecord {
            peer: Ipv4Addr::LOCALHOST.into(),
            user: None,
            request: "GET /media/a\"b HTTP/1.1".to_owned(),
            referer: "-".to_owned(),
            agent: "evil\n\"agent".to_owned(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(
            access.line(StatusCode::PARTIAL_CONTENT, 42, now),
            "127.0.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /media/a\\\"b HTTP/1.1\" 206 42 \"-\" \"evil\\x0a\\\"agent\""
        );
    }

    #[test]
    fn credentials_are_not_logged() {
        assert_eq!(without_secrets("a=b&share=7-0123&x"), "a=b&share=7-&x");
        assert_eq!(without_secrets("state=a&code=b"), "state=a&code=-");
        assert_eq!(without_secrets("rate=8M"), "rate=8M");
    }
}
