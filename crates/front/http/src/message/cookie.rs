//! Cookies of a request (RFC 6265).
//!
//! Promise: pure; the first of a name counts.

use http_types::HeaderMap;
use http_types::header::COOKIE;

/// The value of the cookie of this name.
#[must_use]
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(';')).find_map(|pair| {
        let (known, value) = pair.trim().split_once('=')?;
        (known == name).then_some(value)
    })
}
