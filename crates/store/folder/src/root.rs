//! A served folder, and whether its path still leads to it.
//!
//! Promise: every file opened or written below a root is below the folder that its path leads to now. A folder that is removed, unmounted
//! (also lazily), or mounted over by another disk is away until it is back; a root that is made again, or mounted again, on the same disk
//! is taken up as it is. A folder that was a mount is never served from below the mount point. Not here: the entries in it (`worker`).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::{Device, location_of};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxAttributes, StatxFlags, makedev, statx};
use rustix::io::Errno;

use store::{ContentPath, RootAway};

use crate::contained_open::{self, LinkTargets};

/// A folder that is to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootSetting {
    /// Its path.
    pub path: PathBuf,
    /// It is only served while a file system is mounted there.
    pub require_mount: bool,
}

impl From<PathBuf> for RootSetting {
    fn from(path: PathBuf) -> Self {
        Self { path, require_mount: false }
    }
}

/// Distinguishes one folder from another, and one mount of it from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    mount: u64,
    is_mount: bool,
}

impl Identity {
    /// Of an open folder.
    pub(crate) fn of(directory: &OwnedFd) -> Result<Self, Errno> {
        statx(directory, c"", AtFlags::EMPTY_PATH, wanted()).map(|facts| Self::from(&facts))
    }

    fn at(path: &Path) -> Result<Self, Errno> {
        statx(CWD, path, AtFlags::empty(), wanted()).map(|facts| Self::from(&facts))
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::INO | StatxFlags::MNT_ID
}

impl From<&Statx> for Identity {
    fn from(facts: &Statx) -> Self {
        Self {
            device: makedev(facts.stx_dev_major, facts.stx_dev_minor),
            inode: facts.stx_ino,
            // Zero before Linux 5.8, which gives no number: there a mount is known by its device alone.
            mount: facts.stx_mnt_id,
            is_mount: facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        }
    }
}

/// One of the folders on a disk, as it was at the last look.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) directory: Arc<OwnedFd>,
    /// `st_dev` of the folder.
    pub(crate) device_number: u64,
    /// Start of its file system on the whole disk, if that means anything.
    pub(crate) start_bytes: Option<u64>,
    /// Names that links in it may lead through.
    pub(crate) targets: LinkTargets,
    identity: Identity,
    must_be_mount: bool,
    away: Option<RootAway>,
}

impl Root {
    /// Opens the folder; also gives its disk.
    pub(crate) fn open(setting: &RootSetting) -> Result<(Self, Device), Errno> {
        let directory = open_folder(&setting.path)?;
        let identity = Identity::of(&directory)?;
        let location = location_of(identity.device);
        let must_be_mount = setting.require_mount || identity.is_mount;
        let root = Self {
            path: setting.path.clone(),
            directory: Arc::new(directory),
            device_number: identity.device,
            start_bytes: location.start_bytes,
            targets: LinkTargets::Shown,
            identity,
            must_be_mount,
            away: None,
        };
        Ok((root, location.device))
    }

    /// Opens the file or folder that `path` leads to.
    pub(crate) fn open_path(&self, path: &ContentPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        contained_open::open_beneath(self.directory.as_fd(), &path.relative(), flags, self.targets)
    }

    /// Looks where the path leads to, and takes up a folder that may be served in the place of the one before. True if the notice about
    /// it has changed.
    pub(crate) fn refresh(&mut self, disk: &Device) -> bool {
        let before = self.away;
        let identity = self.identity;
        self.away = self.follow(disk).err();
        self.away != before || (self.away.is_none() && self.identity != identity)
    }

    /// Reason for which it is not served, at the last look.
    pub(crate) fn away(&self) -> Option<RootAway> {
        self.away
    }

    fn follow(&mut self, disk: &Device) -> Result<(), RootAway> {
        let now = Identity::at(&self.path).map_err(|_| RootAway::Missing)?;
        if self.must_be_mount && !now.is_mount {
            return Err(RootAway::NotMounted);
        }
        if now == self.identity {
            return Ok(());
        }
        let location = location_of(now.device);
        let is_same_disk = location.device.name == disk.name || (location.device.node.is_none() && disk.node.is_none());
        if now.device != self.device_number && !(now.is_mount && is_same_disk) {
            return Err(RootAway::OtherDisk);
        }
        let directory = open_folder(&self.path).map_err(|_| RootAway::Missing)?;
        // The opened folder may be another one again: the next look shows it.
        self.identity = Identity::of(&directory).map_err(|_| RootAway::Missing)?;
        self.directory = Arc::new(directory);
        self.device_number = self.identity.device;
        self.start_bytes = location.start_bytes;
        self.must_be_mount |= now.is_mount;
        Ok(())
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_is_removed_is_away_and_taken_up_when_it_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("media");
        fs::create_dir(&path).unwrap();
        let (mut root, disk) = Root::open(&path.clone().into()).unwrap();
        assert!(!root.refresh(&disk), "nothing has changed");
        fs::rename(&path, place.path().join("elsewhere")).unwrap();
        assert!(root.refresh(&disk) && !root.refresh(&disk), "told once");
        assert_eq!(root.away(), Some(RootAway::Missing));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("new"), "").unwrap();
        assert!(root.refresh(&disk));
        assert_eq!(root.away(), None);
        let opened = rustix::fs::openat(&root.directory, "new", OFlags::RDONLY, Mode::empty());
        assert!(opened.is_ok(), "the one that was made again: {opened:?}");
    }

    #[test]
    fn a_folder_that_must_be_a_mount_is_away_while_it_is_none() {
        let place = tempfile::tempdir().unwrap();
        let setting = RootSetting { path: place.path().to_owned(), require_mount: true };
        let (mut root, disk) = Root::open(&setting).unwrap();
        assert!(root.refresh(&disk));
        assert_eq!(root.away(), Some(RootAway::NotMounted));
    }
}
