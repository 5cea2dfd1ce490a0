//! Rates, sizes and spans as people write them. Units are required: a bare number is ambiguous (bits or bytes?) and is
//! refused with a message that gives the right form.

use std::fmt::Display;

use crate::{BitRate, ByteCount, Nanos};

/// Reason that a quantity was not understood. The message is fit to show to a user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No unit was given.
    #[error("`{0}` has no unit; write for example `{1}`")]
    NoUnit(String, &'static str),
    /// The unit is unknown.
    #[error("`{0}` has an unknown unit; write for example `{1}`")]
    UnknownUnit(String, &'static str),
    /// The unit may be bits or bytes, or a second is missing.
    #[error("`{0}` may be bits or bytes: write `{1}`, a rate in bits per second")]
    BitsOrBytes(String, String),
    /// The number cannot be read.
    #[error("`{0}` is not a number with a unit; write for example `{1}`")]
    NotANumber(String, &'static str),
    /// The number is zero, negative or too large.
    #[error("`{0}` is out of range ({1})")]
    OutOfRange(String, &'static str),
}

const RATE_EXAMPLE: &str = "8.8M or 8.8Mbit/s";
const SIZE_EXAMPLE: &str = "512MiB or 2G";
const SPAN_EXAMPLE: &str = "250ms or 4s";

/// Prints a number of things: `1 file`, `2 files`, `2 copies`.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    match thing.strip_suffix("py") {
        _ if number == N::from(1) => format!("{number} {thing}"),
        Some(stem) => format!("{number} {stem}pies"),
        None => format!("{number} {thing}s"),
    }
}

/// Parses a rate: a decimal number, then `k`, `M` or `G` (decimal), then optionally `bit/s`; `bit/s` alone will do.
/// Range: 1 kbit/s … 1 Tbit/s.
///
/// # Errors
/// Any other text, with the reason.
pub fn parse_rate(text: &str) -> Result<BitRate, ParseError> {
    let (number, unit) = split(text, RATE_EXAMPLE)?;
    let factor = match unit {
        "k" | "K" | "kbit/s" | "Kbit/s" => 1_000,
        "M" | "Mbit/s" => 1_000_000,
        "G" | "Gbit/s" => 1_000_000_000,
        "bit/s" => 1,
        "" => return Err(ParseError::NoUnit(shown(text), RATE_EXAMPLE)),
        _ => return Err(unknown_rate_unit(text, number, unit)),
    };
    let bits = scale(number, factor).ok_or_else(|| ParseError::NotANumber(shown(text), RATE_EXAMPLE))?;
    if !(1_000..=1_000_000_000_000).contains(&bits) {
        return Err(ParseError::OutOfRange(shown(text), "rates are 1 kbit/s to 1 Tbit/s"));
    }
    Ok(BitRate(bits))
}

/// Says what to write for the units that people and other programs use.
fn unknown_rate_unit(text: &str, number: &str, unit: &str) -> ParseError {
    let rest = unit.strip_prefix(['k', 'K', 'M', 'G']);
    match rest {
        Some("b" | "B" | "bps" | "Bps" | "b/s" | "B/s" | "bit" | "bits" | "bits/s") => {
            let factor = if unit.starts_with('K') { "k" } else { &unit[..1] };
            ParseError::BitsOrBytes(shown(text), format!("{number}{factor}bit/s"))
        }
        _ => ParseError::UnknownUnit(shown(text), RATE_EXAMPLE),
    }
}

/// Parses a size: `B`, `K`/`KiB`, `M`/`MiB`, `G`/`GiB`, `T`/`TiB` are powers of 1024; `kB`, `MB`, `GB`, `TB` of 1000.
/// Range: 1 B … 8 EiB.
///
/// # Errors
/// Any other text, with the reason.
pub fn parse_size(text: &str) -> Result<ByteCount, ParseError> {
    let (number, unit) = split(text, SIZE_EXAMPLE)?;
    let factor = match unit {
        "B" => 1,
        "K" | "KiB" | "k" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "" => return Err(ParseError::NoUnit(shown(text), SIZE_EXAMPLE)),
        _ => return Err(ParseError::UnknownUnit(shown(text), SIZE_EXAMPLE)),
    };
    match scale(number, factor).ok_or_else(|| ParseError::NotANumber(shown(text), SIZE_EXAMPLE))? {
        0 | BEYOND => Err(ParseError::OutOfRange(shown(text), "sizes are 1 B to 8 EiB")),
        bytes => Ok(ByteCount(bytes)),
    }
}

/// Parses a span of time: `us`, `ms`, `s`, `min`, `h` or `d`.
///
/// # Errors
/// Any other text, with the reason.
pub fn parse_duration(text: &str) -> Result<Nanos, ParseError> {
    let (number, unit) = split(text, SPAN_EXAMPLE)?;
    let factor = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" | "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        "" => return Err(ParseError::NoUnit(shown(text), SPAN_EXAMPLE)),
        _ => return Err(ParseError::UnknownUnit(shown(text), SPAN_EXAMPLE)),
    };
    match scale(number, factor).ok_or_else(|| ParseError::NotANumber(shown(text), SPAN_EXAMPLE))? {
        BEYOND => Err(ParseError::OutOfRange(shown(text), "spans are at most 500 years")),
        nanos => Ok(Nanos(nanos)),
    }
}

