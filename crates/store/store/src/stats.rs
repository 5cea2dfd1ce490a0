//! Counts of a disk's thread, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only grows (or a gauge that is set). Relaxed: each stands for itself.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Its value.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts `count` more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// One disk's counts since the start.
#[derive(Debug, Default)]
pub struct DiskStats {
    /// Uploads published and durable.
    pub uploads_published: Counter,
    /// Uploads given up: dropped, or failed.
    pub uploads_failed: Counter,
    /// Bytes written to uploads.
    pub written_bytes: Counter,
    /// Commits done.
    pub commits: Counter,
    /// Containers probed for a rate.
    pub probes: Counter,
    /// Grants of work that was no longer there.
    pub grants_unused: Counter,
    /// Calls that failed because something could not be read from the disk or written to it.
    pub errors: Counter,
    /// Gauge: uploads in progress.
    pub uploads_open: Counter,
    /// Gauge: bytes written since the last flush.
    pub dirty_bytes: Counter,
    /// Gauge: bytes free on the first root's file system.
    pub free_bytes: Counter,
}
