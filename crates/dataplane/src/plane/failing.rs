//! Disks that fail: who notices it, and what becomes of those who read from them.
//!
//! Promise: a content with another copy is read from the disk that is the better one, unit by unit; a disk of a mirror that
//! errs, or does not answer for a round, costs no stream anything, for each is read ahead by [`LOOKAHEAD_ROUNDS`] and has its
//! disk time reserved on every disk with a copy. Where there is no other copy, streams wait for an answer for as long as
//! `PlaneConfig::io_deadline` says, and end then; nobody else's do. Not here: when a disk counts as erring
//! (`schedule::disk::health`).

use std::sync::Arc;

use schedule::admission::QUARTER_BYTES;
use schedule::admission::disk_table::LOOKAHEAD_ROUNDS;
use schedule::disk::health::DiskCondition;
use units::{DiskId, Nanos};

use super::{Plane, PlaneDisk, TokenWork};
use crate::cache::{Cache, Quarter, QuarterKey};
use crate::control::{Event, Outcome};
use crate::gauges;
use crate::port::{Completion, Io, IoFault};
use crate::stream::{StreamClass, StreamLife};

/// Rounds without an answer after which what has another copy is read from that.
const SILENT_ROUNDS: u64 = 1;

// The other disk needs a round for what this one had to read.
const _: () = assert!(SILENT_ROUNDS + 1 < LOOKAHEAD_ROUNDS);

impl<I: Io> Plane<I> {
    /// Tells what a disk is good for from now on.
    pub(super) fn tell_condition(&mut self, disk: DiskId) {
        let (condition, event) = match self.disks[usize::from(disk.0)].health.condition() {
            DiskCondition::Good => (gauges::DISK_GOOD, Event::DiskRecovered { disk }),
            DiskCondition::Erring { .. } => (gauges::DISK_ERRING, Event::DiskFailing { disk, hung: false }),
            DiskCondition::Hung => (gauges::DISK_HUNG, Event::DiskFailing { disk, hung: true }),
        };
        self.gauges.disks[usize::from(disk.0)].failing.set(condition);
        self.tell(event);
    }

    /// How little a disk is to be read from where another has the same.
    pub(super) fn reluctance(&self, disk: DiskId) -> u8 {
        match self.disks[usize::from(disk.0)].health.condition() {
            DiskCondition::Good => 0,
            DiskCondition::Erring { .. } => 1,
            DiskCondition::Hung => 2,
        }
    }

    /// Once a second: looks whether an erring disk has earned another chance; marks a disk as hung when a request is out for
    /// too long.
    pub(super) fn watch(&mut self, index: usize, now: Nanos) {
        let id = DiskId(u16::try_from(index).expect("within limits"));
        if self.disks[index].health.is_hung() {
            return;
        }
        if self.disks[index].health.look(now) {
            self.tell_condition(id);
        }
        let limit = self.config.io_deadline;
        let grant = self.disks[index].schedule.granted_since();
        if self.is_overdue(id, limit, false, now)
            || grant.is_some_and(|since| now.saturating_sub(since) > limit.saturating_mul(2))
        {
            self.disks[index].health.silent();
            self.tell_condition(id);
            self.read_elsewhere(id, now);
            self.leave_disk(id, now);
        }
    }

    /// Each tick: a disk that answers nothing for a round counts as erring where what is waited for has another copy.
    pub(super) fn watch_silence(&mut self, now: Nanos) {
        if now < self.meter.silence {
            return;
        }
        self.meter.silence = now.saturating_add(self.config.tick);
        for index in 0..self.disks.len() {
            let id = DiskId(u16::try_from(index).expect("within limits"));
            let disk = &self.disks[index];
            let limit = disk.rounds.period().saturating_mul(SILENT_ROUNDS);
            let quiet = now.saturating_sub(disk.last_completion) > limit;
            if !quiet || !disk.health.is_good() {
                continue;
            }
            let granted = disk.schedule.granted_since().is_some_and(|since| now.saturating_sub(since) > limit);
            let waited_for = granted && disk.streams.iter().any(|&slot| self.has_other_copies(slot));
            if (waited_for || self.is_overdue(id, limit, true, now)) && self.disks[index].health.unanswered(now) {
                self.tell_condition(id);
                self.read_elsewhere(id, now);
                self.leave_disk(id, now);
            }
        }
    }

    fn has_other_copies(&self, slot: u32) -> bool {
        self.streams[slot as usize].delivery().content.layout.copies() > 1
    }

    /// Whether a read of this disk is out for longer than `limit`; only one that another copy could answer, if `copies`.
    fn is_overdue(&self, disk: DiskId, limit: Nanos, copies: bool, now: Nanos) -> bool {
        self.reads.iter().flatten().any(|read| {
            let overdue = read.disk == disk && now.saturating_sub(read.issued) > limit;
            overdue && (!copies || self.files.content(read.file).layout.copies() > 1)
        })
    }

