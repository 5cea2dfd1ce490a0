//! Notation of values in the configuration, both ways, and the hint where one is written otherwise.
//!
//! Not here: names and meanings of the settings (`super`).

use std::net::SocketAddr;
use std::path::PathBuf;

use units::{BitRate, ByteCount, Nanos};

pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let named = text.rsplit_once(':').filter(|(_, port)| !port.is_empty() && port.parse::<u16>().is_err());
        let why =
            named.map_or_else(String::new, |(_, port)| format!(" (`{port}` is no port: a number up to 65535 is)"));
        format!("`{text}` is not an address with a port{why}; write for example `127.0.0.1:8080` or `[::]:80`")
    })
}

/// The disks of one volume, as a list with commas.
pub(super) struct DiskPaths(pub(super) Vec<PathBuf>);

pub(super) fn parse_disks(text: &str) -> Result<DiskPaths, String> {
    let disks = text.split(',').map(str::trim).filter(|disk| !disk.is_empty()).map(PathBuf::from);
    let disks: Vec<PathBuf> = disks.collect();
    match disks.is_empty() {
        true => Err("a volume has no disk: name its disks, as in `/dev/sdb,/dev/sdc`".to_owned()),
        false => Ok(DiskPaths(disks)),
    }
}

pub(super) fn any_path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

pub(super) fn parse_path(text: &str) -> Result<PathBuf, String> {
    if ["", "true", "false"].contains(&text) {
        Err("a path is needed, or leave the key out".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

pub(super) fn parse_rate(text: &str) -> Result<BitRate, String> {
    units::parse_rate(text).map_err(|error| error.to_string())
}

pub(super) fn parse_size(text: &str) -> Result<ByteCount, String> {
    units::parse_size(text).map_err(|error| error.to_string())
}

pub(super) fn parse_span(text: &str) -> Result<Nanos, String> {
    units::parse_duration(text).map_err(|error| error.to_string())
}

/// A span that is not longer than `max`.
pub(super) fn span_up_to(max: Nanos) -> impl Fn(&str) -> Result<Nanos, String> {
    move |text| {
        let span = parse_span(text)?;
        if span <= max { Ok(span) } else { Err(format!("`{text}` is too long ({} at most)", span_text(max))) }
    }
}

/// A span that is neither shorter nor longer.
pub(super) fn span_between(min: Nanos, max: Nanos) -> impl Fn(&str) -> Result<Nanos, String> {
    move |text| {
        let span = span_up_to(max)(text)?;
        if span >= min { Ok(span) } else { Err(format!("`{text}` is too short ({} at least)", span_text(min))) }
    }
}

/// As [`span_up_to`], and not nothing.
pub(super) fn time_up_to(max: Nanos) -> impl Fn(&str) -> Result<Nanos, String> {
    move |text| {
        let span = span_up_to(max)(text)?;
        if span.0 > 0 { Ok(span) } else { Err(format!("`{text}`: nothing is done in no time at all")) }
    }
}

pub(super) fn parse_number(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a whole number from {min} to {max}"))
}

pub(super) fn parse_choice(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
}

/// A share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Percent(pub(super) u8);

pub(super) fn parse_percent(text: &str, min: u32, max: u32) -> Result<Percent, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(format!("`{text}` is not a share; write for example `10%`"));
    };
    let number = parse_number(number.trim(), min, max).map_err(|_| format!("`{text}` is not from {min}% to {max}%"))?;
    u8::try_from(number).map(Percent).map_err(|error| error.to_string())
}

/// True for an address of HTTPS, and for one of a program on this machine: no network reads along.
pub(super) fn stays_private(address: &str) -> bool {
    let here = ["http://127.0.0.1", "http://[::1]", "http://localhost"];
    let is_here =
        |here: &&str| address.strip_prefix(*here).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']));
    here.iter().any(is_here) || address.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
}

/// A span in the largest unit that leaves no rest.
pub(super) fn span_text(Nanos(span): Nanos) -> String {
    const SECOND: u64 = 1_000_000_000;
    let units = [("d", 86_400 * SECOND), ("h", 3600 * SECOND), ("min", 60 * SECOND), ("s", SECOND), ("ms", 1_000_000)];
    let fits = units.iter().find(|(_, nanos)| span > 0 && span.is_multiple_of(*nanos));
    let (unit, nanos) = fits.copied().unwrap_or(if span == 0 { ("s", 1) } else { ("us", 1000) });
    format!("{}{unit}", span / nanos)
}

/// Bytes in the largest unit that leaves no rest.
pub(super) fn size_text(ByteCount(bytes): ByteCount) -> String {
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
pub(super) fn rate_text(BitRate(rate): BitRate) -> String {
    in_unit(rate, &[("G", 1_000_000_000), ("M", 1_000_000), ("k", 1000)], "bit/s")
}

fn in_unit(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let fits = units.iter().find(|(_, factor)| value > 0 && value.is_multiple_of(*factor));
    let (unit, factor) = fits.copied().unwrap_or((smallest, 1));
    format!("{}{unit}", value / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_shown_in_the_unit_that_was_meant() {
        for (bytes, text) in [(1 << 40, "1TiB"), (500_000_000_000, "500GB"), (100 << 30, "100GiB"), (1025, "1025B")] {
            assert_eq!(size_text(ByteCount(bytes)), text);
            assert_eq!(units::parse_size(text), Ok(ByteCount(bytes)));
        }
        for (bits, text) in [(8_800_000, "8800k"), (25_000_000, "25M"), (1_000_000_000, "1G"), (1001, "1001bit/s")] {
            assert_eq!(rate_text(BitRate(bits)), text);
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
            assert_eq!(span_text(Nanos(nanos)), text);
        }
    }
}
