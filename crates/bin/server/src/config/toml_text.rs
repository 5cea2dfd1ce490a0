//! Values as TOML texts.

use std::fmt::{self, Write as _};

use toml::Value;
use units::Nanos;

/// A TOML text, escaped as needed.
pub(super) fn quoted(text: &dyn fmt::Display) -> String {
    Value::String(text.to_string()).to_string()
}

/// A span in the largest unit that leaves no rest.
pub(super) fn span(span: Nanos) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000)];
    let fits = units.iter().find(|(_, nanos)| span.0.is_multiple_of(*nanos));
    fits.map_or_else(|| format!("\"{}us\"", span.0 / 1000), |(unit, nanos)| format!("\"{}{unit}\"", span.0 / nanos))
}

/// Texts of a list, as TOML.
pub(super) fn list(texts: &[String]) -> String {
    texts.iter().enumerate().fold(String::new(), |mut all, (at, text)| {
        let _ = write!(all, "{}{}", if at == 0 { "" } else { ", " }, quoted(text));
        all
    })
}