/// Splits `text` into a decimal number and the rest.
fn split<'a>(text: &'a str, example: &'static str) -> Result<(&'a str, &'a str), ParseError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.len() > 20 {
        return Err(ParseError::OutOfRange(shown(text), "it has at most 20 digits"));
    }
    if number.is_empty() {
        let negative = text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit());
        return Err(if negative {
            ParseError::OutOfRange(shown(text), "it must be greater than zero")
        } else {
            ParseError::NotANumber(shown(text), example)
        });
    }
    Ok((number, unit.trim()))
}

/// Result of [`scale`] for larger numbers: more than every range.
const BEYOND: u64 = u64::MAX;

/// `number × factor` in whole units, exact in decimal (no floating point: 8.8M is 8 800 000), rounded down.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let places = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let total = whole.checked_mul(u128::from(factor))?.checked_add(part.checked_mul(u128::from(factor))? / places)?;
    Some(u64::try_from(total).unwrap_or(BEYOND))
}

/// At most 40 characters of the given text, safe to print.
fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_counted_in_the_singular() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "disk")), ["0 disks", "1 disk", "2 disks"]);
        assert_eq!([1_u64, 3].map(|number| counted(number, "copy")), ["1 copy", "3 copies"]);
    }

    #[test]
    fn rates_are_decimal_and_exact() {
        assert_eq!(parse_rate("8.8M"), Ok(BitRate(8_800_000)));
        assert_eq!(parse_rate("8.8Mbit/s"), Ok(BitRate(8_800_000)));
        assert_eq!(parse_rate("25 Mbit/s"), Ok(BitRate(25_000_000)));
        assert_eq!(parse_rate("2500k"), Ok(BitRate(2_500_000)));
        assert_eq!(parse_rate("1G"), Ok(BitRate(1_000_000_000)));
    }

    #[test]
    fn bad_rates_get_a_hint() {
        assert!(matches!(parse_rate("8800000"), Err(ParseError::NoUnit(..))));
        assert!(matches!(parse_rate("-3M"), Err(ParseError::OutOfRange(..))));
        assert!(matches!(parse_rate("0M"), Err(ParseError::OutOfRange(..))));
        assert!(matches!(parse_rate("9999T"), Err(ParseError::UnknownUnit(..))));
        for (text, right) in [("1Gb", "1Gbit/s"), ("8Mb/s", "8Mbit/s"), ("8.8Mbps", "8.8Mbit/s"), ("5KB", "5kbit/s")] {
            let said = parse_rate(text).expect_err("it may be bytes").to_string();
            assert!(said.contains(&format!("write `{right}`")), "{said}");
        }
        assert!(matches!(parse_rate("9999999G"), Err(ParseError::OutOfRange(..))));
        assert!(matches!(parse_rate("M"), Err(ParseError::NotANumber(..))));
        assert!(matches!(parse_rate("1.2.3M"), Err(ParseError::NotANumber(..))));
        assert!(parse_rate("8,8M").is_err());
        assert!(parse_rate("").is_err());
        for absurd in ["999999999999G", "99999999999999999999G", "999999999999999999999G"] {
            assert!(matches!(parse_rate(absurd), Err(ParseError::OutOfRange(..))), "{absurd}");
        }
    }

    #[test]
    fn sizes_and_spans() {
        assert_eq!(parse_size("512MiB"), Ok(ByteCount(512 << 20)));
        assert_eq!(parse_size("2G"), Ok(ByteCount(2 << 30)));
        assert_eq!(parse_size("1.5kB"), Ok(ByteCount(1500)));
        assert!(parse_size("12").is_err());
        assert!(matches!(parse_size("99999999999T"), Err(ParseError::OutOfRange(..))));
        assert!(matches!(parse_duration("99999999999h"), Err(ParseError::OutOfRange(..))));
        assert_eq!(parse_duration("250ms"), Ok(Nanos::from_millis(250)));
        assert_eq!(parse_duration("1.5s"), Ok(Nanos::from_millis(1500)));
    }
}
