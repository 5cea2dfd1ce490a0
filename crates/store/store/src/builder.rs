//! Making of a store: its disks and roots as they join.
//!
//! Promise: disks are numbered in the order in which they join, roots in the order in which they hide each other.
//! Not here: the kinds of disks (crates `folder` and `volumes`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use units::DiskId;

use crate::buffers::UploadBuffers;
use crate::common::{DiskGroup, StoreCommon};
use crate::disk::DiskHandle;
use crate::index::Index;
use crate::settings::StoreSettings;
use crate::store::{Store, StoreParts};
use crate::upload_root::UploadRoots;

/// A store that disks join before it serves.
pub struct StoreBuilder(StoreParts);

impl StoreBuilder {
    /// A store without disks.
    ///
    /// # Errors
    /// Memory for the buffers or a thread cannot be had: as the system says it.
    pub fn new(settings: &StoreSettings) -> io::Result<Self> {
        let index = Arc::new(Index::default());
        let saver = settings.state.as_deref().map(|state| index.keep_in(state)).transpose()?;
        let common = StoreCommon {
            settings: settings.clone(),
            index,
            versions: Arc::new(AtomicU64::new(1)),
            events: Arc::default(),
            plane: Arc::default(),
            uploads: UploadBuffers::for_uploads(settings.upload_chunks)?,
            recordings: UploadBuffers::for_recordings(settings.recording_chunks)?,
        };
        let (disks, roots, groups, homes) = (Vec::new(), Vec::new(), Vec::new(), UploadRoots::default());
        Ok(Self(StoreParts { common, disks, roots, groups, homes, _saver: saver }))
    }

    /// The parts that a disk of it needs.
    #[must_use]
    pub const fn common(&self) -> &StoreCommon {
        &self.0.common
    }

    /// The identifier of the disk that joins next.
    ///
    /// # Panics
    /// More disks joined than have identifiers.
    #[must_use]
    pub fn next_disk(&self) -> DiskId {
        DiskId(u16::try_from(self.0.disks.len()).expect("at most DISKS_MAX"))
    }

    /// Takes disks, by the handles of their threads, and roots: each the position of its disk in `disks`, and its number there.
    pub fn join(&mut self, disks: Vec<DiskHandle>, roots: &[(usize, usize)], group: Arc<dyn DiskGroup>) {
        let first = self.0.disks.len();
        self.0.disks.extend(disks);
        let are_in_order =
            self.0.disks.iter().enumerate().skip(first).all(|(at, disk)| usize::from(disk.shared.id.0) == at);
        assert!(are_in_order, "a disk is found by its identifier: the number with which it joined");
        assert!(
            roots.iter().all(|(disk, _)| first + disk < self.0.disks.len()),
            "a root lies on a disk that joins with it"
        );
        self.0.roots.extend(roots.iter().map(|(disk, root)| (first + disk, *root)));
        self.0.groups.push(group);
    }

    /// The store of all disks that joined.
    #[must_use]
    pub fn finish(self) -> Store {
        Store::of(self.0)
    }
}
