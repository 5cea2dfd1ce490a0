//! Counts of the service, which `figures` reads.

use std::sync::atomic::AtomicU64;

use crate::refusals::RefusalCounts;

/// Counts of the service.
#[derive(Debug, Default)]
pub struct ServiceStats {
    /// Uploads under way.
    pub uploads_open: AtomicU64,
    /// Bytes received by uploads.
    pub bytes_uploaded: AtomicU64,
    /// Recordings that were further ahead of their rate than they may be.
    pub recordings_over_rate: AtomicU64,
    /// Deliveries started.
    pub streams_started: AtomicU64,
    /// Sessions that fell behind by more than their start-up delay.
    pub sessions_behind: AtomicU64,
    /// Small reads answered from memory, without a delivery.
    pub small_reads: AtomicU64,
    /// Deliveries and recordings refused.
    pub refusals: RefusalCounts,
}
