//! Store threads: their offers go to their disk's schedule, its grants go to them.

use schedule::disk::best_effort::BeWork;
use storage::grant::{GrantDone, StoreMessage};

use super::*;

/// Messages taken in between two looks at the clock. Chosen.
const MESSAGES_PER_TURN: usize = 64;

impl Fetcher {
    /// True if there may be more.
    pub(crate) fn take_store_messages<I: Io>(&mut self, context: &mut PlaneContext<I>) -> bool {
        for _ in 0..MESSAGES_PER_TURN {
            match context.io.store_message() {
                Some(StoreMessage::Offer(offer)) => self.sources.offered(offer),
                Some(StoreMessage::Withdraw { disk, job }) => self.sources.withdraw(disk, job),
                Some(StoreMessage::Done(done)) => self.grant_done(done, context),
                Some(StoreMessage::Placed { disk, reservation, position }) => {
                    context.tell_admitter(ToAdmitter::Written { disk, reservation, position });
                }
                None => return false,
            }
        }
        true
    }

    fn grant_done<I: Io>(&mut self, done: GrantDone, context: &mut PlaneContext<I>) {
        let Some(source) = self.sources.get_mut(done.disk) else { return };
        let changed = source.grant_done(&done);
        if !done.ok {
            context.gauges.disks[usize::from(done.disk.0)].errors.add(1);
        }
        if changed {
            self.condition_changed(done.disk, context);
        }
        // A starting stream is listed at one of its content's disks, and may wait for another one.
        self.sources.ids().for_each(|disk| self.run_those_ready(disk, context));
        if done.ready_bytes > 0 {
            let work = BeWork::Write { job: done.job, position: done.position, bytes: done.ready_bytes };
            self.sources[done.disk].schedule.put_job(work);
        }
    }
}
