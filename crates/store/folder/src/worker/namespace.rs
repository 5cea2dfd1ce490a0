//! Looking up, opening, listing and deleting in the folders of one disk.
//!
//! Promise: nothing is remembered of names: each lookup asks the file system, so changes by other programs are seen at once.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use crate::beneath;
use crate::open_folder::{Leftovers, OpenFolder};
use content::Content;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use store::COMPONENTS_MAX;
use store::entry::{FileId, Stamp};
use store::operation::{ChangeReply, FolderHandle};
use store::{ContentPath, Entry, NameKind, Opened, Precondition, StoreError, UploadPlace, Want};

use super::commit::Removal;
use super::content::journal_of;
use super::{Worker, free_bytes};

/// Folders that are looked at above one: twice as many as a path has names.
const ABOVE_MAX: usize = 2 * COMPONENTS_MAX;

/// The item that a path names in one root.
pub(super) struct FoundName {
    /// `O_PATH`.
    pub(super) handle: OwnedFd,
    pub(super) stat: Stat,
    pub(super) entry: Entry,
}

impl Worker {
    /// The entry that `path` names below root number `root` of this disk.
    pub(super) fn look_up(&mut self, root: usize, path: &ContentPath) -> Result<Entry, StoreError> {
        Ok(self.find(root, path)?.entry)
    }

    pub(super) fn find(&mut self, root: usize, path: &ContentPath) -> Result<FoundName, StoreError> {
        let root = self.root(root)?;
        let handle = root.open_path(path, OFlags::PATH)?;
        let stat = fstat(&handle)?;
        let name = path.components().last().map_or("", String::as_str);
        let rate = self.common.index.rate(&Stamp::of(&stat)).flatten();
        let entry = Entry::of(name, &stat, self.disk(), rate).ok_or(StoreError::Forbidden)?;
        Ok(FoundName { handle, stat, entry })
    }

