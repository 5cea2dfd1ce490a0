//! Uploads on the disk's thread: a temporary file, written as grants allow.
//!
//! Promise: bytes go straight to their final extents, preallocated and contiguous as far as the file system can; nothing
//! is visible before it is published; whatever ends an upload, its temporary goes with it, unless it is to be kept
//! ([`OnBreak::Keep`]): then what has come is published.
//! Not here: the client's side and its back-pressure (`crate::upload`), names (`publish`), durability (`commit`).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use dataplane::control::Extent;
use dataplane::grant::{Grant, JobId, Work, WorkClass};
use kernel::clock::monotonic;
use kernel::pool::Lease;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fstat, ftruncate};
use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use units::{BitRate, Nanos, ReservationId, UploadId, limits};

use crate::root::{Identity, Root};
use crate::upload::{BufferRight, Progress, Terms};
use crate::{ContentPath, Entry, Kind, OnBreak, Precondition, Published, StoreError, beneath};

use super::commit::Waiter;
use super::content::{extents_of, is_buffered};
use super::temporary::TemporaryFile;
use super::{UPLOAD_JOBS, Used, Worker, free_bytes};

/// Space taken ahead for an upload of unknown length, at most.
const GROWTH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes on their way from a client to the disk. Dropping it frees the memory and wakes who waits for some.
#[derive(Debug)]
pub(crate) struct Chunk {
    // Dropped before the permits, so that a permit always finds a buffer.
    pub(crate) lease: Lease,
    pub(crate) filled: usize,
    pub(crate) _of_pool: BufferRight,
    pub(crate) _of_upload: OwnedSemaphorePermit,
}

/// An upload in progress.
pub(super) struct Job {
    pub(super) id: UploadId,
    pub(super) job: JobId,
    pub(super) root: usize,
    pub(super) path: ContentPath,
    pub(super) precondition: Precondition,
    pub(super) on_break: OnBreak,
    pub(super) target: TemporaryFile,
    /// The directory it was begun in.
    pub(super) parent: Identity,
    pub(super) reply: Option<oneshot::Sender<Result<Published, StoreError>>>,
    recording: Option<Recording>,
    progress: Arc<Progress>,
    ready: VecDeque<Chunk>,
    /// When the front chunk came.
    ready_since: Nanos,
    /// Bytes that have come.
    received_bytes: u64,
    /// True once no more will come.
    is_whole: bool,
    /// Bytes of `ready`, the last rounded up to a whole direct write, that are not written.
    ready_bytes: u64,
    /// Bytes written, from the file's start; a multiple of `DIRECT_ALIGN`.
    written_bytes: u64,
    allocated_bytes: u64,
    extents: Box<[Extent]>,
    /// The content's length, once all of it has come.
    total_bytes: Option<u64>,
    /// Size of the offer that is out; zero if none is.
    offered_bytes: u64,
}

/// A recording's terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recording {
    pub(crate) rate: BitRate,
    pub(crate) reservation: ReservationId,
    /// What its chunks can hold.
    pub(crate) buffer_bytes: u64,
}

impl Recording {
    /// When the bytes that came at `since` must be written: half the buffer later, so that the other half can take what
    /// comes while they are.
    fn deadline(&self, since: Nanos) -> Nanos {
        since.saturating_add(self.rate.time_for(self.buffer_bytes / 2))
    }

    /// Bytes worth an offer: a second and a half of it, at least a chunk, at most half its buffer.
    fn offer_bytes_min(&self) -> u64 {
        let most = (self.buffer_bytes / 2).max(limits::CHUNK_BYTES);
        self.rate.bytes_in(Nanos::from_millis(1500)).clamp(limits::CHUNK_BYTES, most)
    }
}

