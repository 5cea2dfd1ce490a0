//! Opening a volume to serve it: its disks are held for this process alone.

use std::path::{Path, PathBuf};

use device::Device;
use kernel::clock::monotonic;
use kernel::exclusive::Purpose;
use units::limits;
use volume::{MEMBERS_MAX, MemberId, Volume};

use super::find::{FoundDisks, SettledDisks};
use super::known_generation::{self, SeenGeneration};
use super::open_disk::{OpenDisk, VolumeDiskError};
use store::event::DiskNotice;

/// The chunks of recordings are not cut: a unit holds whole ones.
const UNIT_BYTES_MIN: u64 = limits::CHUNK_BYTES;

/// A volume that is ready to be served.
#[derive(Debug)]
pub struct OpenVolume {
    pub(crate) volume: Volume,
    /// By their numbers in the volume; none where no disk is served.
    pub(crate) disks: Vec<Option<OpenDisk>>,
    /// As disks that are away were named.
    pub(crate) away: Vec<(MemberId, PathBuf)>,
    /// Notices about its disks.
    pub(crate) notices: Vec<DiskNotice>,
    /// The known generations of its disks, in the server's state.
    pub(super) seen: Option<SeenGeneration>,
    /// True if there is a place for one disk more.
    pub(crate) has_spare_place: bool,
}

impl OpenVolume {
    /// Opens the volume on these disks, in any order, and writes the first commit of this use. `state` records this use before the
    /// volume is served: a disk missing from it is out of date from now on.
    ///
    /// # Errors
    /// A disk is in use, belongs to another volume or was not named; none is there, or only such as `state` says are out of date; the
    /// catalogue is damaged.
    pub fn open(paths: &[PathBuf], state: Option<&Path>) -> Result<Self, VolumeDiskError> {
        let opened = Self::open_on(paths, state)?;
        match opened.volume.unit_bytes() {
            UNIT_BYTES_MIN.. => Ok(opened),
            bytes => Err(VolumeDiskError::UnitSize(bytes)),
        }
    }

    /// The same, of a volume with units of any size, to which nothing is recorded.
    pub(crate) fn open_on(paths: &[PathBuf], state: Option<&Path>) -> Result<Self, VolumeDiskError> {
        let mut found = FoundDisks::of(paths, Purpose::Write)?;
        found.check_named()?;
        let superblock = &found.identified.superblock;
        let mut seen = state.map(|state| SeenGeneration::kept_in(known_generation::file_of(state, &superblock.volume)));
        if let Some(seen) = &seen
            && seen.read().is_some_and(|generation| generation > superblock.generation)
        {
            return Err(VolumeDiskError::OutOfDate(seen.file().to_owned()));
        }
        let mut volume = found.open()?;
        let SettledDisks { disks, away, notices } = found.settle(&mut volume)?;
        disks.commit(&mut volume)?;
        if let Some(seen) = &mut seen {
            seen.keep(volume.superblock().generation, monotonic());
        }
        disks.tell_drives(&mut volume);
        Ok(Self { volume, disks: disks.0, away, notices, seen, has_spare_place: false })
    }

    /// The places for its disks, in the order of their numbers, also where no disk is; and the spare one.
    pub fn places(&self) -> impl Iterator<Item = Option<(&Device, &Path)>> {
        self.disk_places().map(|disk| disk.map(|disk| (&disk.device, disk.path.as_path())))
    }

    /// Keeps a place for one disk more, unless it has as many as can be.
    pub fn keep_spare_place(&mut self) {
        self.has_spare_place = self.disks.len() < MEMBERS_MAX;
    }

    /// Notices about its disks.
    #[must_use]
    pub fn notices(&self) -> &[DiskNotice] {
        &self.notices
    }

    pub(crate) fn disk_places(&self) -> impl Iterator<Item = Option<&OpenDisk>> {
        self.disks.iter().map(Option::as_ref).chain(self.has_spare_place.then_some(None))
    }
}
