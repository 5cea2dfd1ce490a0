//! From a temporary file to a visible name.
//!
//! Promise: a name goes from the old content to the new one in one step of the file system; the precondition is looked at once more in
//! the same step (a new name) or just before it, on the one thread that changes this disk (a replaced one). An old content stays whole
//! for its readers, and leaves its mode to the new one.

use std::os::fd::AsFd;
use std::time::SystemTime;

use content::FreshContent;
use media::{ProbeBudget, probe};
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;
use storage::leftover::numbered_names;
use units::UploadId;

use crate::root::{Identity, Root};
use store::buffers::count;
use store::content_reader::StoredReader;
use store::entry::Stamp;
use store::operation::{ChangeReply, tell_end};
use store::{ContentPath, ForbiddenBy, NameKind, NameTaken, OnBreak, Precondition, Published, StoreError, StoreEvent};

use super::Worker;

/// A content with its name, or why it has none.
type PublishedResult = Result<Published, StoreError>;

impl Worker {
    /// Gives a complete upload its name. If that is refused, its client gets the error here, and no other answer.
    pub(super) fn publish(&mut self, upload: UploadId) -> Result<(), StoreError> {
        let Some(target) = self.uploads.file_mut(upload) else { return Err(StoreError::Closed) };
        let given_up = !target.reply.as_ref().is_some_and(ChangeReply::begin);
        let keeps = target.on_break == OnBreak::Keep;
        if given_up && !keeps {
            self.shared.stats.uploads_failed.add(1);
            return Err(StoreError::Closed);
        }
        debug_assert!(target.published.is_none(), "an upload gets its name once");
        let (root, path, parent) = (target.root, target.path.clone(), target.parent);
        let named = if given_up || target.name_taken == NameTaken::Beside {
            let root = self.folders.root(root);
            root.and_then(|root| check_folder_unchanged(&root, &path, parent))
                .and_then(|()| self.publish_numbered(upload, &path))
        } else {
            let precondition = target.precondition.clone();
            self.give_name(upload, root, &path, parent, &precondition)
        };
        match named {
            Ok(published) => {
                if let Some(target) = self.uploads.file_mut(upload) {
                    (target.path, target.published) = (published.path.clone(), Some(published));
                }
                Ok(())
            }
            Err(error) => {
                // A recording stays for the next start, unless its client has set a condition that failed.
                let stays = keeps && (given_up || !matches!(error, StoreError::PreconditionFailed));
                if let Some(target) = self.uploads.file_mut(upload).filter(|_| !stays) {
                    target.temporary.forget();
                }
                self.tell_end(upload, Err(error.clone()));
                Err(error)
            }
        }
    }

    /// Answers the client of an upload: it is durable, or the error.
    pub(super) fn acknowledge(&mut self, upload: UploadId, durable: Result<(), Errno>) -> Result<(), StoreError> {
        let published = self.uploads.file_mut(upload).and_then(|target| target.published.take());
        let durable = durable.map_err(StoreError::from);
        if published.is_none() {
            // It was answered when it had its name.
            if let (Err(why), Some(target)) = (&durable, self.uploads.file_mut(upload)) {
                let (path, why) = (target.path.clone(), why.clone());
                self.shared.events.tell(StoreEvent::UploadLost { path, why });
            }
            return durable;
        }
        let outcome = match durable {
            Ok(()) => published.ok_or(StoreError::Closed),
            Err(_) => Err(self.shared.unsettled()),
        };
        self.tell_end(upload, outcome);
        durable
    }

    /// Answers the client of an upload that has its name, with the time at which it will be durable.
    pub(super) fn answer_early(&mut self, upload: UploadId) {
        let published = self.uploads.file_mut(upload).and_then(|target| target.published.take());
        debug_assert!(published.is_some(), "it has its name");
        self.tell_end(upload, published.ok_or(StoreError::Closed));
    }

    fn tell_end(&mut self, upload: UploadId, outcome: Result<Published, StoreError>) {
        let Some(target) = self.uploads.file_mut(upload) else { return };
        let path = target.path.clone();
        if !target.after_restart || target.reply.is_some() {
            return tell_end(path, target.reply.take(), outcome, &self.shared);
        }
        self.shared.events.tell(match outcome {
            Ok(published) => StoreEvent::RecordingKept { path, bytes: published.size, after_restart: true },
            Err(why) => StoreEvent::RecordingLost { path, why },
        });
    }

