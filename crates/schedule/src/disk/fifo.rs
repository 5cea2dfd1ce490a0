//! For comparison only, as HiTactix was compared (§5): one queue in order of arrival for everybody.
//!
//! Not here: the discipline that serves (`disk`); buffers and depth are the same.

use units::{Nanos, limits};

use super::best_effort::WorkOwner;
use super::{Discipline, DiskSchedule, GrantKind, Step};

/// What one request of the FIFO comparison may carry: the paper's writer asks for 10 MB at a time.
pub const FIFO_BYTES_MAX: u64 = 10_000_000;

impl DiskSchedule {
    /// Arrival order, both classes alike, requests uncut. Same buffers, same depth.
    pub(super) fn next_fifo(&mut self, now: Nanos) -> Step {
        if self.grant.is_some() || self.reads_in_flight >= self.cost.profile().queue_depth {
            return Step::Wait;
        }
        let Some(&owner) = self.arrivals.first() else { return Step::Wait };
        match owner {
            WorkOwner::Stream(slot) => {
                if let Some(request) = self.rt.find(slot) {
                    return Step::Read { slot, bytes_max: request.bytes.min(limits::CHUNK_BYTES), real_time: true };
                }
                Step::Read { slot, bytes_max: limits::CHUNK_BYTES, real_time: false }
            }
            WorkOwner::Job(job) => {
                if self.reads_in_flight > 0 && self.cost.profile().rotational {
                    return Step::Wait;
                }
                self.arrivals.remove(0);
                let position = self.position_of(job);
                self.be.remove(WorkOwner::Job(job));
                self.hand_out(job, GrantKind::Write, position, FIFO_BYTES_MAX, Nanos::MAX, now)
            }
        }
    }

    pub(super) fn arrive(&mut self, owner: WorkOwner) {
        if self.settings.discipline == Discipline::Fifo && !self.arrivals.contains(&owner) {
            self.arrivals.push(owner);
        }
    }

    pub(super) fn forget_arrival_if_served(&mut self, owner: WorkOwner) {
        if self.settings.discipline == Discipline::Fifo {
            let WorkOwner::Stream(slot) = owner else { return };
            if self.rt.find(slot).is_none() && !self.be.wants(owner) {
                self.arrivals.retain(|other| *other != owner);
            }
        }
    }
}
