//! Disks that fail: detection of the failure, and the fate of the streams that read from them.
//!
//! Promise: a content with another copy is read from the disk that is the better one, unit by unit; a disk of a mirror
//! that errs, or does not answer for a round, costs no stream anything, for each is read ahead by [`LOOKAHEAD_ROUNDS`]
//! and has its disk time reserved on every disk with a copy, unless the configuration says not to provide for the loss
//! of a disk. Only a stream that begins in the round in which the disk falls silent, and has not read ahead yet, may be late
//! then, once. Where there is no other copy on a good disk, streams wait for an answer for as long as
//! `PlaneConfig::io_deadline` says, and end then; no other streams end. Not here: when a disk counts as erring
//! (`schedule::disk::health`).

use content::layout::ContentLayout;
use schedule::admission::disk_table::LOOKAHEAD_ROUNDS;
use schedule::disk::health::DiskCondition;

use super::*;
use crate::cache::Page;
use crate::control::{Event, Outcome};
use crate::gauges;
use crate::port::IoFault;

/// Rounds without an answer after which contents with another copy are read from that. Follows from the disks' lookahead, below.
const SILENT_ROUNDS: u64 = 1;

/// A grant may be under way for so many deadlines of a read before its disk counts as silent. Chosen: a commit may wait for a read that is
/// late itself.
const GRANT_DEADLINES: u64 = 2;

// The other disk needs a round for the reads of this one.
const _: () = assert!(SILENT_ROUNDS + 1 < LOOKAHEAD_ROUNDS);

