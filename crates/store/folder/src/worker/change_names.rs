//! Changes of names in the folders of one disk: new folders, other names, folders with all in them.
//!
//! Promise: each is one step of the file system, and an item that is replaced or removed has a hidden name after it, to be taken apart
//! later. Where the file system cannot exchange two names, the replaced item has its hidden name first, and its own again if the step
//! fails. Not here: durability (`commit`), taking apart (`discard`).

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fstat, fsync, mkdirat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use store::entry::Stamp;
use store::hidden::next_hidden_name;
use store::operation::ChangeReply;
use store::{ContentPath, ForbiddenBy, NameKind, StoreError};

use super::Worker;
use super::content;
use super::folders::{Folders, FoundName};
use super::upload::{folder_for, give_time};
use crate::contained_open::reopen;
use crate::root::Root;

/// Names that have changed.
pub(super) struct NamesChanged {
    /// The folder to be synced.
    folder: OwnedFd,
    /// An item to be taken apart: the folder it is in, and its hidden name.
    discarded: Option<(OwnedFd, OsString)>,
}

impl Worker {
    /// Changes names. `reply` is answered when that is durable, or at once if it cannot be.
    pub(super) fn change_names(
        &mut self,
        root: usize,
        reply: ChangeReply<()>,
        change: impl FnOnce(&Folders) -> Result<NamesChanged, StoreError>,
    ) {
        if !reply.begin() {
            return;
        }
        match change(&self.folders) {
            Ok(NamesChanged { folder, discarded }) => {
                if let Some((parent, name)) = discarded {
                    self.chores.discard_later(root, parent, name);
                }
                self.changed(folder, reply);
            }
            Err(error) => reply.send(Err(error)),
        }
    }
}

impl Folders {
    /// Makes an empty folder.
    pub(super) fn make_folder(&self, root: usize, path: &ContentPath) -> Result<NamesChanged, StoreError> {
        make(&*self.root(root)?, path)
    }

    /// Gives an item another name, with `replaces` in the place of the present one.
    pub(super) fn rename(
        &self,
        root: usize,
        (from, to): (&ContentPath, &ContentPath),
        replaces: bool,
    ) -> Result<NamesChanged, StoreError> {
        let root = self.root(root)?;
        let found = self.find(&root, from)?;
        let changed = rename(&root, from, to, replaces)?;
        // A rate that is lost is found again.
        let _ = self.keep_rate(&found);
        Ok(changed)
    }

    /// Gives a content another modification time, which is durable when its own file is synced.
    pub(super) fn set_modified(
        &self,
        root: usize,
        path: &ContentPath,
        modified: SystemTime,
    ) -> Result<NamesChanged, StoreError> {
        let found = self.find(&*self.root(root)?, path)?;
        let file = reopen(found.handle.as_fd(), OFlags::RDONLY | OFlags::CLOEXEC)?;
        give_time(file.as_fd(), modified)?;
        self.keep_rate(&found)?;
        Ok(NamesChanged { folder: file, discarded: None })
    }

    /// It is the same content still: its rate need not be looked for again.
    fn keep_rate(&self, found: &FoundName) -> Result<(), Errno> {
        let index = &self.common.index;
        if let Some(rate) = index.rate(&Stamp::of(&found.stat)) {
            index.insert(&Stamp::of(&fstat(&found.handle)?), rate);
        }
        Ok(())
    }

    /// Removes a folder with all in it.
    pub(super) fn remove_tree(&self, root: usize, path: &ContentPath) -> Result<NamesChanged, StoreError> {
        let root = self.root(root)?;
        match self.find(&root, path)?.entry.kind {
            NameKind::Directory => remove(&root, path),
            NameKind::File => Err(StoreError::NotADirectory),
        }
    }
}

fn open_folder(root: &Root, path: &ContentPath) -> Result<OwnedFd, Errno> {
    root.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

fn make(root: &Root, path: &ContentPath) -> Result<NamesChanged, StoreError> {
    let Some((parent, name)) = path.split() else { return Err(StoreError::Exists) };
    let folder = open_folder(root, &parent)?;
    // The umask, or the default ACL of the folder above, leaves the permitted bits.
    mkdirat(&folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
    Ok(NamesChanged { folder, discarded: None })
}

fn remove(root: &Root, path: &ContentPath) -> Result<NamesChanged, StoreError> {
    let Some((parent, name)) = path.split() else { return Err(StoreError::Forbidden(ForbiddenBy::Name)) };
    let folder = open_folder(root, &parent)?;
    let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        // Of a link to a folder, the link goes and the folder stays.
        unlinkat(&folder, name, AtFlags::empty())?;
        return Ok(NamesChanged { folder, discarded: None });
    }
    let hidden = hide(&folder, name)?;
    Ok(NamesChanged { discarded: Some((folder.try_clone()?, hidden)), folder })
}

fn rename(root: &Root, from: &ContentPath, to: &ContentPath, replaces: bool) -> Result<NamesChanged, StoreError> {
    let (Some((from_parent, from_name)), Some((to_parent, to_name))) = (from.split(), to.split()) else {
        return Err(StoreError::Forbidden(ForbiddenBy::Name));
    };
    let source = open_folder(root, &from_parent)?;
    let target = folder_for(root, &to_parent, 0)?;
    let discarded = match rename_to_free(&source, from_name, &target, to_name) {
        Err(Errno::EXIST) if replaces => Some(replace((&source, from_name), (&target, to_name))?),
        renamed => {
            renamed?;
            None
        }
    };
    // One journal keeps the order of both folders' changes; without one, the new name must not be lost with the old one.
    if content::syncs_names_with_files(target.as_fd())? {
        return Ok(NamesChanged { folder: target, discarded });
    }
    fsync(&target)?;
    Ok(NamesChanged { folder: source, discarded })
}

/// Puts an item in the place of another, and gives that a hidden name.
fn replace(
    (source, from): (&OwnedFd, &str),
    (target, to): (&OwnedFd, &str),
) -> Result<(OwnedFd, OsString), StoreError> {
    match renameat_with(source, from, target, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok((source.try_clone()?, hide(source, from)?)),
        Err(Errno::INVAL | Errno::NOSYS) => {
            let hidden = hide(target, to)?;
            if let Err(error) = rename_to_free(source, from, target, to) {
                renameat(target, hidden.as_os_str(), target, to)?;
                return Err(error.into());
            }
            Ok((target.try_clone()?, hidden))
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives an item a hidden name in its folder.
fn hide(folder: &OwnedFd, name: &str) -> Result<OsString, Errno> {
    debug_assert!(!name.is_empty() && !name.contains('/'), "a name in its folder");
    let hidden = next_hidden_name(None);
    renameat(folder, name, folder, hidden.as_str())?;
    Ok(hidden.into())
}

/// Renames to a name that is free (else `EXIST`).
fn rename_to_free(source: &OwnedFd, from: &str, target: &OwnedFd, to: &str) -> Result<(), Errno> {
    match renameat_with(source, from, target, to, RenameFlags::NOREPLACE) {
        // Not known to this file system: look first. Only another process could get in between.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(target, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(source, from, target, to),
            Err(error) => Err(error),
        },
        renamed => renamed,
    }
}
