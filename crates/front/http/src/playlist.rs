//! Stage: an HLS playlist (RFC 8216) passes the session, the rate and the signed link of its request on to the addresses it names, so that
//! all requests of its player hold one stream, and have the link's right.
//!
//! Promise: only addresses on this server, however a player reads them, get the three, and never twice; everything else of
//! the playlist stays as it is. Holds one line; no run of lines becomes longer than [`GROWTH_MAX`] times its old length
//! and [`GROWTH_BYTES`].

use bytes::{Bytes, BytesMut};
use percent_encoding::{AsciiSet, utf8_percent_encode};
use service::pipeline::{Stage, StageError};

use crate::message::media_type::{PLAYLIST, media_type};
use crate::message::reply::UNFIT;

/// Longest line.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// Longest `session=…&rate=…&share=…`.
const CARRIED_BYTES_MAX: usize = 192;
/// Factor by which lines may grow …
const GROWTH_MAX: usize = 8;
/// … and the bytes beyond that: a piece of them is one allocation.
const GROWTH_BYTES: usize = 64 * 1024;
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Characters that no query may hold, or that would end a quoted attribute.
const NOT_IN_QUERY: &AsciiSet = &UNFIT.add(b'#');
/// Tags with a `URI` that is a part of the media, played at the rate.
const MEDIA_TAGS: [&str; 3] = ["#EXT-X-MAP:", "#EXT-X-PART:", "#EXT-X-PRELOAD-HINT:"];
/// Tags with a `URI` that is another playlist, of another rate.
const PLAYLIST_TAGS: [&str; 4] =
    ["#EXT-X-MEDIA:", "#EXT-X-I-FRAME-STREAM-INF:", "#EXT-X-RENDITION-REPORT:", INTERSTITIAL_TAG];
/// Tag of an interstitial, played amid the media (RFC 8216bis, appendix D): its attributes have names of their own, and a
/// tag has one of them.
const INTERSTITIAL_TAG: &str = "#EXT-X-DATERANGE:";
const INTERSTITIAL_ATTRIBUTES: [&str; 2] = ["X-ASSET-URI", "X-ASSET-LIST"];

struct Playlist {
    session: Option<String>,
    rate: Option<String>,
    share: Option<String>,
    /// The line that has begun.
    held: BytesMut,
    /// Bytes beyond [`GROWTH_MAX`] times the lines they came of.
    excess: usize,
    /// Its first line has passed.
    begun: bool,
}

/// The stage for a content at `path`, if the query has something for it to carry.
pub(crate) fn stage(path: &str, query: Option<&str>) -> Option<Box<dyn Stage>> {
    let pair = |name: &str| {
        let mut pairs = query.unwrap_or_default().split('&');
        let pair = pairs.find(|pair| pair.split('=').next() == Some(name))?;
        Some(utf8_percent_encode(pair, NOT_IN_QUERY).to_string())
    };
    let (session, rate, share) = (pair("session"), pair("rate"), pair("share"));
    let length = session.iter().chain(&rate).chain(&share).map(String::len).sum();
    let applies = media_type(path) == PLAYLIST && (1..=CARRIED_BYTES_MAX).contains(&length);
    let playlist = Playlist { session, rate, share, held: BytesMut::new(), excess: 0, begun: false };
    applies.then(|| Box::new(playlist) as Box<dyn Stage>)
}

impl Stage for Playlist {
    fn alters(&self) -> Option<&'static str> {
        Some("session")
    }

    fn pass(&mut self, piece: Bytes) -> Result<Bytes, StageError> {
        let mut passed = BytesMut::with_capacity(2 * piece.len());
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.held.extend_from_slice(part);
            if self.held.len() > LINE_BYTES_MAX {
                return Err(refused("it has a line of more than 16 KiB"));
            }
            if part.ends_with(b"\n") {
                self.line(&mut passed)?;
            }
        }
        Ok(passed.freeze())
    }

    fn end(&mut self) -> Result<Bytes, StageError> {
        let mut passed = BytesMut::new();
        self.line(&mut passed)?;
        Ok(passed.freeze())
    }
}

impl Playlist {
    /// Passes the line that is held.
    fn line(&mut self, passed: &mut BytesMut) -> Result<(), StageError> {
        let line = self.held.split();
        let text = std::str::from_utf8(&line).map_err(|_| refused("it is not UTF-8"))?;
        if !self.begun && !text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).starts_with("#EXTM3U") {
            return Err(refused("it does not begin with #EXTM3U"));
        }
        self.begun = true;
        let content = text.strip_suffix('\n').unwrap_or(text);
        let content = content.strip_suffix('\r').unwrap_or(content);
        let uri = if content.starts_with('#') { attribute(content) } else { content };
        let rate = self.rate.as_deref().filter(|_| !PLAYLIST_TAGS.iter().any(|tag| content.starts_with(tag)));
        let carried = carried(uri, [self.session.as_deref(), rate, self.share.as_deref()]);
        let (start, _) = content.split_at(uri.as_ptr().addr() - content.as_ptr().addr());
        passed.extend_from_slice(start.as_bytes());
        let (before, fragment) = uri.split_at(uri.find('#').unwrap_or(uri.len()));
        passed.extend_from_slice(before.as_bytes());
        passed.extend_from_slice(carried.as_bytes());
        passed.extend_from_slice(fragment.as_bytes());
        passed.extend_from_slice(&text.as_bytes()[start.len() + uri.len()..]);
        self.excess = (self.excess + text.len() + carried.len()).saturating_sub(GROWTH_MAX * text.len());
        if self.excess > GROWTH_BYTES {
            return Err(refused("its lines are too short for the parameters of the request"));
        }
        Ok(())
    }
}

