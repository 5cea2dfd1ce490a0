//! The query of a request target: `rate=`, `burst=`, `session=`, `format=`, `limit=`, `after=`, `on_break=`, `durable=`, `every=`, `CMCD=`,
//! `device=`, `share=`, `download`.
//!
//! Promise: decoded as browsers encode (percent, `+` for a space); a key given twice is an error, not a guess.
//! Unknown keys are ignored: players add their own.

use percent_encoding::percent_decode_str;

/// The keys that mean something here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// `rate=`: a rate, or `max`.
    pub rate: Option<String>,
    /// `burst=`: a span of time.
    pub burst: Option<String>,
    /// `session=`: a token of the client's choice.
    pub session: Option<String>,
    /// `format=`: of a listing.
    pub format: Option<String>,
    /// `on_break=`: fate of an upload that breaks off.
    pub on_break: Option<String>,
    /// `durable=`: the longest part of a recording that may be missing after a power cut.
    pub durable: Option<String>,
    /// `every=`: the duration of each file of a recording.
    pub every: Option<String>,
    /// `limit=`: entries of a listing.
    pub limit: Option<String>,
    /// `after=`: the name after which a listing begins.
    pub after: Option<String>,
    /// `CMCD=`: CTA-5004 in the query.
    pub cmcd: Option<String>,
    /// `device=`: a disk that comes into a volume.
    pub device: Option<String>,
    /// `share=`: a signed link.
    pub share: Option<String>,
    /// `download`: browsers are to keep the content, not to show it.
    pub download: Option<String>,
}

/// A key was given twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}=` is given twice in the query; give it once")]
pub struct Repeated(pub &'static str);

/// The keys, and the values decoded, in their order.
pub(crate) fn pairs(text: Option<&str>) -> impl Iterator<Item = (&str, String)> {
    text.unwrap_or_default().split('&').map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let spaced = value.replace('+', " ");
        (key, percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
    })
}

impl Query {
    /// Reads the text after the `?`.
    ///
    /// # Errors
    /// A key that means something here is given twice.
    pub fn parse(text: Option<&str>) -> Result<Self, Repeated> {
        let mut query = Self::default();
        for (key, value) in pairs(text) {
            let (name, field) = match key {
                "rate" => ("rate", &mut query.rate),
                "burst" => ("burst", &mut query.burst),
                "session" => ("session", &mut query.session),
                "format" => ("format", &mut query.format),
                "on_break" => ("on_break", &mut query.on_break),
                "durable" => ("durable", &mut query.durable),
                "every" => ("every", &mut query.every),
                "limit" => ("limit", &mut query.limit),
                "after" => ("after", &mut query.after),
                "CMCD" => ("CMCD", &mut query.cmcd),
                "device" => ("device", &mut query.device),
                "share" => ("share", &mut query.share),
                "download" => ("download", &mut query.download),
                _ => continue,
            };
            if field.replace(value).is_some() {
                return Err(Repeated(name));
            }
        }
        Ok(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_keys_are_decoded() {
        let query = Query::parse(Some("rate=8.8Mbit%2Fs&x=y&burst=2s&session=a+b&CMCD=br%3D3200")).expect("fine");
        assert_eq!(query.rate.as_deref(), Some("8.8Mbit/s"));
        assert_eq!(query.burst.as_deref(), Some("2s"));
        assert_eq!(query.session.as_deref(), Some("a b"));
        assert_eq!(query.cmcd.as_deref(), Some("br=3200"));
        assert_eq!(Query::parse(None), Ok(Query::default()));
        assert_eq!(Query::parse(Some("&&=&%zz&rate")).expect("fine").rate.as_deref(), Some(""));
    }

    #[test]
    fn twice_is_an_error() {
        assert_eq!(Query::parse(Some("rate=1M&rate=2M")), Err(Repeated("rate")));
    }
}
