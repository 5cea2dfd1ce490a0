//! Reading ahead: which blocks streams want, what of them is in the buffers, what the disks are asked for.

use schedule::admission::disk_table::{LOOKAHEAD_ROUNDS, next_read};
use schedule::admission::{QUARTER_BYTES, window_bytes};
use schedule::disk::health::{Condition, Place};
use schedule::disk::real_time::{RtKey, RtRequest};
use schedule::disk::{Issued, Step};
use units::{DiskId, Nanos, limits};

use super::admit::{position_of, quarters_of};
use super::{Plane, ReadOp, Work};
use crate::cache::{Cache, FRAME_QUARTERS, Key, Quarter, State};
use crate::control::{Event, Outcome, Service};
use crate::gauges;
use crate::port::{Completion, Io, ReadRequest, Span};
use crate::stream::{Class, Life};

/// Decisions asked of a disk in one turn at most.
const STEPS_PER_TURN: usize = 256;

impl<I: Io> Plane<I> {
    /// At each round of each disk: blocks for later rounds are asked for, waiting streams may start.
    pub(super) fn begin_rounds(&mut self, now: Nanos) {
        for disk in 0..self.disks.len() {
            let round = self.disks[disk].rounds.index_at(now);
            if round <= self.disks[disk].round || self.disks[disk].health.is_hung() {
                continue;
            }
            self.disks[disk].round = round;
            for nth in 0..self.disks[disk].streams.len() {
                let slot = self.disks[disk].streams[nth];
                let stream = &self.streams[slot as usize];
                let Class::Constant { next_round, .. } = stream.class else { continue };
                let reads = matches!(stream.life, Life::Running | Life::Starting) && self.disks[disk].spins;
                if reads && next_round <= round {
                    self.read_ahead(slot, round, now);
                }
            }
            self.launch(disk, now);
        }
    }

    /// Sets how far a constant-rate stream shall have read ahead, takes what the buffers have, and asks its disk for
    /// the rest. On a spinning disk this is a regular (or start) read in `round`; on flash it happens at every tick.
    pub(super) fn read_ahead(&mut self, slot: u32, round: u64, now: Nanos) {
        let stream = &mut self.streams[slot as usize];
        let starting = stream.life == Life::Starting;
        let Service::Constant { rate, burst_bytes, .. } = stream.delivery().service else { return };
        let disk = &self.disks[usize::from(stream.disk.0)];
        let Class::Constant { first_round, period, next_round, gap, .. } = &mut stream.class else { return };
        let pace = &stream.pace;
        let window = window_bytes(rate, disk.rounds.period(), *period) + burst_bytes;
        let (mut wanted, mut first) = (u64::MAX, false);
        if disk.spins {
            first = *gap == 0;
            let (next, length) = next_read(round, *gap, *first_round, *period);
            (*next_round, *gap) = (next, length);
            let until = disk.rounds.start_of(next + LOOKAHEAD_ROUNDS);
            wanted = match pace {
                Some(pace) => pace.due_bytes(until),
                None => rate.bytes_in(until.saturating_sub(now)) + burst_bytes,
            };
        }
        let deadline = match pace {
            Some(pace) => pace.promised_at(stream.fetch.payload + 1),
            None => now,
        };
        stream.ahead = window;
        stream.target = wanted.min(stream.send.payload + window).min(stream.payload).max(stream.target);
        self.take_buffered(slot);
        let stream = &self.streams[slot as usize];
        if stream.fetch.payload >= stream.target {
            return;
        }
        let request = RtRequest {
            key: RtKey::Stream(slot),
            position: self.next_position(slot),
            bytes: stream.target - stream.fetch.payload,
            found_bytes: if first { self.asked_alike(slot) } else { 0 },
            deadline,
            rate,
            starting,
        };
        self.disks[usize::from(stream.disk.0)].schedule.put_real_time(request);
    }

    /// Passes over what the buffers have (or another stream already reads), as far as it wants them.
    pub(super) fn take_buffered(&mut self, slot: u32) -> u64 {
        let mut taken = 0;
        loop {
            let stream = &mut self.streams[slot as usize];
            if stream.fetch.payload >= stream.target {
                return taken;
            }
            let delivery = stream.delivery.as_deref().expect("a slot in use has its delivery");
            let Some((key, _, left)) = stream.fetch.next_content(delivery) else { return taken };
            if self.cache.take(key).is_none() {
                return taken;
            }
            self.gauges.plane.cache_hits.add(1);
            stream.fetch.pass(left);
            taken += left;
            self.count_best_effort(slot, 1);
        }
    }

