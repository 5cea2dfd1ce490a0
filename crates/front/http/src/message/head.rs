//! Parser of request heads. It is our own, because the socket of a paced read passes to the data plane.
//!
//! Promise: bounded (16 KiB, 100 fields), never panics, and refuses a head that two parsers could read differently
//! (request smuggling: conflicting lengths, folded lines, unknown codings). Not here: the body. See RFC 9112.

use http_types::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http_types::{HeaderMap, HeaderName, HeaderValue, Method};

use super::authority;

/// Longest request head, in bytes, its closing empty line included.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most header fields in a head.
pub const FIELDS_MAX: usize = 100;
/// Longest request target, in bytes.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;

/// Largest Content-Length: the greatest size of a file.
const LENGTH_MAX: u64 = i64::MAX.unsigned_abs();

/// Methods with a meaning known here, allowed or not: of HTTP, of WebDAV (RFC 4918), and `QUERY`
/// (draft-ietf-httpbis-safe-method-w-body).
const METHODS: [&str; 16] = [
    "GET",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "POST",
    "PATCH",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "QUERY",
];

/// A request head that was understood.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// GET, PUT, …
    pub method: Method,
    /// The target's path, still percent-encoded: starts with `/`, or is `*`.
    pub path: String,
    /// The part of the target after `?`, if there is one.
    pub query: Option<String>,
    /// HTTP/1.0 or 1.1.
    pub version: HttpVersion,
    /// All header fields.
    pub headers: HeaderMap,
    /// Framing of the body.
    pub body: BodyFraming,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// The client allows further requests on the connection.
    pub keep_alive: bool,
    /// Length of the head in bytes.
    pub bytes: usize,
}

/// The supported versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2, whose heads hyper parses.
    Http2,
}

/// Framing of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// By its length in bytes (zero: no body).
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// Reason of the refusal of a head. Its text may be shown to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Longer than [`HEAD_BYTES_MAX`] or more than [`FIELDS_MAX`] fields.
    #[error("the request head is larger than 16 KiB or has more than 100 fields; send less")]
    TooLarge,
    /// Longer than [`TARGET_BYTES_MAX`].
    #[error("the request target is longer than 8 KiB; shorten the URL")]
    TargetTooLong,
    /// Not HTTP.
    #[error("this is not an HTTP/1.1 request: {0}")]
    Malformed(&'static str),
    /// RFC 9110 §9.1.
    #[error("this method is unknown")]
    UnknownMethod,
    /// Another version of HTTP.
    #[error("only HTTP/1.0 and HTTP/1.1 are spoken here")]
    Version,
    /// RFC 9112 §3.2.
    #[error("an HTTP/1.1 request needs exactly one valid Host field")]
    Host,
    /// Not one decimal number.
    #[error("Content-Length must be one decimal number")]
    ContentLength,
    /// More than any file can be.
    #[error("Content-Length is more than any content can have")]
    LengthTooLarge,
    /// RFC 9112 §6.1: a smuggling attempt or a broken proxy.
    #[error("Content-Length and Transfer-Encoding exclude each other; send one of them")]
    TwoLengths,
    /// Codings that do not end with `chunked`, or hold it twice, or in HTTP/1.0.
    #[error("Transfer-Encoding must end with `chunked`, once, in HTTP/1.1")]
    TransferEncoding,
    /// A coding other than `chunked`.
    #[error("the only transfer coding understood is `chunked`")]
    UnknownCoding,
    /// An expectation other than `100-continue`.
    #[error("the only expectation understood is `100-continue`")]
    Expectation,
}

/// Reads a head from the start of `bytes`; `None` if its end has not come yet.
///
/// # Errors
/// The reason, as soon as further bytes cannot make the head acceptable.
pub fn parse_head(bytes: &[u8]) -> Result<Option<RequestHead>, HeadError> {
    let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(window) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return still_coming(bytes, window),
        Err(httparse::Error::Version) if let Some(head) = as_http11(window) => return parse_head(&head),
        Err(error) => return Err(from_httparse(error, window)),
    };
    let method = request.method.ok_or(HeadError::Malformed("no method"))?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| HeadError::Malformed("bad method"))?;
    if !METHODS.contains(&method.as_str()) {
        return Err(HeadError::UnknownMethod);
    }
    let target = request.path.ok_or(HeadError::Malformed("no target"))?;
    if target.contains('#') {
        // RFC 9112 §3.2: a client that sends its fragment means another resource than the one before it.
        return Err(HeadError::Malformed("the target has a `#`; in a name it is written %23"));
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(HeadError::TargetTooLong);
    }
    let version = if request.version == Some(0) { HttpVersion::Http10 } else { HttpVersion::Http11 };
    let mut headers = collect_fields(request.headers)?;
    let RequestTarget { authority, path, query } = split_target(&method, target)?;
    check_host(&headers, version)?;
    if let Some(authority) = authority {
        headers.insert(HOST, authority);
    }
    let body = framing(&headers, version)?;
    check_expectation(&headers)?;
    // HTTP/1.0 knows no interim answers (RFC 9110 §10.1.1).
    let expects_continue = members(&headers, &EXPECT).next().is_some() && version == HttpVersion::Http11;
    let keep_alive = keep_alive(&headers, version);
    let bytes = length;
    Ok(Some(RequestHead { method, path, query, version, headers, body, expects_continue, keep_alive, bytes }))
}

