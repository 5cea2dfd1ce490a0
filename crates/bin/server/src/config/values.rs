//! Notation of values in the configuration, and the hint where one is written otherwise.
//!
//! Not here: names and meanings of the settings (`super`).

use std::net::SocketAddr;
use std::path::PathBuf;

use units::{BitRate, ByteCount, Nanos};

use super::toml_text::plain_span;
use super::{HITACTIX_CYCLE, MEMORY_MIN, MemorySetting, SECOND};

pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let named = text.rsplit_once(':').filter(|(_, port)| !port.is_empty() && port.parse::<u16>().is_err());
        let why =
            named.map_or_else(String::new, |(_, port)| format!(" (`{port}` is no port: a number up to 65535 is)"));
        format!("`{text}` is not an address with a port{why}; write for example `127.0.0.1:8080` or `[::]:80`")
    })
}

/// The disks of one volume, as a list with commas.
pub(super) fn volume_disks(text: &str) -> Vec<PathBuf> {
    text.split(',').map(str::trim).filter(|disk| !disk.is_empty()).map(PathBuf::from).collect()
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
        if span <= max { Ok(span) } else { Err(format!("`{text}` is too long ({} at most)", plain_span(max))) }
    }
}

/// A span that is neither shorter nor longer.
pub(super) fn span_between(min: Nanos, max: Nanos) -> impl Fn(&str) -> Result<Nanos, String> {
    move |text| {
        let span = span_up_to(max)(text)?;
        if span >= min { Ok(span) } else { Err(format!("`{text}` is too short ({} at least)", plain_span(min))) }
    }
}

/// As [`span_up_to`], and not nothing.
pub(super) fn time_up_to(max: Nanos) -> impl Fn(&str) -> Result<Nanos, String> {
    move |text| {
        let span = span_up_to(max)(text)?;
        if span.0 > 0 { Ok(span) } else { Err(format!("`{text}`: nothing is done in no time at all")) }
    }
}

pub(super) fn parse_cycle(text: &str) -> Result<Nanos, String> {
    let cycle = parse_span(text)?;
    let fits = cycle >= Nanos::from_millis(50) && cycle <= SECOND && SECOND.0.is_multiple_of(cycle.0);
    if fits || cycle == HITACTIX_CYCLE {
        Ok(cycle)
    } else {
        Err(format!(
            "`{text}` cannot be a cycle: 50 ms to 1 s, a whole number to the second (such as `250ms`), or `256ms`"
        ))
    }
}

/// 50 ms, or an eighth of a cycle that this does not go into.
pub(super) fn default_tick(cycle: Nanos) -> Nanos {
    let usual = Nanos::from_millis(50);
    if cycle.0.is_multiple_of(usual.0) { usual } else { Nanos(cycle.0 / 8) }
}

/// The whole cycles nearest to a second.
pub(super) fn default_round(cycle: Nanos) -> Nanos {
    cycle.saturating_mul(((SECOND.0 + cycle.0 / 2) / cycle.0.max(1)).max(1))
}

pub(super) fn parse_number(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a whole number from {min} to {max}"))
}

pub(super) fn parse_choice(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither `true` nor `false`"))
}

pub(super) fn parse_percent(text: &str, min: u32, max: u32) -> Result<u8, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(format!("`{text}` is not a share; write for example `10%`"));
    };
    let number = parse_number(number.trim(), min, max).map_err(|_| format!("`{text}` is not from {min}% to {max}%"))?;
    u8::try_from(number).map_err(|error| error.to_string())
}

pub(super) fn parse_memory(text: &str) -> Result<MemorySetting, String> {
    if text.trim().ends_with('%') {
        return parse_percent(text, 1, 80).map(MemorySetting::Percent);
    }
    let size = units::parse_size(text).map_err(|error| format!("{error}, or a share of the memory such as `25%`"))?;
    if size < MEMORY_MIN {
        Err(format!("`{text}` is too little; {MEMORY_MIN} at least"))
    } else {
        Ok(MemorySetting::Size(size))
    }
}
/// True for an address of HTTPS, and for one of a program on this machine: no network reads along.
pub(super) fn stays_private(address: &str) -> bool {
    let here = ["http://127.0.0.1", "http://[::1]", "http://localhost"];
    let is_here =
        |here: &&str| address.strip_prefix(*here).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']));
    here.iter().any(is_here) || address.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
}