/// The value of the attribute of a tag that names an address, where that is carried to; else nothing, at the tag's end.
fn attribute(tag: &str) -> &str {
    let none = &tag[tag.len()..];
    // Some players end a line here.
    let broken = tag.contains(|letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}'));
    if broken || !MEDIA_TAGS.iter().chain(&PLAYLIST_TAGS).any(|known| tag.starts_with(known)) {
        return none;
    }
    let names: &[&str] = if tag.starts_with(INTERSTITIAL_TAG) { &INTERSTITIAL_ATTRIBUTES } else { &["URI"] };
    let starts = names.iter().flat_map(|name| [format!(":{name}=\""), format!(",{name}=\"")]);
    let starts = starts.filter_map(|start| Some(tag.find(&start)? + start.len()));
    let value = starts.min().map_or(none, |start| &tag[start..]);
    value.find('"').map_or(none, |end| &value[..end])
}

/// The query to add to `uri`: nothing if it lies elsewhere, and no key that it has already.
fn carried(uri: &str, pairs: [Option<&str>; 3]) -> String {
    if uri.is_empty() || is_foreign(uri) {
        return String::new();
    }
    let query = uri.split('#').next().and_then(|uri| uri.split_once('?')).map(|(_, query)| query);
    let has = |pair: &str| {
        let name = pair.split('=').next();
        query.unwrap_or_default().split('&').any(|own| own.split('=').next() == name)
    };
    let mut text = String::new();
    for pair in pairs.into_iter().flatten().filter(|pair| !has(pair)) {
        text.push(if query.is_none() && text.is_empty() { '?' } else { '&' });
        text.push_str(pair);
    }
    text
}

/// True if `uri` may lie on another server. Players drop blanks, control characters and byte order marks, take `\` for `/`
/// and replace the variables of `EXT-X-DEFINE`: an address with one of these may become any other.
fn is_foreign(uri: &str) -> bool {
    let rewritten =
        |letter: char| letter.is_control() || letter.is_whitespace() || matches!(letter, '\\' | BYTE_ORDER_MARK);
    let first = uri.split(['/', '?', '#']).next().unwrap_or_default();
    uri.starts_with("//") || first.contains(':') || uri.contains(rewritten) || uri.contains("{$")
}

