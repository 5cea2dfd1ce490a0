//! The steps of a commit (`storage::uploads`), on files.
//!
//! Promise: acknowledged contents survive a power cut, on file systems that make a file's name durable with the file and on those that do
//! not. Not here: the choice and the order of the steps (`storage::uploads`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use kernel::clock::monotonic;
use rustix::fs::{Mode, OFlags, fdatasync, fsync, openat};
use rustix::io::Errno;
use storage::uploads::{CommitPart, UploadFile, Uploads};
use units::UploadId;

use store::StoreError;
use store::operation::ChangeReply;

use super::upload::UploadTarget;
use super::{Worker, content};

/// Number of files that are synced concurrently, which lets their file system commit them together: 44 files on an overlay took 0.46 s
/// instead of 2.1 (emulated 7200 rpm disk). Chosen: the recordings that an old disk has room for.
const SYNCS_AT_ONCE: usize = 64;

/// Stack of the thread of a sync, which is one call.
const STACK_BYTES: usize = 64 * 1024;

/// A removed name with a removal that is not durable yet.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(super) directory: OwnedFd,
    pub(super) reply: Option<ChangeReply<()>>,
}

impl Removal {
    pub(super) fn answer(&mut self, result: Result<(), StoreError>) {
        if let Some(reply) = self.reply.take() {
            reply.send(result);
        }
    }
}

/// A file of no bytes and no name that never changes, for its fsync alone; it keeps the file system from being unmounted, or remounted
/// read-only.
#[derive(Debug, Default)]
pub(super) struct UnchangedFile(Option<OwnedFd>);

impl UnchangedFile {
    /// The file, made once in this folder; none where syncing it would not empty the drive's cache. ext4 and XFS do that if the file
    /// itself has nothing left to commit (Linux 6.18, `ext4_sync_file`, `xfs_file_fsync`); ext4 commits all there is for a directory.
    fn beneath(&mut self, root: &OwnedFd) -> Option<BorrowedFd<'_>> {
        if self.0.is_none() && content::syncs_names_with_files(root.as_fd()) == Ok(true) {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            self.0 = openat(root, ".", flags, Mode::from_raw_mode(0o600)).ok();
        }
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Holds none any more.
    pub(super) fn let_go(&mut self) {
        self.0 = None;
    }
}

/// The uploads of one disk's folders.
type FolderUploads = Uploads<UploadTarget, Removal>;

impl Worker {
    /// Uses a grant for a commit. Each client gets its answer as soon as its part is done.
    pub(super) fn commit_all(&mut self) {
        secure_together(&mut self.uploads);
        // The error for which nothing more can be made durable.
        let mut broken = Errno::IO;
        while let Some(part) = self.uploads.next_part() {
            let outcome = match part {
                CommitPart::Secure { upload, length } => self.secure(upload, length),
                CommitPart::Publish(upload) => self.publish(upload),
                CommitPart::SyncName(upload) => {
                    let result = sync_upload(&mut self.uploads, upload);
                    broken = result.err().unwrap_or(broken);
                    self.acknowledge(upload, result)
                }
                CommitPart::Settled(upload) => self.acknowledge(upload, Ok(())),
                CommitPart::Withhold(upload) => self.acknowledge(upload, Err(broken)),
                CommitPart::SyncRemoval(removal) => {
                    let result = fsync(&removal.directory).map_err(StoreError::from);
                    if result.is_err() {
                        removal.answer(Err(self.shared.unsettled()));
                    }
                    result
                }
                CommitPart::CheckRemoval(removal) => {
                    let result = takes_changes(removal.directory.as_fd()).map_err(StoreError::from);
                    let unsettled = self.shared.unsettled();
                    removal.answer(if result.is_ok() { Ok(()) } else { Err(unsettled) });
                    result
                }
                CommitPart::Grown { syncs, .. } => sync_growth(&self.uploads, &syncs).map_err(StoreError::from),
                CommitPart::Flush { upload } => self.flush(upload).map_err(StoreError::from),
            };
            self.uploads.part_done(outcome.map_err(|error| error.trouble()), monotonic());
        }
        debug_assert!(
            self.uploads.files().all(|target| target.secured.is_none() && target.synced.is_none()),
            "an outcome is of the commit that it came with"
        );
    }

    /// Cuts off the padding of the last direct write and the space allocated beyond, and makes the bytes durable where the journal does
    /// not order them before names. (A name without bytes was seen on an overlay on ext4.)
    pub(super) fn secure(&mut self, upload: UploadId, length: u64) -> Result<(), StoreError> {
        let Some(target) = self.uploads.file_mut(upload) else { return Ok(()) };
        debug_assert!(!target.temporary.is_published(), "bytes are durable before the name");
        let is_ordered = target.journal().is_some();
        let secured = target.secured.take().unwrap_or_else(|| match target.cut(length) {
            Ok(()) if !is_ordered => fdatasync(target.file()),
            cut => cut,
        });
        let result = secured.map_err(StoreError::from);
        if let Err(error) = &result {
            target.tell_failure(error);
            self.shared.stats.uploads_failed.add(1);
        }
        result
    }

