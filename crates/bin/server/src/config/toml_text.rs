//! Values as TOML texts.

use std::fmt::{self, Write as _};

use toml::Value;
use units::{BitRate, Nanos};

/// A TOML text, escaped as needed.
pub(super) fn quoted(text: &dyn fmt::Display) -> String {
    Value::String(text.to_string()).to_string()
}

/// A span in the largest unit that leaves no rest.
pub(super) fn span(span: Nanos) -> String {
    quoted(&plain_span(span))
}

/// The same without quotes.
pub(super) fn plain_span(Nanos(span): Nanos) -> String {
    const SECOND: u64 = 1_000_000_000;
    let units = [("d", 86_400 * SECOND), ("h", 3600 * SECOND), ("min", 60 * SECOND), ("s", SECOND), ("ms", 1_000_000)];
    let fits = units.iter().find(|(_, nanos)| span > 0 && span.is_multiple_of(*nanos));
    let (unit, nanos) = fits.copied().unwrap_or(if span == 0 { ("s", 1) } else { ("us", 1000) });
    format!("{}{unit}", span / nanos)
}

/// Bytes in the largest unit that leaves no rest.
pub(super) fn size(bytes: u64) -> String {
    let units = [
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("kB", 1000),
    ];
    in_unit(bytes, &units, "B")
}

/// A rate in the largest unit that leaves no rest.
pub(super) fn rate(BitRate(rate): BitRate) -> String {
    in_unit(rate, &[("G", 1_000_000_000), ("M", 1_000_000), ("k", 1000)], "bit/s")
}

fn in_unit(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let fits = units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor));
    let (unit, factor) = fits.copied().unwrap_or((smallest, 1));
    format!("\"{}{unit}\"", value / factor)
}

/// Texts of a list, as TOML.
pub(super) fn list(texts: &[String]) -> String {
    texts.iter().enumerate().fold(String::new(), |mut all, (at, text)| {
        let _ = write!(all, "{}{}", if at == 0 { "" } else { ", " }, quoted(text));
        all
    })
}

#[cfg(test)]
mod tests {
    use units::ByteCount;

    use super::*;

    #[test]
    fn quantities_are_shown_in_the_unit_that_was_meant() {
        for (bytes, text) in [(1 << 40, "1TiB"), (500_000_000_000, "500GB"), (100 << 30, "100GiB"), (1025, "1025B")] {
            assert_eq!(size(bytes), format!("\"{text}\""));
            assert_eq!(units::parse_size(text), Ok(ByteCount(bytes)));
        }
        for (bits, text) in [(8_800_000, "8800k"), (25_000_000, "25M"), (1_000_000_000, "1G"), (1001, "1001bit/s")] {
            assert_eq!(rate(BitRate(bits)), format!("\"{text}\""));
            assert_eq!(units::parse_rate(text), Ok(BitRate(bits)));
        }
        let day = 86_400_000_000_000;
        for (nanos, text) in [
            (30 * day, "30d"),
            (day / 24, "1h"),
            (day / 16, "90min"),
            (90_000_000_000, "90s"),
            (0, "0s"),
            (7000, "7us"),
        ] {
            assert_eq!(plain_span(Nanos(nanos)), text);
        }
    }
}