impl Fetcher {
    /// Reports the condition of a disk from now on to the admitter, the gauges and the log of events.
    pub(super) fn tell_condition<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let condition = self.disk(disk).health.condition();
        context.tell_admitter(ToAdmitter::Condition { disk, condition });
        let (shown, event) = match condition {
            DiskCondition::Good => (gauges::DISK_GOOD, Event::DiskRecovered { disk }),
            DiskCondition::Erring { .. } => (gauges::DISK_ERRING, Event::DiskFailing { disk, hung: false }),
            DiskCondition::Hung => (gauges::DISK_HUNG, Event::DiskFailing { disk, hung: true }),
        };
        context.gauges.disks[usize::from(disk.0)].failing.set(shown);
        context.tell(event);
    }

    /// The disk at which the streams of a content are listed, all at the same.
    pub(super) fn home(&self, layout: &ContentLayout) -> Option<DiskId> {
        layout.best_disk(|_| true, |disk| self.reluctance(disk))
    }

    /// How much a disk is to be avoided where another one has the same bytes.
    pub(super) fn reluctance(&self, disk: DiskId) -> u8 {
        self.disk(disk).health.condition().reluctance()
    }

    /// Once a second: looks whether an erring disk has earned another chance; marks a disk as hung when a request is out for
    /// too long.
    pub(super) fn watch<I: Io>(&mut self, index: usize, context: &mut PlaneContext<I>) {
        let id = requests::id_of(index);
        if self.disks[index].health.is_hung() {
            return;
        }
        if self.disks[index].health.poll(context.now) {
            self.tell_condition(id, context);
        }
        let limit = context.config.io_deadline;
        let grant = self.disks[index].schedule.granted_since();
        if self.is_overdue(id, limit, false, context.now)
            || grant.is_some_and(|since| context.now.saturating_sub(since) > limit.saturating_mul(GRANT_DEADLINES))
        {
            self.disks[index].health.silent();
            self.tell_condition(id, context);
            self.read_elsewhere(id, context);
            self.leave_disk(id, context);
        }
    }

    /// Each tick: a disk that answers nothing for a round counts as erring where the awaited bytes have another copy on a good disk.
    pub(super) fn watch_silence<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        if !is_time(&mut self.silence_at, context.config.tick, context.now) {
            return;
        }
        for index in 0..self.disks.len() {
            let id = requests::id_of(index);
            let disk = &self.disks[index];
            let limit = disk.rounds.period().saturating_mul(SILENT_ROUNDS);
            let quiet = context.now.saturating_sub(disk.last_completion) > limit;
            if !quiet || !disk.health.is_good() {
                continue;
            }
            let granted = disk.schedule.granted_since().is_some_and(|since| context.now.saturating_sub(since) > limit);
            let waited_for = granted
                && self.streams.iter().filter(|stream| stream.reads()).any(|stream| {
                    let layout = &stream.content().layout;
                    let disks = layout.disks();
                    layout.copies() > 1
                        && disks.contains(&id)
                        && disks.iter().any(|&disk| disk != id && self.is_good(disk))
                });
            if (waited_for || self.is_overdue(id, limit, true, context.now))
                && self.disks[index].health.unanswered(context.now)
            {
                self.tell_condition(id, context);
                self.read_elsewhere(id, context);
                self.leave_disk(id, context);
            }
        }
    }

    fn has_other_copies(&self, slot: u32) -> bool {
        self.streams[slot as usize].content().layout.copies() > 1
    }

    fn is_good(&self, disk: DiskId) -> bool {
        self.disk(disk).health.is_good()
    }

    /// True if the bytes of a read have another copy on a good disk.
    fn has_good_copy(&self, read: &ReadOp) -> bool {
        let layout = &self.files.content(read.file).layout;
        (0..layout.copies())
            .filter_map(|copy| layout.piece(copy, read.offset, 1))
            .any(|piece| piece.disk != read.disk && self.is_good(piece.disk))
    }

    /// Whether a read of this disk is out for longer than `limit`; only one that a good disk could answer, if `copies`.
    fn is_overdue(&self, disk: DiskId, limit: Nanos, copies: bool, now: Nanos) -> bool {
        // The table is large, and is looked through at each tick while a disk is quiet.
        let any_is_out = self.reads_free.len() < self.reads.len();
        let overdue = |read: &ReadOp| read.disk == disk && now.saturating_sub(read.issued) > limit;
        any_is_out && self.reads.iter().flatten().any(|read| overdue(read) && (!copies || self.has_good_copy(read)))
    }

    /// Reads that a disk does not answer, and for which a stream waits, are made from another copy if there is one:
    /// from one on a good disk, or, once this disk is given up, from any.
    fn read_elsewhere<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let is_hung = self.disk(disk).health.is_hung();
        // These are read from here because the other copy is bad: they wait for as long as the disk may still answer.
        while is_hung && let Some(op) = self.disk_mut(disk).retries.pop() {
            self.finish_read(op, Err(IoFault::Cancelled), context);
        }
        for op in 0..self.reads.len() {
            let Some(read) = self.reads[op].filter(|read| read.disk == disk) else { continue };
            if !is_hung && !self.has_good_copy(&read) {
                continue;
            }
            let content = Arc::clone(self.files.content(read.file));
            for nth in (0..read.count).take_while(|_| content.layout.copies() > 1) {
                let Some(&free) = self.reads_free.last() else { return };
                let Some(first) = self.cache.supersede(Cache::neighbour(read.first, nth)) else { continue };
                self.reads_free.pop();
                let offset = (read.offset / CACHE_PAGE_BYTES + u64::from(nth)) * CACHE_PAGE_BYTES;
                let expected = CACHE_PAGE_BYTES.min(content.size - offset);
                self.files.user(read.file);
                let mut again = read.of_one_page(first, offset, expected);
                again.tried = if is_hung { read.tried } else { 0 };
                self.reads[free as usize] = Some(again);
                if !self.read_from_next_copy(free, context) {
                    self.finish_read(free, Err(IoFault::Cancelled), context);
                } else if !is_hung && let Some(read) = &mut self.reads[free as usize] {
                    // The other disk may be worse than it seemed: then this one, which may answer yet, is asked again.
                    read.tried = 0;
                }
            }
        }
    }

    /// A page cannot be read: the streams that wait for it send the bytes before it and end with `outcome`; a stream
    /// that wants it from now on reads it anew.
    pub(super) fn lose_page<I: Io>(
        &mut self,
        page: Page,
        key: PageKey,
        outcome: Outcome,
        context: &mut PlaneContext<I>,
    ) {
        // No stream holds a superseded page, and the cache may find another one in its place.
        let holders = if self.cache.find(key) == Some(page) { self.streams.len() } else { 0 };
        for slot in 0..holders {
            let Some(payload) = self.streams[slot].holds_at(key) else { continue };
            let slot = u32::try_from(slot).expect("within limits");
            self.ask_nothing(slot);
            self.keep_until(slot, payload, context);
            let stream = &mut self.streams[slot as usize];
            (stream.payload, stream.is_cut) = (payload, true);
            context.tell_pacer(ToPacer::Cut { slot, payload, outcome });
        }
        self.cache.read_failed(page);
    }

    /// The condition of a disk has changed: its streams read from other copies of their contents, where there are any.
    /// If the disk does not answer, the streams without another copy end.
    pub(super) fn leave_disk<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let is_hung = self.disk(disk).health.is_hung();
        for slot in (0..).take(self.streams.len()) {
            let stream = &self.streams[slot as usize];
            if matches!(stream.life, ReadsLife::Free | ReadsLife::Ending) {
                continue;
            }
            let layout = &stream.content().layout;
            let uses = layout.disks().contains(&disk) || layout.first_disk() == disk;
            let readable = layout.is_readable(|other| !self.disk(other).health.is_hung());
            match () {
                () if !uses => {}
                () if is_hung && !readable => context.tell_pacer(ToPacer::Finish { slot, outcome: Outcome::DiskError }),
                () if self.has_other_copies(slot) => {
                    self.ask_elsewhere(slot, context);
                    if self.streams[slot as usize].leader.is_none() {
                        context.tell_admitter(ToAdmitter::ReadsElsewhere { slot });
                    }
                }
                () => {}
            }
        }
    }

    /// A stream asks again for its next bytes, of the disks as they are now, and is listed at the best of them.
    fn ask_elsewhere<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        self.ask_nothing(slot);
        let stream = &self.streams[slot as usize];
        let from = stream.disk;
        let to = self.home(&stream.content().layout).unwrap_or(from);
        if to != from {
            self.streams[slot as usize].disk = to;
            context.tell_admitter(ToAdmitter::Moved { slot, disk: to });
            type List = fn(&mut FetchDisk) -> &mut Vec<u32>;
            let lists: [List; 2] = [|disk| &mut disk.streams, |disk| &mut disk.starting];
            for list in lists {
                if let Some(at) = list(self.disk_mut(from)).iter().position(|&other| other == slot) {
                    list(self.disk_mut(from)).remove(at);
                    list(self.disk_mut(to)).push(slot);
                }
            }
        }
        if self.streams[slot as usize].reads() {
            self.ask_again(slot, context.now);
        }
    }
}
