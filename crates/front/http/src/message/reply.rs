//! Replies: status, fields and a small body; and the bytes of a response head.
//!
//! Promise: every error is `application/problem+json` (RFC 9457), or its words as plain text. Not here: the choice of the reply.

use std::fmt::{Display, Write as _};
use std::time::SystemTime;

use bytes::Bytes;
use http_types::header::{self, HeaderName};
use http_types::{Method, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::json;
use webdav::DavCondition;

use super::head::{HttpVersion, RequestHead};
use super::problem_type::ProblemType;

/// Media type of errors.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// Value of the `Server` field.
pub const SERVER: &str = concat!("isocast/", env!("CARGO_PKG_VERSION"));

/// Characters that a target must escape (RFC 3986): clients send some of them nevertheless. Escapes stay escapes.
pub(crate) const UNFIT: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// Characters to escape in a name: all but letters, digits and these four.
pub(crate) const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request's target as a `Location`.
#[must_use]
pub fn location(target: &str) -> String {
    utf8_percent_encode(target, UNFIT).to_string()
}

/// Rest of a body after its first part, made as the client takes it.
pub struct Pieces(pub Box<dyn Iterator<Item = Bytes> + Send + Sync>);

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pieces")
    }
}

/// A complete response that is not a content.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// Fields other than Date, Server, Content-Length and Connection.
    pub fields: Vec<(HeaderName, String)>,
    /// The body, or the first part of it; empty for 204 and 304.
    pub body: Bytes,
    /// The pieces after the first part, if the body is long.
    pub rest: Option<Pieces>,
    /// The condition of WebDAV that failed: clients that speak WebDAV get its element as the body.
    pub failed: Option<DavCondition>,
}

impl Reply {
    /// An empty reply.
    #[must_use]
    pub const fn empty(status: StatusCode) -> Self {
        Self { status, fields: Vec::new(), body: Bytes::new(), rest: None, failed: None }
    }

    /// 200 with a value of the API as JSON.
    #[must_use]
    pub fn json(value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("the keys of wire types are texts");
        Self::with_body(StatusCode::OK, "application/json", body)
    }

    /// A reply with a body.
    #[must_use]
    pub fn with_body(status: StatusCode, media_type: &str, body: impl Into<Bytes>) -> Self {
        let fields =
            vec![(header::CONTENT_TYPE, media_type.to_owned()), (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned())];
        Self { status, fields, body: body.into(), rest: None, failed: None }
    }

    /// Adds a field. A value that could break out of its line is dropped: it can only come from a file's name.
    #[must_use]
    pub fn field(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        let value = value.into();
        if http_types::HeaderValue::from_str(&value).is_ok() {
            self.fields.push((name, value));
        }
        self
    }

    /// Has no cache keep it, unless it says otherwise itself.
    #[must_use]
    pub fn uncached(self) -> Self {
        let has_own = self.fields.iter().any(|(name, _)| *name == header::CACHE_CONTROL);
        if has_own { self } else { self.field(header::CACHE_CONTROL, "no-store") }
    }

    /// Names the condition of WebDAV that failed.
    #[must_use]
    pub fn failing(mut self, condition: DavCondition) -> Self {
        self.failed = Some(condition);
        self
    }

    /// Bytes of its body that are sent in answer to `method`.
    #[must_use]
    pub fn body_bytes(&self, method: &Method) -> u64 {
        if *method == Method::HEAD { 0 } else { self.body.len() as u64 }
    }

    /// An error with an explanation and a remedy.
    #[must_use]
    pub fn problem(status: StatusCode, detail: impl Display) -> Self {
        Self::problem_of(ProblemType::of(status), status, detail)
    }

    /// The refusal of a request that is malformed.
    #[must_use]
    pub fn malformed(detail: impl Display) -> Self {
        Self::problem(StatusCode::BAD_REQUEST, detail)
    }

    /// An error of a kind of its own, with an explanation and a remedy.
    #[must_use]
    pub fn problem_of(kind: ProblemType, status: StatusCode, detail: impl Display) -> Self {
        problem_with(kind, status, status.canonical_reason().unwrap_or("Error"), &detail.to_string(), &[])
    }

    /// A problem as the browser of a person shows it: its words as plain text. Any other reply stays as it is.
    #[must_use]
    pub(crate) fn into_plain_text(mut self) -> Self {
        if let Some((_, media_type)) = self.fields.iter_mut().find(|(_, value)| value == PROBLEM) {
            "text/plain; charset=utf-8".clone_into(media_type);
            let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
            let words = [&problem["title"], &problem["detail"]].map(|part| part.as_str().unwrap_or_default());
            self.body = format!("{}\n", words.join(": ")).into();
        }
        self
    }
}

