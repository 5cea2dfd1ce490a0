//! The modification time of a content in a header field: seconds since 1970, with up to nine digits behind a point. HTTP's dates have
//! whole seconds, in which a file can change again.

use std::time::{Duration, SystemTime};

/// Field of a content's answers that carries its exact modification time.
pub const MODIFIED_FIELD: &str = "x-isocast-modified";

/// The last second of the year 9999, since 1970.
pub const MODIFIED_SECONDS_MAX: u64 = 253_402_300_799;

/// The text of a time. Times before 1970 are as 1970, those after the year 9999 as its end.
#[must_use]
pub fn format_modified(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = since.min(Duration::from_secs(MODIFIED_SECONDS_MAX));
    match since.subsec_nanos() {
        0 => since.as_secs().to_string(),
        nanos => format!("{}.{nanos:09}", since.as_secs()),
    }
}

/// The time of such a text; none of another text, and beyond the year 9999.
#[must_use]
pub fn parse_modified(text: &str) -> Option<SystemTime> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(seconds) || !are_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds = seconds.parse().ok().filter(|seconds| *seconds <= MODIFIED_SECONDS_MAX)?;
    Some(SystemTime::UNIX_EPOCH + Duration::new(seconds, format!("{fraction:0<9}").parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_after_its_text() {
        for (seconds, nanos, text) in
            [(0, 0, "0"), (5, 1, "5.000000001"), (1_600_000_000, 250_000_000, "1600000000.250000000")]
        {
            let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
            assert_eq!((format_modified(time), parse_modified(text)), (text.to_owned(), Some(time)));
        }
        assert_eq!(parse_modified("7.5"), Some(SystemTime::UNIX_EPOCH + Duration::from_millis(7500)));
        assert_eq!(format_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(9)), "0");
        assert_eq!(format_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(300_000_000_000)), "253402300799");
        for other in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1.0000000000", "253402300800", "1.5.5", " 1"] {
            assert_eq!(parse_modified(other), None, "{other}");
        }
    }
}
