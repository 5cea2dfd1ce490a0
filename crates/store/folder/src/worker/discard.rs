//! Taking apart items that were removed or replaced, in steps.
//!
//! Promise: one page of names per step; links are removed and not followed; a big file frees its space in steps, a streamed one keeps its
//! bytes until then. An item that cannot be removed stays under its hidden name, and the next start tries it again.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, OFlags, fstat, statat, unlinkat};
use rustix::io::Errno;
use storage::leftover;

use super::chores::{ChoreStep, Chores, DiscardedItem};
use crate::contained_open;
use crate::open_folder::{Leftovers, OpenFolder};

impl Chores {
    /// Takes the folder or file called `name` apart, in steps to come.
    pub(super) fn discard_later(&mut self, root: usize, parent: OwnedFd, name: OsString) {
        assert!(
            name.to_str().is_some_and(|name| name.starts_with(leftover::PREFIX)),
            "only items without a name of their own are taken apart"
        );
        let item = DiscardedItem { parent: Arc::new(parent), name, first: None };
        self.add(ChoreStep::Discard { root, item });
    }

    /// Does one step.
    pub(super) fn discard(&mut self, root: usize, item: DiscardedItem) {
        for item in take_apart(item, |folder, name| self.unlink_discarded(folder, name)) {
            self.add(ChoreStep::Discard { root, item });
        }
    }

    fn unlink_discarded(&mut self, folder: BorrowedFd<'_>, name: &OsStr) {
        let handle = contained_open::open_real(folder, name.as_ref(), OFlags::PATH);
        let removed = handle.ok().and_then(|handle| {
            let stat = fstat(&handle).ok()?;
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file { self.prepare_removal(handle.as_fd(), &stat) } else { None }
        });
        // If it cannot be removed, its folder's next step ends with it.
        if unlinkat(folder, name, AtFlags::empty()).is_ok() {
            self.free_later(removed);
        }
    }
}

/// Removes a file, an empty folder, or the files of a page of a folder. Gives the steps that come next, the last one first.
fn take_apart(item: DiscardedItem, mut unlink: impl FnMut(BorrowedFd<'_>, &OsStr)) -> Vec<DiscardedItem> {
    let DiscardedItem { parent, name, first } = item;
    match unlinkat(&*parent, name.as_os_str(), AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(Errno::NOTDIR) => {
            unlink(parent.as_fd(), &name);
            return Vec::new();
        }
        Ok(()) | Err(_) => return Vec::new(),
    }
    let Ok(opened) = contained_open::open_real(parent.as_fd(), name.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)
    else {
        return Vec::new();
    };
    let Ok(below) = opened.try_clone().map(Arc::new) else { return Vec::new() };
    let Ok(names) = OpenFolder::new(opened).names(Leftovers::Given) else { return Vec::new() };
    if names.is_empty() || names.first() == first.as_ref() {
        return Vec::new();
    }
    // Its own step comes behind those of the folders in it.
    let mut steps = vec![DiscardedItem { parent, name, first: names.first().cloned() }];
    for name in names {
        let Ok(stat) = statat(&*below, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            steps.push(DiscardedItem { parent: Arc::clone(&below), name, first: None });
        } else {
            unlink(below.as_fd(), &name);
        }
    }
    steps
}
