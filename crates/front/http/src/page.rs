//! The page at `/` and the guide at `/help/`: the built files of `web/`, embedded, or a minimal page where they were not built.

use http_types::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, VARY,
};
use http_types::{HeaderMap, StatusCode};

use crate::message::accept::weighted;
use crate::message::conditional::joined;
use crate::message::media_type::media_type;
use crate::message::reply::Reply;

/// Files of the page, by name relative to `/`; texts also compressed, as `NAME.gz`.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// Shown where the page was not built: enough to see that the server runs, and where the contents are.
const MINIMAL: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Isocast</title>\
<h1>Isocast</h1><p>The server runs; its page was not built into it. <a href=\"media/\">Contents</a>, \
<a href=\"api/v1/system\">figures</a>.</p></html>\n";

/// Only scripts and styles from this server run, and only here; players build their media from blobs.
const POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data:; \
style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The file of the page at `path` (`/`, `/assets/x.js`), if there is one, compressed for a client that takes it so.
pub(crate) fn file(path: &str, headers: &HeaderMap) -> Option<Reply> {
    let name = match path.strip_prefix('/')? {
        "" => "index.html",
        // Links within the guide are relative to its folder.
        "help" => return Some(Reply::empty(StatusCode::PERMANENT_REDIRECT).field(LOCATION, "help/")),
        "help/" => "help/index.html",
        name => name,
    };
    let found = |name: &str| FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
    let bytes = match (found(name), name) {
        (Some(bytes), _) => bytes,
        (None, "index.html") => MINIMAL.as_bytes(),
        (None, _) => return None,
    };
    let packed = found(&format!("{name}.gz"));
    let sent = packed.filter(|_| accepts_gzip(headers));
    // Built assets carry a hash of their content in their names.
    let caching = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut reply = Reply::with_body(StatusCode::OK, media_type(name), sent.unwrap_or(bytes))
        .field(CACHE_CONTROL, caching)
        .field(CONTENT_SECURITY_POLICY, POLICY)
        .field(REFERRER_POLICY, "no-referrer");
    if packed.is_some() {
        reply = reply.field(VARY, "Accept-Encoding");
    }
    if sent.is_some() {
        reply = reply.field(CONTENT_ENCODING, "gzip");
    }
    Some(reply)
}

/// True for a client that names gzip (RFC 9110 §12.5.3), as every browser does.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    joined(headers, &ACCEPT_ENCODING)
        .is_some_and(|accept| weighted(&accept).any(|(coding, weight)| coding == "gzip" && weight > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_page() {
        let file = |path| file(path, &HeaderMap::new());
        let page = file("/").expect("a page");
        assert!(String::from_utf8_lossy(&page.body).contains("Isocast"));
        assert_eq!(file("/help").expect("a way").status, StatusCode::PERMANENT_REDIRECT);
        assert!(file("/assets/none.js").is_none());
        assert!(file("/../Cargo.toml").is_none());
    }

    #[test]
    fn a_client_that_names_gzip_accepts_it() {
        for (accept, accepts) in [
            ("gzip, deflate, br", true),
            ("br;q=1, GZIP ; q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("x-gzip", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, accept.parse().expect("a value"))]);
            assert_eq!(accepts_gzip(&headers), accepts, "{accept}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
