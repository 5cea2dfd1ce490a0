//! Listings of directories, as a page or as JSON.
//!
//! Promise: names are shown as text and linked encoded; nothing in a name is markup. Not here: what is in a directory.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use api::{EntryKind, ListingEntry};
use http_types::StatusCode;
use http_types::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, VARY};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use units::ByteCount;

use crate::content::content_path;
use crate::exchange::Exchange;
use crate::message::conditional::joined;
use crate::message::query::Query;
use crate::message::reply::Reply;
use crate::problem;
use service::contents::{ContentPath, Entry, Kind, StoreError};

/// What a path component keeps as it is.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Answers a GET or HEAD of `/media/<dir>/`.
pub(crate) async fn answer(exchange: &Exchange) -> Reply {
    let outcome = async {
        let query = Query::parse(exchange.head.query.as_deref()).map_err(problem::bad_request)?;
        let path = content_path(&exchange.head).map_err(problem::bad_request)?;
        let json = match query.format.as_deref() {
            Some("json") => true,
            Some("html") => false,
            Some(_) => return Err(Reply::problem(StatusCode::BAD_REQUEST, "format= is json or html")),
            None => prefers_json(exchange),
        };
        let entries = exchange.shared.service.contents.list(&path).await.map_err(|error| match error {
            // `film.mp4/` names nothing, even where `film.mp4` is a content.
            StoreError::NotADirectory => problem::of_store(&StoreError::NotFound),
            other => problem::of_store(&other),
        })?;
        Ok((json, path, entries))
    };
    match outcome.await {
        Ok((true, _, entries)) => as_json(&entries),
        Ok((false, path, entries)) => as_page(&path, &entries),
        Err(reply) => reply,
    }
}

/// True if JSON is wanted more than a page.
fn prefers_json(exchange: &Exchange) -> bool {
    let Some(accept) = joined(&exchange.head.headers, &ACCEPT) else { return false };
    quality(&accept, "application/json") > quality(&accept, "text/html")
}

/// How much a media type is wanted, in thousandths: by the most specific range of `accept` that it is in (RFC 9110
/// §12.5.1). A weight that cannot be read counts as one.
fn quality(accept: &str, media_type: &str) -> u32 {
    let (group, _) = media_type.split_once('/').unwrap_or_default();
    let mut best = (0, 0);
    for item in accept.split(',') {
        let mut parts = item.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        let specific = match range.as_str() {
            "*/*" => 1,
            range if range.strip_suffix("/*") == Some(group) => 2,
            range if range == media_type => 3,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        if specific > best.0 {
            best = (specific, weight.map_or(1000, thousandths));
        }
    }
    best.1
}

/// `0.125` is 125; more than three places do not exist (RFC 9110 §12.4.2).
fn thousandths(weight: &str) -> u32 {
    let (whole, places) = weight.split_once('.').unwrap_or((weight, ""));
    if whole != "0" {
        return 1000;
    }
    format!("{places:0<3.3}").parse().unwrap_or(1000)
}

fn as_json(entries: &[Entry]) -> Reply {
    let list: Vec<ListingEntry> = entries.iter().map(listed).collect();
    let body = serde_json::to_vec(&list).unwrap_or_else(|_| b"[]".to_vec());
    Reply::with_body(StatusCode::OK, "application/json", body).field(CACHE_CONTROL, "no-cache").field(VARY, "Accept")
}

fn listed(entry: &Entry) -> ListingEntry {
    ListingEntry {
        name: entry.name.clone(),
        kind: if entry.kind == Kind::Directory { EntryKind::Directory } else { EntryKind::File },
        size: entry.size,
        modified: rfc3339(entry.modified),
        rate_bps: entry.rate.map(|media| media.rate.0),
    }
}

fn as_page(path: &ContentPath, entries: &[Entry]) -> Reply {
    let title = escaped(&path.to_string());
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><h1>{title}</h1><table>\n"
    );
    if !path.components().is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for entry in entries {
        let slash = if entry.kind == Kind::Directory { "/" } else { "" };
        let link = utf8_percent_encode(&entry.name, COMPONENT);
        let name = escaped(&entry.name);
        let size = if entry.kind == Kind::Directory { String::new() } else { ByteCount(entry.size).to_string() };
        let rate = entry.rate.map_or_else(String::new, |media| media.rate.to_string());
        // Relative with a dot before: a name with a colon is not taken for a scheme.
        let _ = writeln!(page, "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a><td>{size}<td>{rate}");
    }
    page.push_str("</table></html>\n");
    Reply::with_body(StatusCode::OK, "text/html; charset=utf-8", page)
        .field(CACHE_CONTROL, "no-cache")
        .field(VARY, "Accept")
        .field(CONTENT_SECURITY_POLICY, "default-src 'none'")
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

/// `2026-11-21T22:15:00Z`, from the HTTP date `Sat, 21 Nov 2026 22:15:00 GMT`.
fn rfc3339(time: SystemTime) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let time = time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799));
    let date = httpdate::fmt_http_date(time);
    let month = MONTHS.find(&date[8..11]).map_or(1, |at| at / 3 + 1);
    format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25])
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::DiskId;

    #[test]
    fn what_is_wanted_most() {
        for (accept, json, html) in [
            ("application/json;q=0.9, text/html;q=0.1", 900, 100),
            ("text/html,application/xhtml+xml,*/*;q=0.8", 800, 1000),
            ("application/*;q=0.55, */*;q=0.1", 550, 100),
            ("APPLICATION/JSON ; Q=0", 0, 0),
            ("*/*", 1000, 1000),
            ("application/json;q=x, text/html;q=0.1239", 1000, 123),
        ] {
            assert_eq!((quality(accept, "application/json"), quality(accept, "text/html")), (json, html), "{accept}");
        }
    }

    #[test]
    fn names_are_text_and_links_are_encoded() {
        let entry = Entry {
            name: "a<b>&\"ü:?#.mp4".to_owned(),
            kind: Kind::File,
            size: 2048,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            etag: "\"x\"".to_owned(),
            disk: DiskId(0),
            rate: None,
        };
        let page = String::from_utf8(as_page(&ContentPath::root(), std::slice::from_ref(&entry)).body.to_vec())
            .expect("UTF-8");
        assert!(
            page.contains("href=\"./a%3Cb%3E%26%22%C3%BC%3A%3F%23.mp4\">a&lt;b&gt;&amp;&quot;ü:?#.mp4</a>"),
            "{page}"
        );
        assert_eq!(listed(&entry).modified, "2023-11-14T22:13:20Z");
    }
}
