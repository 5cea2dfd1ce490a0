//! The folders that this very server serves, as one end of a copy, or read for their own sake.
//!
//! Promise: reads are admitted and paced as those of clients, and come out of a pipe; writes go to the same service as an upload's, and are
//! durable when they are done; a copy that breaks off continues where it ended. Called on a thread that may wait, never on one of the
//! runtime's own.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::{Buf as _, Bytes};
use client::{FileVersion, RateRefusal, SourceFile, SourceReader, Tree, TreeEntry};
use content::Segment;
use service::access::{PathRight, Permit, ToRead, ToWrite};
use service::delivery::{Client, DeliveryError};
use service::ingest::{self, IngestRequest, Writer};
use service::namespace;
use service::pipeline::{Pipe, PipeError, Stages};
use service::rate::{RateTerms, RequestedRate};
use service::reads::{self, ContentRead, ReadPurpose};
use service::session::{ContentPart, Viewer};
use service::{MediaService, figures};
use store::{ContentPath, Entry, NameKind, OnBreak, Precondition, StoreError, WalkedKind, Want};
use tokio::runtime::Handle;
use tokio::time::timeout;
use units::BitRate;

use super::pacing::{MoveProgress, PacedReader};
use super::{CopyTarget, READ_BYTES, fill, utf8};
use crate::failures::Failures;

/// Entries of a folder that are listed at once.
const PAGE: usize = 10_000;
/// The longest silence of a stream before it is given up, as one from a silent server is.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A file with an identifier that changes with each start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The address of the writer in the event log.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A folder below `/media/`.
#[derive(Clone)]
pub struct OwnFolder {
    path: ContentPath,
    service: Arc<MediaService>,
    runtime: Handle,
}

impl OwnFolder {
    /// Calls wait on `runtime`.
    pub fn new(service: &Arc<MediaService>, path: &ContentPath, runtime: Handle) -> Self {
        Self { path: path.clone(), service: Arc::clone(service), runtime }
    }

    /// A permit for a name below it; for itself if that is empty.
    fn permit<R: PathRight>(&self, name: &str) -> anyhow::Result<Permit<R>> {
        let mut names = name.split('/').filter(|name| !name.is_empty());
        let path = names.try_fold(self.path.clone(), |path, name| path.child(name));
        Ok(Permit::of_configuration(path.with_context(|| self.shown(name))?))
    }

    /// The entry of a name; none if nothing has it.
    fn find(&self, name: &str) -> anyhow::Result<Option<Entry>> {
        let permit = self.permit::<ToRead>(name)?;
        match self.runtime.block_on(self.service.lookup(&permit)) {
            Err(StoreError::NotFound) => Ok(None),
            found => Ok(Some(found.with_context(|| self.shown(name))?)),
        }
    }

    pub(super) fn is_folder(&self) -> anyhow::Result<bool> {
        Ok(self.find("")?.is_some_and(|entry| entry.kind == NameKind::Directory))
    }

    /// The version of a file; none if there is no file of this name.
    pub(super) fn find_version(&self, name: &str) -> anyhow::Result<Option<FileVersion>> {
        let version = |entry: Entry| FileVersion {
            tag: format!("{} {} {:?}", self.shown(name), entry.etag, entry.modified),
            bytes: entry.size,
            modified: Some(entry.modified),
        };
        Ok(self.find(name)?.filter(|entry| entry.kind == NameKind::File).map(version))
    }

    pub(super) fn version(&self, name: &str) -> anyhow::Result<FileVersion> {
        self.find_version(name)?.with_context(|| format!("{}: there is no content of this name", self.shown(name)))
    }

