//! Open contents: the way to read a file, its extents, and its version.
//!
//! Promise: the same unchanged file gives the same [`Content`] while a reader holds it, and the same version as long as it is remembered
//! (a bounded number is); a changed or replaced one gets a new version, never used before.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use content::Content;
use content::layout::{ContentLayout, Extent, FileAccess};
use kernel::aligned::AlignedBlock;
use kernel::fiemap;
use kernel::version_check;
use kernel::write_watch::WriteWatcher;
use rustix::fs::{OFlags, Stat, fcntl_getfl, fstat, fstatfs};
use rustix::io::Errno;
use storage::uploads::JournalId;
use units::{ContentVersion, DiskId, limits};

use crate::contained_open;
use crate::root::Root;
use store::StoreError;
use store::entry::Stamp;
use store::lock::lock;

/// Versions remembered: twice the number of contents that can be open at once.
const VERSIONS_MAX: usize = 2 * limits::FILES_MAX;

/// A longer file is not opened: reads end on whole blocks, and the kernel knows no place in a file beyond 2^63.
const CONTENT_BYTES_MAX: u64 = (u64::MAX >> 1) / limits::DIRECT_ALIGN * limits::DIRECT_ALIGN;

/// A file in more pieces than this is read in file order: its list of places would cost more than it brings.
const EXTENTS_MAX: usize = 65_536;

/// File systems of this machine that take O_DIRECT without doing it: tmpfs, ramfs, overlay, ZFS.
const LOCAL_BUFFERED: [u64; 4] = [0x0102_1994, 0x8584_58f6, 0x794c_7630, 0x2fc1_2fc1];

/// File systems whose O_DIRECT ends in the page cache of another process or machine, or in the network, and to which others may write
/// unseen: NFS, SMB (three magics), FUSE, 9p, Ceph, AFS.
const ELSEWHERE: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];

/// File systems on which fsync(file) also makes its name durable (their journal orders both).
const NAME_WITH_FILE: [u64; 2] = [EXT4, XFS];
const EXT4: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;

/// The versions that one disk's threads remember.
#[derive(Debug)]
pub(crate) struct KnownVersions {
    pub(super) known: Mutex<KnownFiles>,
    access: Mutex<HashMap<u64, FileAccess>>,
    /// None where the system has none to give.
    writes: Option<Arc<WriteWatcher>>,
}

#[derive(Debug)]
pub(super) struct KnownFiles {
    files: HashMap<(u64, u64), Known>,
    /// Shared by all disks, for versions are unique in the process.
    next_version: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    version: ContentVersion,
    content: Weak<Content>,
}

impl KnownVersions {
    pub(crate) fn new(next_version: Arc<AtomicU64>) -> Self {
        let known = Mutex::new(KnownFiles { files: HashMap::new(), next_version });
        Self { known, access: Mutex::default(), writes: WriteWatcher::new().ok() }
    }

    /// The content that is open as `stamp`, if one is.
    pub(crate) fn open_already(&self, stamp: &Stamp) -> Option<Arc<Content>> {
        lock(&self.known).open_already(stamp)
    }

    /// True if a reader still holds a version of this file.
    pub(crate) fn is_read(&self, device: u64, inode: u64) -> bool {
        lock(&self.known).files.get(&(device, inode)).is_some_and(|known| known.content.strong_count() > 0)
    }

    /// The version of the file that `stamp` is of, whether it is open or will be.
    pub(crate) fn version(&self, stamp: &Stamp) -> ContentVersion {
        lock(&self.known).version(stamp)
    }

