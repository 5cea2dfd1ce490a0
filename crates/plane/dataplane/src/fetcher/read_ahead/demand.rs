//! Demand of a stream: its requests to the schedules of its disks.
//!
//! Not here: how far it reads ahead (`read_ahead`), the order of the reads (`schedule::disk`).

use schedule::disk::best_effort::{BeWork, WorkOwner};
use schedule::disk::real_time::RtRequest;

use super::*;

impl ReadAhead {
    /// Requests, from the disk of its next byte, the bytes it wants there by `deadline`.
    pub(in super::super) fn ask_real_time(&self, sources: &mut Sources, deadline: Nanos) {
        let (Some((kind, rate)), Some(next)) = (self.kind(), self.next_piece(sources)) else { return };
        let position = next.position.unwrap_or(0);
        let request = RtRequest { slot: self.slot(), position, bytes: next.length, deadline, rate: rate.rate, kind };
        sources[next.disk].schedule.put_read(request);
    }

    /// Requests, from all disks at once, the wanted bytes that no stream has read, if it has no reservation.
    pub(in super::super) fn ask_best_effort(&self, sources: &mut Sources, buffers: &BufferPool) {
        for disk in self.content().layout.disks() {
            if sources[*disk].schedule.wants(self.slot()) {
                continue;
            }
            let Some(missing) = self.missing_on(*disk, sources, buffers) else { continue };
            let work = BeWork::Read { slot: self.slot(), position: missing.position, bytes: missing.wanted };
            sources[*disk].schedule.put_job(work);
        }
    }

    /// Requests its next bytes, in the class in which it is served.
    pub(in super::super) fn ask_again(&self, sources: &mut Sources, buffers: &BufferPool, now: Nanos) {
        if !self.is_best_effort() {
            self.ask_real_time(sources, self.due(now));
        } else {
            self.ask_best_effort(sources, buffers);
        }
    }

    /// Requests from the next disk once it got the wanted bytes of one.
    pub(in super::super) fn ask_next(&self, sources: &mut Sources, disk: DiskId, buffers: &BufferPool, now: Nanos) {
        let on_one_disk = self.content().layout.disks().len() == 1;
        if !on_one_disk && self.reads() && !sources[disk].schedule.wants(self.slot()) {
            self.ask_again(sources, buffers, now);
        }
    }

    /// Takes back its requests to disks.
    pub(in super::super) fn ask_nothing(&self, sources: &mut Sources) {
        for disk in self.content().layout.disks() {
            sources[*disk].schedule.remove(WorkOwner::Stream(self.slot()));
        }
    }
}