    /// Opens a file to be read from `from` on, at a rate that is reserved for it, or as best effort.
    ///
    /// # Errors
    /// [`RateRefusal`] if a lower rate would be granted.
    pub(super) fn open(&self, name: &str, from: u64, rate: Option<BitRate>) -> anyhow::Result<SourceReader> {
        let permit = self.permit(name)?;
        let opened = self.runtime.block_on(reads::open_content(&self.service, &permit, Want::File))?;
        let bytes = opened.entry.size;
        let part = match rate {
            Some(_) if from == 0 => ContentPart::Download,
            None if from == 0 => ContentPart::Whole,
            _ => ContentPart::Elsewhere,
        };
        let body = match bytes.saturating_sub(from) {
            0 => Vec::new(),
            length => vec![Segment::Range { offset: from, length }],
        };
        let client = own();
        let charged = self.service.charged(&permit, client);
        let read = ContentRead {
            opened,
            body,
            part,
            purpose: ReadPurpose::Plays,
            terms: RateTerms {
                rate: rate.map_or(RequestedRate::Bulk, RequestedRate::Rate),
                burst: None,
                ceiling: None,
            },
            viewer: Viewer::unnamed(OWN, self.service.hash(module_path!()), &charged),
            charged,
            client,
            stages: Stages::default(),
        };
        let pipe = self.runtime.block_on(reads::open_pipe(&self.service, read)).map_err(refused)?;
        let mut reader = OwnReader { pipe, runtime: self.runtime.clone(), piece: Bytes::new() };
        // Admission answers with the first bytes.
        reader.fetch()?;
        Ok(SourceReader { reader: Box::new(reader), bytes })
    }

    /// The files below it, as clients are shown them; names that no address can have and served folders that are away count as unreadable.
    pub(super) fn files(&self) -> anyhow::Result<Tree> {
        let entry = self.find("")?.with_context(|| format!("{}: there is nothing of this name", self.path))?;
        if entry.kind == NameKind::File {
            let file = SourceFile { name: PathBuf::new(), bytes: entry.size };
            return Ok(Tree { files: vec![file], ..Tree::default() });
        }
        let mut tree = Tree::of_folder(|folder| self.list(folder), |folder| self.shown(folder))?;
        tree.unreadable.extend(self.runtime.block_on(self.unnamed())?);
        let folders = figures::system(&self.service, &Permit::of_server()).folders;
        let away = folders.into_iter().filter(|folder| folder.away);
        tree.unreadable.extend(away.map(|folder| format!("{}: this served folder is away", folder.path)));
        Ok(tree)
    }

