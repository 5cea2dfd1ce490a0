//! Header fields of WebDAV (RFC 4918 §10), but for `If`.
//!
//! Promise: a field is read in full or refused with its name.

/// Longest time of a lock, in seconds: a lock that its client forgot ends within an hour.
pub const LOCK_SECONDS_MAX: u64 = 3600;
/// Time of a lock whose client asks for none, in seconds.
const LOCK_SECONDS: u64 = 600;

/// Reason for the refusal of a field. Fit to be shown to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// `Depth`.
    #[error("`Depth` is 0, 1 or infinity")]
    Depth,
    /// `Destination`.
    #[error("`Destination` is an address of this server, without `?` and `#`")]
    Destination,
    /// `Overwrite`.
    #[error("`Overwrite` is T or F")]
    Overwrite,
    /// `Lock-Token`.
    #[error("`Lock-Token` is the token of the lock in angle brackets")]
    LockToken,
    /// `If`.
    #[error("`If` is no list of conditions (RFC 4918 §10.4), or has more than 64 of them")]
    If,
}

/// `Depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DavDepth {
    /// The resource alone.
    Zero,
    /// And its members.
    One,
    /// And all below them.
    Infinity,
}

/// `Destination`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination<'a> {
    /// The authority of an absolute address.
    pub server: Option<&'a str>,
    /// The path, as it is encoded.
    pub path: &'a str,
}

/// Reads `Depth`; none is `Ok(None)`.
///
/// # Errors
/// Another value.
pub fn depth(value: Option<&str>) -> Result<Option<DavDepth>, FieldError> {
    match value.map(str::trim) {
        None => Ok(None),
        Some("0") => Ok(Some(DavDepth::Zero)),
        Some("1") => Ok(Some(DavDepth::One)),
        Some(text) if text.eq_ignore_ascii_case("infinity") => Ok(Some(DavDepth::Infinity)),
        Some(_) => Err(FieldError::Depth),
    }
}

/// Reads `Overwrite`: true without the field.
///
/// # Errors
/// Another value than `T` and `F`.
pub fn overwrite(value: Option<&str>) -> Result<bool, FieldError> {
    match value.map(str::trim) {
        None | Some("T" | "t") => Ok(true),
        Some("F" | "f") => Ok(false),
        Some(_) => Err(FieldError::Overwrite),
    }
}

/// Reads `Timeout`: the first time in it that is understood, at most [`LOCK_SECONDS_MAX`], at least one second.
#[must_use]
pub fn timeout_seconds(value: Option<&str>) -> u64 {
    let wanted = value.unwrap_or_default().split(',').map(str::trim).find_map(|one| {
        if one.eq_ignore_ascii_case("infinite") {
            return Some(LOCK_SECONDS_MAX);
        }
        let (unit, digits) = one.split_at_checked("Second-".len())?;
        let is_number = unit.eq_ignore_ascii_case("second-") && !digits.is_empty();
        let is_number = is_number && digits.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than a number has mean a long time.
        is_number.then(|| digits.parse().unwrap_or(LOCK_SECONDS_MAX))
    });
    wanted.unwrap_or(LOCK_SECONDS).clamp(1, LOCK_SECONDS_MAX)
}

/// Reads `Destination`.
///
/// # Errors
/// It is neither an absolute address of HTTP nor an absolute path.
pub fn destination(value: &str) -> Result<Destination<'_>, FieldError> {
    let value = value.trim();
    if value.bytes().any(|byte| matches!(byte, b'?' | b'#' | 0..=b' ' | 127)) {
        return Err(FieldError::Destination);
    }
    if value.starts_with('/') && !value.starts_with("//") {
        return Ok(Destination { server: None, path: value });
    }
    let (scheme, rest) = value.split_once("://").ok_or(FieldError::Destination)?;
    let at = rest.find('/').ok_or(FieldError::Destination)?;
    let (authority, path) = rest.split_at(at);
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if !is_http || authority.is_empty() {
        return Err(FieldError::Destination);
    }
    Ok(Destination { server: Some(authority), path })
}

/// Reads `Lock-Token`.
///
/// # Errors
/// It is no token in angle brackets.
pub fn unlock_token(value: Option<&str>) -> Result<&str, FieldError> {
    let token = value.and_then(|value| value.trim().strip_prefix('<')?.strip_suffix('>'));
    token.filter(|token| !token.is_empty() && !token.contains(['<', '>'])).ok_or(FieldError::LockToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_and_overwrites() {
        assert_eq!((depth(None), depth(Some("0"))), (Ok(None), Ok(Some(DavDepth::Zero))));
        assert_eq!(
            (depth(Some("1")), depth(Some(" Infinity"))),
            (Ok(Some(DavDepth::One)), Ok(Some(DavDepth::Infinity)))
        );
        assert_eq!(depth(Some("2")), Err(FieldError::Depth));
        assert_eq!((overwrite(None), overwrite(Some("F"))), (Ok(true), Ok(false)));
        assert_eq!(overwrite(Some("no")), Err(FieldError::Overwrite));
    }

    #[test]
    fn times_of_locks_are_bounded() {
        for (text, seconds) in [
            (None, 600),
            (Some("Second-5"), 5),
            (Some("Second-0"), 1),
            (Some("Infinite, Second-4100000000"), 3600),
            (Some("Second-99999999999999999999999"), 3600),
            (Some("x, second-70"), 70),
            (Some("Second--5"), 600),
            (Some("Sécond"), 600),
        ] {
            assert_eq!(timeout_seconds(text), seconds, "{text:?}");
        }
    }

    #[test]
    fn destinations() {
        let whole = destination("http://h:80/media/a%20b").unwrap();
        assert_eq!((whole.server, whole.path), (Some("h:80"), "/media/a%20b"));
        assert_eq!(destination("/media/a").unwrap().server, None);
        for text in ["", "media/a", "//h/a", "http://h", "http:///a", "/a?b", "/a#b", "/a b", "h t://h/a", "ftp://h/a"]
        {
            assert_eq!(destination(text), Err(FieldError::Destination), "{text}");
        }
    }

    #[test]
    fn tokens() {
        assert_eq!(unlock_token(Some(" <urn:uuid:1> ")), Ok("urn:uuid:1"));
        for text in [None, Some(""), Some("urn:uuid:1"), Some("<>"), Some("<a><b>")] {
            assert_eq!(unlock_token(text), Err(FieldError::LockToken), "{text:?}");
        }
    }
}
