//! Settings of the store.

use std::path::PathBuf;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::buffers::UPLOADS_PER_CHUNK;

/// Settings of the store.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Time that a caller waits for a disk before it gets [`crate::StoreError::DiskFailing`].
    pub patience: Duration,
    /// Memory for best-effort uploads, in chunks of 1 MiB; eight uploads for each at once. At least 1.
    pub upload_chunks: usize,
    /// Memory for recordings, in chunks of 1 MiB. At least 1.
    pub recording_chunks: usize,
    /// CPUs the disks' threads may run on; all if empty.
    pub cpus: Vec<usize>,
    /// True if hidden names ([`ContentPath::is_hidden`]) are served.
    pub hidden_files: bool,
    /// True if a disk of a mirror that was taken out is filled again when it answers.
    pub refill_disks: bool,
    /// Folder that keeps the index; none is kept without it.
    pub state: Option<PathBuf>,
}

impl StoreSettings {
    /// Best-effort uploads that there is memory for at once.
    #[must_use]
    pub const fn uploads_max(&self) -> usize {
        self.upload_chunks.saturating_mul(UPLOADS_PER_CHUNK)
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            upload_chunks: 128,
            recording_chunks: 2048,
            cpus: Vec::new(),
            hidden_files: false,
            refill_disks: true,
            state: None,
        }
    }
}

/// Lets this thread run on these CPUs only, if any are named.
pub(crate) fn restrict_to(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
    // Where it is not allowed the thread runs anywhere: slower, not wrong.
    let _ = sched_setaffinity(None, &set);
}