fn refused(why: &str) -> StageError {
    let detail = format!("this is no HLS playlist: {why}; without session=, rate= and share= it is sent as it is");
    StageError(detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stage(query: &str) -> Option<Box<dyn Stage>> {
        super::stage("live/index.m3u8", Some(query))
    }

    fn passed(query: &str, text: &str, piece_bytes: usize) -> Result<String, StageError> {
        let mut stage = stage(query).expect("it applies");
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(piece_bytes) {
            all.extend_from_slice(&stage.pass(Bytes::copy_from_slice(piece))?);
        }
        all.extend_from_slice(&stage.end()?);
        Ok(String::from_utf8(all).expect("text"))
    }

    const MEDIA: &str = "#EXTM3U\r\n#EXT-X-MAP:URI=\"init.mp4\",BYTERANGE=\"1@0\"\r\n#EXT-X-KEY:METHOD=AES-128,URI=\"key\"\r\n\
        #EXTINF:4,\r\na.ts\r\n# URI=\"x\"\r\n\r\nb.ts?x=1&rate=2M#t\r\nhttps://other/c.ts\r\n//other/d.ts\r\n/media/e.ts";

    #[test]
    fn addresses_in_a_playlist_get_session_and_rate() {
        let expected = "#EXTM3U\r\n#EXT-X-MAP:URI=\"init.mp4?session=s&rate=8M\",BYTERANGE=\"1@0\"\r\n\
            #EXT-X-KEY:METHOD=AES-128,URI=\"key\"\r\n#EXTINF:4,\r\na.ts?session=s&rate=8M\r\n# URI=\"x\"\r\n\r\n\
            b.ts?x=1&rate=2M&session=s#t\r\nhttps://other/c.ts\r\n//other/d.ts\r\n/media/e.ts?session=s&rate=8M";
        for piece_bytes in [1, 7, 1000] {
            assert_eq!(passed("rate=8M&x=y&session=s", MEDIA, piece_bytes).expect("a playlist"), expected);
        }
        assert!(passed("rate=8M", MEDIA, 1000).expect("a playlist").contains("\na.ts?rate=8M\r"));
    }

    #[test]
    fn all_addresses_on_this_server_get_the_link() {
        let list = "#EXTM3U\n#EXT-X-MEDIA:URI=\"b.m3u8\"\na.ts\nhttps://other/c.ts\n";
        let expected = "#EXTM3U\n#EXT-X-MEDIA:URI=\"b.m3u8?share=7-ab\"\na.ts?rate=8M&share=7-ab\nhttps://other/c.ts\n";
        assert_eq!(passed("share=7-ab&rate=8M", list, 1000).expect("a playlist"), expected);
    }

    #[test]
    fn other_playlists_get_the_session_only() {
        let list =
            "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"audio.m3u8\",NAME=\"a\"\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8\n";
        let expected = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"audio.m3u8?session=s\",NAME=\"a\"\n\
            #EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8?session=s&rate=8M\n";
        assert_eq!(passed("session=s&rate=8M", list, 1000).expect("a playlist"), expected);
    }

    #[test]
    fn interstitials_get_the_session_only() {
        for name in ["X-ASSET-URI", "X-ASSET-LIST"] {
            let list = |added: &str| {
                format!("#EXTM3U\n#EXT-X-DATERANGE:ID=\"a\",{name}=\"ad.m3u8{added}\",X-URI=\"b\",URI=\"c\"\n")
            };
            assert_eq!(passed("session=s&rate=8M", &list(""), 1000).expect("a playlist"), list("?session=s"));
        }
        let elsewhere = "#EXTM3U\n#EXT-X-DATERANGE:X-ASSET-URI=\"https://other/ad.m3u8\"\n";
        assert_eq!(passed("session=s", elsewhere, 1000).expect("a playlist"), elsewhere);
    }

    #[test]
    fn nothing_breaks_out_of_its_attribute() {
        let text = passed("session=a\"b%20c", "#EXTM3U\n#EXT-X-MAP:URI=\"i\"\n", 100).expect("a playlist");
        assert_eq!(text, "#EXTM3U\n#EXT-X-MAP:URI=\"i?session=a%22b%20c\"\n");
    }

    #[test]
    fn addresses_of_other_servers_get_no_session() {
        for uri in [
            " //other/x",
            "\t//other/x",
            "a\r//other/x",
            "\\\\other\\x",
            "/\\other/x",
            "/\t/other/x",
            "{$base}a.ts",
            "a.ts ",
            " ",
            "\t",
            "a.ts\r",
            "\u{feff}//other/x",
            "\u{a0}//other/x",
            "http:a.ts",
            "///other/x",
        ] {
            let text = format!(
                "\u{feff}#EXTM3U\r\n#EXT-X-DEFINE:NAME=\"base\",VALUE=\"//other/\"\n#EXT-X-MAP:URI=\"{uri}\"\n{uri}\r\n"
            );
            assert_eq!(passed("session=s", &text, 1000).expect("a playlist"), text);
        }
        let text = "#EXTM3U\n#EXT-X-MAP:X=\"\r//other/,URI=\"a\"\n";
        assert_eq!(passed("session=s", text, 1000).expect("a playlist"), text, "a player may end a line there");
    }

    #[test]
    fn growth_is_bounded() {
        let query = format!("session={}", "s".repeat(180));
        let short = format!("#EXTM3U\n{}", "a\n".repeat(1000));
        for piece_bytes in [1, 100_000] {
            assert!(passed(&query, &short, piece_bytes).is_err());
        }
        let long = format!("#EXTM3U\n{}", "#EXTINF:4.000,\npart-00001.ts\n".repeat(30_000));
        assert_eq!(passed(&query, &long, 65_536).expect("a playlist").len(), long.len() + 30_000 * 189);
    }

    #[test]
    fn a_malformed_playlist_is_refused() {
        for text in ["", "no\n#EXTM3U\n", &format!("#EXTM3U\n{}", "x".repeat(20_000))] {
            assert!(passed("session=s", text, 4096).is_err());
        }
        assert!(stage("x=y").is_none() && stage(&format!("session={}", "s".repeat(300))).is_none());
        assert!(super::stage("film.ts", Some("session=s")).is_none());
    }

    proptest! {
        /// In any playlist, the added text can be taken away again, and no other byte differs.
        #[test]
        fn only_adds(lines in proptest::collection::vec("(#EXT-X-MAP:URI=\")?[a-z:/?#,\"=é \t\\\\\r\\{\\$]{0,20}\r?", 0..20), piece_bytes in 1usize..50) {
            let text = format!("#EXTM3U\n{}", lines.join("\n"));
            let passed = passed("session=XX", &text, piece_bytes).expect("a playlist");
            prop_assert_eq!(passed.replace("?session=XX", "").replace("&session=XX", ""), text);
        }

        /// An address that a player may rewrite before its request stays as it is, wherever the rewritten part stands.
        #[test]
        fn nothing_leaves_the_server(before in "[a-z/.?=]{0,8}", odd in "[ \t\r\u{b}\\\\\u{feff}\u{a0}\u{2028}]|\\{\\$", after in "[a-z/.?=]{0,8}") {
            let text = format!("#EXTM3U\n{before}{odd}{after}\r\n#EXT-X-MAP:URI=\"{before}{odd}{after}\"\n");
            prop_assert_eq!(passed("session=XX", &text, 1000).expect("a playlist"), text);
        }
    }
}