impl Job {
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.target.file.as_fd()
    }

    pub(super) fn forget_offer(&mut self) {
        self.offered_bytes = 0;
    }

    /// Its own name.
    pub(super) fn name(&self) -> &str {
        self.path.components().last().map_or("", String::as_str)
    }

    /// Where the next byte goes on the device, and how many go on from there without a gap.
    fn next_run(&self) -> (u64, u64) {
        let at = self.written_bytes;
        let next = self.extents.partition_point(|extent| extent.logical + extent.length <= at);
        match self.extents.get(next).filter(|extent| extent.logical <= at) {
            Some(extent) => {
                let run = extent.logical + extent.length - at;
                // An extent that does not end where a direct write can (1 KiB blocks) does not cut one.
                let whole = if run.is_multiple_of(limits::DIRECT_ALIGN) { run } else { u64::MAX };
                (extent.physical + (at - extent.logical), self.ready_bytes.min(whole))
            }
            None => (u64::MAX, self.ready_bytes),
        }
    }

    fn class(&self) -> WorkClass {
        match &self.recording {
            None => WorkClass::BestEffort,
            Some(recording) => WorkClass::RealTime {
                reservation: recording.reservation,
                deadline: recording.deadline(self.ready_since),
            },
        }
    }

    fn is_worth_an_offer(&self) -> bool {
        let least = match &self.recording {
            Some(recording) if !self.is_whole => recording.offer_bytes_min(),
            _ => 1,
        };
        self.ready_bytes >= least
    }

    /// Takes space for what is to be written next.
    fn allocate(&mut self, root: &Root, end: u64) -> Result<(), Errno> {
        if end <= self.allocated_bytes {
            return Ok(());
        }
        let start = self.allocated_bytes;
        let generous = (end - start).max(self.growth_bytes());
        let taken = match preallocate(self.file(), start, generous) {
            // Nearly full: what is needed may still fit.
            Err(Errno::NOSPC | Errno::DQUOT) => preallocate(self.file(), start, end - start).map(|()| end - start),
            other => other.map(|()| generous),
        }?;
        self.allocated_bytes = start + taken;
        self.locate(root);
        Ok(())
    }

    /// Space to take ahead. All uploads at once take no more than half of what is free: who needs the rest now is not
    /// refused for what others may yet send.
    fn growth_bytes(&self) -> u64 {
        let share = free_bytes(&self.target.file).unwrap_or(0) / (2 * count(limits::UPLOADS_MAX));
        (share - share % limits::DIRECT_ALIGN).min(GROWTH_BYTES_MAX)
    }

    fn locate(&mut self, root: &Root) {
        if let Ok(stat) = fstat(&self.target.file) {
            self.extents = extents_of(self.file(), &stat, root);
        }
    }

    /// The parts of the ready chunks that make up the next `bytes`.
    fn slices(&self, mut bytes: u64) -> Vec<&[u8]> {
        let mut skip = index(self.written_bytes % limits::CHUNK_BYTES);
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
        slices
    }

    /// Notes that `bytes` more are written and lets go of the chunks that are done.
    fn advance(&mut self, bytes: u64) {
        let old = self.written_bytes;
        self.written_bytes += bytes;
        self.ready_bytes -= bytes;
        let done = index(self.written_bytes / limits::CHUNK_BYTES - old / limits::CHUNK_BYTES);
        self.ready.drain(..done.min(self.ready.len()));
        if self.ready_bytes == 0 {
            self.ready.clear();
        }
    }
}

