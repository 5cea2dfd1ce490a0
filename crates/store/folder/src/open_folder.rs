//! One folder as it is read: page by page, every name as the bytes it is, no link followed.
//!
//! Promise: memory for one page, however many names there are; a name that cannot be looked at is given with the reason.
//! Not here: the order in which folders are read (`store::walk`).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;
use storage::leftover;

use store::StoreError;
use store::entry::{FileId, Stamp};
use store::operation::FolderHandle;
use store::walk::{FolderItem, ItemKind};

/// Bytes of directory entries that are read at once: at most 340 names.
const PAGE_BYTES: usize = 8192;

/// An open folder. Clones share the place up to which it was read.
#[derive(Debug, Clone)]
pub(crate) struct OpenFolder(Arc<OwnedFd>);

impl OpenFolder {
    /// A folder that was opened for reading.
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self(Arc::new(directory))
    }

    /// The folder that a path of this machine leads to.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Self::new(openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// As the store keeps it between two pages.
    pub(crate) fn handle(self) -> Result<FolderHandle, StoreError> {
        Ok(FolderHandle::new(Some(self.id()?), self))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(crate) fn id(&self) -> Result<FileId, Errno> {
        Ok(FileId::of(&fstat(&self.0)?))
    }

    /// The folder of this name in it, unless that is a link.
    pub(crate) fn enter(&self, name: &OsStr) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self::new(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// The next names; none at the end. The names of temporaries are passed over unless `leftovers` are wanted.
    pub(crate) fn names(&self, leftovers: Leftovers) -> Result<Vec<OsString>, Errno> {
        let mut buffer = Vec::with_capacity(PAGE_BYTES);
        let mut items = RawDir::new(&self.0, buffer.spare_capacity_mut());
        let mut names = Vec::new();
        while let Some(item) = items.next() {
            let item = item?;
            let name = item.file_name().to_bytes();
            let is_passed_over = leftovers == Leftovers::PassedOver && name.starts_with(leftover::PREFIX.as_bytes());
            if name != b"." && name != b".." && !is_passed_over {
                names.push(OsStr::from_bytes(name).to_owned());
            }
            if items.is_buffer_empty() && !names.is_empty() {
                break;
            }
        }
        Ok(names)
    }

    /// The next names with their items; none at the end. Names that are gone by now are left out.
    pub(crate) fn page(&self) -> Result<Vec<FolderItem>, Errno> {
        loop {
            let names = self.names(Leftovers::PassedOver)?;
            let is_end = names.is_empty();
            let items: Vec<_> = names.into_iter().filter_map(|name| self.item(name)).collect();
            if is_end || !items.is_empty() {
                return Ok(items);
            }
        }
    }

    fn item(&self, name: OsString) -> Option<FolderItem> {
        let kind = match statat(&self.0, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return None,
            Err(error) => Err(error.into()),
            Ok(stat) => Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => ItemKind::Folder(Some(FileId::of(&stat))),
                FileType::RegularFile => ItemKind::File(Stamp::of(&stat), links(&stat)),
                _ => ItemKind::Other,
            }),
        };
        Some(FolderItem { name, kind })
    }
}

/// Treatment of the names of the store's own temporaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    Given,
    PassedOver,
}

#[allow(clippy::useless_conversion, reason = "its width is the architecture's")]
fn links(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}
