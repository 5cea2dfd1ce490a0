//! `GET /api/v1/contents/zip?path=…`: contents and folders as one archive, read as best effort while it is sent.
//!
//! Promise: each content needs the right to read it; the length is known before; a content that changes meanwhile, or cannot be read, breaks
//! the answer off. Memory for the names and one piece. Not here: the format (`message::zip`).

use std::time::SystemTime;

use bytes::Bytes;
use content::Segment;
use crc32fast::Hasher;
use http_types::StatusCode;
use http_types::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use service::access::{Permit, ToRead};
use service::contents::{ContentPath, NameKind, Want};
use service::pipeline::Stages;
use service::rate::{RateTerms, RequestedRate};
use service::reads::{self, ContentRead, ReadPurpose};
use service::session::{ContentPart, Viewer};

use crate::content::attachment;
use crate::exchange::Exchange;
use crate::listing::rfc3339;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::message::zip::{ZipEntry, ZipWriter};
use crate::streamed::PieceSink;
use crate::{login, problem, share};

/// Contents and folders of an archive at most.
const ENTRIES_MAX: usize = 10_000;

/// An archive that is to be sent.
pub(crate) struct Archive {
    /// Each with its path; a folder is an entry without bytes.
    members: Vec<(ContentPath, ZipEntry)>,
}

impl Archive {
    /// The archive that the query asks for, and the head of the answer.
    ///
    /// # Errors
    /// The answer to a request that is refused.
    pub(crate) async fn begin(exchange: &Exchange) -> Result<(Self, Reply), Reply> {
        let mut members = Vec::new();
        let mut name = String::new();
        for (key, value) in pairs(exchange.head.query.as_deref()) {
            if key != "path" {
                continue;
            }
            let path = ContentPath::parse(&value);
            let path = path.map_err(|error| Reply::problem(StatusCode::BAD_REQUEST, &format!("`path=`: {error}")))?;
            let above = path.components().len().saturating_sub(1);
            name = match (name.is_empty(), path.components()) {
                (true, [.., last]) => last.clone(),
                _ => "isocast".to_owned(),
            };
            add(exchange, path, above, &mut members).await?;
        }
        if name.is_empty() {
            return Err(Reply::problem(StatusCode::BAD_REQUEST, "name what is to be in it: `?path=PATH&path=PATH`"));
        }
        let reply = Reply::empty(StatusCode::OK)
            .field(CONTENT_TYPE, "application/zip")
            .field(CACHE_CONTROL, "no-store")
            .field(CONTENT_DISPOSITION, attachment(&format!("{name}.zip")));
        Ok((Self { members }, reply))
    }

    /// Its bytes.
    pub(crate) fn length(&self) -> u64 {
        let entries: Vec<ZipEntry> = self.members.iter().map(|(_, entry)| entry.clone()).collect();
        ZipWriter::length(&entries)
    }

    /// Sends all of it; none if it broke off.
    pub(crate) async fn send(self, exchange: &Exchange, sink: &mut impl PieceSink) -> Option<()> {
        let mut writer = ZipWriter::default();
        for (path, entry) in &self.members {
            sink.write(writer.begin(entry)).await?;
            let mut sum = Hasher::new();
            if entry.size > 0 {
                send_content(exchange, path, entry, (&mut sum, sink)).await?;
            }
            sink.write(writer.end(entry, sum.finalize())).await?;
        }
        sink.write(writer.finish()).await?;
        sink.finish().await
    }
}

/// Adds the item at `path` with all below it, by the names that follow the first `above` ones.
async fn add(
    exchange: &Exchange,
    path: ContentPath,
    above: usize,
    members: &mut Vec<(ContentPath, ZipEntry)>,
) -> Result<(), Reply> {
    let service = &exchange.shared.service;
    let mut waiting = vec![path];
    while let Some(path) = waiting.pop() {
        let permit: Permit<ToRead> = login::permit(exchange, &path).await?;
        let entry = service.lookup(&permit).await.map_err(|error| problem::of_store(&error))?;
        let name = path.components()[above..].join("/");
        let modified = rfc3339(entry.modified);
        if members.len() >= ENTRIES_MAX {
            let most = format!("an archive holds {ENTRIES_MAX} contents and folders at most: choose fewer");
            return Err(Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, &most));
        }
        if entry.kind == NameKind::File {
            members.push((path, ZipEntry { name, size: entry.size, modified }));
            continue;
        }
        let listing = service.list(&permit).await.map_err(|error| problem::of_store(&error))?;
        // Links to folders may lead back to one above them.
        let entered = |entry: &&service::contents::Entry| entry.kind == NameKind::File || !entry.is_link;
        let below = listing.entries.iter().rev().filter(entered).filter_map(|entry| path.child(&entry.name).ok());
        waiting.extend(below);
        if !name.is_empty() {
            members.push((path, ZipEntry { name: format!("{name}/"), size: 0, modified }));
        }
    }
    Ok(())
}

async fn send_content(
    exchange: &Exchange,
    path: &ContentPath,
    entry: &ZipEntry,
    (sum, sink): (&mut Hasher, &mut impl PieceSink),
) -> Option<()> {
    let service = &exchange.shared.service;
    let permit: Permit<ToRead> = login::permit(exchange, path).await.ok()?;
    let charged = service.charged(&permit, exchange.client());
    let viewer = Viewer::named(format!("zip {:x}", service.hash((path, SystemTime::now()))), &charged);
    share::count_use(exchange, &permit, &viewer, true).await.ok()?;
    let opened = reads::open_content(service, &permit, Want::File).await.ok()?;
    let length = Some(opened.entry.size).filter(|size| *size == entry.size)?;
    let read = ContentRead {
        opened,
        body: vec![Segment::Range { offset: 0, length }],
        part: ContentPart::Download,
        purpose: ReadPurpose::Plays,
        terms: share::bounded(RateTerms { rate: RequestedRate::Bulk, burst: None, ceiling: None }, &permit),
        viewer,
        charged,
        client: exchange.client(),
        stages: Stages::default(),
    };
    let mut pipe = reads::open_pipe(service, read).await.ok()?;
    while let Some(piece) = pipe.next().await.ok()? {
        sum.update(&piece);
        sink.write(Bytes::clone(&piece)).await?;
    }
    Some(())
}