    fn give_name(
        &mut self,
        upload: UploadId,
        root: usize,
        path: &ContentPath,
        parent: Identity,
        precondition: &Precondition,
    ) -> Result<Published, StoreError> {
        let root = self.folders.root(root)?;
        let existing = match self.folders.find(&root, path) {
            Ok(found) if found.entry.kind == NameKind::Directory => return Err(StoreError::IsDirectory),
            Ok(found) => Some(found),
            Err(error) if error.is_absence() => None,
            Err(error) => return Err(error),
        };
        if !precondition.holds(existing.as_ref().map(|found| found.entry.existing())) {
            return Err(StoreError::PreconditionFailed);
        }
        check_folder_unchanged(&root, path, parent)?;
        let name = path.components().last().map_or("", String::as_str);
        let removed =
            existing.as_ref().and_then(|found| self.chores.prepare_removal(found.handle.as_fd(), &found.stat));
        let Some(target) = self.uploads.file_mut(upload) else { return Err(StoreError::Closed) };
        if let Some(found) = &existing {
            target.temporary.take_permissions(found.handle.as_fd(), &found.stat)?;
        }
        match target.temporary.publish_new(name) {
            Ok(()) => {}
            Err(Errno::EXIST) if precondition.demands_absence() => return Err(StoreError::PreconditionFailed),
            Err(Errno::EXIST) => target.temporary.publish_over(name)?,
            Err(error) => return Err(error.into()),
        }
        self.chores.free_later(removed);
        self.published(upload, path.clone(), existing.map(|found| found.entry.modified))
    }

    /// Gives an upload its name, or the first free one numbered after it.
    fn publish_numbered(&mut self, upload: UploadId, path: &ContentPath) -> Result<Published, StoreError> {
        let Some((folder, own)) = path.split() else { return Err(StoreError::IsDirectory) };
        let Some(target) = self.uploads.file_mut(upload) else { return Err(StoreError::Closed) };
        for name in numbered_names(own) {
            let path = folder.stored_child(&name).map_err(|_| StoreError::Forbidden(ForbiddenBy::Name))?;
            match target.temporary.publish_new(&name) {
                Ok(()) => return self.published(upload, path, None),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::PreconditionFailed)
    }

    /// An upload has this name.
    fn published(&mut self, upload: UploadId, path: ContentPath, replaced: Option<SystemTime>) -> PublishedResult {
        let Some(target) = self.uploads.file_mut(upload) else { return Err(StoreError::Closed) };
        debug_assert!(target.temporary.is_published(), "it has the name");
        let stamp = Stamp::of(&fstat(target.file())?);
        let (gathered, durable) = (target.gathered.take(), target.durable);
        let stored = gathered.filter(|bytes| count(bytes.len()) == stamp.size).map(|bytes| self.stored(&stamp, bytes));
        Ok(Published { path, replaced, etag: stamp.etag(), size: stamp.size, durable, stored })
    }

    /// A content with all its bytes in memory: it has its version before it is opened, and its rate needs no read.
    fn stored(&mut self, stamp: &Stamp, bytes: Vec<u8>) -> FreshContent {
        let rate = probe(&mut StoredReader(&bytes), ProbeBudget::default()).ok();
        let has_rate = rate.is_some();
        self.folders.common.index.insert(stamp, rate);
        FreshContent { version: self.folders.version(stamp), disk: self.disk(), bytes, has_rate }
    }
}

/// Fails unless the directory that an upload was begun in is still the one of its path: a file system that was mounted over it
/// since would hide the content.
fn check_folder_unchanged(root: &Root, path: &ContentPath, begun_in: Identity) -> Result<(), StoreError> {
    let parent = path.split().map(|(parent, _)| parent).unwrap_or_default();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let directory = root.open_path(&parent, flags);
    match directory.and_then(|directory| Identity::of(&directory)) {
        Ok(identity) if identity == begun_in => Ok(()),
        Ok(_) | Err(Errno::NOENT) => Err(StoreError::ParentMissing),
        Err(error) => Err(error.into()),
    }
}
