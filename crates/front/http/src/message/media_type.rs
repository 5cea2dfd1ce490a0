//! Content-Type by the name of a content. Never by its bytes: `X-Content-Type-Options: nosniff` goes with it.

/// The media type for a file name; unknown endings are `application/octet-stream`.
#[must_use]
pub fn media_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    TYPES
        .iter()
        .find(|(known, _)| ending.eq_ignore_ascii_case(known))
        .map_or("application/octet-stream", |(_, media_type)| media_type)
}

/// The type of HLS playlists.
pub const PLAYLIST: &str = "application/vnd.apple.mpegurl";

/// Endings and the types that RFCs and IANA have for them; without any, the type that is usual. Text is UTF-8.
const TYPES: &[(&str, &str)] = &[
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("m4s", "video/iso.segment"),
    ("cmfv", "video/mp4"),
    ("ts", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("mts", "video/mp2t"),
    ("mkv", "video/matroska"),
    ("webm", "video/webm"),
    ("mov", "video/quicktime"),
    ("avi", "video/x-msvideo"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
    ("ogv", "video/ogg"),
    ("mp3", "audio/mpeg"),
    ("aac", "audio/aac"),
    ("m4a", "audio/mp4"),
    ("flac", "audio/flac"),
    ("wav", "audio/wav"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("m3u8", PLAYLIST),
    ("m3u", "audio/mpegurl"),
    ("mpd", "application/dash+xml"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("srt", "application/x-subrip; charset=utf-8"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("json", "application/json"),
    ("txt", "text/plain; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("m2v", "video/mpeg"),
    ("3gp", "video/3gpp"),
    ("flv", "video/x-flv"),
    ("wmv", "video/x-ms-wmv"),
    ("vob", "video/mpeg"),
    ("mka", "audio/matroska"),
    ("oga", "audio/ogg"),
    ("weba", "audio/webm"),
    ("m4b", "audio/mp4"),
    ("cmfa", "audio/mp4"),
    ("ac3", "audio/ac3"),
    ("eac3", "audio/eac3"),
    ("aiff", "audio/aiff"),
    ("aif", "audio/aiff"),
    ("wma", "audio/x-ms-wma"),
    ("mid", "audio/midi"),
    ("ttml", "application/ttml+xml"),
    ("ass", "text/x-ssa; charset=utf-8"),
    ("ssa", "text/x-ssa; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("avif", "image/avif"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("jxl", "image/jxl"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ico", "image/vnd.microsoft.icon"),
    ("xml", "application/xml"),
    ("xhtml", "application/xhtml+xml"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("log", "text/plain; charset=utf-8"),
    ("nfo", "text/plain; charset=utf-8"),
    ("rtf", "application/rtf"),
    ("doc", "application/msword"),
    ("xls", "application/vnd.ms-excel"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("epub", "application/epub+zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("7z", "application/x-7z-compressed"),
    ("rar", "application/vnd.rar"),
    ("woff2", "font/woff2"),
];

/// True for types that a browser would run in our origin; they are sent with a sandboxing policy.
#[must_use]
pub fn is_active(media_type: &str) -> bool {
    let named = ["text/html", "text/javascript"].iter().any(|active| media_type.starts_with(active));
    // Any XML can hold scripts: browsers show it as a document.
    named || media_type.ends_with("+xml") || media_type.ends_with("/xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        assert_eq!(media_type("film.MP4"), "video/mp4");
        assert_eq!(media_type("a.b.m3u8"), "application/vnd.apple.mpegurl");
        assert_eq!(media_type("README"), "application/octet-stream");
        assert_eq!(media_type(""), "application/octet-stream");
        for (name, active) in [("x.html", true), ("x.js", true), ("x.mpd", true), ("x.mp4", false), ("x.svg", true)] {
            assert_eq!(is_active(media_type(name)), active, "{name}");
        }
        for (number, (ending, media_type)) in TYPES.iter().enumerate() {
            assert!(TYPES[..number].iter().all(|(other, _)| other != ending), "{ending} stands twice");
            let is_text = media_type.starts_with("text/") || *ending == "srt";
            assert_eq!(media_type.contains("charset=utf-8"), is_text, "{ending}");
        }
        assert!(TYPES.len() >= 60);
    }
}
