//! `GET /api/v1/contents/zip?path=…`: contents and folders as one archive, read as best effort while it is sent.
//!
//! Promise: the right to read an item holds for all below it, and the archive is one use of its link; the length is known before. A content that
//! grew is sent up to its length at the beginning; a content that changed otherwise, or cannot be read, breaks the answer off, with an
//! event. Memory for the names and one piece. Not here: the format (`message::zip`).

use std::collections::HashSet;
use std::error::Error;
use std::time::SystemTime;

use bytes::Bytes;
use content::Segment;
use crc32fast::Hasher;
use http_types::StatusCode;
use http_types::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use service::access::{Permit, ToRead};
use service::contents::{ContentPath, Entry, NameKind, Want};
use service::events;
use service::reads::{self, ContentRead};
use service::session::Viewer;

use crate::content::attachment;
use crate::exchange::Exchange;
use crate::listing::rfc3339;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::message::zip::{ZipEntry, ZipWriter};
use crate::streamed::PieceSink;
use crate::{login, share};

/// Contents and folders of an archive at most.
const ENTRIES_MAX: usize = 10_000;

/// An archive that is to be sent.
pub(crate) struct Archive {
    /// The name of its viewer.
    viewer: String,
    members: Vec<ArchiveItem>,
}

/// A content or folder of an archive.
struct ArchiveItem {
    permit: Permit<ToRead>,
    /// As it was found.
    found: Entry,
    /// A folder is an entry without bytes.
    zip: ZipEntry,
}

impl Archive {
    /// The archive that the query asks for, and the head of the answer.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub(crate) async fn begin(exchange: &Exchange) -> Result<(Self, Reply), Reply> {
        let (mut permits, mut members) = (Vec::new(), Vec::new());
        for (key, value) in pairs(exchange.head.query.as_deref()) {
            if key != "path" {
                continue;
            }
            let path = ContentPath::parse(&value);
            let path = path.map_err(|error| Reply::malformed(format!("`path=`: {error}")))?;
            let permit: Permit<ToRead> = login::permit(exchange, &path).await?;
            add(exchange, &permit, &mut members).await?;
            permits.push(permit);
        }
        let name = match &permits[..] {
            [] => {
                return Err(Reply::malformed("name what is to be in it: `?path=PATH&path=PATH`"));
            }
            [only] => only.path().components().last().map_or("isocast", String::as_str),
            _ => "isocast",
        };
        let mut names = HashSet::new();
        if let Some(again) = members.iter().find(|member| !names.insert(member.zip.name.trim_end_matches('/'))) {
            let twice = format!("two items would be `{}` in the archive: ask for one of them alone", again.zip.name);
            return Err(Reply::malformed(twice));
        }
        let viewer = format!("zip {:x}", exchange.shared.service.hash((&exchange.head.query, SystemTime::now())));
        for permit in &permits {
            // Its first item begins the use of a link; the others belong to it.
            let charged = exchange.shared.service.charged(permit, exchange.client());
            share::count_use(exchange, permit, &Viewer::named(viewer.clone(), &charged), false).await?;
        }
        let reply = Reply::empty(StatusCode::OK)
            .field(CONTENT_TYPE, "application/zip")
            .field(CACHE_CONTROL, "no-store")
            .field(CONTENT_DISPOSITION, attachment(&format!("{name}.zip")));
        Ok((Self { viewer, members }, reply))
    }

    /// Its bytes.
    pub(crate) fn length(&self) -> u64 {
        let entries: Vec<ZipEntry> = self.members.iter().map(|member| member.zip.clone()).collect();
        ZipWriter::length(&entries)
    }

    /// Sends all of it; none if it broke off.
    pub(crate) async fn send(self, exchange: &Exchange, sink: &mut impl PieceSink) -> Option<()> {
        let mut writer = ZipWriter::default();
        for member in &self.members {
            sink.write(writer.begin(&member.zip)).await?;
            let mut sum = Hasher::new();
            if member.zip.size > 0 {
                let sent = send_content(exchange, &self.viewer, member, (&mut sum, sink)).await;
                sent.inspect_err(|error| {
                    let (path, client) = (member.permit.path().joined(), exchange.client().address);
                    let event = events::archive_broken(&path, client, &error.to_string(), SystemTime::now());
                    exchange.shared.service.events.tell(event);
                })
                .ok()??;
            }
            sink.write(writer.end(&member.zip, sum.finalize())).await?;
        }
        sink.write(writer.finish()).await?;
        sink.finish().await
    }
}

/// Adds the item of the permit with all below it, by the names from its own on.
async fn add(exchange: &Exchange, permit: &Permit<ToRead>, members: &mut Vec<ArchiveItem>) -> Result<(), Reply> {
    let service = &exchange.shared.service;
    let above = permit.path().components().len().saturating_sub(1);
    let mut waiting = vec![permit.clone()];
    while let Some(permit) = waiting.pop() {
        let found = service.lookup(&permit).await?;
        let mut name = permit.path().components()[above..].join("/");
        if members.len() >= ENTRIES_MAX {
            let most = format!("an archive holds {ENTRIES_MAX} contents and folders at most: choose fewer");
            return Err(Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, most));
        }
        if found.kind == NameKind::Directory {
            let listing = service.list(&permit).await?;
            // Links to folders may lead back to one above them.
            let entered = |entry: &&Entry| entry.kind == NameKind::File || !entry.is_link;
            let below = listing.entries.iter().rev().filter(entered);
            waiting.extend(below.filter_map(|entry| permit.child(&entry.name).ok()));
            if name.is_empty() {
                continue;
            }
            name.push('/');
        }
        let zip = ZipEntry { name, size: found.size, modified: rfc3339(found.modified) };
        members.push(ArchiveItem { permit, found, zip });
    }
    Ok(())
}

/// Sends the bytes of a content; none if the client takes no more.
async fn send_content(
    exchange: &Exchange,
    viewer: &str,
    member: &ArchiveItem,
    (sum, sink): (&mut Hasher, &mut impl PieceSink),
) -> Result<Option<()>, Box<dyn Error + Send + Sync>> {
    let (service, length) = (&exchange.shared.service, member.zip.size);
    let opened = reads::open_content(service, &member.permit, Want::File).await?;
    // A content of a volume has no identity besides its tag, and grows in no other way than by being replaced.
    let is_same = opened.entry.id.is_some() && opened.entry.id == member.found.id;
    let has_grown = opened.entry.size > length && is_same;
    if opened.entry.etag != member.found.etag && !has_grown {
        return Err("it changed meanwhile".into());
    }
    let charged = service.charged(&member.permit, exchange.client());
    let viewer = Viewer::named(viewer.to_owned(), &charged);
    let body = vec![Segment::Range { offset: 0, length }];
    let read = ContentRead::bulk(opened, body, (viewer, charged), exchange.client());
    let mut pipe = reads::open_pipe(service, read).await?;
    while let Some(piece) = pipe.next().await? {
        sum.update(&piece);
        if sink.write(Bytes::clone(&piece)).await.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}