    /// Asks each disk's schedule what to do until it says: wait.
    pub(super) fn ask_disks(&mut self, now: Nanos) {
        for disk in 0..self.disks.len() {
            if self.disks[disk].health.is_hung() {
                continue;
            }
            for _ in 0..STEPS_PER_TURN {
                match self.disks[disk].schedule.next(now) {
                    Step::Read { slot, bytes_max, real_time } => {
                        let Some(issued) = self.issue(slot, bytes_max, real_time, now) else {
                            if real_time {
                                break;
                            }
                            self.postpone(slot);
                            continue;
                        };
                        self.disks[disk].schedule.issued(slot, issued, now);
                        if issued.bytes == 0 {
                            self.run_if_ready(slot, now);
                        }
                    }
                    Step::Grant { job, bytes_max, until } => self.give_grant(disk, job, bytes_max, until),
                    Step::Wait => break,
                }
            }
        }
    }

    /// Issues the next read of a stream, at most `bytes_max`; `None` if there is no buffer for it now.
    fn issue(&mut self, slot: u32, bytes_max: u64, real_time: bool, now: Nanos) -> Option<Issued> {
        let taken = self.take_buffered(slot);
        let stream = &self.streams[slot as usize];
        let mut ahead = stream.fetch;
        let next = ahead.next_content(stream.delivery());
        let (Some((key, ..)), true) = (next, stream.fetch.payload < stream.target) else {
            return Some(self.nothing_to_read(real_time));
        };
        let count = if real_time { self.run_length(slot, key, bytes_max) } else { 1 };
        let (first, count) = self.allocate(key, count, real_time, slot)?;
        let mut advanced = taken;
        for _ in 0..count {
            let stream = &mut self.streams[slot as usize];
            let delivery = stream.delivery.as_deref().expect("a slot in use has its delivery");
            let (_, _, left) = stream.fetch.next_content(delivery).expect("run_length looked");
            stream.fetch.pass(left);
            advanced += left;
            self.count_best_effort(slot, 1);
        }
        self.gauges.plane.cache_misses.add(u64::from(count));
        let (position, bytes, requests) = self.read_quarters(slot, key, first, count, real_time, now);
        let next_position = self.next_position(slot);
        Some(Issued { real_time, position, bytes, requests, advanced_bytes: advanced, next_position })
    }

    fn nothing_to_read(&self, real_time: bool) -> Issued {
        Issued { real_time, position: 0, bytes: 0, requests: 0, advanced_bytes: u64::MAX, next_position: 0 }
    }

    /// How many quarters from `key` on can be read in one go: in one frame, absent, wanted, and next in the stream.
    fn run_length(&self, slot: u32, key: Key, bytes_max: u64) -> u32 {
        let stream = &self.streams[slot as usize];
        let in_frame = u64::from(FRAME_QUARTERS) - key.index % u64::from(FRAME_QUARTERS);
        let most = in_frame.min((bytes_max / QUARTER_BYTES).max(1));
        let mut cursor = stream.fetch;
        let mut count = 0;
        while u64::from(count) < most && cursor.payload < stream.target {
            let Some((next, _, left)) = cursor.next_content(stream.delivery()) else { break };
            let follows = next.index == key.index + u64::from(count);
            if !follows || (count > 0 && self.cache.find(next).is_some()) {
                break;
            }
            cursor.pass(left);
            count += 1;
        }
        count.max(1)
    }

    fn allocate(&mut self, key: Key, count: u32, real_time: bool, slot: u32) -> Option<(Quarter, u32)> {
        // The share of best effort is looked at again: many may have asked before the first of them held anything.
        let share_used = !real_time && self.best_effort.pages >= self.best_effort_pages_max();
        if self.reads_free.len() < 2 || share_used {
            return None;
        }
        let stream = &self.streams[slot as usize];
        let content = &stream.delivery().content;
        let pieces = if real_time { 1 } else { pieces_of(content.size - key.index * QUARTER_BYTES) };
        match self.cache.allocate(key, count, pieces) {
            Some(first) => Some((first, count)),
            None if count > 1 => self.cache.allocate(key, 1, pieces).map(|first| (first, 1)),
            None => None,
        }
    }

