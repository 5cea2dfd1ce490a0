//! Uploads on the disk's thread: a temporary file, written as grants allow.
//!
//! Promise: bytes go straight to their final extents, preallocated and contiguous as far as the file system can; nothing is visible
//! before it is published; at the end of an upload, for any cause, its temporary goes with it, unless it is to be kept
//! ([`OnBreak::Keep`]): then the received bytes are published; or to be continued ([`OnBreak::Resume`]): then it stays hidden.
//! Not here: the order of the writes (`storage::uploads`), the client's side and its back-pressure (`crate::upload`), names (`publish`),
//! durability (`commit`).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::SystemTime;

use ::content::STORED_BYTES_MAX;
use ::content::layout::Extent;
use kernel::clock::monotonic;
use kernel::fiemap;
use rustix::fs::{FallocateFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::fs::{fallocate, fcntl_getfl, fcntl_setfl, fstat, fsync, ftruncate, futimens, mkdirat};
use rustix::io::{Errno, pwrite};
use storage::grant::piece_bytes;
use storage::uploads::{JournalId, UploadFile};
use units::{ByteCount, Nanos, UploadId, limits};

use crate::root::{Identity, Root};
use store::buffers::{Chunk, count, index};
use store::operation::{ChangeReply, UploadProgress, UploadTerms};
use store::{
    ContentPath, Entry, ForbiddenBy, FullPlace, NameKind, NameTaken, OnBreak, Precondition, Published, StoreError,
};

use super::Worker;
use super::content::{self, extents_of, is_buffered};
use super::folders::free_bytes;
use super::temporary::TemporaryFile;

/// Space taken ahead of the received bytes, at most, unless as much has come of a length that was announced.
const GROWTH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A content of an announced length up to this is written through the page cache: a direct write has whole blocks, and the last of them is
/// written once more when the file is cut. A commit of eight contents of 10 kB took 34 and 40 ms, with direct writes 56 and 64 (ext4,
/// emulated 7200 rpm disk). Chosen.
const CACHED_BYTES_MAX: u64 = 64 * 1024;

/// An upload takes one part in this number of the free space ahead. Chosen: 128 recordings on a disk of 200 GB with a quarter free lie in
/// stretches of three blocks of a viewer (docs/decisions/0057), and 1024 uploads leave a seventh of the free space.
const GROWTH_PART: u64 = 512;

/// The file of an upload in progress, and its treatment at the end.
pub(crate) struct UploadTarget {
    pub(super) root: usize,
    pub(super) path: ContentPath,
    pub(super) precondition: Precondition,
    pub(super) on_break: OnBreak,
    pub(super) name_taken: NameTaken,
    pub(super) temporary: TemporaryFile,
    /// The directory it was begun in.
    pub(super) parent: Identity,
    pub(super) reply: Option<ChangeReply<Published>>,
    /// Result of publishing it.
    pub(super) published: Option<Published>,
    progress: Arc<UploadProgress>,
    /// Chunks that are not written; the first is the one the next byte is in, and begins there in the file.
    ready: VecDeque<Chunk>,
    ready_from: u64,
    /// The announced length.
    length: Option<u64>,
    allocated_bytes: u64,
    extents: Box<[Extent]>,
    journal: Option<JournalId>,
    /// It gets its name this time before it is durable.
    pub(super) durable: Option<Nanos>,
    /// The modification time that its client gave.
    modified: Option<SystemTime>,
    /// All that came of it, while that is little; it is no recording.
    pub(super) gathered: Option<Vec<u8>>,
    /// The last block of the content, from its start in the file, if the content ends within it.
    tail: Option<(u64, Vec<u8>)>,
    /// A crash left it.
    pub(super) after_restart: bool,
    /// Outcome of its part of the commit under way, if it came with another's: its bytes, and its name.
    pub(super) secured: Option<Result<(), Errno>>,
    pub(super) synced: Option<Result<(), Errno>>,
}

impl UploadFile for UploadTarget {
    fn run_at(&self, offset: u64) -> (u64, u64) {
        let next = self.extents.partition_point(|extent| extent.logical + extent.length <= offset);
        match self.extents.get(next).filter(|extent| extent.logical <= offset) {
            Some(extent) => (extent.physical + (offset - extent.logical), extent.logical + extent.length - offset),
            None => (u64::MAX, u64::MAX),
        }
    }

    fn journal(&self) -> Option<JournalId> {
        self.journal
    }
}

impl UploadTarget {
    /// A file with this number of bytes, of which no client sends more: it is kept, under a numbered name if its own is taken.
    pub(super) fn kept(
        (root, path): (usize, ContentPath),
        temporary: TemporaryFile,
        parent: Identity,
        journal: Option<JournalId>,
        bytes: u64,
    ) -> Self {
        Self {
            root,
            path,
            precondition: Precondition::None,
            on_break: OnBreak::Keep,
            name_taken: NameTaken::Beside,
            temporary,
            parent,
            reply: None,
            published: None,
            progress: Arc::default(),
            ready: VecDeque::new(),
            ready_from: bytes,
            length: None,
            allocated_bytes: bytes,
            extents: Box::default(),
            journal,
            durable: None,
            modified: None,
            gathered: None,
            tail: None,
            after_restart: false,
            secured: None,
            synced: None,
        }
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.temporary.file.as_fd()
    }

    /// Cuts the file to its content's length, and gives it its time. The block that is cut lies in the page cache then: the file system would
    /// read it else. A journal orders no bytes that wait in the page cache before a name: those of a file without direct writes go to the drive.
    pub(super) fn cut(&mut self, length: u64) -> Result<(), Errno> {
        debug_assert!(!self.temporary.is_published(), "a content with a name is whole");
        let flags = fcntl_getfl(self.file())?;
        if let Some((at, block)) = self.tail.take().filter(|_| flags.contains(OFlags::DIRECT)) {
            fcntl_setfl(self.file(), flags - OFlags::DIRECT)?;
            pwrite(self.file(), &block, at)?;
        }
        ftruncate(self.file(), length)?;
        if self.journal.is_some() && !flags.contains(OFlags::DIRECT) {
            let unwritten = fiemap::unwritten_from(self.file());
            let unwritten = unwritten.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            if unwritten.is_some_and(|from| from < length) {
                return Err(Errno::IO);
            }
        }
        self.modified.map_or(Ok(()), |modified| give_time(self.file(), modified))
    }

    /// Takes a chunk that has come, of which `room` bytes may be gathered; returns its bytes.
    fn push(&mut self, mut chunk: Chunk, room: usize) -> u64 {
        let end = chunk.filled.next_multiple_of(index(limits::DIRECT_ALIGN));
        chunk.lease[chunk.filled..end].fill(0);
        debug_assert!(chunk.filled > 0, "a chunk has bytes");
        debug_assert!(
            self.ready_end().is_multiple_of(limits::DIRECT_ALIGN),
            "only an upload's last chunk ends within a direct write"
        );
        let bytes = count(chunk.filled);
        self.gather(&chunk.lease[..chunk.filled], room);
        if chunk.filled < end {
            let block = end - index(limits::DIRECT_ALIGN);
            let at = self.ready_end() + count(block);
            self.tail = Some((at, chunk.lease[block..end].to_vec()));
        }
        self.ready.push_back(chunk);
        self.assert_sound();
        bytes
    }

    /// Gathers the received bytes, unless they become too many.
    fn gather(&mut self, came: &[u8], room: usize) {
        let gathered = self.gathered.take_if(|gathered| came.len() <= room.min(STORED_BYTES_MAX - gathered.len()));
        self.gathered = gathered.map(|mut gathered| {
            gathered.extend_from_slice(came);
            gathered
        });
    }

    /// Place in the file of the next bytes to come.
    fn ready_end(&self) -> u64 {
        self.ready_from + self.ready.iter().map(|chunk| count(chunk.filled)).sum::<u64>()
    }

    /// Checks the chunks that are not written and the place taken for them, in builds with debug assertions.
    fn assert_sound(&self) {
        debug_assert!(
            self.tail.as_ref().is_none_or(
                |(at, block)| at.is_multiple_of(limits::DIRECT_ALIGN) && count(block.len()) == limits::DIRECT_ALIGN
            ),
            "the last block is a whole one"
        );
        debug_assert!(
            self.published.is_none() || self.temporary.is_published(),
            "a client is answered for a content with a name"
        );
    }

    /// Answers the client with the error.
    pub(super) fn tell_failure(&mut self, error: &StoreError) {
        self.progress.fail(error.clone());
        if let Some(reply) = self.reply.take() {
            reply.send(Err(error.clone()));
        }
    }

    /// Its client is gone: only bytes that another upload may continue are left, without the space that was taken ahead.
    fn leave(&mut self) {
        let bytes = self.temporary.written_bytes();
        let stays = matches!(self.on_break, OnBreak::Resume(_)) && bytes > 0;
        if !stays || ftruncate(&self.temporary.file, bytes).is_err() {
            self.temporary.forget();
        }
    }

    /// Takes space for the bytes to be written next.
    fn allocate(&mut self, root: &Root, end: u64) -> Result<(), Errno> {
        if end <= self.allocated_bytes {
            return Ok(());
        }
        debug_assert!(end.is_multiple_of(limits::DIRECT_ALIGN), "space is taken for whole direct writes");
        let start = self.allocated_bytes;
        let generous = (end - start).max(self.growth_bytes(start));
        let taken = match preallocate(self.file(), start, generous) {
            // Nearly full: the needed space may still fit.
            Err(Errno::NOSPC | Errno::DQUOT) => preallocate(self.file(), start, end - start).map(|()| end - start),
            other => other.map(|()| generous),
        }?;
        self.allocated_bytes = start + taken;
        debug_assert!(self.allocated_bytes >= end, "space for the bytes to be written next");
        self.locate(root);
        Ok(())
    }

    /// Space to take ahead: a part of what is free, so that no upload is refused now for bytes that others may send later. If a length was announced, as much is taken ahead as has come: a file then lies in few pieces, and a
    /// client that announces much and sends little holds little.
    fn growth_bytes(&self, allocated_bytes: u64) -> u64 {
        let share = free_bytes(&self.temporary.file).unwrap_or(0) / GROWTH_PART;
        let share = (share - share % limits::DIRECT_ALIGN).min(GROWTH_BYTES_MAX);
        match self.length {
            None => share,
            Some(length) => {
                let rest = length.next_multiple_of(limits::DIRECT_ALIGN).saturating_sub(allocated_bytes);
                share.max(allocated_bytes).min(rest)
            }
        }
    }

    fn locate(&mut self, root: &Root) {
        if let Ok(stat) = fstat(&self.temporary.file) {
            self.extents = extents_of(self.file(), &stat, root);
        }
    }

    /// The parts of the ready chunks that make up `bytes` from `offset`.
    fn slices(&self, offset: u64, mut bytes: u64) -> Vec<&[u8]> {
        debug_assert!(offset >= self.ready_from, "chunks that are written are gone");
        let mut skip = index(offset - self.ready_from);
        let mut slices = Vec::new();
        for chunk in &self.ready {
            let padded = chunk.filled.next_multiple_of(index(limits::DIRECT_ALIGN));
            let end = padded.min(skip.saturating_add(index(bytes)));
            slices.push(&chunk.lease[skip..end]);
            bytes -= count(end - skip);
            skip = 0;
            if bytes == 0 {
                break;
            }
        }
        debug_assert!(bytes == 0, "{bytes} bytes are granted that have not come");
        slices
    }

    /// Lets go of the chunks that are written up to `end`.
    fn let_go(&mut self, end: u64) {
        while let Some(chunk) = self.ready.pop_front_if(|chunk| self.ready_from + count(chunk.filled) <= end) {
            self.ready_from += count(chunk.filled);
        }
        debug_assert!(self.ready.is_empty() || self.ready_from <= end, "a chunk that is not written stays");
    }
}

fn open_folder(root: &Root, path: &ContentPath) -> Result<OwnedFd, Errno> {
    root.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Gives a file its modification time.
pub(super) fn give_time(file: BorrowedFd<'_>, modified: SystemTime) -> Result<(), Errno> {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (tv_sec, tv_nsec) = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos().into());
    let accessed = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(file, &Timestamps { last_access: accessed, last_modification: Timespec { tv_sec, tv_nsec } })
}

/// The folder of an upload of `length` bytes; missing folders of its path are made. A disk that is too full gives its error before that,
/// and before a byte is sent.
pub(super) fn folder_for(root: &Root, path: &ContentPath, length: u64) -> Result<OwnedFd, StoreError> {
    let mut missing = Vec::new();
    let mut there = path.clone();
    let mut folder = loop {
        match (open_folder(root, &there), there.split()) {
            (Err(Errno::NOENT), Some((above, name))) => {
                missing.push(name.to_owned());
                there = above;
            }
            (opened, _) => break opened?,
        }
    };
    let free = free_bytes(&folder)?;
    if free < length {
        let place = format!("the disk of {}", root.path.display());
        return Err(StoreError::Full(Arc::new(FullPlace { place, free: ByteCount(free) })));
    }
    for name in missing.into_iter().rev() {
        // The umask, or the default ACL of the folder above, leaves the permitted bits.
        match mkdirat(&folder, name.as_str(), Mode::RWXU | Mode::RWXG | Mode::RWXO) {
            // Where a file's name is durable with the file, so is that of its folder; elsewhere it is made so at once.
            Ok(()) if !content::syncs_names_with_files(folder.as_fd())? => fsync(&folder)?,
            // Another upload may have made it, or a link that leads nowhere lies there.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        there = there.stored_child(&name).map_err(|_| StoreError::Forbidden(ForbiddenBy::Name))?;
        folder = open_folder(root, &there)?;
    }
    Ok(folder)
}

impl Worker {
    /// Prepares an upload to `path`; returns the number of its bytes that are stored already.
    pub(crate) fn begin_upload(
        &mut self,
        root_index: usize,
        path: &ContentPath,
        terms: UploadTerms,
    ) -> Result<(UploadId, u64), StoreError> {
        if self.uploads.count() >= limits::UPLOADS_MAX {
            return Err(StoreError::Busy);
        }
        let Some((parent, name)) = path.split() else { return Err(StoreError::IsDirectory) };
        let root = self.folders.root(root_index)?;
        let existing = match self.folders.find(&root, path) {
            Ok(found) if found.entry.kind == NameKind::Directory => return Err(StoreError::IsDirectory),
            Ok(found) => Some(found.entry),
            Err(error) if error.is_absence() => None,
            Err(error) => return Err(error),
        };
        if !terms.precondition.holds(existing.as_ref().map(Entry::existing)) {
            return Err(StoreError::PreconditionFailed);
        }
        let directory = folder_for(&root, &parent, terms.length.unwrap_or(0))?;
        let identity = Identity::of(&directory)?;
        let journal = self.journals.of(directory.as_fd())?;
        let is_small = terms.length.is_some_and(|length| length <= CACHED_BYTES_MAX);
        let is_cached = is_small && terms.recording.is_none() && terms.on_break == OnBreak::Discard;
        let direct = !is_cached && !is_buffered(directory.as_fd())?;
        let made = |directory, direct| match (terms.on_break, terms.on_break.part_name(name)) {
            (_, Some(part)) => TemporaryFile::part(directory, direct, part),
            (OnBreak::Keep, None) => TemporaryFile::recoverable(directory, direct, name),
            (_, None) => TemporaryFile::new(directory, direct),
        };
        let temporary = match made(directory, direct) {
            Err(Errno::INVAL) if direct => made(open_folder(&root, &parent)?, false)?,
            other => other?,
        };
        let continues = matches!(terms.on_break, OnBreak::Resume(_));
        let written = if continues { temporary.keep_chunks(terms.length)? } else { 0 };
        let mut target = UploadTarget {
            precondition: terms.precondition,
            on_break: terms.on_break,
            name_taken: terms.name_taken,
            progress: terms.progress,
            length: terms.length,
            modified: terms.modified,
            gathered: (terms.recording.is_none() && written == 0).then(Vec::new),
            ..UploadTarget::kept((root_index, path.clone()), temporary, identity, journal, written)
        };
        // A recording is charged by its zone: that must be known.
        if terms.recording.is_some() || terms.length.is_some_and(|length| length > written) {
            target.allocate(&root, written + limits::DIRECT_ALIGN)?;
        }
        debug_assert!(written.is_multiple_of(limits::CHUNK_BYTES), "an upload resumes at a whole chunk");
        let keeps = terms.on_break == OnBreak::Keep;
        let early = terms.durable.filter(|_| terms.recording.is_none() && !keeps && target.journal.is_some());
        target.durable = early;
        let upload = self.uploads.begin(target, terms.recording, keeps, written);
        if let Some(durable) = early {
            self.uploads.name_early(upload, durable);
        }
        debug_assert!(self.uploads.count() <= limits::UPLOADS_MAX, "uploads are bounded");
        Ok((upload, written))
    }

    /// A chunk has come: whole direct writes unless it is the last.
    pub(crate) fn take_chunk(&mut self, upload: UploadId, chunk: Chunk) {
        // The gathered bytes of all uploads take no more memory than their buffers.
        let gathered: usize = self.uploads.files().filter_map(|target| target.gathered.as_ref()).map(Vec::len).sum();
        let room = self.folders.common.uploads_bytes().saturating_sub(gathered);
        let Some(target) = self.uploads.receiving(upload) else { return };
        let bytes = target.push(chunk, room);
        self.uploads.received(upload, bytes);
    }

    /// The last chunk has come, if there is one, and `reply` waits for the end.
    pub(crate) fn finish_upload(&mut self, upload: UploadId, last: Option<Chunk>, reply: ChangeReply<Published>) {
        let Some(target) = self.uploads.receiving(upload) else { return };
        target.reply = Some(reply);
        if let Some(chunk) = last {
            self.take_chunk(upload, chunk);
        }
        self.uploads.finish(upload);
        self.name_early();
    }

    /// The client is gone, or has given up; `rest` had come last.
    pub(super) fn break_off(&mut self, upload: UploadId, rest: Option<Chunk>) {
        let keeps = self.uploads.receiving(upload).is_some_and(|target| target.on_break == OnBreak::Keep);
        if let Some(chunk) = rest.filter(|_| keeps) {
            self.take_chunk(upload, chunk);
        }
        if let Some(mut target) = self.uploads.break_off(upload) {
            target.leave();
            self.shared.stats.uploads_failed.add(1);
        }
    }

    /// Uses a grant to write, no piece after `until`.
    pub(super) fn write_upload(&mut self, upload: UploadId, offset: u64, bytes: u64, until: Nanos) {
        let Some(target) = self.uploads.file_mut(upload) else { return };
        let (written, error) = match target.allocate(&self.folders.opened(target.root), offset + bytes) {
            Err(error) => (0, Some(StoreError::from(error))),
            Ok(()) => {
                let slices = target.slices(offset, bytes);
                let run =
                    self.writer.write_run(target.file(), offset, &slices, piece_bytes(until), || monotonic() < until);
                (run.bytes - run.bytes % limits::DIRECT_ALIGN, run.error.map(StoreError::from))
            }
        };
        debug_assert!(written <= bytes, "no more is written than granted");
        target.let_go(offset + written);
        if let Some(error) = &error {
            target.tell_failure(error);
            target.ready.clear();
            if let OnBreak::Resume(_) = target.on_break {
                target.temporary.forget();
            }
        }
        self.shared.stats.written_bytes.add(written);
        let over = self.uploads.wrote(upload, written, error.as_ref().map(StoreError::trouble), monotonic());
        if let Some(mut target) = over {
            self.shared.stats.uploads_failed.add(1);
            if target.temporary.written_bytes() == 0 {
                // The next start would find nothing in it.
                target.temporary.forget();
            }
        }
        self.name_early();
    }

    /// Names the written uploads that need be durable only later, and answers their clients.
    fn name_early(&mut self) {
        while let Some((upload, length)) = self.uploads.next_to_name() {
            let outcome = self.secure(upload, length).and_then(|()| self.publish(upload));
            if outcome.is_ok() {
                self.answer_early(upload);
            }
            self.uploads.named(upload, outcome.map_err(|error| error.trouble()), monotonic());
        }
    }
}

fn preallocate(file: BorrowedFd<'_>, start: u64, length: u64) -> Result<(), Errno> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, start, length) {
        // Not every file system can; it then finds space as it goes.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(Errno::INTR) => preallocate(file, start, length),
        other => other,
    }
}