    /// Empties the drive's cache though no client waits. Where an unchanged file can be synced for that, the file system has nothing to
    /// commit: on ext4, this took 117 ms instead of 137 for 6.3 MB (emulated 7200 rpm disk). Otherwise the file written last is synced,
    /// or a root if that file is gone.
    fn flush(&mut self, upload: Option<UploadId>) -> Result<(), Errno> {
        let written = upload.and_then(|upload| self.uploads.file(upload));
        let needs_its_own = written.is_some_and(|target| !content::is_direct(target.file()));
        if !needs_its_own && let Some(unchanged) = self.unchanged.beneath(&self.folders.opened(0).directory) {
            return fdatasync(unchanged);
        }
        match upload.and_then(|upload| self.uploads.file(upload)) {
            Some(target) => fdatasync(target.file()),
            None => fsync(&self.folders.opened(0).directory),
        }
    }
}

/// Secures the uploads without a journal, their files concurrently.
fn secure_together(uploads: &mut FolderUploads) {
    let mut cut = Vec::new();
    for (upload, length) in uploads.secured_alone() {
        let Some(target) = uploads.file_mut(upload) else { continue };
        match target.cut(length) {
            Ok(()) => cut.push(upload),
            Err(error) => target.secured = Some(Err(error)),
        }
    }
    let files = cut.iter().filter_map(|upload| uploads.file(*upload));
    let secured = sync_together(&files.collect::<Vec<_>>(), |target| fdatasync(target.file()));
    for (upload, result) in cut.into_iter().zip(secured) {
        if let Some(target) = uploads.file_mut(upload) {
            target.secured = Some(result);
        }
    }
}

/// Makes a file and its name durable; with it all others without a journal that wait for that.
fn sync_upload(uploads: &mut FolderUploads, upload: UploadId) -> Result<(), Errno> {
    let Some(target) = uploads.file_mut(upload) else { return Ok(()) };
    if let Some(result) = target.synced.take() {
        return result;
    }
    debug_assert!(target.temporary.is_published(), "a name that is synced was given");
    let alone = if target.journal().is_none() { uploads.synced_alone() } else { vec![upload] };
    let files: Vec<_> = alone.iter().filter_map(|upload| uploads.file(*upload)).collect();
    let synced = sync_together(&files, |target| sync_name(target.file(), target.temporary.directory.as_fd()));
    let result = synced.into_iter().fold(Ok(()), Result::and);
    for other in alone.into_iter().filter(|other| *other != upload) {
        if let Some(target) = uploads.file_mut(other) {
            target.synced = Some(result);
        }
    }
    result
}

/// Makes the written bytes of recordings durable.
fn sync_growth(uploads: &FolderUploads, syncs: &[UploadId]) -> Result<(), Errno> {
    debug_assert!(!syncs.is_empty(), "growth that no sync makes durable");
    let files: Vec<_> = syncs.iter().filter_map(|upload| uploads.file(*upload)).collect();
    sync_together(&files, |target| fdatasync(target.file())).into_iter().fold(Ok(()), Result::and)
}

/// Syncs these files, each on a thread of its own but the last: the kernel has no call for several files.
fn sync_together<F: Sync>(files: &[F], sync: impl Fn(&F) -> Result<(), Errno> + Sync) -> Vec<Result<(), Errno>> {
    let sync = &sync;
    let beside = |files: &[F]| {
        thread::scope(|scope| {
            let start = |file| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || sync(file));
            let Some((last, others)) = files.split_last() else { return Vec::new() };
            let begun: Vec<_> = others.iter().map(|file| (file, start(file))).collect();
            let outcome = sync(last);
            let others = begun.into_iter().map(|(file, begun)| match begun {
                Ok(begun) => begun.join().expect("a sync does not panic"),
                Err(_) => sync(file),
            });
            others.chain([outcome]).collect()
        })
    };
    let outcomes: Vec<_> = files.chunks(SYNCS_AT_ONCE).flat_map(beside).collect();
    assert!(outcomes.len() == files.len(), "each file has its own outcome");
    outcomes
}

/// Makes a file and its name durable. ext4 and XFS keep both in one journal, others need the directory, too.
pub(super) fn sync_name(file: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> Result<(), Errno> {
    fsync(file)?;
    if content::syncs_names_with_files(file)? { Ok(()) } else { fsync(directory) }
}

/// Fails unless the file system of `directory` still has a journal to change it through.
///
/// ext4 answers the fsync of a directory with success when another commit (another file's fsync, its own every five seconds) failed
/// before and took the change with it: nothing is left to commit then (Linux 6.18, `ext4_force_commit`; seen in a power cut). Making a
/// nameless file asks the journal itself.
fn takes_changes(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(directory, ".", flags, Mode::from_raw_mode(0o600)) {
        Err(error @ (Errno::IO | Errno::ROFS)) => Err(error),
        // Other errors speak of nameless files, not of the journal.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn files_are_synced_beside_each_other_and_each_has_its_outcome() {
        let all = Barrier::new(4);
        let outcomes = sync_together(&[0, 1, 2, 3], |file| {
            all.wait();
            if *file == 2 { Err(Errno::IO) } else { Ok(()) }
        });
        assert_eq!(outcomes, [Ok(()), Ok(()), Err(Errno::IO), Ok(())]);
        assert!(sync_together(&[], |()| Ok(())).is_empty());
    }
}
