//! Making durable: one operation for all that waits, on one grant.
//!
//! Promise: what is acknowledged survives a power cut, and no name is left with a part of its bytes. Uploads that finish in
//! the same window share a commit: the first fsync commits the journal for all, the others find nothing left to do. What was
//! written since the last flush is told to the schedule: it decides how much a drive's cache may hold, and when it is
//! emptied though nobody waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use dataplane::grant::{Work, WorkClass};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fdatasync, fsync, openat};
use rustix::io::Errno;
use tokio::sync::oneshot;
use units::{Nanos, UploadId};

use crate::{OnBreak, StoreError};

use super::upload::Job;
use super::{COMMIT_JOB, Used, Worker, content};

/// Bytes by which what is in the drive's cache must have grown to be told again.
const DIRTY_BYTES_NEWS: u64 = 4 * 1024 * 1024;

/// Names made durable by one commit at most: its time is what the schedule has learned, and must stay alike.
const WAITERS_PER_COMMIT: usize = 32;

/// What is to be made durable.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// Written since the last flush.
    pub(super) dirty_bytes: u64,
    waiting: Vec<Waiter>,
    /// The offer that is out: how much was dirty, and whether somebody waited.
    offered: Option<(u64, bool)>,
    /// The upload written to last: its file is what a flush that nobody waits for goes through.
    pub(super) written_last: Option<UploadId>,
    /// A file of the first root that never changes, for its fsync alone.
    unchanged: Option<OwnedFd>,
}

/// Who waits for a commit.
#[derive(Debug)]
pub(super) enum Waiter {
    /// An upload whose bytes are all written: to be published.
    Upload(UploadId),
    /// A removed name.
    Removal(Removal),
}

/// A removed name whose removal is not durable yet.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) directory: OwnedFd,
    pub(super) reply: oneshot::Sender<Result<(), StoreError>>,
}

impl Commits {
    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.waiting.push(waiter);
    }

    /// Lets go of the file that is only there to be synced: a file without a name keeps its file system from being
    /// remounted read-only.
    pub(super) fn let_go(&mut self) {
        self.unchanged = None;
    }

    /// True if there is nothing to make durable.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.dirty_bytes == 0
    }

    /// No commit will be granted any more. (Uploads are told by their jobs.)
    pub(super) fn give_up(&mut self) {
        for waiter in self.waiting.drain(..) {
            if let Waiter::Removal(removal) = waiter {
                drop(removal.reply.send(Err(StoreError::Closed)));
            }
        }
    }

    /// The offer that is out was used up.
    pub(super) fn forget_offer(&mut self) {
        self.offered = None;
    }

    /// A file of no bytes and no name below `root`, made once; `None` where syncing it would not empty the drive's cache.
    /// ext4 and XFS do that if the file itself has nothing left to commit (Linux 6.18, `ext4_sync_file`,
    /// `xfs_file_fsync`); ext4 commits all there is for a directory.
    fn unchanged(&mut self, root: BorrowedFd<'_>) -> Option<BorrowedFd<'_>> {
        if self.unchanged.is_none() && content::syncs_names_with_files(root) == Ok(true) {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            self.unchanged = openat(root, ".", flags, Mode::from_raw_mode(0o600)).ok();
        }
        self.unchanged.as_ref().map(AsFd::as_fd)
    }

    /// The offer to make now, if it says anything that the last one does not.
    fn next_offer(&mut self) -> Option<(u64, bool)> {
        let awaited = !self.waiting.is_empty();
        if !awaited && self.dirty_bytes == 0 {
            return None;
        }
        let news = self.offered.is_none_or(|(dirty_bytes, was_awaited)| {
            awaited != was_awaited || self.dirty_bytes >= dirty_bytes + DIRTY_BYTES_NEWS
        });
        news.then(|| *self.offered.insert((self.dirty_bytes, awaited)))
    }
}

impl Worker {
    pub(super) fn offer_commit(&mut self) {
        if let Some((dirty_bytes, awaited)) = self.commits.next_offer() {
            self.offer(COMMIT_JOB, Work::Commit { dirty_bytes, awaited }, WorkClass::BestEffort);
        }
    }

