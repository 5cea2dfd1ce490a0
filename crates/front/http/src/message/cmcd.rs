//! Common Media Client Data (CTA-5004): a player's statements about itself with each request.
//!
//! Promise: reads `rtp`, `br` (kbit/s), `sid` and `ot` from the query or the four header fields, in the words of version 1 and in those of
//! version 2 (CTA-5004-B: values are lists, with parameters); malformed values are ignored, as the standard demands. Not here: the use of
//! the values (`rate_request`, `content`).

use http_types::HeaderMap;
use units::BitRate;

/// Longest text read.
const TEXT_BYTES_MAX: usize = 4096;
/// Longest session id (the standard: 64 characters).
const SESSION_BYTES_MAX: usize = 64;
/// The four header fields.
const FIELDS: [&str; 4] = ["cmcd-request", "cmcd-object", "cmcd-session", "cmcd-status"];

/// The values that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cmcd {
    /// `rtp`: the throughput the player can use at most.
    pub requested: Option<BitRate>,
    /// `br`: the encoded rate of the object.
    pub encoded: Option<BitRate>,
    /// `sid`: the session.
    pub session: Option<String>,
    /// `ot`: the type of the object.
    pub object: ObjectType,
}

/// Kind of object that a player requests, as far as it separates reads of media from reads that accompany them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ObjectType {
    /// Picture, or picture and sound; or not named.
    #[default]
    Media,
    /// Sound of its own (`a`), which the player reads at the same time.
    Audio,
    /// Not played at a rate: a manifest (`m`), an initialization segment (`i`), captions (`c`, `tt`), a key (`k`).
    Accompanying,
}

impl ObjectType {
    fn read(value: &str) -> Self {
        match item(value) {
            "a" => Self::Audio,
            "m" | "i" | "c" | "tt" | "k" => Self::Accompanying,
            _ => Self::Media,
        }
    }
}

impl Cmcd {
    /// Reads the query's `CMCD=` (decoded) if there is one, else the header fields.
    #[must_use]
    pub fn read(query: Option<&str>, headers: &HeaderMap) -> Self {
        let mut cmcd = Self::default();
        if let Some(text) = query {
            cmcd.take(text);
            return cmcd;
        }
        for name in FIELDS {
            for value in headers.get_all(name) {
                if let Ok(text) = value.to_str() {
                    cmcd.take(text);
                }
            }
        }
        cmcd
    }

    fn take(&mut self, text: &str) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        for pair in split_outside_quotes(text) {
            let Some((key, value)) = pair.trim().split_once('=') else { continue };
            match key {
                "rtp" => self.requested = kilobits(value),
                "br" => self.encoded = kilobits(value),
                "sid" => self.session = quoted(value),
                "ot" => self.object = ObjectType::read(value),
                _ => {}
            }
        }
    }
}

/// Splits at commas that are not inside a quoted string, which begins where a value or an item of a list does.
fn split_outside_quotes(text: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped, mut before) = (false, false, ',');
    text.split(move |c: char| {
        let was_escaped = escaped;
        escaped = quoted && c == '\\' && !was_escaped;
        if c == '"' && !was_escaped {
            quoted = !quoted && matches!(before, '=' | '(' | ' ');
        }
        before = c;
        c == ',' && !quoted
    })
}

