//! Layout of the store: the served folders and volumes, and their disks.
//!
//! Promise: each disk has one place, for all folders on it or for one volume. Not here: the work on folders and volumes (the
//! crates `folder` and `volumes`).

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use device::Device;
use folder::{FolderDisks, RootSetting};
use service::contents::{DiskInfo, StoreAdmin, UpkeepError, VolumeInfo, VolumeWish};
use store::{DiskNotice, GrantPort, Store, StoreBuilder, StoreSettings};
use units::{DiskId, limits};
use volumes::{OpenVolume, ServedVolume};

/// Folders and volumes that are ready to be served.
#[derive(Debug)]
pub(super) struct StoreLayout {
    folders: FolderDisks,
    volumes: Vec<OpenVolume>,
}

/// A place of the data plane for one disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskPlace<'a> {
    /// The identifier of the disk there.
    pub(super) id: DiskId,
    /// The number of the volume that has the place; `None`: folders have it.
    pub(super) volume: Option<usize>,
    /// The disk and a path on it; `None` for a place that a volume keeps free or whose disk is missing.
    pub(super) disk: Option<(&'a Device, &'a Path)>,
}

impl StoreLayout {
    /// Opens folders and volumes, and finds their disks. `state` is the folder that keeps the facts about the volumes' disks
    /// between starts.
    ///
    /// # Errors
    /// A folder or a volume cannot be opened; a disk is used twice, so that each use would be unaware of the other's reads;
    /// there are more disks than the plane has places.
    pub(super) fn discover(
        roots: &[RootSetting],
        volumes: &[Vec<PathBuf>],
        state: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let folders = FolderDisks::discover(roots)?;
        let volumes = volumes.iter().map(|paths| OpenVolume::open(paths, state)).collect::<Result<_, _>>()?;
        let mut layout = Self { folders, volumes };
        // Two files may have the same name: their paths distinguish them.
        let mut names: HashSet<(&str, &str)> = HashSet::new();
        for (device, _) in layout.places().filter_map(|place| place.disk) {
            ensure!(
                names.insert((device.name.as_str(), device.drive.as_str())),
                "the disk {} is used by a volume and something else that is served, or twice by a volume: give the volume whole disks \
                 of its own, or of a drive with several actuators a partition in the range of each",
                device.name
            );
        }
        let count = layout.places().count();
        ensure!(count <= limits::DISKS_MAX, "the roots are on more than {} disks", limits::DISKS_MAX);
        layout.volumes.iter_mut().take(limits::DISKS_MAX - count).for_each(OpenVolume::keep_spare_place);
        Ok(layout)
    }

    /// The places for disks, in the order of their identifiers.
    pub(super) fn places(&self) -> impl Iterator<Item = DiskPlace<'_>> {
        let folders = self.folders.places().map(|disk| (None, Some(disk)));
        let volumes = self.volumes.iter().enumerate();
        let volumes = volumes.flat_map(|(number, volume)| volume.places().map(move |disk| (Some(number), disk)));
        let all = (0..).map(DiskId).zip(folders.chain(volumes));
        all.map(|(id, (volume, disk))| DiskPlace { id, volume, disk })
    }

    /// Notices about the volumes' disks.
    pub(super) fn notices(&self) -> impl Iterator<Item = &DiskNotice> {
        self.volumes.iter().flat_map(OpenVolume::notices)
    }

    /// Starts the disks' threads. `serve` returns, for each place in order, the port from which the thread receives grants.
    ///
    /// # Errors
    /// The system's error, if it refuses memory for the buffers or a thread.
    pub(super) fn start(
        self,
        settings: &StoreSettings,
        mut serve: impl FnMut(DiskId) -> Box<dyn GrantPort>,
    ) -> io::Result<ServedStore> {
        let mut builder = StoreBuilder::new(settings)?;
        self.folders.join(&mut builder, &mut serve)?;
        let volumes =
            self.volumes.into_iter().map(|volume| volume.join(&mut builder, &mut serve)).collect::<Result<_, _>>()?;
        Ok(ServedStore { store: builder.finish(), volumes })
    }
}

/// The store with its volumes, for the calls of an operator.
#[derive(Debug)]
pub(super) struct ServedStore {
    pub(super) store: Store,
    volumes: Vec<ServedVolume>,
}

impl StoreAdmin for ServedStore {
    fn disks(&self) -> Vec<DiskInfo> {
        self.store.disks()
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        self.volumes.iter().map(ServedVolume::info).collect()
    }

    fn begin_upkeep(&self, volume: &str, wish: &VolumeWish) -> Result<(), UpkeepError> {
        self.volumes.iter().find(|served| served.is_named(volume)).ok_or(UpkeepError::Unknown)?.begin(wish)
    }

    fn is_settled(&self) -> bool {
        self.store.is_settled()
    }
}
