//! Looking up, opening, listing and deleting in the folders of one disk.
//!
//! Promise: nothing is remembered of names: each lookup asks the file system, so what others change is seen at once.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::entry::Stamp;
use crate::operation::ChangeReply;
use crate::{ContentPath, Entry, NameKind, Opened, Precondition, StoreError, Want, beneath};
use dataplane::control::Content;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, fstat, statat, unlinkat};
use storage::leftover;

use super::commit::Removal;
use super::{Worker, free_bytes};

/// Names one directory listing holds at most, over all roots.
pub(crate) const NAMES_MAX: usize = 100_000;

/// What a path names in one root.
pub(super) struct FoundName {
    /// `O_PATH`.
    pub(super) handle: OwnedFd,
    pub(super) stat: Stat,
    pub(super) entry: Entry,
}

impl Worker {
    /// What `path` names below root number `root` of this disk.
    pub(super) fn look_up(&mut self, root: usize, path: &ContentPath) -> Result<Entry, StoreError> {
        Ok(self.find(root, path)?.entry)
    }

    pub(super) fn find(&mut self, root: usize, path: &ContentPath) -> Result<FoundName, StoreError> {
        let root = self.root(root)?;
        let handle = beneath::open_beneath(root.directory.as_fd(), &path.relative(), OFlags::PATH)?;
        let stat = fstat(&handle)?;
        let name = path.components().last().map_or("", String::as_str);
        let rate = self.index.rate(&Stamp::of(&stat)).flatten();
        let entry = Entry::of(name, &stat, self.disk(), rate).ok_or(StoreError::Forbidden)?;
        Ok(FoundName { handle, stat, entry })
    }

    /// Bytes free in the file system of directory `path`; all there can be if it holds `part`, which an upload goes on with.
    pub(super) fn space(&mut self, root: usize, path: &ContentPath, part: Option<&str>) -> Result<u64, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = beneath::open_beneath(self.root(root)?.directory.as_fd(), &path.relative(), flags)?;
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
        // What was opened may be newer than what was looked up; the answer is about what was opened.
        let stat = fstat(&content.file().file)?;
        let media = match want {
            Want::File => self.index.rate(&Stamp::of(&stat)).flatten(),
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

    /// The names in a directory, without those of temporaries and those that are not UTF-8 (no path can name them).
    pub(super) fn names(&mut self, root: usize, path: &ContentPath) -> Result<Vec<String>, StoreError> {
        let root = self.root(root)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = beneath::open_beneath(root.directory.as_fd(), &path.relative(), flags)?;
        let mut names = Vec::new();
        for item in Dir::new(directory)? {
            let item = item?;
            let Ok(name) = item.file_name().to_str() else { continue };
            if name != "." && name != ".." && !name.starts_with(leftover::PREFIX) {
                names.push(name.to_owned());
            }
            if names.len() >= NAMES_MAX {
                break;
            }
        }
        Ok(names)
    }

    /// What `names` in a directory are; those that are gone, or neither contents nor directories, are left out.
    pub(super) fn entries(
        &mut self,
        root: usize,
        path: &ContentPath,
        names: &[String],
    ) -> Result<Vec<Entry>, StoreError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = beneath::open_beneath(self.root(root)?.directory.as_fd(), &path.relative(), flags)?;
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let Ok(stat) = statat(&parent, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                // Only what a lookup would find is listed: links out of the root lead nowhere.
                if let Ok(found) = path.child(name).map_err(|_| StoreError::NotFound).and_then(|p| self.find(root, &p))
                {
                    entries.push(found.entry);
                }
            } else {
                let rate = self.index.rate(&Stamp::of(&stat)).flatten();
                entries.extend(Entry::of(name, &stat, self.disk(), rate));
            }
        }
        Ok(entries)
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
            Ok(directory) => self.uploads.removed(Removal { directory, reply: Some(reply) }),
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
        let directory = beneath::open_beneath(self.roots[root].directory.as_fd(), &parent.relative(), flags)?;
        // The name itself: of a link to a folder, the link goes and the folder stays.
        let is_folder = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_folder) {
            unlinkat(&directory, name, AtFlags::REMOVEDIR)?;
            return Ok(directory);
        }
        let removed = self.prepare_removal(&found);
        match unlinkat(&directory, name, AtFlags::empty()) {
            Err(error) => Err(error.into()),
            Ok(()) => {
                self.free_later(removed);
                Ok(directory)
            }
        }
    }
}
