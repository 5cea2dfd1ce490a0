//! Reading ahead: which blocks streams want, what of them is in the buffers, what the disks are asked for.

use std::sync::Arc;

use schedule::admission::disk_table::{LOOKAHEAD_ROUNDS, next_read};
use schedule::admission::{QUARTER_BYTES, window_bytes};
use schedule::disk::best_effort::WorkOwner;
use schedule::disk::health::ErrorLocation;
use schedule::disk::real_time::{RtKey, RtRequest};
use schedule::disk::{Issued, Step};
use units::{Nanos, limits};

use super::admit::quarters_of;
use super::{Plane, ReadOp, TokenWork};
use crate::cache::{Cache, FRAME_QUARTERS, Quarter, QuarterKey};
use crate::control::{Outcome, Service};
use crate::layout::Piece;
use crate::port::{Completion, Io, ReadRequest, Span};
use crate::stream::{StreamClass, StreamLife};

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
                let StreamClass::Constant { next_round, .. } = stream.class else { continue };
                let reads = matches!(stream.life, StreamLife::Running | StreamLife::Starting) && self.disks[disk].spins;
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
        let Service::Constant { rate, burst_bytes, .. } = stream.delivery().service else { return };
        let disk = &self.disks[usize::from(stream.disk.0)];
        let StreamClass::Constant { first_round, period, next_round, gap, .. } = &mut stream.class else { return };
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
                None => stream.send.payload + rate.bytes_in(until.saturating_sub(now)) + burst_bytes,
            };
        }
        // What the buffers have counts for nothing: the first byte that is to be read may be due earlier than the one behind it.
        let due = pace.map(|pace| pace.promised_at(stream.fetch.payload + 1));
        stream.ahead = window;
        stream.target = wanted.min(stream.send.payload + window).min(stream.payload).max(stream.target);
        self.take_buffered(slot);
        let begins = first && self.streams[slot as usize].send.payload == 0;
        let found_bytes = if begins { self.asked_alike(slot) } else { 0 };
        self.ask_real_time(slot, due.unwrap_or(now), found_bytes);
    }

    /// Asks the disk on which a stream's next byte lies for what it wants there by `deadline`.
    pub(super) fn ask_real_time(&mut self, slot: u32, deadline: Nanos, found_bytes: u64) {
        let stream = &self.streams[slot as usize];
        let Service::Constant { rate, .. } = stream.delivery().service else { return };
        let Some(next) = self.next_piece(slot) else { return };
        self.disks[usize::from(next.disk.0)].schedule.put_real_time(RtRequest {
            key: RtKey::Stream(slot),
            position: next.position.unwrap_or(0),
            bytes: next.length,
            found_bytes,
            deadline,
            rate,
            starting: stream.life == StreamLife::Starting,
        });
    }

    /// A stream that got what one disk has of what it wants asks the next.
    fn ask_next(&mut self, slot: u32, disk: usize, real_time: bool, now: Nanos) {
        let stream = &self.streams[slot as usize];
        let on_one_disk = stream.delivery().content.layout.shares().len() == 1;
        if on_one_disk || !stream.reads() || self.disks[disk].schedule.wants(slot) {
            return;
        }
        if real_time {
            let due = stream.pace.map_or(now, |pace| pace.promised_at(stream.fetch.payload + 1));
            self.ask_real_time(slot, due, 0);
        } else {
            self.ask_best_effort(slot);
        }
    }

    /// Takes back what a stream has asked of disks.
    pub(super) fn ask_nothing(&mut self, slot: u32) {
        let content = &self.streams[slot as usize].delivery().content;
        for (disk, _) in content.layout.shares() {
            self.disks[usize::from(disk.0)].schedule.remove(WorkOwner::Stream(slot));
        }
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
            self.retry_reads(disk, now);
            for _ in 0..STEPS_PER_TURN {
                match self.disks[disk].schedule.next(now) {
                    Step::Read { slot, bytes_max, real_time } => {
                        let Some(issued) = self.issue(disk, slot, bytes_max, real_time, now) else {
                            if real_time {
                                break;
                            }
                            self.postpone(slot);
                            continue;
                        };
                        self.disks[disk].schedule.issued(slot, issued, now);
                        self.ask_next(slot, disk, real_time, now);
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
    fn issue(&mut self, disk: usize, slot: u32, bytes_max: u64, real_time: bool, now: Nanos) -> Option<Issued> {
        let taken = self.take_buffered(slot);
        let stream = &self.streams[slot as usize];
        let mut ahead = stream.fetch;
        let next = ahead.next_content(stream.delivery());
        let (Some((key, ..)), true) = (next, stream.fetch.payload < stream.target) else {
            return Some(self.nothing_to_read(real_time));
        };
        let next = self.next_piece(slot).filter(|next| usize::from(next.disk.0) == disk);
        let Some(next) = next else { return Some(self.nothing_to_read(real_time)) };
        let count = if real_time { self.run_length(slot, key, bytes_max.min(next.length)) } else { 1 };
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
        let next_position = self.next_piece(slot).and_then(|next| next.position).unwrap_or(0);
        Some(Issued { real_time, position, bytes, requests, advanced_bytes: advanced, next_position })
    }

    fn nothing_to_read(&self, real_time: bool) -> Issued {
        Issued { real_time, position: 0, bytes: 0, requests: 0, advanced_bytes: u64::MAX, next_position: 0 }
    }

    /// How many quarters from `key` on can be read in one go: in one frame, absent, wanted, and next in the stream.
    fn run_length(&self, slot: u32, key: QuarterKey, bytes_max: u64) -> u32 {
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

    fn allocate(&mut self, key: QuarterKey, count: u32, real_time: bool, slot: u32) -> Option<(Quarter, u32)> {
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

    /// Reads `count` quarters, which lie in one piece: in one request for a guaranteed stream, in pieces for a best-effort
    /// one. Their position, how many bytes, and in how many requests.
    fn read_quarters(
        &mut self,
        slot: u32,
        key: QuarterKey,
        first: Quarter,
        count: u32,
        real_time: bool,
        now: Nanos,
    ) -> (u64, u64, u32) {
        let stream = &self.streams[slot as usize];
        let generation = stream.generation;
        let content = Arc::clone(&stream.delivery().content);
        debug_assert!(key.index + u64::from(count) <= quarters_of(&content), "within the content");
        let offset = key.index * QUARTER_BYTES;
        let copy = content.layout.copy_at(offset, |disk| self.reluctance(disk));
        let expected = (u64::from(count) * QUARTER_BYTES).min(content.size - offset);
        let unit = if real_time { limits::CHUNK_BYTES } else { limits::PIECE_BYTES_MAX };
        let (mut done, mut requests, mut at) = (0, 0, None);
        while done < expected {
            let piece =
                content.layout.piece(copy, offset + done, unit.min(expected - done)).expect("within the content");
            at = at.or(Some(piece.position.unwrap_or(0)));
            let op = self.reads_free.pop().expect("allocate checked");
            let file = self.files.find(content.version, piece.file).expect("a stream's files are open");
            self.files.user(file);
            self.reads[op as usize] = Some(ReadOp {
                slot,
                generation,
                disk: piece.disk,
                file,
                first,
                count,
                place: ErrorLocation::Content(content.version.0),
                copy,
                tried: 0,
                offset: offset + done,
                expected: piece.length,
                got: 0,
                real_time,
                issued: now,
                predicted: Nanos::ZERO,
            });
            self.read_piece(op, piece, now);
            done += piece.length;
            requests += 1;
        }
        (at.unwrap_or(0), expected, requests)
    }

    /// Hands a read to the world: of what is missing of it, in this piece.
    fn read_piece(&mut self, op: u32, piece: Piece, now: Nanos) {
        let read = self.reads[op as usize].as_mut().expect("a read is out");
        let disk = &self.disks[usize::from(piece.disk.0)];
        if let Some(position) = piece.position {
            read.place = ErrorLocation::at(position);
            if disk.spins && read.real_time && read.got == 0 {
                read.predicted = disk.schedule.predicted_read(position, piece.length);
            }
        }
        read.issued = now;
        let span = Span { offset: memory_of(read) + read.got, length: direct_length(piece.length) };
        let (token, disk, file) = (TokenWork::Read { op }.token(), piece.disk, read.file);
        self.io.read(ReadRequest { token, disk, file, offset: piece.offset, memory: span });
    }

    /// A read ended. What it brought counts once it is verified: others may have written to its file meanwhile, and a disk may
    /// give other bytes than it was given. What one copy did not bring is read from the next.
    pub(super) fn read_done(&mut self, op: u32, completion: Completion) {
        if self.reads_on(op, completion) {
            return;
        }
        let read = self.reads[op as usize].expect("a read was out");
        self.settle(&read, completion);
        if completion.result.is_err() && self.read_from_next_copy(op, completion.at) {
            return;
        }
        let content = self.files.content(read.file);
        let can_verify = content.watched.is_some() || content.checksums.is_some();
        if can_verify && completion.result.is_ok() && read.got > 0 {
            let length = u32::try_from(read.got.min(read.expected)).expect("at most a chunk");
            let memory = Span { offset: memory_of(&read), length };
            self.io.verify(TokenWork::Look { op }.token(), content, read.offset, memory);
        } else {
            self.looked(op, completion);
        }
    }

    /// What a read brought was verified. A disk that gave wrong bytes erred, as if it had told so.
    pub(super) fn verified(&mut self, op: u32, completion: Completion) {
        let read = self.reads[op as usize].as_mut().expect("a read was out");
        if completion.result.is_err() && self.files.content(read.file).checksums.is_some() {
            read.got = 0;
            let (disk, place) = (read.disk, read.place);
            self.gauges.disks[usize::from(disk.0)].errors.add(1);
            if self.disks[usize::from(disk.0)].health.read_failed(place, completion.at) {
                self.tell_condition(disk);
                self.leave_disk(disk, completion.at);
            }
            if self.read_from_next_copy(op, completion.at) {
                return;
            }
        }
        self.looked(op, completion);
    }

    /// Lets a read wait for its turn on the disk of another copy, if there is one that was not tried and answers.
    pub(super) fn read_from_next_copy(&mut self, op: u32, now: Nanos) -> bool {
        let read = self.reads[op as usize].expect("a read was out");
        let content = Arc::clone(self.files.content(read.file));
        let copies = content.layout.copies();
        for tried in read.tried + 1..copies {
            let copy = (read.copy + tried - read.tried) % copies;
            let Some(piece) = content.layout.piece(copy, read.offset + read.got, read.expected - read.got) else {
                continue;
            };
            let Some(file) = self.files.find(content.version, piece.file) else { continue };
            if piece.length < read.expected - read.got || self.disks[usize::from(piece.disk.0)].health.is_hung() {
                continue;
            }
            self.files.user(file);
            self.release_file(read.file);
            self.reads[op as usize] = Some(ReadOp { copy, tried, file, disk: piece.disk, issued: now, ..read });
            self.disks[usize::from(piece.disk.0)].retries.push(op);
            return true;
        }
        false
    }

    /// Makes reads that wait for a disk because another one failed.
    fn retry_reads(&mut self, disk: usize, now: Nanos) {
        while self.disks[disk].schedule.has_room()
            && let Some(op) = self.disks[disk].retries.pop()
        {
            let read = self.reads[op as usize].expect("a read waits");
            let content = self.files.content(read.file);
            let piece = content.layout.piece(read.copy, read.offset + read.got, read.expected - read.got);
            let piece = piece.expect("looked at before");
            self.disks[disk].schedule.begin_reads(piece.position.unwrap_or(0), piece.length, 1, now);
            self.read_piece(op, piece, now);
        }
    }

    /// The file of a read was looked at, or need not be: its quarters are ready, or bad.
    pub(super) fn looked(&mut self, op: u32, completion: Completion) {
        let read = self.reads[op as usize].take().expect("a read was out");
        self.reads_free.push(op);
        let (got, bad) = match completion.result {
            Ok(0) => (0, Outcome::ContentChanged),
            Ok(_) => (read.got, Outcome::ContentChanged),
            Err(_) => (0, Outcome::DiskError),
        };
        let version = self.files.content(read.file).version;
        for nth in 0..read.count {
            let from = u64::from(nth) * QUARTER_BYTES;
            let expected = read.expected.saturating_sub(from).min(QUARTER_BYTES);
            let there = got.saturating_sub(from);
            // A piece's valid bytes count from the quarter's start.
            let before = if read.count == 1 { read.offset % QUARTER_BYTES } else { 0 };
            let valid = u32::try_from(before + expected).expect("a quarter is small");
            let page = Cache::neighbour(read.first, nth);
            if there >= expected {
                self.cache.read_done(page, valid);
            } else {
                self.lose_page(page, QuarterKey { version, index: (read.offset + from) / QUARTER_BYTES }, bad);
            }
        }
        // Who starts is listed at one of the content's disks.
        let content = Arc::clone(self.files.content(read.file));
        for (disk, _) in content.layout.shares() {
            self.run_those_ready(usize::from(disk.0), completion.at);
        }
        self.release_file(read.file);
        self.wake_reader(&read, completion.at);
    }

    /// Counts what a read brought. A kernel may bring fewer blocks than were asked for without the file having ended:
    /// then the rest is asked for (true), and an answer of nothing, or of a broken block, is the end.
    fn reads_on(&mut self, op: u32, completion: Completion) -> bool {
        let read = self.reads[op as usize].as_mut().expect("a read was out");
        let Ok(more) = completion.result.map(u64::from) else { return false };
        read.got += more;
        if read.got < read.expected {
            read.predicted = Nanos::ZERO; // what two requests took says nothing about one
        }
        let left = read.expected.saturating_sub(read.got);
        if left == 0 || more == 0 || !more.is_multiple_of(limits::DIRECT_ALIGN) {
            return false;
        }
        let (copy, offset, issued) = (read.copy, read.offset + read.got, read.issued);
        let content = self.files.content(read.file);
        let Some(piece) = content.layout.piece(copy, offset, left) else { return false };
        self.read_piece(op, piece, issued);
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
            self.leave_disk(read.disk, completion.at);
        }
    }

    /// What a stream reads next, and where: as much as it wants and lies there.
    pub(super) fn next_piece(&self, slot: u32) -> Option<Piece> {
        let stream = &self.streams[slot as usize];
        let wanted = stream.target.saturating_sub(stream.fetch.payload);
        let mut cursor = stream.fetch;
        let (key, ..) = cursor.next_content(stream.delivery()).filter(|_| wanted > 0)?;
        let layout = &stream.delivery().content.layout;
        let offset = key.index * QUARTER_BYTES;
        let piece = layout.piece(layout.copy_at(offset, |disk| self.reluctance(disk)), offset, wanted)?;
        // All that it wants lies on one disk, be it in several ranges.
        let length = if layout.shares().len() == 1 { wanted } else { piece.length };
        Some(Piece { length, ..piece })
    }

    /// Gives back one reference to a quarter the stream has passed.
    pub(super) fn give_back(&mut self, slot: u32, key: QuarterKey) {
        let quarter = self.cache.find(key).expect("a referenced quarter stays");
        self.cache.release(quarter);
        self.count_best_effort(slot, -1);
    }

    /// Gives back everything a stream holds.
    pub(super) fn release_buffers(&mut self, slot: u32) {
        self.keep_until(slot, 0);
    }

    /// Gives back the pages that end behind `until` in a stream's payload; how many it keeps.
    pub(super) fn keep_until(&mut self, slot: u32, until: u64) -> i32 {
        let stream = &self.streams[slot as usize];
        let (mut cursor, end) = (stream.send, stream.fetch.payload);
        let (mut kept, mut pages) = (cursor, 0);
        while cursor.payload < end {
            let Some((key, _, left)) = cursor.next_content(self.streams[slot as usize].delivery()) else { break };
            cursor.pass(left);
            if cursor.payload <= until {
                (kept, pages) = (cursor, pages + 1);
            } else {
                self.give_back(slot, key);
            }
        }
        let stream = &mut self.streams[slot as usize];
        (stream.fetch, stream.target) = (kept, kept.payload);
        pages
    }
}

/// Where in the arena a read's first byte comes: a part of a quarter lies at its place in it.
fn memory_of(read: &ReadOp) -> u64 {
    let within = if read.count == 1 { read.offset % QUARTER_BYTES } else { 0 };
    Cache::span(read.first).offset + within
}

/// Pieces a best-effort read of the quarter with so many bytes of content from its start takes.
fn pieces_of(content_left: u64) -> u8 {
    u8::try_from(content_left.min(QUARTER_BYTES).div_ceil(limits::PIECE_BYTES_MAX)).expect("a quarter has few pieces")
}

fn direct_length(bytes: u64) -> u32 {
    u32::try_from(bytes.next_multiple_of(limits::DIRECT_ALIGN)).expect("at most a chunk")
}
