//! All counts of the server at one time; rates are the differences of two readings.
//!
//! Promise: reading them costs the data plane nothing. Not here: the figures computed from them
//! (`figures`).

use std::sync::Mutex;
use std::time::Instant;

use dataplane::gauges::Gauges;
use tokio::sync::watch;

use crate::lock::lock;
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

/// The last two readings, a second apart, the older first.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    last: Mutex<(Option<AllCounts>, Option<AllCounts>)>,
    /// Readings since the start.
    number: watch::Sender<u64>,
}

impl Readings {
    /// Adds the newest.
    pub(crate) fn add(&self, counts: AllCounts) {
        let mut last = lock(&self.last);
        last.0 = last.1.replace(counts);
        drop(last);
        self.number.send_modify(|number| *number += 1);
    }

    /// Their number, which changes with every further one.
    pub(crate) fn number(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }

    /// Both; none before the second.
    pub(crate) fn last(&self) -> Option<(AllCounts, AllCounts)> {
        let (older, newer) = lock(&self.last).clone();
        older.zip(newer)
    }
}

impl AllCounts {
    /// Reads them. The machine is read by the caller, where reading may take its time.
    pub(crate) fn read(gauges: &Gauges, uploaded_bytes: u64, machine: Option<MachineSample>) -> Self {
        Self {
            at: Instant::now(),
            machine,
            sent_bytes: gauges.plane.sent_bytes.get(),
            lent_bytes: gauges.plane.lent_bytes.get(),
            uploaded_bytes,
            disk_bytes: gauges.disks.iter().map(|disk| disk.rt_bytes.get().wrapping_add(disk.be_bytes.get())).sum(),
            phases: gauges.disks.iter().map(|disk| disk.phase_nanos.each_ref().map(|gauge| gauge.get())).collect(),
        }
    }
}
