//! Figures of a run, for people: those of each of its parts.

use crate::audit::DiskTally;
use crate::disk::Spent;
use crate::ledger::DeliveryTally;
use crate::writers::WriteTally;

/// Figures of a run, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Deliveries.
    pub deliveries: DeliveryTally,
    /// Uploads and recordings.
    pub writes: WriteTally,
    /// The disks.
    pub disks: DiskTally,
    /// Pauses of viewers that had their rate.
    pub pauses: u64,
    /// Events reported by the plane.
    pub events: u64,
    /// Figures between the end of the faults and the end of the requests.
    pub calm: Calm,
}

/// Work of all disks in a time without faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calm {
    /// Where their time went.
    pub spent: Spent,
    /// Uploads and recordings.
    pub writes: WriteTally,
}

impl Calm {
    /// The difference between `before` and this.
    #[must_use]
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self { spent: self.spent.since(&before.spent), writes: self.writes.since(&before.writes) }
    }
}
