//! Disks under the folders that are served.
//!
//! Promise: each disk has one thread and its openers, for all folders on it. Not here: the work of the threads (`worker`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::Device;
use rustix::io::Errno;
use store::disk::DiskHandle;
use store::disk_thread::DiskThread;
use store::{DiskGroup, GrantPort, StoreBuilder};
use units::DiskId;

use crate::contained_open::LinkTargets;
use crate::root::{Root, RootSetting};
use crate::worker::Worker;

/// The folders that are to be served, and the disks they lie on.
#[derive(Debug)]
pub struct FolderDisks {
    disks: Vec<FolderDisk>,
    /// Each root's disk, and its number there.
    roots: Vec<(usize, usize)>,
}

/// A disk, and the folders on it.
#[derive(Debug)]
struct FolderDisk {
    device: Device,
    roots: Vec<Root>,
}

/// A folder that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the root {}: name a folder that is there and that the server may read", path.display())]
pub struct RootError {
    /// The folder.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: io::Error,
}

impl FolderDisks {
    /// Opens the folders, and finds the disk that each lies on.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn discover(roots: &[RootSetting]) -> Result<Self, RootError> {
        let mut found = Self { disks: Vec::new(), roots: Vec::new() };
        for setting in roots {
            let failed = |source: Errno| RootError { path: setting.path.clone(), source: source.into() };
            let (root, device) = Root::open(setting).map_err(failed)?;
            let disk = match found.disks.iter().position(|disk| disk.device.name == device.name) {
                Some(disk) => disk,
                None => {
                    found.disks.push(FolderDisk { device, roots: Vec::new() });
                    found.disks.len() - 1
                }
            };
            found.roots.push((disk, found.disks[disk].roots.len()));
            found.disks[disk].roots.push(root);
        }
        debug_assert!(found.roots.len() == roots.len(), "each folder is a root");
        debug_assert!(found.disks.iter().all(|disk| !disk.roots.is_empty()), "a disk has a folder on it");
        Ok(found)
    }

    /// The disks, each with a folder on it.
    pub fn places(&self) -> impl Iterator<Item = (&Device, &Path)> {
        self.disks.iter().map(|disk| (&disk.device, disk.roots[0].path.as_path()))
    }

    /// Starts a thread for each disk, in a store. `serve` gives for each disk, in order, where its thread gets grants.
    ///
    /// # Errors
    /// A thread cannot be had: as the system says it.
    pub fn join(self, store: &mut StoreBuilder, serve: &mut dyn FnMut(DiskId) -> Box<dyn GrantPort>) -> io::Result<()> {
        let common = store.common().clone();
        let targets = if common.settings.hidden_files { LinkTargets::All } else { LinkTargets::Shown };
        let (mut handles, mut served) = (Vec::new(), Vec::new());
        for (id, FolderDisk { device, mut roots }) in (store.next_disk().0..).map(DiskId).zip(self.disks) {
            roots.iter_mut().for_each(|root| root.targets = targets);
            served.push((id, device.clone(), roots.iter().map(|root| root.path.clone()).collect()));
            let port = serve(id);
            let shared = common.shared((id, format!("disk {}", device.name)), port.waker());
            let (handle, operations) = DiskHandle::new(Arc::clone(&shared));
            let worker = Worker::new((Arc::clone(&shared), common.clone()), (device, roots), operations);
            handles.push(handle.with_openers(worker.start_openers()?));
            common.spawn(format!("store-{}", id.0), move || DiskThread::new(shared, port, worker).run())?;
        }
        debug_assert!(self.roots.iter().all(|(disk, _)| *disk < handles.len()), "a root lies on a disk with a thread");
        store.join(handles, &self.roots, Arc::new(ServedFolders(served)));
        Ok(())
    }
}

/// The disks that are served.
struct ServedFolders(Vec<(DiskId, Device, Vec<PathBuf>)>);

impl DiskGroup for ServedFolders {
    fn disks(&self) -> Vec<(DiskId, Device, Vec<PathBuf>)> {
        self.0.clone()
    }
}