    /// Opens the file behind `handle` (an `O_PATH` descriptor of a regular file).
    pub(crate) fn open(&self, disk: DiskId, root: &Root, handle: BorrowedFd<'_>) -> Result<Arc<Content>, StoreError> {
        let (file, access) = self.open_for_reading(handle)?;
        // Of the opened file, not of the handle before: later reads go to the opened file.
        let stat = fstat(&file)?;
        let stamp = Stamp::of(&stat);
        if stamp.size > CONTENT_BYTES_MAX {
            return Err(Errno::OVERFLOW.into());
        }
        let watched = match &self.writes {
            Some(writes) if !ELSEWHERE.contains(&magic(file.as_fd())?) => writes.watch(file.as_fd())?,
            _ => version_check::watch(file.as_fd())?,
        };
        let extents = if access == FileAccess::Direct { extents_of(file.as_fd(), &stat, root) } else { Box::default() };
        let mut known = lock(&self.known);
        // Another thread may have opened it meanwhile.
        if let Some(content) = known.open_already(&stamp) {
            return Ok(content);
        }
        let version = known.version(&stamp);
        let layout = ContentLayout::of_file(disk, file, access, stamp.size, extents);
        let content = Arc::new(Content { version, size: stamp.size, layout, watched: Some(watched), checksums: None });
        known.remember(stamp, version, Arc::downgrade(&content));
        Ok(content)
    }

    fn open_for_reading(&self, handle: BorrowedFd<'_>) -> Result<(OwnedFd, FileAccess), StoreError> {
        let device = fstat(handle)?.st_dev;
        let known = lock(&self.access).get(&device).copied();
        let access = match known {
            Some(access) => access,
            None if is_buffered(handle)? => FileAccess::Buffered,
            // An error (unreadable, broken this once) says nothing of the file system: nothing is remembered.
            None => reads_directly(handle)?,
        };
        lock(&self.access).insert(device, access);
        let direct = if access == FileAccess::Direct { OFlags::DIRECT } else { OFlags::empty() };
        let file = contained_open::reopen(handle, OFlags::RDONLY | OFlags::NOATIME | OFlags::CLOEXEC | direct)
            // NOATIME is the owner's privilege.
            .or_else(|_| contained_open::reopen(handle, OFlags::RDONLY | OFlags::CLOEXEC | direct))?;
        Ok((file, access))
    }
}

impl KnownFiles {
    fn open_already(&self, stamp: &Stamp) -> Option<Arc<Content>> {
        let known = self.files.get(&(stamp.device, stamp.inode))?;
        let content = known.content.upgrade().filter(|_| known.stamp == *stamp)?;
        debug_assert!(content.size == stamp.size && content.version == known.version, "a content is of one version");
        Some(content)
    }

    fn version(&mut self, stamp: &Stamp) -> ContentVersion {
        match self.files.get(&(stamp.device, stamp.inode)) {
            Some(known) if known.stamp == *stamp => known.version,
            _ => {
                let version = ContentVersion(self.next_version.fetch_add(1, Ordering::Relaxed));
                self.remember(*stamp, version, Weak::new());
                version
            }
        }
    }

    /// An older version, from an open that lasted, does not take the place of a version that is read now.
    fn remember(&mut self, stamp: Stamp, version: ContentVersion, content: Weak<Content>) {
        let place = (stamp.device, stamp.inode);
        let is_newer = |known: &Known| known.stamp.changed_ns > stamp.changed_ns && known.content.strong_count() > 0;
        if self.files.get(&place).is_some_and(is_newer) {
            return;
        }
        debug_assert!(
            self.files.get(&place).is_none_or(|known| (known.stamp == stamp) == (known.version == version)),
            "an unchanged file keeps its version, and a changed one gets another"
        );
        if self.files.len() >= VERSIONS_MAX {
            self.files.retain(|_, known| known.content.strong_count() > 0);
        }
        if self.files.len() < VERSIONS_MAX {
            self.files.insert(place, Known { stamp, version, content });
        }
        debug_assert!(self.files.len() <= VERSIONS_MAX, "versions are remembered in bounded memory");
    }
}

/// True if fsync(file) alone makes its name durable here, too.
pub(crate) fn syncs_names_with_files(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(NAME_WITH_FILE.contains(&magic(file)?))
}

/// Which file systems keep all changes in their order in a journal, looked up once until it is forgotten: for a small upload on ext4 that
/// look is a quarter of its system calls.
#[derive(Debug, Default)]
pub(crate) struct KnownJournals(HashMap<u64, bool>);

