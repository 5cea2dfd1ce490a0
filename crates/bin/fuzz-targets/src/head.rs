//! Request heads: any bytes give an answer; a head is within its bounds and means the same however it arrives.

use http::message::cmcd::Cmcd;
use http::message::conditional::etag_list;
use http::message::head::{HEAD_BYTES_MAX, parse_head};
use http::message::query::Query;

/// The target.
pub fn target(bytes: &[u8]) {
    let Ok(Some(head)) = parse_head(bytes) else { return };
    assert!(head.bytes <= bytes.len() && head.bytes <= HEAD_BYTES_MAX);
    assert!(head.path == "*" || head.path.starts_with('/'));
    let again = parse_head(&bytes[..head.bytes]).expect("the same head").expect("complete");
    assert_eq!((again.method, again.path, again.body), (head.method, head.path, head.body));
    if let Ok(query) = Query::parse(head.query.as_deref()) {
        let _ = Cmcd::read(query.cmcd.as_deref(), &head.headers);
    }
    for value in head.headers.values() {
        let _ = etag_list(&String::from_utf8_lossy(value.as_bytes()));
    }
}