impl Worker {
    /// Makes ready for an upload to `path`.
    pub(crate) fn begin_upload(
        &mut self,
        root_index: usize,
        path: &ContentPath,
        terms: Terms,
    ) -> Result<UploadId, StoreError> {
        if self.uploads.len() >= limits::UPLOADS_MAX {
            return Err(StoreError::Busy);
        }
        let Some((parent, name)) = path.split() else { return Err(StoreError::IsDirectory) };
        let existing = match self.find(root_index, path) {
            Ok(found) if found.entry.kind == Kind::Directory => return Err(StoreError::IsDirectory),
            Ok(found) => Some(found.entry),
            Err(_) => None, // its own reason, if it matters, comes when the directory is opened
        };
        if !terms.precondition.holds(existing.as_ref().map(Entry::existing)) {
            return Err(StoreError::PreconditionFailed);
        }
        let id = UploadId(self.next_upload);
        let root = self.root(root_index)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = match beneath::open_beneath(root.directory.as_fd(), &parent.relative(), flags) {
            Err(Errno::NOENT) => return Err(StoreError::ParentMissing),
            other => other?,
        };
        let identity = Identity::of(&directory)?;
        let direct = !is_buffered(directory.as_fd())?;
        let made = |directory, direct| match terms.on_break {
            OnBreak::Discard => TemporaryFile::new(directory, direct),
            OnBreak::Keep => TemporaryFile::recoverable(directory, direct, name),
        };
        let target = match made(directory, direct) {
            Err(Errno::INVAL) if direct => {
                made(beneath::open_beneath(root.directory.as_fd(), &parent.relative(), flags)?, false)?
            }
            other => other?,
        };
        let mut job = Job {
            id,
            job: JobId(UPLOAD_JOBS + self.next_upload),
            root: root_index,
            path: path.clone(),
            precondition: terms.precondition,
            on_break: terms.on_break,
            target,
            parent: identity,
            reply: None,
            recording: terms.recording,
            progress: terms.progress,
            ready: VecDeque::new(),
            ready_since: Nanos::ZERO,
            received_bytes: 0,
            is_whole: false,
            ready_bytes: 0,
            written_bytes: 0,
            allocated_bytes: 0,
            extents: Box::default(),
            total_bytes: None,
            offered_bytes: 0,
        };
        if let Some(length) = terms.length.filter(|length| *length > 0) {
            // All of it now: a disk that is too full says so before a byte is sent, and the file lies in one piece.
            preallocate(job.file(), 0, length)?;
            job.allocated_bytes = length.next_multiple_of(limits::DIRECT_ALIGN);
            job.locate(&self.roots[root_index]);
        }
        self.next_upload += 1;
        self.uploads.insert(id, job);
        self.shared.stats.uploads_begun.add(1);
        Ok(id)
    }

