//! The request a stream sends and the head of the answer.
//!
//! Promise: a bounded head ([`HEAD_BYTES_MAX`]), and for an answer that is of no use, an error that describes it.

use serde::Deserialize;
use units::BitRate;

/// More head than this is refused as rubbish.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// Fields of an answer's head that the benchmark needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerHead {
    /// The status code.
    pub status: u16,
    /// Bytes of the head itself.
    pub head_bytes: usize,
    /// Bytes of the body; `None` until the connection closes.
    pub content_length: Option<u64>,
    /// Whether another request may follow on the connection.
    pub keep_alive: bool,
}

/// Text of a GET for `path`, `index` naming the viewer, so that a server that counts sessions sees one per stream.
pub(crate) fn request(authority: &str, path: &str, seed: u64, index: usize) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: isocast-bench\r\nAccept: */*\r\n\
         CMCD-Session: sid=\"bench-{seed}-{index}\"\r\n\r\n"
    )
}

/// The same GET for the range that begins `from` bytes behind the content's beginning.
pub(crate) fn from(request: &str, from: u64) -> String {
    let head = request.strip_suffix("\r\n").unwrap_or(request);
    format!("{head}Range: bytes={from}-\r\n\r\n")
}

/// Reads a head: `Ok(None)` if there is more to come.
///
/// # Errors
/// The bytes are no HTTP answer that this client can use; the text says why.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<AnswerHead>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(format!("a head of more than {HEAD_BYTES_MAX} bytes")),
        Err(e) => return Err(format!("not an HTTP answer ({e}): `{}`", start_of(bytes))),
    };
    let mut head = AnswerHead {
        status: response.code.unwrap_or(0),
        head_bytes,
        content_length: None,
        keep_alive: response.version == Some(1),
    };
    for header in response.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = value.trim().parse().map_err(|_| format!("Content-Length `{}`", start_of(header.value)))?;
            head.content_length = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(format!("Transfer-Encoding `{}`: a content of known length is needed", start_of(header.value)));
        } else if header.name.eq_ignore_ascii_case("connection") && value.to_ascii_lowercase().contains("close") {
            head.keep_alive = false;
        }
    }
    Ok(Some(head))
}

/// Reason for a refused stream, as far as the server says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct RefusalReason {
    /// The rate that could be granted.
    pub grantable_bps: Option<u64>,
    /// The kind of the resource that is short.
    pub resource: Option<String>,
    /// The name of the disk or link that is short.
    pub name: Option<String>,
}

impl RefusalReason {
    /// The resource that is short: `disk sda`, `memory`.
    pub(crate) fn short(&self) -> Option<String> {
        let name = self.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        Some(format!("{}{name}", self.resource.as_ref()?))
    }
}

/// Reason in the body of a refusal.
pub(crate) fn refusal(body: &[u8]) -> RefusalReason {
    serde_json::from_slice(body).unwrap_or_default()
}

/// The first characters of `bytes`, fit to print.
fn start_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(40)])
        .chars()
        .map(|c| if c.is_control() { '.' } else { c })
        .collect()
}

/// The rate as queries carry it: `8800k`, exact to the kilobit where it is whole, else in bit/s.
pub(crate) fn rate_text(rate: BitRate) -> String {
    if rate.0.is_multiple_of(1_000) { format!("{}k", rate.0 / 1_000) } else { format!("{}bit/s", rate.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_a_length() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 123\r\nContent-Type: video/mp2t\r\n\r\nbody";
        let head = parse(text).unwrap().unwrap();
        assert_eq!(
            head,
            AnswerHead { status: 200, head_bytes: text.len() - 4, content_length: Some(123), keep_alive: true }
        );
        assert_eq!(parse(&text[..30]), Ok(None));
    }

    #[test]
    fn an_answer_that_closes() {
        let head = parse(b"HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.content_length, head.keep_alive), (None, false));
    }

    #[test]
    fn rubbish_is_named() {
        assert!(parse(b"220 ftp.example ESMTP\r\n").unwrap_err().contains("220 ftp"));
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap_err().contains("known length"));
        let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(HEAD_BYTES_MAX)].concat();
        assert!(parse(&endless[..HEAD_BYTES_MAX]).is_err());
    }

    #[test]
    fn a_refusal_carries_the_grantable_rate_and_resource() {
        let said = refusal(br#"{"title":"no","resource":"disk","name":"sda","grantable_bps":2500000}"#);
        assert_eq!((said.grantable_bps, said.short().as_deref()), (Some(2_500_000), Some("disk sda")));
        assert_eq!(refusal(b"<html>"), RefusalReason::default());
    }

    #[test]
    fn rates_are_written_exactly() {
        assert_eq!(rate_text(BitRate(8_800_000)), "8800k");
        assert_eq!(rate_text(BitRate(1_001)), "1001bit/s");
        assert_eq!(units::parse_rate(&rate_text(BitRate(8_800_000))), Ok(BitRate(8_800_000)));
    }
}