/// The result for an unfinished head: `None`, or an error if it is too long already.
fn still_coming(bytes: &[u8], window: &[u8]) -> Result<Option<RequestHead>, HeadError> {
    if bytes.len() < HEAD_BYTES_MAX {
        return Ok(None);
    }
    Err(if window.contains(&b'\n') { HeadError::TooLarge } else { HeadError::TargetTooLong })
}

fn from_httparse(error: httparse::Error, window: &[u8]) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooLarge,
        httparse::Error::Version if names_http(window) => HeadError::Version,
        httparse::Error::Version => {
            HeadError::Malformed("the request line is not METHOD TARGET HTTP/1.1; a blank in the target is written %20")
        }
        httparse::Error::HeaderName => {
            HeadError::Malformed("a field name has a character it must not have, or a line is folded")
        }
        httparse::Error::HeaderValue => HeadError::Malformed("a field value has a control character"),
        httparse::Error::NewLine => HeadError::Malformed("a line does not end with CR LF"),
        httparse::Error::Token => HeadError::Malformed("the method or the target has a character it must not have"),
        httparse::Error::Status => HeadError::Malformed("this looks like a response"),
    }
}

/// The head with the version HTTP/1.1 if it has a later HTTP/1.x, which is treated as the latest known version (RFC 9110 §2.5).
fn as_http11(window: &[u8]) -> Option<Vec<u8>> {
    let minor = window.windows(8).position(|word| word == b" HTTP/1.")? + 8;
    let mut head = window.to_vec();
    *head.get_mut(minor).filter(|digit| matches!(digit, b'2'..=b'9'))? = b'1';
    Some(head)
}

/// True if the first line has three words, of which the last begins with `HTTP/`: the request has another version, not another
/// protocol, and no blank in its target.
fn names_http(window: &[u8]) -> bool {
    let line = window.split(|b| *b == b'\n').find(|line| line.len() > 1).unwrap_or_default();
    let mut words = line.split(|b| *b == b' ').skip(2);
    words.next().is_some_and(|word| word.starts_with(b"HTTP/")) && words.next().is_none()
}

fn collect_fields(fields: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| HeadError::Malformed("bad field name"))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| HeadError::Malformed("bad field value"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// The components of a request target.
struct RequestTarget {
    /// Server in an absolute target, which overrides Host (RFC 9112 §3.2.2).
    authority: Option<HeaderValue>,
    path: String,
    query: Option<String>,
}

/// Splits a target in origin form, in absolute form (sent to proxies; servers must accept it, RFC 9112 §3.2.2), or `*`.
fn split_target(method: &Method, target: &str) -> Result<RequestTarget, HeadError> {
    if target == "*" && *method == Method::OPTIONS {
        return Ok(RequestTarget { authority: None, path: "*".to_owned(), query: None });
    }
    let (authority, rest) = if target.starts_with('/') {
        (None, target)
    } else {
        let (scheme, after) = target.split_once("://").ok_or(HeadError::Malformed("the target must start with `/`"))?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(HeadError::Malformed("the target's scheme is not http"));
        }
        let (authority, rest) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
        if authority.is_empty() || authority::host(authority).is_none() {
            return Err(HeadError::Host);
        }
        (Some(HeaderValue::from_str(authority).map_err(|_| HeadError::Host)?), rest)
    };
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query.to_owned())));
    let path = if path.is_empty() { "/" } else { path }.to_owned();
    Ok(RequestTarget { authority, path, query })
}

pub(crate) fn check_host(headers: &HeaderMap, version: HttpVersion) -> Result<(), HeadError> {
    let mut hosts = headers.get_all(HOST).iter();
    let first = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::Host);
    }
    match (first, version) {
        (None, HttpVersion::Http10) => Ok(()),
        (None, HttpVersion::Http11 | HttpVersion::Http2) => Err(HeadError::Host),
        (Some(host), _) if host.to_str().is_ok_and(|host| authority::host(host).is_some()) => Ok(()),
        (Some(_), _) => Err(HeadError::Host),
    }
}

