//! Streams and recordings that were refused, counted by the resource that was short.

use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::control::Resource;

/// The kinds of resources that can be short, as figures, events and answers name them.
pub const RESOURCES: [&str; 8] =
    ["disk", "disk_failing", "network", "memory", "processor", "table", "draining", "budget"];

/// The kind of a resource.
#[must_use]
pub const fn kind(resource: Resource) -> &'static str {
    RESOURCES[place(resource)]
}

const fn place(resource: Resource) -> usize {
    match resource {
        Resource::Disk(_) => 0,
        Resource::DiskFailing(_) => 1,
        Resource::Network(_) => 2,
        Resource::Memory => 3,
        Resource::Processor => 4,
        Resource::Table => 5,
        Resource::Draining => 6,
    }
}

/// The counts.
#[derive(Debug, Default)]
pub struct RefusalCounts([AtomicU64; RESOURCES.len()]);

impl RefusalCounts {
    pub(crate) fn count(&self, resource: Resource) {
        self.0[place(resource)].fetch_add(1, Ordering::Relaxed);
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