/// An item without its parameters.
fn item(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// A whole number of kbit/s within the range of rates; of a list, one for each track of the object, their sum.
fn kilobits(value: &str) -> Option<BitRate> {
    let value = value.trim();
    let items = match value.strip_prefix('(') {
        Some(list) => list.split(')').next().unwrap_or_default(),
        None => item(value),
    };
    let mut sum = 0u64;
    for number in items.split_whitespace() {
        sum = sum.checked_add(item(number).parse().ok()?)?;
    }
    (1..=1_000_000_000).contains(&sum).then_some(BitRate(sum * 1000))
}

fn quoted(value: &str) -> Option<String> {
    let value = value.trim();
    let end = value.rfind('"')?;
    let inner = value[..end].strip_prefix('"')?;
    let id = inner.replace("\\\"", "\"").replace("\\\\", "\\");
    (!id.is_empty() && id.len() <= SESSION_BYTES_MAX).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_types::HeaderValue;
    use proptest::prelude::*;

    #[test]
    fn in_the_query() {
        let text = "bl=21300,br=3200,bs,cid=\"faec5fc2,br=1\",rtp=15000,sid=\"6e2fb550-c457\",su";
        let cmcd = Cmcd::read(Some(text), &HeaderMap::new());
        assert_eq!(cmcd.requested, Some(BitRate(15_000_000)));
        assert_eq!(cmcd.encoded, Some(BitRate(3_200_000)), "what is quoted is not a key");
        assert_eq!(cmcd.session.as_deref(), Some("6e2fb550-c457"));
    }

    #[test]
    fn in_header_fields() {
        let mut headers = HeaderMap::new();
        headers.insert("cmcd-object", HeaderValue::from_static("br=3200,d=4004,ot=a"));
        headers.insert("cmcd-session", HeaderValue::from_static("sid=\"a\\\"b\""));
        let cmcd = Cmcd::read(None, &headers);
        assert_eq!(cmcd.encoded, Some(BitRate(3_200_000)));
        assert_eq!(cmcd.session.as_deref(), Some("a\"b"));
        assert_eq!(cmcd.object, ObjectType::Audio);
        assert_eq!(Cmcd::read(Some("br=131,d=0,ot=i,st=v"), &headers).object, ObjectType::Accompanying);
        assert_eq!(Cmcd::read(Some("ot=av"), &headers).object, ObjectType::Media);
    }

    #[test]
    fn in_the_words_of_version_2() {
        for (text, kilobits) in [
            ("br=(5000),v=2", 5000),
            ("br=(5000;v 128;a),ot=av", 5128),
            ("br=5000;v", 5000),
            ("br=( 3000 )", 3000),
            ("nor=(\"a,br=9000.m4v\" \"b\"),br=(3000),v=2", 3000),
            ("nor=(\"a,br=9000.m4v\" \"b\").m4v\"),br=(3000),sid=\"d\",v=2", 3000),
        ] {
            let cmcd = Cmcd::read(Some(text), &HeaderMap::new());
            assert_eq!(cmcd.encoded, Some(BitRate(kilobits * 1000)), "{text}");
        }
        let cmcd = Cmcd::read(Some("br=(3000;v),sid=\"a;b\";x=1,ot=a;y"), &HeaderMap::new());
        assert_eq!((cmcd.session.as_deref(), cmcd.object), (Some("a;b"), ObjectType::Audio));
        for text in ["br=()", "br=(", "br=(a)", "br=(1 x)", "br=(18446744073709551615 1)", "br=(3000.5)"] {
            assert_eq!(Cmcd::read(Some(text), &HeaderMap::new()).encoded, None, "{text}");
        }
    }

    #[test]
    fn nonsense_is_ignored() {
        for text in ["br", "br=", "br=-1", "br=0", "br=3.2", "br=99999999999", "sid=bare", "sid=\"\"", "=,,=\""] {
            assert_eq!(Cmcd::read(Some(text), &HeaderMap::new()), Cmcd::default(), "{text}");
        }
        let long = format!("sid=\"{}\"", "a".repeat(65));
        assert_eq!(Cmcd::read(Some(&long), &HeaderMap::new()), Cmcd::default());
    }

    proptest! {
        #[test]
        fn any_text(text in "\\PC{0,80}|[brtpsid=,\"\\\\0-9]{0,40}") {
            let cmcd = Cmcd::read(Some(&text), &HeaderMap::new());
            prop_assert!(cmcd.session.is_none_or(|sid| sid.len() <= SESSION_BYTES_MAX));
        }
    }
}