    /// Reads `count` quarters: in one request for a guaranteed stream, in pieces for a best-effort one.
    fn read_quarters(
        &mut self,
        slot: u32,
        key: Key,
        first: Quarter,
        count: u32,
        real_time: bool,
        now: Nanos,
    ) -> (u64, u64, u32) {
        let stream = &self.streams[slot as usize];
        let (file, disk) = (stream.file, stream.disk);
        let content = &stream.delivery().content;
        debug_assert!(key.index + u64::from(count) <= quarters_of(content), "within the content");
        let offset = key.index * QUARTER_BYTES;
        let expected = (u64::from(count) * QUARTER_BYTES).min(content.size - offset);
        let position = position_of(content, offset);
        let at = position.unwrap_or(0);
        let unit = if real_time { limits::CHUNK_BYTES } else { limits::PIECE_BYTES_MAX };
        let memory = Cache::span(first);
        let (mut done, mut requests) = (0, 0);
        while done < expected {
            let bytes = unit.min(expected - done);
            let schedule = &self.disks[usize::from(disk.0)].schedule;
            let known = position.is_some() && self.disks[usize::from(disk.0)].spins && real_time;
            let predicted = if known { schedule.predicted_read(at + done, bytes) } else { Nanos::ZERO };
            let op = self.reads_free.pop().expect("allocate checked");
            let read = ReadOp {
                slot,
                generation: stream.generation,
                disk,
                file,
                first,
                count,
                place: position.map_or(Place::Content(key.version.0), |start| Place::at(start + done)),
                offset: offset + done,
                expected: bytes,
                got: 0,
                real_time,
                issued: now,
                predicted,
            };
            self.reads[op as usize] = Some(read);
            self.files.user(file);
            let span = Span { offset: memory.offset + done, length: direct_length(bytes) };
            let token = Work::Read { op }.token();
            self.io.read(ReadRequest { token, disk, file, offset: offset + done, memory: span });
            done += bytes;
            requests += 1;
        }
        (at, expected, requests)
    }

    /// A read ended. What it brought counts once its file was looked at: others may have written to it meanwhile.
    pub(super) fn read_done(&mut self, op: u32, completion: Completion) {
        if self.reads_on(op, completion) {
            return;
        }
        let read = self.reads[op as usize].expect("a read was out");
        self.settle(&read, completion);
        if completion.result.is_ok() && read.got > 0 {
            self.io.verify_version(Work::Look { op }.token(), self.files.content(read.file));
        } else {
            self.looked(op, completion);
        }
    }

    /// The file of a read was looked at, or need not be: its quarters are ready, or bad.
    pub(super) fn looked(&mut self, op: u32, completion: Completion) {
        let read = self.reads[op as usize].take().expect("a read was out");
        self.reads_free.push(op);
        let (got, bad) = match completion.result {
            Ok(0) => (0, State::Gone),
            Ok(_) => (read.got, State::Gone),
            Err(_) => (0, State::Failed),
        };
        for nth in 0..read.count {
            let from = u64::from(nth) * QUARTER_BYTES;
            let expected = read.expected.saturating_sub(from).min(QUARTER_BYTES);
            let there = got.saturating_sub(from);
            // A piece's valid bytes count from the quarter's start.
            let before = if read.count == 1 { read.offset % QUARTER_BYTES } else { 0 };
            let valid = u32::try_from(before + expected).expect("a quarter is small");
            let state = if there >= expected { State::Ready(valid) } else { bad };
            self.cache.read_done(Cache::neighbour(read.first, nth), state);
        }
        self.release_file(read.file);
        self.run_those_ready(usize::from(read.disk.0), completion.at);
        self.wake_reader(&read, completion.at);
    }

    /// Counts what a read brought. A kernel may bring fewer blocks than were asked for without the file having ended:
    /// then the rest is asked for (true), and an answer of nothing, or of a broken block, is the end.
    fn reads_on(&mut self, op: u32, completion: Completion) -> bool {
        let read = self.reads[op as usize].as_mut().expect("a read was out");
        let Ok(more) = completion.result.map(u64::from) else { return false };
        read.got += more;
        let left = read.expected.saturating_sub(read.got);
        if left == 0 || more == 0 || !more.is_multiple_of(limits::DIRECT_ALIGN) {
            return false;
        }
        let (disk, file, offset) = (read.disk, read.file, read.offset + read.got);
        let within = if read.count == 1 { read.offset % QUARTER_BYTES } else { 0 };
        let memory = Cache::span(read.first).offset + within + read.got;
        let span = Span { offset: memory, length: direct_length(left) };
        self.io.read(ReadRequest { token: Work::Read { op }.token(), disk, file, offset, memory: span });
        true
    }