    /// Uses a grant for a commit.
    pub(super) fn commit(&mut self, started: Nanos) {
        self.commits.forget_offer();
        let dirty_bytes = self.commits.dirty_bytes;
        let share = self.commits.waiting.len().min(WAITERS_PER_COMMIT);
        let batch: Vec<Waiter> = self.commits.waiting.drain(..share).collect();
        let result = match (batch.is_empty(), dirty_bytes) {
            // The offer and the last grant crossed on their ways.
            (true, 0) => return self.answer(COMMIT_JOB, Used::nothing(started)),
            (true, _) => self.flush(),
            (false, _) => self.commit_batch(batch),
        };
        if result.is_ok() {
            self.commits.dirty_bytes = 0;
        }
        self.shared.stats.commits.add(1);
        // A full or read-only file system is no disk that errs.
        let ok = !matches!(result.map_err(StoreError::from), Err(StoreError::Io(_)));
        self.answer(COMMIT_JOB, Used { bytes: dirty_bytes, ok, ..Used::nothing(started) });
    }

    /// Publishes all, then makes all durable, then tells all. The error is the disk's, not one upload's.
    fn commit_batch(&mut self, batch: Vec<Waiter>) -> Result<(), Errno> {
        let mut disk_result = Ok(());
        let mut published = Vec::new();
        let mut removals = Vec::new();
        for waiter in batch {
            match waiter {
                Waiter::Upload(upload) => match self.secure_bytes(upload) {
                    Ok(()) => published.extend(self.publish(upload)),
                    Err(error) => {
                        disk_result = disk_result.and(Err(error));
                        self.fail(upload, &error.into());
                    }
                },
                Waiter::Removal(removal) => removals.push(removal),
            }
        }
        let mut journal = Ok(());
        for publication in published {
            // After a commit that failed ext4 finds nothing left to commit, and answers every other fsync with success.
            let sync = |()| sync_name(publication.target.file.as_fd(), publication.target.directory.as_fd());
            let result = journal.and_then(sync);
            if matches!(result, Err(Errno::IO | Errno::ROFS)) {
                journal = result;
            }
            disk_result = disk_result.and(result);
            publication.answer(result, &self.shared);
        }
        // First all, then the looks: what a look changes would be committed by the next one's fsync.
        let synced: Vec<_> = removals.iter().map(|removal| fsync(&removal.directory)).collect();
        for (removal, synced) in removals.into_iter().zip(synced) {
            let result = synced.and_then(|()| takes_changes(removal.directory.as_fd()));
            disk_result = disk_result.and(result);
            drop(removal.reply.send(result.map_err(StoreError::from)));
        }
        disk_result
    }

    /// Makes an upload's bytes durable before it gets its name, where the file system's journal does not put them in this
    /// order: the commit of another upload would else carry the name alone over a power cut. (Seen on an overlay on ext4.)
    fn secure_bytes(&self, upload: UploadId) -> Result<(), Errno> {
        let Some(job) = self.uploads.get(&upload) else { return Ok(()) };
        let ordered = is_direct(job.file()) && content::syncs_names_with_files(job.file())?;
        if ordered { Ok(()) } else { fdatasync(job.file()) }
    }

    /// Empties the drive's cache though nobody waits. Where a file that did not change can be synced for that, the file
    /// system has nothing to commit: on ext4, 6.3 MB were settled in 117 ms instead of 137 (emulated 7200 rpm disk).
    /// Else through the file written last, or a root if that one is gone.
    fn flush(&mut self) -> Result<(), Errno> {
        let written = self.commits.written_last.and_then(|upload| self.uploads.get(&upload));
        // A recording is to be found after a power cut: what it has grown by must be in the journal as well.
        let may_use_another = |upload: &Job| is_direct(upload.file()) && upload.on_break == OnBreak::Discard;
        if written.is_none_or(may_use_another)
            && let Some(unchanged) = self.commits.unchanged(self.roots[0].directory.as_fd())
        {
            return fdatasync(unchanged);
        }
        match written {
            Some(upload) => fdatasync(upload.file()),
            None => fsync(&self.roots[0].directory),
        }
    }
}

/// Makes a file and its name durable. ext4 and XFS keep both in one journal, others need the directory, too.
pub(super) fn sync_name(file: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> Result<(), Errno> {
    fsync(file)?;
    if content::syncs_names_with_files(file)? { Ok(()) } else { fsync(directory) }
}

/// Whether nothing of a file waits in the page cache.
fn is_direct(file: BorrowedFd<'_>) -> bool {
    fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

/// Whether the file system of `directory` still has a journal to change it through.
///
/// ext4 answers the fsync of a directory with success when a commit by somebody else (another file's fsync, its own
/// every five seconds) failed before and took the change with it: nothing is left to commit then (Linux 6.18,
/// `ext4_force_commit`; seen in a power cut). Making a nameless file asks the journal itself.
fn takes_changes(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(directory, ".", flags, Mode::from_raw_mode(0o600)) {
        Err(error @ (Errno::IO | Errno::ROFS)) => Err(error),
        // Other errors speak of nameless files, not of the journal.
        Ok(_) | Err(_) => Ok(()),
    }
}
