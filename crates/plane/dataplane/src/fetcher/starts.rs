//! Starts: the conditions of a start on its disk, and the arrival of its first bytes.
//!
//! Promise: a clock begins to run when the first bytes are in the buffers and the disk can keep its promises from then on.
//! Not here: reading (`reads`), sharing the reads of others (`groups`), the charge of a start (`schedule::admission`), a
//! stream's clock (`pacer`).

use super::read_ahead::WINDOW_BYTES;
use super::*;

/// Ticks of its rate that a stream has in the buffers before its clock runs. Chosen: one is sent, the next is handed to the engine, and
/// one may come late.
const START_TICKS: u64 = 3;

impl Fetcher {
    /// Starts a stream at once, without the disk, if all of its bytes lie in the buffers and within its window; else
    /// reports that it waits.
    pub(super) fn wait_for_start<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot];
        let window = stream.window(&self.sources[stream.disk()]);
        if !stream.is_buffered(window, &self.buffers) {
            let conditions = stream.start_conditions(&self.sources, context);
            return context.tell_admitter(ToAdmitter::Waits { slot, conditions });
        }
        context.tell_admitter(ToAdmitter::Started { slot });
        stream.want_all(window);
        stream.start();
        stream.take_buffered(&mut self.buffers, context);
        self.run_if_ready(slot, context);
        assert_eq!(self.streams[slot].life(), ReadsLife::Running, "all it needs is there");
    }

    /// An admitted stream has its place: its first bytes are read.
    pub(super) fn start<I: Io>(&mut self, slot: u32, start: PlacedStart, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot];
        stream.plan_from(start);
        stream.start();
        stream.read_ahead(start.round, (&mut self.sources, &mut self.buffers), context);
        self.run_if_ready(slot, context);
    }

    /// A stream that was demoted has a reservation again: it starts once more, where it is.
    pub(super) fn promote<I: Io>(
        &mut self,
        slot: u32,
        rate: ReadRate,
        start: PlacedStart,
        age: u64,
        context: &mut PlaneContext<I>,
    ) {
        if self.streams[slot].life() != ReadsLife::Running {
            return;
        }
        self.streams[slot].keep_until(0, &mut self.buffers, context);
        self.streams[slot].ask_nothing(&mut self.sources);
        self.buffers.end_delivery();
        self.streams[slot].await_start(ReadPlan::new(rate, age), context.now, &mut self.sources);
        self.start(slot, start, context);
    }

    /// A stream has lost its reservation: its reads get the disk time left over, and it keeps as many pages in the buffers
    /// as others of its kind.
    pub(super) fn demote<I: Io>(&mut self, slot: u32, at: Nanos, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot];
        let life = stream.life();
        if life == ReadsLife::Free || stream.is_best_effort() {
            return;
        }
        // This comes first, while the stream still has disk time to hand over to a follower.
        self.leave_group(slot, context);
        self.streams[slot].leave_starting(&mut self.sources);
        self.streams[slot].ask_nothing(&mut self.sources);
        if life != ReadsLife::Ending {
            let until = self.streams[slot].sent() + WINDOW_BYTES + CACHE_PAGE_BYTES;
            let kept = self.streams[slot].keep_until(until, &mut self.buffers, context);
            self.streams[slot].lose_plan();
            self.streams[slot].begin_delivery(kept, &mut self.buffers);
        }
        context.tell_admitter(ToAdmitter::Demoted { slot, at });
    }

    /// A starting stream begins to run once its first bytes are in the buffers.
    pub(super) fn run_if_ready<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot];
        if stream.life() != ReadsLife::Starting || !self.streams.leader_runs(slot) {
            return;
        }
        let Some(ReadPlan { rate: ReadRate { rate, .. }, .. }) = stream.plan() else { return };
        // A block is sent once all of it is in the buffers: it comes in one go, and then waits for the disk no more.
        let first_ticks = rate.bytes_in(context.config.tick.saturating_mul(START_TICKS));
        if !stream.has_first_bytes(if stream.is_whole() { stream.payload() } else { first_ticks }, &self.buffers) {
            return;
        }
        if stream.is_whole() {
            if stream.leader().is_some() {
                // It holds all that it will send.
                self.leave_group(slot, context);
            }
            return self.streams[slot].begin_to_run(&mut self.sources, context);
        }
        if self.streams.can_keep_pace(slot, &self.sources, context.config.tick, context.now) {
            self.streams[slot].begin_to_run(&mut self.sources, context);
        }
    }

    /// The starting streams of a disk begin to run if their first bytes are in the buffers.
    pub(super) fn run_those_ready<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        // In the order in which they came: a stream that shares another's reads starts after that one.
        let mut nth = 0;
        while let Some(&slot) = self.sources[disk].starting.get(nth) {
            self.streams.take_behind_leader(slot, &mut self.buffers, context);
            self.run_if_ready(slot, context);
            nth += usize::from(self.sources[disk].starting.get(nth) == Some(&slot));
        }
    }

    /// Reports streams without their first bytes after the time to first byte, with a place in the time table or without: a refusal is better
    /// for a viewer than no answer.
    pub(crate) fn report_late_starts<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for source in self.sources.iter() {
            let (waits_max, now) = (context.config.first_byte_max, context.now);
            for &slot in source.starting.iter().filter(|&&slot| self.streams[slot].is_late(waits_max, now)) {
                context.tell_admitter(ToAdmitter::StartsTooLate { slot });
            }
        }
    }
}
