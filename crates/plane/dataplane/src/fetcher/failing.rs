//! Disks that fail: detection of the failure, and the fate of the streams that read from them.
//!
//! Promise: a content with another copy is read from the disk that is the better one, unit by unit; a disk of a mirror
//! that errs, or does not answer for a round, costs no stream anything, for each is read ahead by [`LOOKAHEAD_ROUNDS`]
//! and has its disk time reserved on every disk with a copy, unless the configuration says not to provide for the loss
//! of a disk. Only a stream that begins in the round in which the disk falls silent, and has not read ahead yet, may be late
//! then, once. Where there is no other copy on a good disk, streams wait for an answer for as long as
//! `PlaneConfig::io_deadline` says, and end then; no other streams end. Not here: when a disk counts as erring
//! (`schedule::disk::health`).

use schedule::admission::rounds::LOOKAHEAD_ROUNDS;

use super::*;
use crate::control::Outcome;
use crate::port::IoFault;

/// Rounds without an answer after which contents with another copy are read from that. Follows from the disks' lookahead, below.
const SILENT_ROUNDS: u64 = 1;

/// A grant may be under way for this number of deadlines of a read before its disk counts as silent. Chosen: a commit may wait for a read
/// that is late itself.
const GRANT_DEADLINES: u64 = 2;

// The other disk needs a round for the reads of this one.
const _: () = assert!(SILENT_ROUNDS + 1 < LOOKAHEAD_ROUNDS);

impl Fetcher {
    /// The condition of a disk has changed.
    pub(super) fn condition_changed<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        self.sources[disk].tell_condition(context);
        self.leave_disk(disk, context);
    }

    /// Whether a read of this disk is out for longer than `limit`; only a read that a good disk could answer, if `copies`.
    fn is_overdue(&self, disk: DiskId, limit: Nanos, copies: bool, now: Nanos) -> bool {
        self.reads.is_overdue(disk, limit, copies, now, (&self.sources, &self.buffers))
    }

    /// Once a second: looks whether an erring disk has earned another chance; marks a disk as hung when a request is out for
    /// too long.
    pub(super) fn watch<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        if self.sources[disk].health.is_hung() {
            return;
        }
        if self.sources[disk].health.poll(context.now) {
            self.sources[disk].tell_condition(context);
        }
        let limit = context.config.io_deadline;
        let grant_is_out = self.sources[disk].grant_is_out(limit.saturating_mul(GRANT_DEADLINES), context.now);
        if grant_is_out || self.is_overdue(disk, limit, false, context.now) {
            self.sources[disk].health.silent();
            self.sources[disk].tell_condition(context);
            self.read_elsewhere(disk, context);
            self.leave_disk(disk, context);
        }
    }

    /// Each tick: a disk that answers nothing for a round counts as erring where the awaited bytes have another copy on a good disk.
    pub(super) fn watch_silence<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        if !is_time(&mut self.silence_at, context.config.tick, context.now) {
            return;
        }
        for disk in self.sources.ids() {
            let source = &self.sources[disk];
            let limit = source.rounds().period().saturating_mul(SILENT_ROUNDS);
            if !source.is_quiet(limit, context.now) || !source.health.is_good() {
                continue;
            }
            let is_awaited = (source.grant_is_out(limit, context.now)
                && self.streams.another_could_read(disk, &self.sources))
                || self.is_overdue(disk, limit, true, context.now);
            if is_awaited && self.sources[disk].health.unanswered(context.now) {
                self.sources[disk].tell_condition(context);
                self.read_elsewhere(disk, context);
                self.leave_disk(disk, context);
            }
        }
    }

    /// Reads that a disk does not answer, and for which a stream waits, are made from another copy if there is one:
    /// from one on a good disk, or, once this disk is given up, from any.
    fn read_elsewhere<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let is_hung = self.sources[disk].health.is_hung();
        // These are read from here because the other copy is bad: they wait for as long as the disk may still answer.
        while is_hung && let Some(op) = self.sources[disk].retries.pop() {
            self.finish_read(op, Err(IoFault::Cancelled), context);
        }
        for op in (0..).take(READS_MAX) {
            for nth in self.reads.pages_for_elsewhere(op, disk, (&self.sources, &self.buffers)) {
                let disks = (&mut self.sources, &mut self.buffers);
                if let Some((again, false)) = self.reads.read_again(op, nth, disks, context) {
                    self.finish_read(again, Err(IoFault::Cancelled), context);
                }
            }
        }
    }

    /// The condition of a disk has changed: its streams read from other copies of their contents, where there are any.
    /// If the disk does not answer, the streams without another copy end.
    fn leave_disk<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let is_hung = self.sources[disk].health.is_hung();
        for slot in self.streams.slots() {
            let stream = &self.streams[slot];
            if matches!(stream.life(), ReadsLife::Free | ReadsLife::Ending) {
                continue;
            }
            let layout = &stream.content().layout;
            let uses = layout.disks().contains(&disk) || layout.first_disk() == disk;
            let readable = layout.is_readable(|other| !self.sources[other].health.is_hung());
            match () {
                () if !uses => {}
                () if is_hung && !readable => context.tell_pacer(ToPacer::Finish { slot, outcome: Outcome::DiskError }),
                () if stream.has_copies() => {
                    self.streams[slot].ask_elsewhere((&mut self.sources, &self.buffers), context);
                    if self.streams[slot].leader().is_none() {
                        context.tell_admitter(ToAdmitter::ReadsElsewhere { slot });
                    }
                }
                () => {}
            }
        }
    }
}
