//! Store threads: their offers go to their disk's schedule, its grants go to them.

use schedule::disk::best_effort::{BeWork, Commit, WorkOwner};
use schedule::disk::due_writes::DueWrite;
use storage::grant::{GrantDone, Offer, StoreMessage, StoreWork, WorkClass};

use super::*;

/// Messages taken in between two looks at the clock. Chosen.
const MESSAGES_PER_TURN: usize = 64;

impl Fetcher {
    /// True if there may be more.
    pub(crate) fn take_store_messages<I: Io>(&mut self, context: &mut PlaneContext<I>) -> bool {
        for _ in 0..MESSAGES_PER_TURN {
            match context.io.store_message() {
                Some(StoreMessage::Offer(offer)) => self.offered(offer),
                Some(StoreMessage::Withdraw { disk, job }) => {
                    if let Some(disk) = self.disks.get_mut(usize::from(disk.0)) {
                        disk.schedule.remove(WorkOwner::Job(job));
                    }
                }
                Some(StoreMessage::Done(done)) => self.grant_done(done, context),
                Some(StoreMessage::Placed { disk, reservation, position }) => {
                    context.tell_admitter(ToAdmitter::Written { disk, reservation, position });
                }
                None => return false,
            }
        }
        true
    }

    fn offered(&mut self, offer: Offer) {
        let Some(disk) = self.disks.get_mut(usize::from(offer.disk.0)) else { return };
        let job = offer.job;
        match (offer.work, offer.class) {
            (StoreWork::Write { bytes: 0, .. }, _) => {}
            (StoreWork::Write { bytes, position }, WorkClass::RealTime { deadline, .. }) => {
                disk.schedule.put_write(DueWrite { job, position, bytes, deadline });
            }
            (StoreWork::Write { bytes, position }, WorkClass::BestEffort) => {
                disk.schedule.put_job(BeWork::Write { job, position, bytes });
            }
            (StoreWork::Probe { reads, bytes }, _) => disk.schedule.put_job(BeWork::Probe { job, reads, bytes }),
            (StoreWork::Commit { dirty_bytes, awaited }, _) => {
                disk.schedule.put_commit(Commit { job, dirty_bytes, awaited });
            }
        }
    }

    fn grant_done<I: Io>(&mut self, done: GrantDone, context: &mut PlaneContext<I>) {
        let Some(disk) = self.disks.get_mut(usize::from(done.disk.0)) else { return };
        disk.schedule.grant_done(done.bytes, done.started, done.ended);
        // The grant itself may have hung, with no read out to show by its answer that the disk is back.
        let mut changed = disk.health.answered();
        if !done.ok {
            context.gauges.disks[usize::from(done.disk.0)].errors.add(1);
            changed |= disk.health.write_failed(done.ended);
        }
        if changed {
            self.tell_condition(done.disk, context);
            self.leave_disk(done.disk, context);
        }
        // A starting stream is listed at one of its content's disks, and may wait for another one.
        (0..self.disks.len()).for_each(|disk| self.run_those_ready(disk, context));
        if done.ready_bytes > 0 {
            let work = BeWork::Write { job: done.job, position: done.position, bytes: done.ready_bytes };
            self.disks[usize::from(done.disk.0)].schedule.put_job(work);
        }
    }
}
