//! The folders of one disk as they are read: looking up, opening and listing, by several threads at once.
//!
//! Promise: nothing is remembered of names: each lookup asks the file system, so changes by other programs are seen at once.
//! Not here: changes (`upload`, `publish`, `removal`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use content::Content;
use device::Device;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxFlags, fstat, fstatvfs, openat, statat, statx};
use rustix::io::Errno;
use store::disk_thread::answer;
use store::entry::{FileId, Stamp, time_of_parts};
use store::event::StoreEvent;
use store::lock::lock;
use store::operation::{NameRange, StoreQuery};
use store::shared::DiskShared;
use store::{
    COMPONENTS_MAX, ContentPath, Entry, ForbiddenBy, NameKind, Opened, StoreCommon, StoreError, UploadPlace, Want,
};
use units::ContentVersion;

use crate::open_folder::{Leftovers, OpenFolder};
use crate::root::Root;

use super::content::KnownVersions;

/// Folders that are looked at above one: twice as many as a path has names.
const ABOVE_MAX: usize = 2 * COMPONENTS_MAX;

/// The item that a path names in one root.
pub(super) struct FoundName {
    /// `O_PATH`.
    pub(super) handle: OwnedFd,
    pub(super) stat: Stat,
    pub(super) entry: Entry,
}

/// See the module.
pub(super) struct Folders {
    pub(super) shared: Arc<DiskShared>,
    pub(super) common: StoreCommon,
    device: Device,
    roots: Vec<Mutex<Arc<Root>>>,
    pub(super) contents: KnownVersions,
    /// Roots that went or came since they were last taken.
    changed: Mutex<Vec<usize>>,
}

impl Folders {
    /// The folders on a disk.
    pub(super) fn new(shared: Arc<DiskShared>, common: StoreCommon, device: Device, roots: Vec<Root>) -> Self {
        let contents = KnownVersions::new(Arc::clone(&common.versions));
        assert!(!roots.is_empty(), "a disk has a folder on it");
        let roots = roots.into_iter().map(|root| Mutex::new(Arc::new(root))).collect();
        Self { shared, common, device, roots, contents, changed: Mutex::default() }
    }

    /// Answers a query.
    pub(super) fn answer(&self, query: StoreQuery) {
        match query {
            StoreQuery::LookUp { root, path, reply } => answer(reply, || self.look_up(root, &path)),
            StoreQuery::Open { root, path, want, reply } => answer(reply, || self.open(root, &path, want)),
            StoreQuery::Folder { root, path, reply } => answer(reply, || self.folder(root, &path)?.handle()),
            StoreQuery::Enter { folder, name, reply } => {
                answer(reply, || folder.state::<OpenFolder>()?.enter(&name)?.handle());
            }
            StoreQuery::Items { folder, reply } => answer(reply, || {
                let items = folder.state::<OpenFolder>()?.page()?;
                Ok((folder, items))
            }),
            StoreQuery::Entries { root, path, folder, wanted, reply } => answer(reply, || {
                let entries = self.entries((root, &path), folder.state()?, &wanted)?;
                Ok((folder, entries))
            }),
            StoreQuery::PlaceOf { root, path, reply } => answer(reply, || self.place_of(root, &path)),
            StoreQuery::Space { root, path, part, reply } => answer(reply, || self.space(root, &path, part.as_deref())),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.roots.len()
    }

    /// The folder of this number, wherever its path leads by now.
    pub(super) fn opened(&self, number: usize) -> Arc<Root> {
        Arc::clone(&lock(&self.roots[number]))
    }

    /// The root of this number, if its path still leads to it: looked at for each operation, so that nothing is written below a mount
    /// point.
    pub(super) fn root(&self, number: usize) -> Result<Arc<Root>, StoreError> {
        let root = self.look_at(number);
        root.away().map_or(Ok(root), |why| Err(StoreError::RootAway(why)))
    }

    /// The root of this number as it is now. Its lock is free during the look, which may hang: writes take the root of the last look.
    fn look_at(&self, number: usize) -> Arc<Root> {
        let before = self.opened(number);
        let mut root = Root::clone(&before);
        if !root.refresh(&self.device) {
            return before;
        }
        let root = Arc::new(root);
        debug_assert!(root.path == before.path, "a root is found by its path");
        let mut known = lock(&self.roots[number]);
        // Another thread may have seen the change, and announced it, meanwhile.
        if Arc::ptr_eq(&known, &before) {
            *known = Arc::clone(&root);
            lock(&self.changed).push(number);
            let path = root.path.clone();
            self.shared.events.tell(match root.away() {
                Some(why) => StoreEvent::RootAway { root: path, why },
                None => StoreEvent::RootBack { root: path },
            });
        }
        root
    }

    /// Looks at all of them anew; gives the bytes that are free in the first one's file system.
    pub(super) fn look_at_all(&self) -> Option<u64> {
        (0..self.len()).for_each(|number| drop(self.look_at(number)));
        free_bytes(self.opened(0).directory.as_fd()).ok()
    }

    /// The folders that went or came since the last call.
    pub(super) fn take_changed(&self) -> Vec<usize> {
        std::mem::take(&mut *lock(&self.changed))
    }

    /// True if a reader still holds a version of this file.
    pub(super) fn is_read(&self, device: u64, inode: u64) -> bool {
        self.contents.is_read(device, inode)
    }

    /// A version for the file that was stored as `stamp`.
    pub(super) fn version(&self, stamp: &Stamp) -> ContentVersion {
        self.contents.version(stamp)
    }

    /// The entry that `path` names below root number `root` of this disk.
    pub(super) fn look_up(&self, root: usize, path: &ContentPath) -> Result<Entry, StoreError> {
        Ok(self.find(&*self.root(root)?, path)?.entry)
    }

    pub(super) fn find(&self, root: &Root, path: &ContentPath) -> Result<FoundName, StoreError> {
        let handle = root.open_path(path, OFlags::PATH)?;
        let stat = fstat(&handle)?;
        let name = path.components().last().map_or("", String::as_str);
        let rate = self.common.index.rate(&Stamp::of(&stat)).flatten();
        let entry = Entry::of(name, &stat, self.shared.id, rate).ok_or(StoreError::Forbidden(ForbiddenBy::Special))?;
        let entry = with_creation(entry, handle.as_fd(), "");
        Ok(FoundName { handle, stat, entry })
    }

    /// Bytes free in the file system of directory `path`; the most there can be if it holds `part`, which an upload continues.
    pub(super) fn space(&self, root: usize, path: &ContentPath, part: Option<&str>) -> Result<u64, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self.root(root)?.open_path(path, flags)?;
        match part {
            Some(part) if statat(&directory, part, AtFlags::SYMLINK_NOFOLLOW).is_ok() => Ok(u64::MAX),
            _ => Ok(free_bytes(&directory)?),
        }
    }