impl KnownJournals {
    /// The journal of this file system, if it has one. ext4 may have been made without, which shows only in `/proc`, by a missing entry.
    pub(crate) fn of(&mut self, file: BorrowedFd<'_>) -> Result<Option<JournalId>, Errno> {
        let device = fstat(file)?.st_dev;
        let has_one = match self.0.get(&device) {
            Some(has_one) => *has_one,
            None => match magic(file)? {
                EXT4 => has_ext4_journal(device),
                XFS => true,
                _ => false,
            },
        };
        self.0.insert(device, has_one);
        Ok(has_one.then_some(JournalId(device)))
    }

    /// Other file systems may lie on these devices by now.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

/// ext4's own journal is listed as `NAME-INODE`, `NAME` being the device's.
fn has_ext4_journal(device: u64) -> bool {
    let path = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let name = std::fs::canonicalize(path).ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let Some((name, journals)) = name.zip(std::fs::read_dir("/proc/fs/jbd2").ok()) else { return false };
    journals.flatten().any(|journal| {
        let journal = journal.file_name();
        journal.to_str().and_then(|journal| journal.rsplit_once('-')).is_some_and(|(device, _)| device == name)
    })
}

/// True if files of this file system are only to be used through the page cache.
pub(crate) fn is_buffered(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let magic = magic(file)?;
    Ok(LOCAL_BUFFERED.contains(&magic) || ELSEWHERE.contains(&magic))
}

/// True if no byte of a file waits in the page cache.
pub(crate) fn is_direct(file: BorrowedFd<'_>) -> bool {
    fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

fn magic(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    // Magics are 32 bits; some architectures' type is signed and would extend them.
    Ok(u64::try_from(i128::from(fstatfs(file)?.f_type) & 0xffff_ffff).expect("masked to 32 bits"))
}

/// Tries one aligned direct read.
fn reads_directly(handle: BorrowedFd<'_>) -> Result<FileAccess, Errno> {
    let file = match contained_open::reopen(handle, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC) {
        Err(Errno::INVAL) => return Ok(FileAccess::Buffered),
        other => other?,
    };
    match rustix::io::pread(&file, AlignedBlock::zeroed(1).bytes_mut(), 0) {
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(FileAccess::Buffered),
        other => other.map(|_| FileAccess::Direct),
    }
}

/// Extents of `file` on the whole disk; empty where the place of any byte is not known.
pub(crate) fn extents_of(file: BorrowedFd<'_>, stat: &Stat, root: &Root) -> Box<[Extent]> {
    const UNKNOWN: u32 = fiemap::FLAG_UNKNOWN | fiemap::FLAG_DELALLOC | fiemap::FLAG_ENCODED | fiemap::FLAG_NOT_ALIGNED;
    // A file system mounted somewhere below the root is on a disk of its own, at a place other than this root's.
    let Some(start) = root.start_bytes.filter(|_| stat.st_dev == root.device_number) else { return Box::default() };
    let Ok(raw) = fiemap::extents(file) else { return Box::default() };
    if raw.len() > EXTENTS_MAX || raw.iter().any(|extent| extent.flags & UNKNOWN != 0) {
        return Box::default();
    }
    let mut extents: Vec<Extent> = Vec::with_capacity(raw.len());
    for extent in raw {
        let physical = extent.physical + start;
        match extents.last_mut() {
            Some(last) if last.logical + last.length == extent.logical && last.physical + last.length == physical => {
                last.length += extent.length;
            }
            _ => extents.push(Extent { logical: extent.logical, physical, length: extent.length }),
        }
    }
    extents.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_does_not_take_the_place_of_one_that_is_read() {
        let versions = KnownVersions::new(Arc::default());
        let older = Stamp { device: 1, inode: 1, size: 4, modified_ns: 1, changed_ns: 1 };
        let newer = Stamp { changed_ns: 2, ..older };
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let layout = ContentLayout::of_file(DiskId(0), file.into(), FileAccess::Buffered, newer.size, Box::default());
        let version = versions.version(&newer);
        let content = Arc::new(Content { version, size: newer.size, layout, watched: None, checksums: None });
        lock(&versions.known).remember(newer, version, Arc::downgrade(&content));
        assert_ne!(versions.version(&older), version);
        assert!(versions.open_already(&newer).is_some_and(|open| Arc::ptr_eq(&open, &content)));
        drop(content);
        assert_eq!(versions.version(&older), versions.version(&older), "no reader holds the newer one");
    }
}