    /// What a completed read tells about its disk.
    fn settle(&mut self, read: &ReadOp, completion: Completion) {
        let disk = &mut self.disks[usize::from(read.disk.0)];
        let gauges = &self.gauges.disks[usize::from(read.disk.0)];
        let ok = completion.result.is_ok();
        let took = completion.at.saturating_sub(read.issued.max(disk.last_completion));
        disk.last_completion = completion.at;
        let predicted = if ok { read.predicted } else { Nanos::ZERO };
        disk.schedule.read_done(predicted, took, read.real_time);
        let mut changed = disk.health.answered();
        if !ok {
            gauges.errors.add(1);
            changed |= disk.health.read_failed(read.place, completion.at);
        }
        if changed {
            self.tell_condition(read.disk);
        }
    }

    /// Tells what a disk is good for from now on.
    pub(super) fn tell_condition(&mut self, disk: DiskId) {
        let (condition, event) = match self.disks[usize::from(disk.0)].health.condition() {
            Condition::Good => (gauges::DISK_GOOD, Event::DiskRecovered { disk }),
            Condition::Erring { .. } => (gauges::DISK_ERRING, Event::DiskFailing { disk, hung: false }),
            Condition::Hung => (gauges::DISK_HUNG, Event::DiskFailing { disk, hung: true }),
        };
        self.gauges.disks[usize::from(disk.0)].failing.set(condition);
        self.tell(event);
    }

    /// Looks whether an erring disk has earned another chance; marks a disk as hung when a request is out for too long:
    /// its streams end, nobody else's.
    pub(super) fn watch(&mut self, index: usize, now: Nanos) {
        let id = DiskId(u16::try_from(index).expect("within limits"));
        if self.disks[index].health.is_hung() {
            return;
        }
        if self.disks[index].health.look(now) {
            self.tell_condition(id);
        }
        let limit = self.config.io_deadline;
        let overdue = |since: Nanos| now.saturating_sub(since) > limit;
        let reads = self.reads.iter().flatten().any(|read| read.disk == id && overdue(read.issued));
        let grant =
            self.disks[index].schedule.granted_since().is_some_and(|since| overdue(since.saturating_add(limit)));
        if !reads && !grant {
            return;
        }
        self.disks[index].health.silent();
        self.tell_condition(id);
        for nth in (0..self.disks[index].streams.len()).rev() {
            if let Some(&slot) = self.disks[index].streams.get(nth) {
                self.finish(slot, Outcome::DiskError, now);
            }
        }
    }

    /// Where the stream's next unread byte lies on its device; 0 where that is not known.
    pub(super) fn next_position(&self, slot: u32) -> u64 {
        let stream = &self.streams[slot as usize];
        let mut cursor = stream.fetch;
        let next = cursor.next_content(stream.delivery());
        next.and_then(|(key, ..)| position_of(&stream.delivery().content, key.index * QUARTER_BYTES)).unwrap_or(0)
    }

    /// Gives back one reference to a quarter the stream has passed.
    pub(super) fn give_back(&mut self, slot: u32, key: Key) {
        let quarter = self.cache.find(key).expect("a referenced quarter stays");
        self.cache.release(quarter);
        self.count_best_effort(slot, -1);
    }

    /// Gives back everything a stream holds.
    pub(super) fn release_buffers(&mut self, slot: u32) {
        let stream = &self.streams[slot as usize];
        let (mut cursor, end) = (stream.send, stream.fetch.payload);
        while cursor.payload < end {
            let stream = &self.streams[slot as usize];
            let Some((key, _, left)) = cursor.next_content(stream.delivery()) else { break };
            cursor.pass(left);
            self.give_back(slot, key);
        }
        self.streams[slot as usize].fetch = self.streams[slot as usize].send;
    }
}

/// Pieces a best-effort read of the quarter with so many bytes of content from its start takes.
fn pieces_of(content_left: u64) -> u8 {
    u8::try_from(content_left.min(QUARTER_BYTES).div_ceil(limits::PIECE_BYTES_MAX)).expect("a quarter has few pieces")
}

fn direct_length(bytes: u64) -> u32 {
    u32::try_from(bytes.next_multiple_of(limits::DIRECT_ALIGN)).expect("at most a chunk")
}