/// An RFC 9457 problem with extension members.
#[must_use]
pub fn problem_with(
    kind: ProblemType,
    status: StatusCode,
    title: &str,
    detail: &str,
    members: &[(&str, serde_json::Value)],
) -> Reply {
    let mut object = json!({ "type": kind.name(), "title": title, "status": status.as_u16(), "detail": detail });
    for (name, value) in members {
        object[*name] = value.clone();
    }
    let mut body = object.to_string();
    body.push('\n');
    Reply::with_body(status, PROBLEM, body).field(header::CACHE_CONTROL, "no-store")
}

/// Fate of the connection after a response, and the field that states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The connection is closed.
    Close,
    /// It stays open (HTTP/1.1: without a field).
    KeepAlive,
    /// It stays open, and a field states it to an HTTP/1.0 client.
    KeepAlive10,
}

impl After {
    /// Fate of the connection after a request that was answered in full.
    #[must_use]
    pub const fn of(head: &RequestHead) -> Self {
        match (head.keep_alive, head.version) {
            (false, _) => Self::Close,
            (true, HttpVersion::Http11 | HttpVersion::Http2) => Self::KeepAlive,
            (true, HttpVersion::Http10) => Self::KeepAlive10,
        }
    }
}

/// The bytes of a response head. `length` is the Content-Length, absent for 204 and 304.
#[must_use]
pub fn render_head(
    status: StatusCode,
    fields: &[(HeaderName, String)],
    length: Option<u64>,
    after: After,
    now: SystemTime,
) -> Vec<u8> {
    let mut text = String::with_capacity(512);
    let reason = status.canonical_reason().unwrap_or("");
    let date = httpdate::fmt_http_date(now);
    let _ = write!(text, "HTTP/1.1 {} {reason}\r\nDate: {date}\r\nServer: {SERVER}\r\n", status.as_u16());
    for (name, value) in fields {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if let Some(length) = length {
        let _ = write!(text, "content-length: {length}\r\n");
    }
    match after {
        After::Close => text.push_str("connection: close\r\n"),
        After::KeepAlive10 => text.push_str("connection: keep-alive\r\n"),
        After::KeepAlive => {}
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// The bytes of the head of a complete reply.
#[must_use]
pub fn render_reply_head(reply: &Reply, after: After, now: SystemTime) -> Vec<u8> {
    let bodiless = matches!(reply.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = if bodiless { None } else { u64::try_from(reply.body.len()).ok() };
    render_head(reply.status, &reply.fields, length, after, now)
}

/// The bytes of a complete response.
#[must_use]
pub fn render(reply: &Reply, after: After, now: SystemTime) -> Vec<u8> {
    let mut bytes = render_reply_head(reply, after, now);
    bytes.extend_from_slice(&reply.body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_as_bytes() {
        let reply = Reply::problem(StatusCode::NOT_FOUND, "no such content");
        let bytes = render(&reply, After::Close, SystemTime::UNIX_EPOCH);
        let text = String::from_utf8(bytes).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(head.ends_with("connection: close"));
        let value: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(value["status"], 404);
        assert_eq!(value["detail"], "no such content");
    }

    #[test]
    fn a_problem_in_words_keeps_its_status_and_fields() {
        let reply =
            Reply::problem(StatusCode::NOT_FOUND, "no such content").field(header::RETRY_AFTER, "10").into_plain_text();
        assert_eq!((reply.status, &reply.body[..]), (StatusCode::NOT_FOUND, &b"Not Found: no such content\n"[..]));
        assert_eq!(reply.fields[0], (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()));
        assert_eq!(reply.fields.last(), Some(&(header::RETRY_AFTER, "10".to_owned())));
        assert_eq!(Reply::json(&[1]).into_plain_text().body, Reply::json(&[1]).body);
    }

    #[test]
    fn a_location_is_a_reference() {
        assert_eq!(location("/media/a%20b\\ü\"/?x=1&y='"), "/media/a%20b%5C%C3%BC%22/?x=1&y='");
    }

    #[test]
    fn no_field_breaks_out_of_its_line() {
        let reply = Reply::empty(StatusCode::OK).field(header::ETAG, "a\r\nSet-Cookie: x");
        assert!(reply.fields.is_empty());
        let bytes = render(&Reply::empty(StatusCode::NOT_MODIFIED), After::KeepAlive, SystemTime::UNIX_EPOCH);
        assert!(!String::from_utf8(bytes).expect("ASCII").contains("content-length"));
    }
}