    /// Bytes free in the file system of directory `path`; the most there can be if it holds `part`, which an upload continues.
    pub(super) fn space(&mut self, root: usize, path: &ContentPath, part: Option<&str>) -> Result<u64, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self.root(root)?.open_path(path, flags)?;
        match part {
            Some(part) if statat(&directory, part, AtFlags::SYMLINK_NOFOLLOW).is_ok() => Ok(u64::MAX),
            _ => Ok(free_bytes(&directory)?),
        }
    }

    /// Opens a content for reading.
    pub(super) fn open(&mut self, root: usize, path: &ContentPath, want: Want) -> Result<Opened, StoreError> {
        let found = self.find(root, path)?;
        if found.entry.kind == NameKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let content = self.content_of(root, &found)?;
        // The opened file may be newer than the one looked up; the answer is about the opened one.
        let stat = fstat(&content.file().file)?;
        let media = match want {
            Want::File => self.common.index.rate(&Stamp::of(&stat)).flatten(),
            Want::FileAndRate => self.rate_of(&content),
        };
        let entry = Entry::of(&found.entry.name, &stat, self.disk(), media).ok_or(StoreError::Forbidden)?;
        Ok(Opened { entry, content, media })
    }

    pub(super) fn content_of(&mut self, root: usize, found: &FoundName) -> Result<Arc<Content>, StoreError> {
        if let Some(content) = self.contents.open_already(&Stamp::of(&found.stat)) {
            return Ok(content);
        }
        self.contents.open(self.disk(), &self.roots[root], found.handle.as_fd())
    }

    /// Opens the folder that `path` leads to, to be read.
    pub(super) fn folder(&mut self, root: usize, path: &ContentPath) -> Result<OpenFolder, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(OpenFolder::new(self.root(root)?.open_path(path, flags)?))
    }

    /// The next page of a folder: links stand for their targets, and names that are gone, that no path can name, or that are neither
    /// contents nor folders, are left out. None at the end.
    pub(super) fn entries(
        &mut self,
        root: usize,
        path: &ContentPath,
        folder: &OpenFolder,
    ) -> Result<Option<Vec<Entry>>, StoreError> {
        let names = folder.names(Leftovers::PassedOver)?;
        if names.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let Some(name) = name.to_str() else { continue };
            let Ok(stat) = statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                // Only names that a lookup would find are listed: links out of the root lead nowhere.
                if let Ok(found) = path.child(name).map_err(|_| StoreError::NotFound).and_then(|p| self.find(root, &p))
                {
                    entries.push(Entry { is_link: true, ..found.entry });
                }
            } else {
                let rate = self.common.index.rate(&Stamp::of(&stat)).flatten();
                entries.extend(Entry::of(name, &stat, self.disk(), rate));
            }
        }
        Ok(Some(entries))
    }

    /// The folder that an upload goes to, as far as it exists, with all folders that this lies in, also above the root: a folder's
    /// identity does not depend on the way to it. Also the bytes of the file of its name, if they go when the name does.
    pub(super) fn place_of(&mut self, root: usize, path: &ContentPath) -> Result<UploadPlace, StoreError> {
        let Some((mut parent, name)) = path.split() else { return Err(StoreError::IsDirectory) };
        let root = self.root(root)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = loop {
            match (root.open_path(&parent, flags), parent.split()) {
                (Err(Errno::NOENT), Some((above, _))) => parent = above,
                (opened, _) => break opened?,
            }
        };
        let is_whole = parent.components().len() + 1 == path.components().len();
        let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().filter(|_| is_whole);
        let goes = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1;
        let replaced_bytes = there.filter(goes).map_or(0, |stat| Stamp::of(&stat).size);
        let mut folders = vec![FileId::of(&fstat(&folder)?)];
        while folders.len() < ABOVE_MAX
            && let Ok(above) = openat(&folder, "..", flags, Mode::empty())
        {
            let id = FileId::of(&fstat(&above)?);
            if folders.last() == Some(&id) {
                break;
            }
            folders.push(id);
            folder = above;
        }
        Ok(UploadPlace { folders, replaced_bytes })
    }

    /// Removes a file below `folder`, reached through real folders only, if it is the one that was met and was not written to
    /// since. `reply` is answered when that is durable, or at once if it cannot be.
    pub(super) fn remove(&mut self, folder: &FolderHandle, path: &Path, stamp: &Stamp, reply: ChangeReply<()>) {
        if !reply.begin() {
            return;
        }
        match self.unlink_met(folder, path, stamp) {
            Ok(directory) => self.removed(directory, reply),
            Err(error) => reply.send(Err(error)),
        }
    }

    fn removed(&mut self, directory: OwnedFd, reply: ChangeReply<()>) {
        // Without an answer, it is synced alone.
        let journal = journal_of(directory.as_fd()).ok().flatten();
        self.uploads.removed(Removal { directory, reply: Some(reply) }, journal);
    }

    fn unlink_met(&mut self, folder: &FolderHandle, path: &Path, stamp: &Stamp) -> Result<OwnedFd, StoreError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(StoreError::IsDirectory) };
        let directory =
            beneath::open_real(folder.state::<OpenFolder>()?.fd(), parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let handle = beneath::open_real(directory.as_fd(), name.as_ref(), OFlags::PATH)?;
        let stat = fstat(&handle)?;
        if !Stamp::of(&stat).is_as_written(stamp) {
            return Err(StoreError::PreconditionFailed);
        }
        let removed = self.prepare_removal(handle.as_fd(), &stat);
        unlinkat(&directory, name, AtFlags::empty())?;
        self.free_later(removed);
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
            Ok(directory) => self.removed(directory, reply),
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
        let found = self.find(root, path);
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
        let directory = self.roots[root].open_path(&parent, flags)?;
        // The name itself: of a link to a folder, the link goes and the folder stays.
        let is_folder = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_folder) {
            unlinkat(&directory, name, AtFlags::REMOVEDIR)?;
            return Ok(directory);
        }
        let removed = self.prepare_removal(found.handle.as_fd(), &found.stat);
        match unlinkat(&directory, name, AtFlags::empty()) {
            Err(error) => Err(error.into()),
            Ok(()) => {
                self.free_later(removed);
                Ok(directory)
            }
        }
    }
}