    /// What a disk that does not answer was asked for and somebody waits for is read from another copy, if there is one.
    fn read_elsewhere(&mut self, disk: DiskId, now: Nanos) {
        let given_up =
            |op| Completion { token: TokenWork::Read { op }.token(), result: Err(IoFault::Cancelled), at: now };
        for nth in (0..self.disks[usize::from(disk.0)].retries.len()).rev() {
            let op = self.disks[usize::from(disk.0)].retries[nth];
            let only_one = self.files.content(self.reads[op as usize].expect("a read waits").file).layout.copies() == 1;
            if self.disks[usize::from(disk.0)].health.is_hung() || !only_one {
                self.disks[usize::from(disk.0)].retries.remove(nth);
                self.looked(op, given_up(op));
            }
        }
        for op in 0..self.reads.len() {
            let Some(read) = self.reads[op].filter(|read| read.disk == disk) else { continue };
            let content = Arc::clone(self.files.content(read.file));
            for nth in (0..read.count).take_while(|_| content.layout.copies() > 1) {
                let Some(&free) = self.reads_free.last() else { return };
                let Some(first) = self.cache.supersede(Cache::neighbour(read.first, nth)) else { continue };
                self.reads_free.pop();
                let offset = (read.offset / QUARTER_BYTES + u64::from(nth)) * QUARTER_BYTES;
                let expected = QUARTER_BYTES.min(content.size - offset);
                self.files.user(read.file);
                self.reads[free as usize] = Some(super::ReadOp { first, count: 1, offset, expected, got: 0, ..read });
                if !self.read_from_next_copy(free, now) {
                    self.looked(free, given_up(free));
                }
            }
        }
    }

    /// A page cannot be read: who waits for it is sent what lies before it and ends with `outcome`, and whoever wants it from
    /// now on reads it anew.
    pub(super) fn lose_page(&mut self, page: Quarter, key: QuarterKey, outcome: Outcome) {
        // One that was superseded is held by nobody, and another may be found in its place.
        let holders = if self.cache.find(key) == Some(page) { self.streams.len() } else { 0 };
        for slot in 0..holders {
            let Some(payload) = self.streams[slot].holds_at(key) else { continue };
            let slot = u32::try_from(slot).expect("within limits");
            self.ask_nothing(slot);
            self.keep_until(slot, payload);
            let stream = &mut self.streams[slot as usize];
            (stream.payload, stream.ends) = (payload, outcome);
        }
        self.cache.read_failed(page);
    }

    /// The streams of a disk that is not what it was read from other copies of their contents, where there are any; of one that
    /// does not answer, the others end.
    pub(super) fn leave_disk(&mut self, disk: DiskId, now: Nanos) {
        let is_hung = self.disks[usize::from(disk.0)].health.is_hung();
        for slot in 0..self.streams.len() {
            let stream = &self.streams[slot];
            if matches!(stream.life, StreamLife::Free | StreamLife::Ending(_)) {
                continue;
            }
            let layout = &stream.delivery().content.layout;
            let uses = layout.share_of(disk) > 0.0 || layout.first_disk() == disk;
            let readable = layout.is_readable(|other| !self.disks[usize::from(other.0)].health.is_hung());
            let slot = u32::try_from(slot).expect("within limits");
            match () {
                () if !uses => {}
                () if is_hung && !readable => self.finish(slot, Outcome::DiskError, now),
                () if self.has_other_copies(slot) => self.ask_elsewhere(slot, now),
                () => {}
            }
        }
    }

    /// A stream asks again for what it wants next, of the disks as they are now, and is listed at the best of them.
    fn ask_elsewhere(&mut self, slot: u32, now: Nanos) {
        self.ask_nothing(slot);
        let content = Arc::clone(&self.streams[slot as usize].delivery().content);
        let from = self.streams[slot as usize].disk;
        let to = self.home(&content.layout, |_| true).unwrap_or(from);
        self.streams[slot as usize].disk = to;
        let [from, to] = [from, to].map(|disk| usize::from(disk.0));
        type List = fn(&mut PlaneDisk) -> &mut Vec<u32>;
        let lists: [List; 3] = [|disk| &mut disk.streams, |disk| &mut disk.waiting, |disk| &mut disk.starting];
        for list in lists {
            if let Some(at) = list(&mut self.disks[from]).iter().position(|&other| other == slot) {
                list(&mut self.disks[from]).remove(at);
                list(&mut self.disks[to]).push(slot);
            }
        }
        let stream = &self.streams[slot as usize];
        if stream.reads() && stream.class == StreamClass::BestEffort {
            self.ask_best_effort(slot);
        } else if stream.reads() {
            let due = stream.pace.map_or(now, |pace| pace.promised_at(stream.fetch.payload + 1));
            self.ask_real_time(slot, due, 0);
        }
    }
}