    fn list(&self, folder: &str) -> anyhow::Result<Vec<TreeEntry>> {
        let permit = self.permit(folder)?;
        let mut all: Vec<TreeEntry> = Vec::new();
        loop {
            let after = all.last().map_or("", |last| &last.name);
            let page = self.runtime.block_on(self.service.list_part(&permit, after, PAGE))?;
            let is_last = page.entries.len() < PAGE;
            all.extend(page.entries.iter().map(|entry| TreeEntry {
                name: entry.name.clone(),
                is_folder: entry.kind == NameKind::Directory,
                is_link: entry.is_link,
                bytes: entry.size,
            }));
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn unnamed(&self) -> anyhow::Result<Vec<String>> {
        let mut unnamed = Vec::new();
        let mut walk = self
            .service
            .walk(&Permit::of_configuration(self.path.clone()))
            .await
            .with_context(|| self.path.to_string())?;
        while let Some(met) = walk.next().await {
            let path = match &met {
                Ok(item) if item.is_shown && !matches!(item.walked.kind, WalkedKind::Folder(_)) => &item.walked.path,
                Ok(_) => continue,
                Err(error) => &error.path,
            };
            if path.to_str().is_none() {
                unnamed.push(format!("{}: its name is not UTF-8, so that no address leads to it", path.display()));
            }
        }
        Ok(unnamed)
    }

    /// Makes a folder, with those above it, unless it is there.
    pub(super) fn make_folders(&self, name: &str) -> anyhow::Result<()> {
        let whole = self.permit::<ToWrite>(name)?;
        let mut folder = ContentPath::root();
        for part in whole.path().components() {
            folder = folder.child(part).with_context(|| self.shown(name))?;
            if !(Self { path: folder.clone(), ..self.clone() }).is_folder()? {
                let permit = Permit::of_configuration(folder.clone());
                self.runtime.block_on(namespace::make_folder(&self.service, &permit, own()))?;
            }
        }
        Ok(())
    }

    pub(super) fn shown(&self, name: &str) -> String {
        match (self.path.joined(), name) {
            (folder, "") if folder.is_empty() => "/".to_owned(),
            (folder, "") => folder,
            (folder, name) if folder.is_empty() => name.to_owned(),
            (folder, name) => format!("{folder}/{name}"),
        }
    }

    /// Begins to write a content, or continues an upload that broke off of this version of its source.
    pub(super) fn begin(
        &self,
        file: &SourceFile,
        rate: Option<BitRate>,
        version: &FileVersion,
    ) -> anyhow::Result<OwnUpload> {
        let permit = self.permit(utf8(&file.name)?)?;
        let mut hasher = DefaultHasher::new();
        // Bytes that were written shortly before the machine stopped may not be on its disk.
        (&version.tag, version.bytes, std::fs::read(BOOT_ID).unwrap_or_default()).hash(&mut hasher);
        let request = IngestRequest {
            length: Some(version.bytes),
            precondition: Precondition::None,
            rate,
            durable: None,
            on_break: OnBreak::Resume(hasher.finish()),
            every: None,
            modified: version.modified,
            client: own(),
        };
        let begun = ingest::begin(&self.service, &permit, request, Stages::default());
        let writer = self.runtime.block_on(begun)?;
        Ok(OwnUpload { writer, runtime: self.runtime.clone() })
    }

    /// Reads every content below it, each at `rate`, or as best effort; until the rate is refused, for the next one would be refused as
    /// well. Gives those that were not read whole, and why.
    ///
    /// # Errors
    /// It cannot be listed, or got the order to stop.
    pub fn read_all(&self, rate: Option<BitRate>, moved: &MoveProgress) -> anyhow::Result<Failures> {
        let tree = self.files()?;
        moved.expect(tree.files.iter().map(|file| file.bytes).sum());
        let mut unreadable = Failures::default();
        tree.unreadable.iter().for_each(|folder| unreadable.add(folder));
        for file in tree.files {
            let name = utf8(&file.name)?;
            let read = self.read(name, rate, moved);
            moved.check()?;
            match read {
                Ok(()) => moved.file_is_done(0),
                Err(error) if error.is::<RateRefusal>() => {
                    let refused = format!("{}: {error:#}; no other was asked for after it", self.shown(name));
                    unreadable.add(refused);
                    break;
                }
                // It was removed meanwhile.
                Err(_) if self.find(name).is_ok_and(|found| found.is_none()) => {}
                Err(error) => unreadable.add(format_args!("{}: {error:#}", self.shown(name))),
            }
        }
        Ok(unreadable)
    }

    fn read(&self, name: &str, rate: Option<BitRate>, moved: &MoveProgress) -> anyhow::Result<()> {
        let opened = self.open(name, 0, rate)?;
        let mut reader = PacedReader::new(opened.reader, None, moved);
        std::io::copy(&mut reader, &mut std::io::sink())?;
        Ok(())
    }
}

/// The server itself, which has no budget.
const fn own() -> Client {
    Client { address: OWN, local: OWN, is_proxy: true }
}

/// The reason why a read was not started.
fn refused(error: DeliveryError) -> anyhow::Error {
    match error {
        DeliveryError::NoRoom(ref short) if short.refusal.grantable.0 > 0 => RateRefusal(error.to_string()).into(),
        error => error.into(),
    }
}

/// Bytes out of a pipe.
struct OwnReader {
    pipe: Pipe,
    runtime: Handle,
    /// Came, and not yet read.
    piece: Bytes,
}

impl OwnReader {
    /// Waits for the next bytes; there are none at the end.
    fn fetch(&mut self) -> anyhow::Result<()> {
        let next = self.runtime.block_on(async { timeout(SILENCE_MAX, self.pipe.next()).await });
        let next = next.context("nothing came for a minute")?.map_err(|error| match error {
            PipeError::Delivery(error) => refused(error),
            error => error.into(),
        });
        self.piece = next?.unwrap_or_default();
        Ok(())
    }
}

impl Read for OwnReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.fetch().map_err(io::Error::other)?;
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece[..count]);
        self.piece.advance(count);
        Ok(count)
    }
}

/// A content that is being written.
pub(super) struct OwnUpload {
    writer: Writer,
    runtime: Handle,
}

impl CopyTarget for OwnUpload {
    fn begun_with(&self) -> u64 {
        self.writer.begun_with()
    }

    fn give_up(&mut self, reason: &str) {
        self.runtime.block_on(self.writer.give_up(reason));
    }

    /// If it cannot be read or stored, the next upload continues behind the bytes written.
    fn finish(mut self: Box<Self>, reader: &mut PacedReader<'_>, _bytes: u64) -> anyhow::Result<()> {
        loop {
            let mut piece = vec![0; READ_BYTES];
            let count = fill(reader, &mut piece).inspect_err(|error| self.give_up(&error.to_string()))?;
            piece.truncate(count);
            self.runtime.block_on(self.writer.write(Bytes::from(piece)))?;
            if count < READ_BYTES {
                break;
            }
        }
        self.runtime.block_on(self.writer.finish())?;
        Ok(())
    }
}
