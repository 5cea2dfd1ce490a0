//! Layout of the store: the folders and volumes, and the disks they lie on.
//!
//! Promise: each disk has one place, for all folders and volumes on it. Not here: serving them (`store`).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ::volume::MEMBERS_MAX;
use device::Device;
use units::{DiskId, limits};

use crate::event::DiskNotice;
use crate::root::{Root, RootSetting};
use crate::volume::{OpenVolume, VolumeDiskError};

/// The folders, and the disks they are on.
#[derive(Debug)]
pub struct StoreLayout {
    pub(crate) disks: Vec<LaidOutDisk>,
    /// For each root, in the order given: its disk, and its number on that disk.
    pub(crate) roots: Vec<(usize, usize)>,
    /// Their disks are behind `disks`.
    pub(crate) volumes: Vec<OpenVolume>,
}

/// A disk with folders.
#[derive(Debug)]
pub(crate) struct LaidOutDisk {
    pub(crate) device: Device,
    pub(crate) roots: Vec<Root>,
}

/// Reason for which the folders cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// Neither a folder nor a volume was given.
    #[error("nothing to serve was given; name a folder or a volume")]
    NoRoot,
    /// A volume cannot be opened.
    #[error(transparent)]
    Volume(#[from] VolumeDiskError),
    /// Two of the served folders and volumes would schedule the same disk.
    #[error(
        "the disk {0} is used by a volume and something else that is served, or twice by a volume: give the volume whole disks of \
         its own, or of a drive with several actuators a partition in the range of each"
    )]
    DiskShared(String),
    /// More disks than can be scheduled.
    #[error("the roots are on more than {} disks", limits::DISKS_MAX)]
    TooManyDisks,
    /// The folder cannot be opened.
    #[error("cannot open the root {}: name a folder that is there and that the server may read", path.display())]
    Root {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl StoreLayout {
    /// Opens the folders and finds their disks; opens the volumes, each given as its disks in any order. `state` is the folder in which
    /// the store keeps its knowledge of them.
    ///
    /// # Errors
    /// A folder that is none or cannot be opened; disks that are no volume; nothing to serve; too many disks.
    pub fn discover(
        roots: &[RootSetting],
        volumes: &[Vec<PathBuf>],
        state: Option<&Path>,
    ) -> Result<Self, LayoutError> {
        if roots.is_empty() && volumes.is_empty() {
            return Err(LayoutError::NoRoot);
        }
        let mut layout = Self { disks: Vec::new(), roots: Vec::new(), volumes: Vec::new() };
        for setting in roots {
            let failed =
                |source: rustix::io::Errno| LayoutError::Root { path: setting.path.clone(), source: source.into() };
            let (root, device) = Root::open(setting).map_err(failed)?;
            let disk = match layout.disks.iter().position(|disk| disk.device.name == device.name) {
                Some(disk) => disk,
                None => {
                    layout.disks.push(LaidOutDisk { device, roots: Vec::new() });
                    layout.disks.len() - 1
                }
            };
            layout.roots.push((disk, layout.disks[disk].roots.len()));
            layout.disks[disk].roots.push(root);
        }
        for paths in volumes {
            layout.volumes.push(OpenVolume::open(paths, state)?);
        }
        // The place of a file distinguishes it from others of its name.
        let mut names: HashSet<(&str, &str)> = HashSet::new();
        for (device, _) in layout.places().filter_map(|place| place.disk) {
            if !names.insert((device.name.as_str(), device.drive.as_str())) {
                return Err(LayoutError::DiskShared(device.name.clone()));
            }
        }
        let count = layout.places().count();
        if count > limits::DISKS_MAX {
            return Err(LayoutError::TooManyDisks);
        }
        for volume in layout.volumes.iter_mut().take(limits::DISKS_MAX - count) {
            volume.has_spare_place = volume.disks.len() < MEMBERS_MAX;
        }
        Ok(layout)
    }

    /// The places for disks in the order of their identifiers: those of volumes also where no disk is.
    pub fn places(&self) -> impl Iterator<Item = DiskPlace<'_>> {
        let folders = self.disks.iter().map(|disk| (None, Some((&disk.device, disk.roots[0].path.as_path()))));
        let volumes = self.volumes.iter().enumerate().flat_map(|(number, volume)| {
            volume.places().map(move |disk| (Some(number), disk.map(|disk| (&disk.device, disk.path.as_path()))))
        });
        let all = folders.chain(volumes).enumerate();
        all.map(|(number, (volume, disk))| DiskPlace { id: disk_id(number), volume, disk })
    }

    /// Notices about the disks of volumes that are not served, or are again.
    pub fn notices(&self) -> impl Iterator<Item = &DiskNotice> {
        self.volumes.iter().flat_map(|volume| &volume.notices)
    }
}

/// A place for a disk: the unit that the data plane schedules.
#[derive(Debug, Clone, Copy)]
pub struct DiskPlace<'a> {
    /// Its identifier.
    pub id: DiskId,
    /// Number of the volume it belongs to, if any.
    pub volume: Option<usize>,
    /// The disk, if one is there, and a folder on it, or the disk itself: something to measure it by.
    pub disk: Option<(&'a Device, &'a Path)>,
}

/// The identifier of the disk in place `number`.
pub(crate) fn disk_id(number: usize) -> DiskId {
    DiskId(u16::try_from(number).expect("at most DISKS_MAX"))
}
