//! Starts: the conditions of a start on its disk, and the arrival of its first bytes.
//!
//! Promise: a clock begins to run when the first bytes are in the buffers and the disk can keep its promises from then on.
//! Not here: reading (`reads`), sharing the reads of others (`sharing`), the charge of a start (`schedule::admission`), a
//! stream's clock (`pacer`).

use schedule::admission::disk_table::StartConditions;
use schedule::disk::real_time::START_BYTES;
use schedule::pace::Stride;

use super::*;
use crate::cache::PageState;
use crate::control::Outcome;

/// Ticks of its rate that a stream has in the buffers before its clock runs. Chosen: one is sent, the next is handed to the engine, and
/// one may come late.
const START_TICKS: u64 = 3;
/// Ticks by which the buffered bytes of a start outlast the promise of the next read. Follows: a read is reported in one tick and sent in
/// the next.
const MARGIN_TICKS: u64 = 2;

impl Fetcher {
    /// Begins a delivery without a reservation, which gets the disk time left over.
    pub(super) fn begin_best_effort(&mut self, slot: u32) {
        self.streams[slot as usize].life = ReadsLife::Running;
        self.best_effort.0 += 1;
    }

    /// Starts a stream at once, without the disk, if all of its bytes lie in the buffers and within its window; else
    /// reports that it waits.
    pub(super) fn wait_for_start<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let window = self.window(slot);
        let stream = &self.streams[slot as usize];
        let mut cursor = stream.fetch;
        while let Some((key, _, left)) = cursor.next_content(stream.segment_list()) {
            cursor.pass(left);
            let page = self.cache.find(key).map(|page| self.cache.state(page));
            if !matches!(page, Some(PageState::Ready(_))) || cursor.payload > window {
                let conditions = self.start_conditions(slot, context.now);
                return context.tell_admitter(ToAdmitter::Waits { slot, conditions });
            }
        }
        context.tell_admitter(ToAdmitter::Started { slot });
        let stream = &mut self.streams[slot as usize];
        (stream.target, stream.ahead) = (stream.payload, window);
        self.reads_nothing(slot);
        self.list_as_starting(slot);
        self.take_buffered(slot, context);
        self.run_if_ready(slot, context);
        assert_eq!(self.streams[slot as usize].life, ReadsLife::Running, "all it needs is there");
    }

    /// A stream has no regular reads: all it needs is there, or another reads it.
    pub(super) fn reads_nothing(&mut self, slot: u32) {
        if let Some(plan) = &mut self.streams[slot as usize].plan {
            plan.next_round = u64::MAX;
        }
    }

    pub(super) fn list_as_starting(&mut self, slot: u32) {
        self.streams[slot as usize].life = ReadsLife::Starting;
        let disk = self.streams[slot as usize].disk;
        self.disk_mut(disk).starting.push(slot);
    }

    /// An admitted stream has its place: its first bytes are read.
    pub(super) fn start<I: Io>(&mut self, slot: u32, start: PlacedStart, context: &mut PlaneContext<I>) {
        self.plan_from(slot, start);
        self.list_as_starting(slot);
        self.read_ahead(slot, start.round, context);
        self.run_if_ready(slot, context);
    }

    /// A stream's regular reads begin.
    pub(super) fn plan_from(&mut self, slot: u32, start: PlacedStart) {
        if let Some(plan) = &mut self.streams[slot as usize].plan {
            (plan.first_round, plan.next_round, plan.gap) = (start.first_round, start.round, 0);
            plan.block = start.block;
        }
    }

    /// The conditions that a start of this stream would meet now.
    pub(super) fn start_conditions(&self, slot: u32, now: Nanos) -> StartConditions {
        let stream = &self.streams[slot as usize];
        let disk = self.disk(stream.disk);
        let round = disk.rounds.index_at(now);
        let left = disk.rounds.start_of(round + 1).saturating_sub(now);
        let remaining = left.as_secs_f64() / disk.rounds.period().as_secs_f64();
        let payload_bytes = stream.payload - stream.send.payload;
        let (queued_seconds, waiting_seconds) = (disk.schedule.queued_seconds(now), disk.schedule.waiting_seconds(now));
        StartConditions { round, remaining, queued_seconds, waiting_seconds, payload_bytes }
    }

    /// Asks for the reservation of a demoted stream again, with the conditions that its start would meet.
    pub(super) fn ask_back<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let conditions = self.start_conditions(slot, context.now);
        context.tell_admitter(ToAdmitter::AsksBack { slot, conditions });
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
        if self.streams[slot as usize].life != ReadsLife::Running {
            return;
        }
        self.keep_until(slot, 0, context);
        self.ask_nothing(slot);
        self.best_effort.0 -= 1;
        let stream = &mut self.streams[slot as usize];
        stream.plan = Some(ReadPlan::new(rate, age));
        stream.pace = None;
        self.start(slot, start, context);
    }

    /// A stream has lost its reservation: its reads get the disk time left over, and it keeps as many pages in the buffers
    /// as others of its kind.
    pub(super) fn demote<I: Io>(&mut self, slot: u32, at: Nanos, context: &mut PlaneContext<I>) {
        let life = self.streams[slot as usize].life;
        if life == ReadsLife::Free || self.streams[slot as usize].plan.is_none() {
            return;
        }
        // This comes first, while the stream still has disk time to hand over to one that shares its reads.
        self.leave_group(slot, context);
        self.leave_starting(slot);
        self.ask_nothing(slot);
        if life != ReadsLife::Ending {
            let until = self.streams[slot as usize].send.payload + best_effort::WINDOW_BYTES + CACHE_PAGE_BYTES;
            let kept = self.keep_until(slot, until, context);
            self.streams[slot as usize].plan = None;
            self.begin_best_effort(slot);
            self.best_effort.1 += kept;
        }
        context.tell_admitter(ToAdmitter::Demoted { slot, at });
    }

    /// A starting stream begins to run once its first bytes are there.
    pub(super) fn run_if_ready<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot as usize];
        let leads = |leader: u32| self.streams[leader as usize].life == ReadsLife::Running;
        if stream.life != ReadsLife::Starting || !stream.leader.is_none_or(leads) {
            return;
        }
        let Some(ReadPlan { rate: ReadRate { rate, .. }, .. }) = stream.plan else { return };
        // A block is sent once all of it is there: it comes in one go, and then waits for the disk no more.
        let first_ticks = rate.bytes_in(context.config.tick.saturating_mul(START_TICKS));
        if !self.start_is_there(slot, if stream.is_whole() { stream.payload } else { first_ticks }) {
            return;
        }
        let tick = Stride::of(rate, context.config.tick).span(context.config.tick);
        if stream.is_whole() {
            if stream.leader.is_some() {
                // It holds all that it will send.
                self.leave_group(slot, context);
            }
            return self.begin_to_run(slot, context);
        }
        // The buffered bytes may last shorter than the work that its disk has to do first, a grant or promised reads:
        // the stream's clock must not run before the rest can be there in time.
        let there = stream.fetch.payload - stream.send.payload;
        let lasts = rate.time_for(there + 1).saturating_sub(tick.saturating_mul(MARGIN_TICKS));
        let (reader, disk) = self.next_reader(slot);
        if self.disk(disk).schedule.can_promise(reader, context.now.saturating_add(lasts), context.now) {
            self.begin_to_run(slot, context);
        }
    }

    fn begin_to_run<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.leave_starting(slot);
        self.streams[slot as usize].life = ReadsLife::Running;
        let block = self.streams[slot as usize].plan.and_then(|plan| plan.block);
        context.tell_pacer(ToPacer::Run { slot, block });
    }

    /// The stream that reads for this one, and the disk of its next read.
    fn next_reader(&self, slot: u32) -> (u32, DiskId) {
        let stream = &self.streams[slot as usize];
        let reader = stream.leader.unwrap_or(slot);
        (reader, self.next_piece(reader).map_or(stream.disk, |next| next.disk))
    }

    /// Sets the deadline of a stream's next bytes by its clock, which runs.
    pub(super) fn promise_next(&mut self, slot: u32) {
        let (reader, disk) = self.next_reader(slot);
        let Some(pace) = self.streams[slot as usize].pace else { return };
        let deadline = pace.promised_at(self.streams[slot as usize].fetch.payload + 1);
        self.disk_mut(disk).schedule.promise(reader, deadline);
    }

    /// The starting streams of a disk begin to run if their first bytes are there.
    pub(super) fn run_those_ready<I: Io>(&mut self, disk: usize, context: &mut PlaneContext<I>) {
        // In the order in which they came: a stream that shares another's reads starts after that one.
        let mut nth = 0;
        while let Some(&slot) = self.disks[disk].starting.get(nth) {
            self.take_behind_leader(slot, context);
            self.run_if_ready(slot, context);
            nth += usize::from(self.disks[disk].starting.get(nth) == Some(&slot));
        }
    }

    /// Whether a stream's first bytes are there: three ticks' worth at least. The second follows the first at once, and the
    /// third must not wait for a read that their end asked for.
    fn start_is_there(&self, slot: u32, three_ticks: u64) -> bool {
        let stream = &self.streams[slot as usize];
        let (mut cursor, enough) = (stream.send, START_BYTES.max(three_ticks));
        while let Some((key, _, left)) = cursor.next_content(stream.segment_list()) {
            if cursor.payload - stream.send.payload >= enough {
                return true;
            }
            if cursor.payload >= stream.fetch.payload {
                // A slow stream's first block can be less than a usual start: then all requested bytes are enough. A
                // stream that cannot be read any further runs as well, so that its client receives the error.
                let wanted = if stream.is_whole() { stream.payload } else { stream.target };
                return stream.fetch.payload >= wanted && (wanted > 0 || stream.is_cut);
            }
            match self.cache.find(key).map(|page| self.cache.state(page)) {
                Some(PageState::Ready(_)) => cursor.pass(left),
                Some(PageState::Reading | PageState::Empty) | None => return false,
            }
        }
        true
    }

    /// Ends streams without their first bytes after the time to first byte: a refusal is better for a viewer than no
    /// answer.
    pub(crate) fn end_late_starts<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for disk in &self.disks {
            for &slot in disk.starting.iter().rev() {
                let stream = &self.streams[slot as usize];
                // The block of a session may be due later, and is read by then.
                let due = stream.plan.and_then(|plan| plan.block).map(|block| block.read_by).unwrap_or(stream.started);
                let since = stream.started.max(due);
                let late = context.now.saturating_sub(since) >= context.config.first_byte_max;
                if late && stream.send == Cursor::default() {
                    context.tell_pacer(ToPacer::Finish { slot, outcome: Outcome::StartTooLate });
                }
            }
        }
    }
}