fn framing(headers: &HeaderMap, version: HttpVersion) -> Result<BodyFraming, HeadError> {
    if headers.contains_key(TRANSFER_ENCODING) {
        if headers.contains_key(CONTENT_LENGTH) {
            return Err(HeadError::TwoLengths);
        }
        return chunked(headers, version).map(|()| BodyFraming::Chunked);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(BodyFraming::Length(0)) };
    let text = length.to_str().map_err(|_| HeadError::ContentLength)?;
    if lengths.next().is_some() || text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(HeadError::ContentLength);
    }
    // Digits that do not parse are a number beyond 64 bits.
    match text.parse() {
        Ok(length @ 0..=LENGTH_MAX) => Ok(BodyFraming::Length(length)),
        Ok(_) | Err(_) => Err(HeadError::LengthTooLarge),
    }
}

/// Checks that the only transfer coding is `chunked`, once: without it at the end, the end of the body is unknown (RFC 9112 §6.3).
fn chunked(headers: &HeaderMap, version: HttpVersion) -> Result<(), HeadError> {
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let codings: Vec<&[u8]> = members(headers, &TRANSFER_ENCODING).collect();
    match codings.split_last() {
        Some((last, before)) if is_chunked(last) && version == HttpVersion::Http11 => {
            match before.iter().any(|coding| is_chunked(coding)) {
                true => Err(HeadError::TransferEncoding),
                false if before.is_empty() => Ok(()),
                false => Err(HeadError::UnknownCoding),
            }
        }
        _ => Err(HeadError::TransferEncoding),
    }
}

fn check_expectation(headers: &HeaderMap) -> Result<(), HeadError> {
    let all_known = members(headers, &EXPECT).all(|member| member.eq_ignore_ascii_case(b"100-continue"));
    if all_known { Ok(()) } else { Err(HeadError::Expectation) }
}

/// True if the connection persists (RFC 9112 §9.3).
fn keep_alive(headers: &HeaderMap, version: HttpVersion) -> bool {
    let has = |wanted: &[u8]| members(headers, &CONNECTION).any(|option| option.eq_ignore_ascii_case(wanted));
    !has(b"close") && (version == HttpVersion::Http11 || has(b"keep-alive"))
}

