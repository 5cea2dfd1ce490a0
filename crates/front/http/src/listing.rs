//! Listings of directories, as a page or as JSON.
//!
//! Promise: a client that does not read holds one part of a listing, and shares the rest with others; names are shown as text and linked encoded; nothing in a name is markup. Not here: the entries of a directory.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use api::{EntryKind, ListingEntry};
use bytes::Bytes;
use http_types::StatusCode;
use http_types::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, LINK, REFERRER_POLICY, VARY};
use percent_encoding::utf8_percent_encode;
use service::file_names::utc;
use service::listing::Listing;
use units::ByteCount;

use crate::content::content_path;
use crate::exchange::Exchange;
use crate::message::accept::quality;
use crate::message::conditional::joined;
use crate::message::query::Query;
use crate::message::reply::{COMPONENT, Pieces, Reply, location};
use crate::{login, problem};
use service::contents::{ContentPath, Entry, NameKind, StoreError};

/// About as much of a listing is made at once as this.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers a GET or HEAD of `/media/<dir>/`.
pub(crate) async fn answer(exchange: &Exchange) -> Reply {
    match listing(exchange).await {
        Ok((format, listing, page)) => reply(&exchange.head.path, format, listing, page),
        Err(reply) => reply,
    }
}

/// The requested part of a listing.
struct ListingPage {
    first: usize,
    end: usize,
    limit: Option<usize>,
    /// The signed link of the request, as its links carry it in the query; empty without one.
    share: String,
}

async fn listing(exchange: &Exchange) -> Result<(Format, Arc<Listing>, ListingPage), Reply> {
    let query = Query::parse(exchange.head.query.as_deref()).map_err(problem::bad_request)?;
    let path = content_path(&exchange.head).map_err(problem::bad_request)?;
    let json = match query.format.as_deref() {
        Some("json") => true,
        Some("html") => false,
        Some(_) => return Err(Reply::malformed("format= is json or html")),
        None => prefers_json(exchange),
    };
    let limit = match query.limit.as_deref().map(str::parse::<usize>) {
        None => None,
        Some(Ok(limit @ 1..)) => Some(limit),
        Some(_) => return Err(Reply::malformed("limit= is a number of entries, at least 1")),
    };
    let permit = login::permit(exchange, &path).await?;
    let service = &exchange.shared.service;
    let after = query.after.as_deref();
    // One more than is shown tells whether there are more.
    let listed = match (after, limit.map(|limit| limit.saturating_add(1))) {
        // No look at the files of most names behind it.
        (None, Some(count)) => service.list_part(&permit, "", count).await,
        (Some(after), Some(count)) => match service.list(&permit).await {
            Err(StoreError::TooManyNames(_)) => service.list_part(&permit, after, count).await,
            listed => listed,
        },
        (_, None) => service.list(&permit).await,
    };
    let listing = listed.map_err(|error| match error {
        // `film.mp4/` names nothing, even where `film.mp4` is a content.
        StoreError::NotADirectory => problem::of_store(&StoreError::NotFound),
        other => problem::of_store(&other),
    })?;
    let first = listing.position_after(after);
    let end = limit.map_or(listing.entries.len(), |limit| first.saturating_add(limit).min(listing.entries.len()));
    let share = query.share.as_deref().map(|share| format!("share={}", utf8_percent_encode(share, COMPONENT)));
    let format = if json { Format::Json } else { Format::Html(path) };
    Ok((format, listing, ListingPage { first, end, limit, share: share.unwrap_or_default() }))
}

/// Format of a listing.
enum Format {
    Json,
    Html(ContentPath),
}

impl Format {
    /// The text of the entries `first..end` of a page that ends at `last`, with the text before and after all of them.
    fn part(&self, page: &ListingPage, entries: &[Entry], first: usize, end: usize) -> String {
        let mut text = String::with_capacity(PIECE_BYTES + 1024);
        if first == page.first {
            text.push_str(&self.beginning(&page.share));
        }
        for (at, entry) in (first..).zip(&entries[first..end]) {
            match self {
                Self::Json => {
                    text.push_str(if at == page.first { "" } else { "," });
                    text.push_str(&serde_json::to_string(&listed(entry)).unwrap_or_default());
                }
                Self::Html(_) => row(&mut text, entry, &page.share),
            }
        }
        if end == page.end {
            text.push_str(if matches!(self, Self::Json) { "]" } else { "</table></html>\n" });
        }
        text
    }

    fn beginning(&self, share: &str) -> String {
        let Self::Html(path) = self else { return "[".to_owned() };
        let title = escaped(&path.to_string());
        let up = match path.components() {
            [] => String::new(),
            _ if share.is_empty() => "<tr><td><a href=\"../\">../</a><td><td>\n".to_owned(),
            _ => format!("<tr><td><a href=\"../?{share}\">../</a><td><td>\n"),
        };
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><h1>{title}</h1><table>\n{up}"
        )
    }
}

