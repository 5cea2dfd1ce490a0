//! Removal of names: contents and empty folders at a client's request, and files that a walk met.
//!
//! Promise: only the item that was checked is removed; the answer comes when that is durable.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::contained_open;
use crate::open_folder::OpenFolder;
use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, statat, unlinkat};
use store::entry::Stamp;
use store::operation::{ChangeReply, FolderHandle};
use store::{ContentPath, NameKind, Precondition, StoreError};

use super::Worker;
use super::commit::Removal;

impl Worker {
    /// Removes a file below `folder`, reached through real folders only, if it is the file that was met and was not written to
    /// since. `reply` is answered when that is durable, or at once if it cannot be.
    pub(super) fn remove(&mut self, folder: &FolderHandle, path: &Path, stamp: &Stamp, reply: ChangeReply<()>) {
        if !reply.begin() {
            return;
        }
        match self.unlink_met(folder, path, stamp) {
            Ok(directory) => self.changed(directory, reply),
            Err(error) => reply.send(Err(error)),
        }
    }

    /// A name in `directory` has changed: `reply` is answered when that is durable.
    pub(super) fn changed(&mut self, directory: OwnedFd, reply: ChangeReply<()>) {
        // Without an answer, it is synced alone.
        let journal = self.journals.of(directory.as_fd()).ok().flatten();
        self.uploads.removed(Removal { directory, reply: Some(reply) }, journal);
    }

    fn unlink_met(&mut self, folder: &FolderHandle, path: &Path, stamp: &Stamp) -> Result<OwnedFd, StoreError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(StoreError::IsDirectory) };
        let directory =
            contained_open::open_real(folder.state::<OpenFolder>()?.fd(), parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let handle = contained_open::open_real(directory.as_fd(), name.as_ref(), OFlags::PATH)?;
        let stat = fstat(&handle)?;
        if !Stamp::of(&stat).is_as_written(stamp) {
            return Err(StoreError::PreconditionFailed);
        }
        let removed = self.chores.prepare_removal(handle.as_fd(), &stat);
        unlinkat(&directory, name, AtFlags::empty())?;
        self.chores.free_later(removed);
        Ok(directory)
    }

    /// Removes a content or an empty folder. `reply` is answered when that is durable, or at once if it cannot be.
    pub(super) fn delete(
        &mut self,
        root: usize,
        path: &ContentPath,
        kind: NameKind,
        precondition: &Precondition,
        reply: ChangeReply<()>,
    ) {
        if !reply.begin() {
            return;
        }
        match self.unlink(root, path, kind, precondition) {
            Ok(directory) => self.changed(directory, reply),
            Err(error) => reply.send(Err(error)),
        }
    }

    /// Removes the name; returns the directory it was in.
    fn unlink(
        &mut self,
        root: usize,
        path: &ContentPath,
        kind: NameKind,
        precondition: &Precondition,
    ) -> Result<OwnedFd, StoreError> {
        let Some((parent, name)) = path.split() else { return Err(StoreError::IsDirectory) };
        let root = self.folders.root(root)?;
        let found = self.folders.find(&root, path);
        let existing = match &found {
            Ok(found) if found.entry.kind != kind => {
                return Err(if kind == NameKind::File { StoreError::IsDirectory } else { StoreError::NotADirectory });
            }
            Ok(found) => Some(found.entry.existing()),
            Err(error) if error.is_absence() => None,
            Err(error) => return Err(error.clone()),
        };
        if !precondition.holds(existing) {
            return Err(StoreError::PreconditionFailed);
        }
        let found = found?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = root.open_path(&parent, flags)?;
        // The name itself: of a link to a folder, the link goes and the folder stays.
        let is_folder = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_folder) {
            unlinkat(&directory, name, AtFlags::REMOVEDIR)?;
            return Ok(directory);
        }
        let removed = self.chores.prepare_removal(found.handle.as_fd(), &found.stat);
        match unlinkat(&directory, name, AtFlags::empty()) {
            Err(error) => Err(error.into()),
            Ok(()) => {
                self.chores.free_later(removed);
                Ok(directory)
            }
        }
    }
}