    /// Opens a content for reading.
    pub(super) fn open(&self, root: usize, path: &ContentPath, want: Want) -> Result<Opened, StoreError> {
        let root = self.root(root)?;
        let found = self.find(&root, path)?;
        if found.entry.kind == NameKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let content = self.content_of(&root, &found)?;
        // The opened file may be newer than the one looked up; the answer is about the opened one.
        let stat = fstat(&content.file().file)?;
        let media = match want {
            Want::File => self.common.index.rate(&Stamp::of(&stat)).flatten(),
            Want::FileAndRate => self.rate_of(&content),
        };
        let entry = Entry::of(&found.entry.name, &stat, self.shared.id, media)
            .ok_or(StoreError::Forbidden(ForbiddenBy::Special))?;
        Ok(Opened { entry, content, media })
    }

    pub(super) fn content_of(&self, root: &Root, found: &FoundName) -> Result<Arc<Content>, StoreError> {
        if let Some(content) = self.contents.open_already(&Stamp::of(&found.stat)) {
            return Ok(content);
        }
        self.contents.open(self.shared.id, root, found.handle.as_fd())
    }

    /// Opens the folder that `path` leads to, to be read.
    pub(super) fn folder(&self, root: usize, path: &ContentPath) -> Result<OpenFolder, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(OpenFolder::new(self.root(root)?.open_path(path, flags)?))
    }

    /// The wanted entries of the next page of a folder: links stand for their targets, and names that are gone, that no path can name, or
    /// that are neither contents nor folders, are left out. None at the end.
    pub(super) fn entries(
        &self,
        (root, path): (usize, &ContentPath),
        folder: &OpenFolder,
        wanted: &NameRange,
    ) -> Result<Option<Vec<Entry>>, StoreError> {
        let names = folder.names(Leftovers::PassedOver)?;
        if names.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for name in names {
            let Some(name) = name.to_str().filter(|name| wanted.contains(name)) else { continue };
            let Ok(stat) = statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                // Only names that a lookup would find are listed: links out of the root lead nowhere.
                if let Ok(entry) =
                    path.child(name).map_err(|_| StoreError::NotFound).and_then(|p| self.look_up(root, &p))
                {
                    entries.push(Entry { is_link: true, ..entry });
                }
            } else {
                let rate = self.common.index.rate(&Stamp::of(&stat)).flatten();
                let entry = Entry::of(name, &stat, self.shared.id, rate);
                entries.extend(entry.map(|entry| with_creation(entry, folder.fd(), name)));
            }
        }
        Ok(Some(entries))
    }

    /// The folder that an upload goes to, as far as it exists, with all folders that this lies in, also above the root: a folder's
    /// identity does not depend on the way to it. Also the bytes of the file of its name, if they go when the name does.
    pub(super) fn place_of(&self, root: usize, path: &ContentPath) -> Result<UploadPlace, StoreError> {
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
}

/// The entry of `name` in `directory`, with the time at which it was made if it is a folder.
fn with_creation(entry: Entry, directory: BorrowedFd<'_>, name: &str) -> Entry {
    if entry.kind == NameKind::File {
        return entry;
    }
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let times = statx(directory, name, flags, StatxFlags::BTIME).ok();
    let made = times.filter(|times| times.stx_mask & StatxFlags::BTIME.bits() != 0).map(|times| times.stx_btime);
    Entry { created: made.map(|at| time_of_parts(at.tv_sec.into(), at.tv_nsec.into())), ..entry }
}

/// Bytes free for us in the file system of `file`.
pub(super) fn free_bytes(file: impl AsFd) -> Result<u64, Errno> {
    fstatvfs(file).map(|space| space.f_bavail.saturating_mul(space.f_frsize))
}