/// The listing in parts, each made when the one before it is gone. A client that does not read holds one part of it.
struct ListingParts {
    format: Format,
    listing: Arc<Listing>,
    page: ListingPage,
    next: Option<usize>,
}

impl Iterator for ListingParts {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let first = self.next?;
        let mut bytes = 0;
        let mut end = first;
        while end < self.page.end && bytes < PIECE_BYTES {
            // About as long as its line becomes.
            bytes += self.listing.entries[end].name.len() + 128;
            end += 1;
        }
        self.next = (end < self.page.end).then_some(end);
        Some(self.format.part(&self.page, &self.listing.entries, first, end).into())
    }
}

fn reply(target: &str, format: Format, listing: Arc<Listing>, page: ListingPage) -> Reply {
    let media_type = if matches!(format, Format::Json) { "application/json" } else { "text/html; charset=utf-8" };
    let is_page = matches!(format, Format::Html(..));
    let link = page.limit.filter(|_| page.end < listing.entries.len() && page.end > page.first).map(|limit| {
        let after = utf8_percent_encode(&listing.entries[page.end - 1].name, COMPONENT);
        let format = if is_page { "html" } else { "json" };
        let share = if page.share.is_empty() { String::new() } else { format!("&{}", page.share) };
        format!("<{}?format={format}&limit={limit}&after={after}{share}>; rel=\"next\"", location(target))
    });
    let mut parts = ListingParts { next: Some(page.first), format, listing, page };
    let first = parts.next().expect("there is at least one part");
    let mut reply =
        Reply::with_body(StatusCode::OK, media_type, first).field(CACHE_CONTROL, "no-cache").field(VARY, "Accept");
    if is_page {
        reply = reply.field(CONTENT_SECURITY_POLICY, "default-src 'none'").field(REFERRER_POLICY, "no-referrer");
    }
    if let Some(link) = link {
        reply = reply.field(LINK, link);
    }
    reply.rest = parts.next.is_some().then(|| Pieces(Box::new(parts)));
    reply
}

/// True if JSON is wanted more than a page.
fn prefers_json(exchange: &Exchange) -> bool {
    let Some(accept) = joined(&exchange.head.headers, &ACCEPT) else { return false };
    quality(&accept, "application/json") > quality(&accept, "text/html")
}

pub(crate) fn listed(entry: &Entry) -> ListingEntry {
    ListingEntry {
        name: entry.name.clone(),
        kind: if entry.kind == NameKind::Directory { EntryKind::Directory } else { EntryKind::File },
        is_link: entry.is_link,
        size: entry.size,
        modified: rfc3339(entry.modified),
        rate_bps: entry.rate.map(|media| media.rate.0),
        rate_source: entry.rate.map(|media| media.source.name().to_owned()),
        mean_bps: entry.rate.map(|media| media.mean(entry.size).0),
    }
}

/// One line of the page.
fn row(page: &mut String, entry: &Entry, share: &str) {
    let slash = if entry.kind == NameKind::Directory { "/" } else { "" };
    let link = utf8_percent_encode(&entry.name, COMPONENT);
    let name = escaped(&entry.name);
    let size = if entry.kind == NameKind::Directory { String::new() } else { ByteCount(entry.size).to_string() };
    let rate = entry.rate.map_or_else(String::new, |media| media.mean(entry.size).to_string());
    let mark = if share.is_empty() { "" } else { "?" };
    // Relative with a dot before: a name with a colon is not taken for a scheme.
    let _ = writeln!(page, "<tr><td><a href=\"./{link}{slash}{mark}{share}\">{name}{slash}</a><td>{size}<td>{rate}");
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

/// `2026-11-21T22:15:00Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    utc(time).strftime("%FT%TZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use units::DiskId;

    #[test]
    fn names_are_text_and_links_are_encoded() {
        let entry = Entry {
            name: "a<b>&\"ü:?#.mp4".to_owned(),
            kind: NameKind::File,
            id: None,
            is_link: false,
            size: 2048,
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            created: None,
            etag: "\"x\"".to_owned(),
            disk: DiskId(0),
            rate: None,
        };
        let all = |share: &str| ListingPage { first: 0, end: 1, limit: None, share: share.to_owned() };
        let render = |share| Format::Html(ContentPath::root()).part(&all(share), std::slice::from_ref(&entry), 0, 1);
        assert!(render("share=7-ab").contains("%23.mp4?share=7-ab\">a&lt;"), "{}", render("share=7-ab"));
        let page = render("");
        assert!(
            page.contains("href=\"./a%3Cb%3E%26%22%C3%BC%3A%3F%23.mp4\">a&lt;b&gt;&amp;&quot;ü:?#.mp4</a>"),
            "{page}"
        );
        assert_eq!(listed(&entry).modified, "2023-11-14T22:13:20Z");
    }
}
