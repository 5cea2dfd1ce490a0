//! Streams and recordings that were refused, counted by the resource that was short.

use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::control::Resource;

/// The resources that can be short, as figures name them.
pub const RESOURCES: [&str; 8] =
    ["disk", "disk_failing", "network", "memory", "processor", "table", "draining", "budget"];

/// The counts.
#[derive(Debug, Default)]
pub struct RefusalCounts([AtomicU64; RESOURCES.len()]);

impl RefusalCounts {
    pub(crate) fn count(&self, resource: Resource) {
        let at = match resource {
            Resource::Disk(_) => 0,
            Resource::DiskFailing(_) => 1,
            Resource::Network(_) => 2,
            Resource::Memory => 3,
            Resource::Processor => 4,
            Resource::Table => 5,
            Resource::Draining => 6,
        };
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_budget(&self) {
        self.0[7].fetch_add(1, Ordering::Relaxed);
    }

    /// In the order of [`RESOURCES`].
    #[must_use]
    pub fn by_resource(&self) -> [u64; RESOURCES.len()] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_resource().iter().sum()
    }
}
