//! Reading ahead: the blocks that streams want, the part of them in the buffers, the requests to the disks.

use schedule::disk::Step;
use storage::grant::Grant;

use super::*;

/// Decisions asked of a disk in one turn at most. Chosen.
const STEPS_PER_TURN: usize = 256;

impl Fetcher {
    /// At each round of each disk: blocks for later rounds are asked for, waiting streams may start.
    pub(super) fn begin_rounds<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for disk in self.sources.ids() {
            let Some(round) = self.sources[disk].next_round(context.now) else { continue };
            let spins = self.sources[disk].spins();
            for nth in 0..self.sources[disk].streams.len() {
                let slot = self.sources[disk].streams[nth];
                if spins && self.streams[slot].is_due(round) {
                    self.read_ahead(slot, round, context);
                }
            }
            let conditions = self.sources[disk].start_conditions(context.now);
            context.tell_admitter(ToAdmitter::Round { disk, conditions });
        }
    }

    /// At the end of each send, and at a tick without one: from flash a stream reads on, and one that shares another's reads
    /// follows them.
    pub(super) fn read_on<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot];
        if stream.life() != ReadsLife::Running {
            return;
        }
        if stream.leader().is_some() {
            self.follow(slot, context);
        } else if stream.is_short() && !self.sources[stream.disk()].spins() {
            self.read_ahead(slot, 0, context);
        }
    }

    /// Sets how far a constant-rate stream shall have read ahead in `round`, takes the pages that the buffers have, and asks its disk for
    /// the rest.
    pub(super) fn read_ahead<I: Io>(&mut self, slot: u32, round: u64, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot];
        let source = &self.sources[stream.disk()];
        let Some(due) = stream.look_ahead(round, source, context.now) else { return };
        self.take_buffered(slot, context);
        self.sources.ask_real_time(slot, &self.streams[slot], due);
    }

    /// A delivery finds no buffer: it asks again in its next step, and does not keep its disk from others meanwhile
    /// (uploads stood still behind it).
    fn postpone<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot];
        stream.want_no_more();
        let has_pages = stream.holds_pages();
        self.sources.ask_nothing(slot, &self.streams[slot]);
        context.tell_pacer(ToPacer::Continue { slot, has_pages });
    }

    /// Passes over the pages that the buffers have (or another stream already reads), as far as the stream wants them.
    /// Returns the bytes passed.
    pub(super) fn take_buffered<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) -> u64 {
        let stream = &mut self.streams[slot];
        let passed = stream.take_buffered(&mut self.buffers, &context.gauges);
        if passed > 0 {
            context.tell_pacer(ToPacer::Fetched { slot, payload: stream.fetched() });
        }
        passed
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
                        let Some(issued) = self.issue(disk, slot, bytes_max, real_time, context) else {
                            if real_time {
                                break;
                            }
                            self.postpone(slot, context);
                            continue;
                        };
                        self.sources[disk].schedule.issued(slot, issued, context.now);
                        self.sources.ask_next(slot, &self.streams[slot], disk, &self.buffers, context.now);
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

    /// Gives back the pages that end behind `until` in a stream's payload, and those read out of turn. Gives how many pages it keeps.
    pub(super) fn keep_until<I: Io>(&mut self, slot: u32, until: u64, context: &mut PlaneContext<I>) -> u32 {
        let stream = &mut self.streams[slot];
        let pages = stream.keep_until(until, &mut self.buffers);
        context.tell_pacer(ToPacer::Fetched { slot, payload: stream.fetched() });
        pages
    }
}
