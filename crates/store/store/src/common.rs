//! Parts that all disks of a store share, and the disks as the store sees them.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use device::Device;
use storage::grant::WrittenDisks;
use units::DiskId;

use crate::buffers::UploadBuffers;
use crate::event::EventSender;
use crate::grants::WakeFn;
use crate::index::Index;
use crate::settings::{StoreSettings, restrict_to};
use crate::shared::{DiskShared, PlaneVerdict};

/// Disks that joined a store together.
pub trait DiskGroup: Send + Sync {
    /// The disks that are, or since the start were, of the group, each with the paths that are served from it.
    fn disks(&self) -> Vec<(DiskId, Device, Vec<PathBuf>)>;

    /// The disks that a recording called `name` may be written to, the best first, if its root is that of `root`, and these are others than
    /// that one.
    fn written_disks(&self, _root: DiskId, _name: &str) -> Vec<WrittenDisks> {
        Vec::new()
    }

    /// Counts `bytes` of a content read from a disk of the group and sent.
    fn note_read(&self, _name: &str, _bytes: u64) {}
}

/// Parts that all disks of a store share.
#[derive(Clone)]
pub struct StoreCommon {
    /// The settings of the store.
    pub settings: StoreSettings,
    /// The rates of contents.
    pub index: Arc<Index>,
    /// The next version of a content: versions are unique in the process.
    pub versions: Arc<AtomicU64>,
    /// The way of events to the operator.
    pub events: Arc<EventSender>,
    pub(crate) plane: Arc<OnceLock<PlaneVerdict>>,
    pub(crate) uploads: UploadBuffers,
    pub(crate) recordings: UploadBuffers,
}

impl StoreCommon {
    /// The state that the thread of a disk, by its number and its name in errors, shares with its callers; `waker` ends the thread's wait.
    #[must_use]
    pub fn shared(&self, named: (DiskId, String), waker: WakeFn) -> Arc<DiskShared> {
        let disks = vec![named.0];
        self.shared_of_any(named, waker, disks)
    }

    /// The same of a thread for several disks, which is relied on as long as any of `disks` is: a disk that errs or does not answer is
    /// taken out by the writes to it, and writes that have no other place fail then.
    #[must_use]
    pub fn shared_of_any(&self, named: (DiskId, String), waker: WakeFn, disks: Vec<DiskId>) -> Arc<DiskShared> {
        let (named, events, plane) = ((named.0, named.1, disks), Arc::clone(&self.events), Arc::clone(&self.plane));
        Arc::new(DiskShared::new(named, self.settings.patience, waker, events, plane))
    }

    /// Starts a thread on the store's processors.
    ///
    /// # Errors
    /// As the system says it.
    pub fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let cpus = self.settings.cpus.clone();
        thread::Builder::new().name(name).spawn(move || {
            restrict_to(&cpus);
            run();
        })
    }

    /// Gives memory of uploads back that was not used for a while.
    pub fn give_back(&self) {
        self.uploads.give_back();
        self.recordings.give_back();
    }

    /// The memory that all buffers of best-effort uploads take.
    #[must_use]
    pub fn uploads_bytes(&self) -> usize {
        self.uploads.uploads_bytes()
    }
}
