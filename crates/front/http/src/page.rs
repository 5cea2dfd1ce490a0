//! The page at `/` and the guide at `/help/`: the built files of `web/`, embedded, or a minimal page where they were not built.

use http_types::StatusCode;
use http_types::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY};

use crate::message::media_type::media_type;
use crate::message::reply::Reply;

/// Files of the page, by name relative to `/`.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// Shown where the page was not built: enough to see that the server runs, and where the contents are.
const MINIMAL: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Isocast</title>\
<h1>Isocast</h1><p>The server runs; its page was not built into it. <a href=\"media/\">Contents</a>, \
<a href=\"api/v1/system\">figures</a>.</p></html>\n";

/// Only scripts and styles from this server run, and only here; players build their media from blobs.
const POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data:; \
style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The file of the page at `path` (`/`, `/assets/x.js`), if there is one.
pub(crate) fn file(path: &str) -> Option<Reply> {
    let name = match path.strip_prefix('/')? {
        "" => "index.html",
        // Links within the guide are relative to its folder.
        "help" => return Some(Reply::empty(StatusCode::PERMANENT_REDIRECT).field(LOCATION, "help/")),
        "help/" => "help/index.html",
        name => name,
    };
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
    let bytes = match (found, name) {
        (Some(bytes), _) => bytes,
        (None, "index.html") => MINIMAL.as_bytes(),
        (None, _) => return None,
    };
    // Built assets carry a hash of their content in their names.
    let caching = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let reply = Reply::with_body(StatusCode::OK, media_type(name), bytes)
        .field(CACHE_CONTROL, caching)
        .field(CONTENT_SECURITY_POLICY, POLICY)
        .field(REFERRER_POLICY, "no-referrer");
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_page() {
        let page = file("/").expect("a page");
        assert!(String::from_utf8_lossy(&page.body).contains("Isocast"));
        assert_eq!(file("/help").expect("a way").status, StatusCode::PERMANENT_REDIRECT);
        assert!(file("/assets/none.js").is_none());
        assert!(file("/../Cargo.toml").is_none());
    }
}