    /// A full chunk has come.
    pub(crate) fn take_chunk(&mut self, upload: UploadId, chunk: Chunk) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        if job.progress.has_failed() {
            return;
        }
        if job.ready.is_empty() {
            job.ready_since = monotonic();
        }
        job.received_bytes += count(chunk.filled);
        job.ready_bytes += count(chunk.filled).next_multiple_of(limits::DIRECT_ALIGN);
        job.ready.push_back(chunk);
        self.offer_write(upload);
    }

    /// The last chunk has come, if there is one, and `reply` waits for the end.
    pub(crate) fn finish_upload(
        &mut self,
        upload: UploadId,
        last: Option<Chunk>,
        total_bytes: u64,
        reply: oneshot::Sender<Result<Published, StoreError>>,
    ) {
        let Some(job) = self.uploads.get_mut(&upload).filter(|job| !job.is_whole) else { return };
        job.reply = Some(reply);
        self.end_with(upload, last, Some(total_bytes));
    }

    /// No more will come: `last` is the last chunk, if there is one; what has come is all, unless `total_bytes` is said.
    fn end_with(&mut self, upload: UploadId, last: Option<Chunk>, total_bytes: Option<u64>) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        job.is_whole = true;
        match last {
            Some(mut chunk) => {
                let end = chunk.filled.next_multiple_of(index(limits::DIRECT_ALIGN));
                chunk.lease[chunk.filled..end].fill(0);
                self.take_chunk(upload, chunk);
            }
            None => self.offer_write(upload),
        }
        if let Some(job) = self.uploads.get_mut(&upload) {
            job.total_bytes = Some(total_bytes.unwrap_or(job.received_bytes));
        }
        self.conclude_if_written(upload);
    }

    /// The client is gone, or has given up; `rest` had come last.
    pub(super) fn break_off(&mut self, upload: UploadId, rest: Option<Chunk>) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        let has_some = job.received_bytes > 0 || rest.is_some();
        match job.on_break {
            OnBreak::Keep if job.is_whole => {}
            OnBreak::Keep if has_some => {
                self.lose_reservation(upload);
                self.end_with(upload, rest, None);
            }
            OnBreak::Keep => {
                job.target.forget();
                self.abandon(upload);
            }
            OnBreak::Discard => self.abandon(upload),
        }
    }

    /// The time that was reserved for a recording goes with its client: the rest is written in what streams leave.
    fn lose_reservation(&mut self, upload: UploadId) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        job.recording = None;
        job.forget_offer();
        let number = job.job;
        self.withdraw(number);
    }

    fn abandon(&mut self, upload: UploadId) {
        if let Some(job) = self.uploads.remove(&upload) {
            self.shared.stats.uploads_failed.add(1);
            self.withdraw(job.job);
        }
    }

    pub(super) fn fail(&mut self, upload: UploadId, error: &StoreError) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        job.progress.fail(error.clone());
        if let Some(reply) = job.reply.take() {
            drop(reply.send(Err(error.clone())));
        }
        let has_some = job.on_break == OnBreak::Keep && job.written_bytes > 0;
        if !has_some || !matches!(error, StoreError::NoSpace) {
            return self.abandon(upload);
        }
        // What fitted is kept.
        job.ready.clear();
        job.ready_bytes = 0;
        let written = job.written_bytes.min(job.received_bytes);
        self.lose_reservation(upload);
        self.end_with(upload, None, Some(written));
    }

    pub(super) fn offer_write(&mut self, upload: UploadId) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        let (position, bytes) = job.next_run();
        // More than a run is not granted at once: an offer of a run need not be renewed.
        if !job.is_worth_an_offer() || bytes <= job.offered_bytes || job.offered_bytes >= limits::RUN_BYTES_MAX {
            return;
        }
        job.offered_bytes = bytes;
        let (number, class) = (job.job, job.class());
        self.offer(number, Work::Write { bytes, position }, class);
    }

    /// Uses a grant to write.
    pub(super) fn write(&mut self, upload: UploadId, grant: Grant, started: Nanos) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        let root = &self.roots[job.root];
        let bytes = job.ready_bytes.min(grant.bytes_max);
        let bytes = if bytes < job.ready_bytes { bytes - bytes % limits::DIRECT_ALIGN } else { bytes };
        let allocated = job.allocate(root, job.written_bytes + bytes);
        let (written, error) = match allocated {
            Err(error) => (0, Some(StoreError::from(error))),
            Ok(()) => {
                let slices = job.slices(bytes);
                let file = job.target.file.as_fd();
                let run = self.writer.write_run(file, job.written_bytes, &slices, || monotonic() < grant.until);
                (run.bytes - run.bytes % limits::DIRECT_ALIGN, run.error.map(StoreError::from))
            }
        };
        job.advance(written);
        if written > 0 {
            job.ready_since = monotonic();
        }
        let (position, ready_bytes) = job.next_run();
        let more = error.is_none() && ready_bytes > 0 && job.is_worth_an_offer();
        let ok = !matches!(error, Some(StoreError::Io(_)));
        let (ready_bytes, position) = if more { (ready_bytes, position) } else { (0, u64::MAX) };
        job.offered_bytes = ready_bytes;
        // A recording's next bytes have a deadline of their own, which a `Done` cannot say.
        let renewed =
            job.recording.filter(|_| more).map(|_| (Work::Write { bytes: ready_bytes, position }, job.class()));
        let number = job.job;
        self.shared.stats.written_bytes.add(written);
        self.commits.dirty_bytes += written;
        self.commits.written_last = Some(upload);
        match error {
            Some(error) => self.fail(upload, &error),
            None => self.conclude_if_written(upload),
        }
        // Before the grant is given back: what comes next is decided then, and a flush is part of it.
        self.offer_commit();
        self.answer(number, Used { bytes: written, started, ok, ready_bytes, position });
        if let Some((work, class)) = renewed {
            self.offer(number, work, class);
        }
    }

    /// Hands an upload whose bytes are all written to the next commit.
    fn conclude_if_written(&mut self, upload: UploadId) {
        let Some(job) = self.uploads.get_mut(&upload) else { return };
        if job.ready_bytes > 0 {
            return;
        }
        // Taken: a grant that comes late must not conclude it again.
        let Some(total_bytes) = job.total_bytes.take() else { return };
        // Cuts off the padding of the last direct write, and what was allocated beyond.
        let result = ftruncate(&job.target.file, total_bytes);
        let number = job.job;
        self.withdraw(number);
        match result {
            Ok(()) => self.commits.wait(Waiter::Upload(upload)),
            Err(error) => self.fail(upload, &error.into()),
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

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("within a few chunks")
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("usize is at most 64 bits")
}
