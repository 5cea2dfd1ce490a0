//! Cross-origin reads: which pages of other origins a browser lets read contents and figures (the Fetch standard's CORS).
//!
//! Promise: none unless the settings name them: a client that can reach this server may read it, but a page in its
//! visitor's browser can reach servers which the page's author cannot. Writes by pages of other origins are never allowed
//! (`login`).

use http_types::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use http_types::{Method, StatusCode};

use crate::config::HttpConfig;
use crate::message::head::RequestHead;
use crate::message::reply::Reply;

/// Fields of an answer that a player's page may see, beyond those that every page may.
const EXPOSED: &str = "Accept-Ranges, Content-Length, Content-Range, Date, ETag, Link, Retry-After, X-Isocast-Rate";
/// Fields that a player's page may send: ranges, conditions and the four fields of CMCD (CTA-5004).
const ALLOWED: &str = "Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Cache-Control, \
                       CMCD-Object, CMCD-Request, CMCD-Session, CMCD-Status";

/// The answer to a browser that asks whether a page may send a request.
pub(crate) fn preflight(config: &HttpConfig, head: &RequestHead) -> Option<Reply> {
    let headers = &head.headers;
    let asks = head.method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let reply = Reply::empty(StatusCode::NO_CONTENT).field(ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD");
    let reply = if headers.contains_key(ACCESS_CONTROL_REQUEST_HEADERS) {
        reply.field(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED)
    } else {
        reply
    };
    (asks && allowed(config, head).is_some()).then(|| reply.field(ACCESS_CONTROL_MAX_AGE, "86400"))
}

/// The fields that let the page which sent this request read its answer.
pub(crate) fn fields(config: &HttpConfig, head: &RequestHead) -> Vec<(HeaderName, String)> {
    if config.cors_origins.is_empty() {
        return Vec::new();
    }
    // The answer differs by the origin of the request, also where the settings name none.
    let mut fields = vec![(VARY, "Origin".to_owned())];
    if let Some(origin) = allowed(config, head) {
        fields.push((ACCESS_CONTROL_ALLOW_ORIGIN, origin));
        fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED.to_owned()));
    }
    fields
}

/// The origin of a page that may read; `*` where every one may.
fn allowed(config: &HttpConfig, head: &RequestHead) -> Option<String> {
    let origin = head.headers.get(ORIGIN)?.to_str().ok()?;
    let named = config.cors_origins.iter().find(|known| *known == "*" || known.eq_ignore_ascii_case(origin))?;
    Some(if named == "*" { named.clone() } else { origin.to_owned() })
}
