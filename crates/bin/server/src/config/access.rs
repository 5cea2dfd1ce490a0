//! `[access]`: notation of the names, origins and rights in it.

use http::message::authority::{RequestHost, host};

use super::toml_text::Word;

pub(super) fn parse_host(name: &str) -> Result<String, String> {
    match host(name) {
        Some(RequestHost::Name(whole)) if whole == name && !name.is_empty() => Ok(name.to_owned()),
        _ => Err(format!("`{name}` is no name; write for example `media.example`, or `*` for every one")),
    }
}

pub(super) fn parse_origin(origin: &str) -> Result<String, String> {
    let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    if origin == "*" || rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', ' '])) {
        return Ok(origin.to_owned());
    }
    Err(format!("`{origin}` is no origin; write for example `https://player.example`, or `*` for every one"))
}

/// The rights of a client without a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anonymous {
    Read,
    None,
}

impl Word for Anonymous {
    const WORDS: &'static [(&'static str, Self)] = &[("read", Self::Read), ("none", Self::None)];
}
