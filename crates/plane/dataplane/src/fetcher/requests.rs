//! Reading ahead: the blocks that streams want, the part of them in the buffers, the requests to the disks.

use schedule::disk::step::Step;
use storage::grant::Grant;

use super::issue::WantedRead;
use super::*;

/// Most decisions of a disk in one turn of the plane. Chosen.
const STEPS_PER_TURN: usize = 256;

impl Fetcher {
    /// At each round of each disk: blocks for later rounds are requested, waiting streams may start.
    pub(super) fn begin_rounds<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for disk in self.sources.ids() {
            let Some(round) = self.sources[disk].next_round(context.now) else { continue };
            let spins = self.sources[disk].spins();
            for nth in 0..self.sources[disk].streams.len() {
                let slot = self.sources[disk].streams[nth];
                if spins && self.streams[slot].is_due(round) {
                    self.streams[slot].read_ahead(round, (&mut self.sources, &mut self.buffers), context);
                }
            }
            let conditions = self.sources[disk].start_conditions(context.now);
            context.tell_admitter(ToAdmitter::Round { disk, conditions });
        }
    }

    /// At the end of each send, and at a tick without one: from flash a stream reads on, and a follower
    /// follows them.
    pub(super) fn read_on<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot];
        if stream.life() != ReadsLife::Running {
            return;
        }
        if stream.leader().is_some() {
            self.follow(slot, context);
        } else if stream.is_short() && !self.sources[stream.disk()].spins() {
            self.streams[slot].read_ahead(0, (&mut self.sources, &mut self.buffers), context);
        }
    }

    /// Asks each disk's schedule for its next action until it says: wait.
    pub(crate) fn ask_disks<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for disk in self.sources.ids() {
            let is_hung = self.sources[disk].health.is_hung();
            if is_hung || !self.reads.retry(disk, (&mut self.sources, &self.buffers), context) {
                continue;
            }
            for _ in 0..STEPS_PER_TURN {
                match self.sources[disk].schedule.next(context.now) {
                    Step::Read { slot, bytes_max, real_time } => {
                        let (stream, disks) = (&mut self.streams[slot], (&self.sources, &mut self.buffers));
                        let wanted = WantedRead { disk, bytes_max, real_time };
                        let Some(issued) = self.reads.issue(stream, wanted, disks, context) else {
                            if real_time {
                                break;
                            }
                            self.streams[slot].postpone(&mut self.sources, context);
                            continue;
                        };
                        self.sources[disk].schedule.issued(slot, issued, context.now);
                        self.streams[slot].ask_next(&mut self.sources, disk, &self.buffers, context.now);
                        if issued.bytes == 0 {
                            self.run_if_ready(slot, context);
                        }
                    }
                    Step::Grant { job, bytes_max, until } => {
                        context.io.grant(Grant { disk, job, bytes_max, until });
                    }
                    Step::Wait => break,
                }
            }
        }
    }
}
