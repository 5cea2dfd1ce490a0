//! Cookies of requests and answers (RFC 6265).
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

/// `Set-Cookie`: no script reads it, no request of another site has it but a link that is followed. Within TLS, where its name
/// begins with `__Host-`, no other host of the domain can have set it (RFC 6265bis §4.1.3.2).
#[must_use]
pub fn set_cookie(name: &str, text: &str, seconds: u32) -> String {
    let secure = if name.starts_with("__Host-") { "; Secure" } else { "" };
    format!("{name}={text}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}
