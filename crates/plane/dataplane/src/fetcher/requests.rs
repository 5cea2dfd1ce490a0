//! Reading ahead: the blocks that streams want, the part of them in the buffers, the requests to the disks.

use content::layout::Piece;
use schedule::admission::disk_table::{LOOKAHEAD_ROUNDS, next_read};
use schedule::disk::Step;
use schedule::disk::best_effort::WorkOwner;
use schedule::disk::real_time::{ReadKind, RtRequest};
use storage::grant::Grant;
use units::limits::CACHE_PAGE_BYTES;

use super::*;

/// Decisions asked of a disk in one turn at most. Chosen.
const STEPS_PER_TURN: usize = 256;

impl Fetcher {
    /// At each round of each disk: blocks for later rounds are asked for, waiting streams may start.
    pub(super) fn begin_rounds<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for index in 0..self.disks.len() {
            let disk = &mut self.disks[index];
            let round = disk.rounds.index_at(context.now);
            if round <= disk.round || disk.health.is_hung() {
                continue;
            }
            disk.round = round;
            for nth in 0..self.disks[index].streams.len() {
                let slot = self.disks[index].streams[nth];
                let stream = &self.streams[slot as usize];
                let is_due = stream.plan.is_some_and(|plan| plan.next_round <= round);
                if is_due && stream.is_active() && self.disks[index].spins {
                    self.read_ahead(slot, round, context);
                }
            }
            context.tell_admitter(ToAdmitter::Round { disk: id_of(index) });
        }
    }

    /// At the end of each send, and at a tick without one: from flash a stream reads on, and one that shares another's reads
    /// follows them.
    pub(super) fn read_on<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &self.streams[slot as usize];
        if stream.life != ReadsLife::Running {
            return;
        }
        let wanted = stream.send.payload.saturating_add(stream.ahead).min(stream.payload);
        if stream.leader.is_some() {
            self.follow(slot, context);
        } else if stream.fetch.payload < wanted && !self.disk(stream.disk).spins {
            self.read_ahead(slot, 0, context);
        }
    }

    /// Sets how far a constant-rate stream shall have read ahead, takes the pages that the buffers have, and asks its
    /// disk for the rest. On a spinning disk this is a regular (or start) read in `round`; on flash it happens at every
    /// tick.
    pub(super) fn read_ahead<I: Io>(&mut self, slot: u32, round: u64, context: &mut PlaneContext<I>) {
        let window = self.window(slot);
        let stream = &mut self.streams[slot as usize];
        let disk = &self.disks[usize::from(stream.disk.0)];
        let Some(plan) = &mut stream.plan else { return };
        let mut wanted = u64::MAX;
        if plan.rate.whole {
            plan.next_round = u64::MAX;
        } else if disk.spins {
            (plan.next_round, plan.gap) = next_read(round, plan.gap, plan.first_round, plan.rate.period);
            let until = disk.rounds.start_of(plan.next_round + LOOKAHEAD_ROUNDS);
            wanted = match stream.pace {
                Some(pace) => pace.due_bytes(until),
                None => {
                    let ReadRate { rate, burst_bytes, .. } = plan.rate;
                    stream.send.payload + rate.bytes_in(until.saturating_sub(context.now)) + burst_bytes
                }
            };
        }
        // Buffered pages do not postpone the deadline: the first byte that is to be read may be due earlier than the one behind
        // it.
        let due = stream.due(context.now);
        stream.ahead = window;
        stream.target = wanted.min(stream.send.payload + window).min(stream.payload).max(stream.target);
        self.take_buffered(slot, context);
        self.ask_real_time(slot, due);
    }

    /// Asks the disk on which a stream's next byte lies for the bytes it wants there by `deadline`.
    pub(super) fn ask_real_time(&mut self, slot: u32, deadline: Nanos) {
        let stream = &self.streams[slot as usize];
        let (Some(plan), Some(next)) = (stream.plan, self.next_piece(slot)) else { return };
        let request = RtRequest {
            slot,
            position: next.position.unwrap_or(0),
            bytes: next.length,
            deadline,
            rate: plan.rate.rate,
            kind: match stream.life {
                _ if plan.block.is_some_and(|block| block.is_first) => ReadKind::FirstWhole,
                _ if plan.rate.whole => ReadKind::Whole,
                ReadsLife::Starting => ReadKind::Start,
                _ => ReadKind::Regular,
            },
        };
        self.disk_mut(next.disk).schedule.put_read(request);
    }

    /// A stream that got the wanted bytes of one disk asks the next.
    fn ask_next(&mut self, slot: u32, disk: usize, now: Nanos) {
        let stream = &self.streams[slot as usize];
        let on_one_disk = stream.content().layout.disks().len() == 1;
        if !on_one_disk && stream.reads() && !self.disks[disk].schedule.wants(slot) {
            self.ask_again(slot, now);
        }
    }

    /// Asks for a stream's next bytes, in the class in which it is served.
    pub(super) fn ask_again(&mut self, slot: u32, now: Nanos) {
        let stream = &self.streams[slot as usize];
        if stream.plan.is_some() {
            self.ask_real_time(slot, stream.due(now));
        } else {
            self.ask_best_effort(slot);
        }
    }

    /// Takes back a stream's requests to disks.
    pub(super) fn ask_nothing(&mut self, slot: u32) {
        for disk in self.streams[slot as usize].content.as_ref().expect("a slot in use has its content").layout.disks()
        {
            self.disks[usize::from(disk.0)].schedule.remove(WorkOwner::Stream(slot));
        }
    }

    /// A delivery finds no buffer: it asks again in its next step, and does not keep its disk from others meanwhile
    /// (uploads stood still behind it).
    fn postpone<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        stream.target = stream.fetch.payload;
        let has_pages = stream.holds_pages();
        self.ask_nothing(slot);
        context.tell_pacer(ToPacer::GoOn { slot, has_pages });
    }

    /// Passes over the pages that the buffers have (or another stream already reads), as far as the stream wants them.
    /// Returns the bytes passed.
    pub(super) fn take_buffered<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) -> u64 {
        let before = self.streams[slot as usize].fetch.payload;
        loop {
            let stream = &mut self.streams[slot as usize];
            let mut cursor = stream.fetch;
            let wants = cursor.payload < stream.target;
            let next = if wants { cursor.next_content(stream.segment_list()) } else { None };
            let Some((key, _, left)) = next else { break };
            if !stream.ahead_pages.remove(key.index) {
                if self.cache.take(key).is_none() {
                    break;
                }
                context.gauges.plane.cache_hits.add(1);
                self.count_best_effort(slot, 1);
            }
            cursor.pass(left);
            self.streams[slot as usize].fetch = cursor;
        }
        let payload = self.streams[slot as usize].fetch.payload;
        if payload > before {
            context.tell_pacer(ToPacer::Fetched { slot, payload });
        }
        payload - before
    }

    /// Asks each disk's schedule for its next action until it says: wait.
    pub(crate) fn ask_disks<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        for disk in 0..self.disks.len() {
            if self.disks[disk].health.is_hung() {
                continue;
            }
            self.retry_reads(disk, context);
            for _ in 0..STEPS_PER_TURN {
                match self.disks[disk].schedule.next(context.now) {
                    Step::Read { slot, bytes_max, real_time } => {
                        let Some(issued) = self.issue(disk, slot, bytes_max, real_time, context) else {
                            if real_time {
                                break;
                            }
                            self.postpone(slot, context);
                            continue;
                        };
                        self.disks[disk].schedule.issued(slot, issued, context.now);
                        self.ask_next(slot, disk, context.now);
                        if issued.bytes == 0 {
                            self.run_if_ready(slot, context);
                        }
                    }
                    Step::Grant { job, bytes_max, until } => {
                        context.io.grant(Grant { disk: id_of(disk), job, bytes_max, until });
                    }
                    Step::Wait => break,
                }
            }
        }
    }

    /// The next read of a guaranteed stream, and its place: as many bytes as it wants and lie there, of the first page only the
    /// bytes it sends.
    pub(super) fn next_piece(&self, slot: u32) -> Option<Piece> {
        let stream = &self.streams[slot as usize];
        let wanted = stream.target.saturating_sub(stream.fetch.payload);
        let mut cursor = stream.fetch;
        let (key, within, _) = cursor.next_content(stream.segment_list()).filter(|_| wanted > 0)?;
        let layout = &stream.content().layout;
        let offset = key.index * CACHE_PAGE_BYTES;
        let piece = layout.piece(layout.copy_at(offset, |disk| self.reluctance(disk)), offset, within + wanted)?;
        // All that it wants lies on one disk, be it in several ranges.
        let length = if layout.disks().len() == 1 { wanted } else { piece.length - within };
        Some(Piece { length, ..piece })
    }

    /// Gives back one reference to a page the stream has passed.
    pub(super) fn give_back(&mut self, slot: u32, key: PageKey) {
        let page = self.cache.find(key).expect("a referenced page stays");
        self.cache.release(page);
        self.count_best_effort(slot, -1);
    }

    /// Gives back the pages that end behind `until` in a stream's payload, and those read out of turn. Returns how many
    /// pages it keeps.
    pub(super) fn keep_until<I: Io>(&mut self, slot: u32, until: u64, context: &mut PlaneContext<I>) -> u32 {
        self.give_back_ahead(slot);
        let stream = &self.streams[slot as usize];
        let (mut cursor, end) = (stream.send, stream.fetch.payload);
        let (mut kept, mut pages) = (cursor, 0);
        while cursor.payload < end {
            let Some((key, _, left)) = cursor.next_content(self.streams[slot as usize].segment_list()) else { break };
            cursor.pass(left);
            if cursor.payload <= until {
                (kept, pages) = (cursor, pages + 1);
            } else {
                self.give_back(slot, key);
            }
        }
        let stream = &mut self.streams[slot as usize];
        (stream.fetch, stream.target) = (kept, kept.payload);
        context.tell_pacer(ToPacer::Fetched { slot, payload: kept.payload });
        pages
    }
}

/// The name of the disk at this index.
pub(super) fn id_of(index: usize) -> DiskId {
    DiskId(u16::try_from(index).expect("within limits"))
}