/// The non-empty members of a list field, over all its lines (RFC 9110 §5.6.1).
fn members<'a>(headers: &'a HeaderMap, field: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(field).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<RequestHead>, HeadError> {
        parse_head(text.as_bytes())
    }

    fn complete(text: &str) -> RequestHead {
        parse(text).expect("understood").expect("complete")
    }

    #[test]
    fn an_ordinary_head() {
        let head = complete("GET /media/a%20b.mp4?rate=8.8M HTTP/1.1\r\nHost: h\r\nRange: bytes=0-\r\n\r\nmore");
        assert_eq!((head.method, head.path.as_str()), (Method::GET, "/media/a%20b.mp4"));
        assert_eq!(head.query.as_deref(), Some("rate=8.8M"));
        assert_eq!(head.body, BodyFraming::Length(0));
        assert!(head.keep_alive);
        assert_eq!(head.bytes, 69, "what follows is not part of it");
    }

    #[test]
    fn keep_alive_follows_the_version() {
        assert!(!complete("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(complete("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        assert!(!complete("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, close\r\n\r\n").keep_alive);
    }

    #[test]
    fn a_later_minor_version_is_read_as_the_latest_known() {
        let head = complete("GET /a HTTP/1.2\r\nHost: h\r\n\r\n");
        assert_eq!((head.version, head.path.as_str(), head.bytes), (HttpVersion::Http11, "/a", 28));
        assert!(matches!(parse("GET /a HTTP/1.2\r\nHost"), Ok(None)), "the rest is still to come");
        let other = parse("GET / HTTP/2.0\r\nVia: a HTTP/1.2\r\n\r\n");
        assert_eq!(other.expect_err("refused"), HeadError::Version);
    }

    #[test]
    fn absolute_form_and_asterisk() {
        assert_eq!(complete("GET http://h/media/x HTTP/1.1\r\nHost: h\r\n\r\n").path, "/media/x");
        assert_eq!(complete("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n").path, "/");
        let other = complete("GET http://other:80?q HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((other.headers[HOST].as_bytes(), other.path.as_str()), (b"other:80".as_slice(), "/"));
        for target in ["http:///media/x", "http://a@h/media/x", "http://?x"] {
            assert_eq!(parse(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).expect_err(target), HeadError::Host);
        }
        assert_eq!(complete("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").path, "*");
        assert!(parse("GET media HTTP/1.1\r\nHost: h\r\n\r\n").is_err());
        assert!(parse("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n").is_err());
    }

    #[test]
    fn each_malformed_head_gets_its_error() {
        let with = |fields: &str| parse(&format!("PUT /media/x HTTP/1.1\r\n{fields}\r\n")).expect_err("refused");
        assert_eq!(with(""), HeadError::Host);
        assert_eq!(with("Host: a\r\nHost: a\r\n"), HeadError::Host);
        assert_eq!(with("Host: a/b\r\n"), HeadError::Host);
        assert_eq!(with("Host: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"), HeadError::TwoLengths);
        assert_eq!(with("Host: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n"), HeadError::ContentLength);
        assert_eq!(with("Host: h\r\nContent-Length: +1\r\n"), HeadError::ContentLength);
        assert_eq!(with("Host: h\r\nContent-Length: 99999999999999999999\r\n"), HeadError::LengthTooLarge);
        assert_eq!(with("Host: h\r\nTransfer-Encoding: gzip, chunked\r\n"), HeadError::UnknownCoding);
        for codings in
            ["chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", "xchunked", "chunked, gzip", "", ","]
        {
            let error = with(&format!("Host: h\r\nTransfer-Encoding: {codings}\r\n"));
            assert_eq!(error, HeadError::TransferEncoding, "{codings}");
        }
        assert_eq!(with("Host: h\r\nExpect: miracles\r\n"), HeadError::Expectation);
        assert!(matches!(with("Host: h\r\nX: a\r\n b\r\n"), HeadError::Malformed(_)), "folded line");
        assert!(matches!(with("Host : h\r\n"), HeadError::Malformed(_)), "space before the colon");
        assert_eq!(parse("GET / HTTP/2.0\r\n\r\n").expect_err("refused"), HeadError::Version);
        for method in ["BREW /", "get /", "CONNECT h:80"] {
            let head = parse(&format!("{method} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert_eq!(head.expect_err(method), HeadError::UnknownMethod);
        }
        let blank = parse("GET /media/a b.txt HTTP/1.1\r\nHost: h\r\n\r\n").expect_err("refused");
        assert!(matches!(blank, HeadError::Malformed(_)));
        for length in ["9223372036854775808", "18446744073709551615", "99999999999999999999999"] {
            let head = parse(&format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"));
            assert_eq!(head.expect_err("refused"), HeadError::LengthTooLarge, "{length}");
        }
        assert!(matches!(parse("GET / SPDY\r\n\r\n").expect_err("refused"), HeadError::Malformed(_)));
        assert!(matches!(parse("\u{1}\u{2}").expect_err("refused"), HeadError::Malformed(_)));
    }

    #[test]
    fn a_head_over_the_limit_is_refused() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(TARGET_BYTES_MAX));
        assert_eq!(parse(&long).expect_err("refused"), HeadError::TargetTooLong);
        let longer = format!("GET /{}", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(&longer).expect_err("refused"), HeadError::TargetTooLong);
        let fields = "X: y\r\n".repeat(FIELDS_MAX + 1);
        assert_eq!(parse(&format!("GET / HTTP/1.1\r\n{fields}\r\n")).expect_err("refused"), HeadError::TooLarge);
        let field = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(&field).expect_err("refused"), HeadError::TooLarge);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Any bytes give a result without a panic, and a parsed head lies within them.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(Some(head)) = parse_head(&bytes) {
                prop_assert!(head.bytes <= bytes.len());
            }
        }

        /// A valid head with one byte changed, dropped or doubled gives a result without a panic.
        #[test]
        fn a_spoilt_head(at in 0usize..100, byte in any::<u8>(), how in 0u8..3) {
            let good = b"PUT http://h/media/a?rate=8M HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nConnection: close\r\n\r\n";
            let mut bytes = good.to_vec();
            let at = at % bytes.len();
            match how {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                _ => bytes.insert(at, byte),
            }
            let _ = parse_head(&bytes);
        }

        /// The result does not depend on the pieces in which a head arrives: no prefix is complete or refused.
        #[test]
        fn prefixes_are_incomplete(cut in 0usize..66) {
            let good = b"GET /media/a?rate=8M HTTP/1.1\r\nHost: h\r\nRange: bytes=0-99, -5\r\n\r\n";
            prop_assert!(parse_head(&good[..cut.min(good.len() - 1)]).expect("no error").is_none());
        }
    }
}
