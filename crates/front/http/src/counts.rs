//! All counts of the server at one time: two readings of them tell rates.
//!
//! Promise: reading them costs the data plane nothing. Not here: what is made of them (`figures`).

use std::sync::atomic::Ordering;
use std::time::Instant;

use service::MediaService;

use crate::machine::MachineSample;

/// All counts at one time.
#[derive(Debug, Clone)]
pub(crate) struct AllCounts {
    pub(crate) at: Instant,
    pub(crate) machine: Option<MachineSample>,
    pub(crate) sent_bytes: u64,
    pub(crate) lent_bytes: u64,
    pub(crate) uploaded_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) phases: Vec<[u64; 3]>,
}

impl AllCounts {
    /// Reads them. The machine is read by the caller, where reading may take its time.
    pub(crate) fn read(service: &MediaService, machine: Option<MachineSample>) -> Self {
        let gauges = &service.gauges;
        Self {
            at: Instant::now(),
            machine,
            sent_bytes: gauges.plane.sent_bytes.get(),
            lent_bytes: gauges.plane.lent_bytes.get(),
            uploaded_bytes: service.stats.bytes_uploaded.load(Ordering::Relaxed),
            disk_bytes: gauges.disks.iter().map(|disk| disk.rt_bytes.get().wrapping_add(disk.be_bytes.get())).sum(),
            phases: gauges.disks.iter().map(|disk| disk.phase_nanos.each_ref().map(|gauge| gauge.get())).collect(),
        }
    }
}
