//! Reads: each from the request to the page that is ready, or cannot be read.

use content::layout::Piece;
use schedule::disk::IssuedRead;
use schedule::disk::health::ErrorLocation;
use units::limits;

use super::*;
use crate::cache::Page;
use crate::control::{Outcome, Report};
use crate::port::{FileSlot, IoFault, ReadRequest, Span};

/// A read in flight, or read and not looked at yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOp {
    /// The stream that asked for it.
    slot: u32,
    generation: u32,
    pub(super) disk: DiskId,
    pub(super) file: FileSlot,
    pub(super) first: Page,
    pub(super) count: u32,
    place: ErrorLocation,
    /// The copy of the content it reads, and how many were tried before.
    copy: usize,
    pub(super) tried: usize,
    /// Offset in the content, and bytes expected there.
    pub(super) offset: u64,
    expected: u64,
    /// Bytes that earlier, short answers to it brought.
    got: u64,
    real_time: bool,
    pub(super) issued: Nanos,
    predicted: Nanos,
}

impl ReadOp {
    /// The same read, of one page into another place.
    pub(super) const fn of_one_page(self, first: Page, offset: u64, expected: u64) -> Self {
        Self { first, count: 1, offset, expected, got: 0, ..self }
    }
}

impl Fetcher {
    /// Issues the next read of a stream, at most `bytes_max`; `None` if there is no buffer for it now.
    pub(super) fn issue<I: Io>(
        &mut self,
        disk: usize,
        slot: u32,
        bytes_max: u64,
        real_time: bool,
        context: &mut PlaneContext<I>,
    ) -> Option<IssuedRead> {
        let taken = self.take_buffered(slot, context);
        if !real_time {
            return self.issue_best_effort(requests::id_of(disk), slot, context);
        }
        let stream = &self.streams[slot as usize];
        let mut cursor = stream.fetch;
        let key = cursor.next_content(stream.segment_list()).map(|(key, ..)| key);
        let next = self.next_piece(slot).filter(|next| usize::from(next.disk.0) == disk);
        let (Some(key), Some(next)) = (key, next) else { return Some(nothing_issued(real_time)) };
        let count = self.run_length(slot, key, bytes_max.min(next.length));
        let (first, count) = self.allocate(key, count, real_time, slot)?;
        let mut advanced_bytes = taken;
        for _ in 0..count {
            advanced_bytes += self.pass_page(slot);
        }
        context.tell_pacer(ToPacer::Fetched { slot, payload: self.streams[slot as usize].fetch.payload });
        context.gauges.plane.cache_misses.add(u64::from(count));
        let (position, bytes, requests) = self.read_pages(slot, key, (first, count), real_time, context);
        let next_position = self.next_piece(slot).and_then(|next| next.position).unwrap_or(0);
        Some(IssuedRead { real_time, position, bytes, requests, advanced_bytes, next_position })
    }

    /// A stream has the page that comes next; how much it wants of it.
    pub(super) fn pass_page(&mut self, slot: u32) -> u64 {
        let stream = &mut self.streams[slot as usize];
        let mut cursor = stream.fetch;
        let (_, _, left) = cursor.next_content(stream.segment_list()).expect("there is one");
        cursor.pass(left);
        stream.fetch = cursor;
        left
    }

    /// How many pages from `key` on can be read in one go: in one chunk, absent, wanted, and next in the stream.
    fn run_length(&self, slot: u32, key: PageKey, bytes_max: u64) -> u32 {
        let stream = &self.streams[slot as usize];
        let in_chunk = u64::from(CHUNK_PAGES) - key.index % u64::from(CHUNK_PAGES);
        let most = in_chunk.min(bytes_max.div_ceil(CACHE_PAGE_BYTES));
        let mut cursor = stream.fetch;
        let mut count = 0;
        while u64::from(count) < most && cursor.payload < stream.target {
            let Some((next, _, left)) = cursor.next_content(stream.segment_list()) else { break };
            let follows = next.index == key.index + u64::from(count);
            if !follows || (count > 0 && self.cache.find(next).is_some()) {
                break;
            }
            cursor.pass(left);
            count += 1;
        }
        count.max(1)
    }

    pub(super) fn allocate(&mut self, key: PageKey, count: u32, real_time: bool, slot: u32) -> Option<(Page, u32)> {
        // The share of best effort is looked at again: many may have asked before the first of them held anything.
        let share_used = !real_time && self.best_effort.1 >= self.best_effort_pages_max();
        if self.reads_free.len() < 2 || share_used {
            return None;
        }
        let content = self.streams[slot as usize].content();
        let pieces = if real_time { 1 } else { pieces_of(content.size - key.index * CACHE_PAGE_BYTES) };
        let run = self.cache.allocate(key, count, pieces).map(|first| (first, count));
        let got = run.or_else(|| Some((self.cache.allocate(key, 1, pieces)?, 1)))?;
        if self.disk(self.streams[slot as usize].disk).spins {
            self.cache.keep(got.0);
        }
        Some(got)
    }

    /// Reads `count` pages, which lie in one piece: in one request for a guaranteed stream, in pieces for a best-effort
    /// one. Their position, how many bytes, and in how many requests.
    pub(super) fn read_pages<I: Io>(
        &mut self,
        slot: u32,
        key: PageKey,
        (first, count): (Page, u32),
        real_time: bool,
        context: &mut PlaneContext<I>,
    ) -> (u64, u64, u32) {
        let stream = &self.streams[slot as usize];
        let generation = stream.generation;
        let content = Arc::clone(stream.content());
        debug_assert!(key.index + u64::from(count) <= content.size.div_ceil(CACHE_PAGE_BYTES), "within the content");
        let offset = key.index * CACHE_PAGE_BYTES;
        let copy = content.layout.copy_at(offset, |disk| self.reluctance(disk));
        let expected = (u64::from(count) * CACHE_PAGE_BYTES).min(content.size - offset);
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
                issued: context.now,
                predicted: Nanos::ZERO,
            });
            self.read_piece(op, piece, context.now, context);
            done += piece.length;
            requests += 1;
        }
        (at.unwrap_or(0), expected, requests)
    }

    /// Hands a read to the world: of its missing bytes, in this piece.
    fn read_piece<I: Io>(&mut self, op: u32, piece: Piece, issued: Nanos, context: &mut PlaneContext<I>) {
        let read = self.reads[op as usize].as_mut().expect("a read is out");
        let disk = &self.disks[usize::from(piece.disk.0)];
        if let Some(position) = piece.position {
            read.place = ErrorLocation::at(position);
            if disk.spins && read.real_time && read.got == 0 {
                read.predicted = disk.schedule.predicted_read(position, piece.length);
            }
        }
        read.issued = issued;
        let span = Span { offset: memory_of(read) + read.got, length: direct_length(piece.length) };
        let (token, disk, file) = (RequestKind::Read { op }.token(), piece.disk, read.file);
        context.io.read(ReadRequest { token, disk, file, offset: piece.offset, memory: span });
    }

    /// A read ended. Its bytes count once they are verified: other programs may have written to its file meanwhile, and a disk
    /// may give other bytes than it was given. Bytes missing from one copy are read from the next.
    pub(super) fn read_done<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        if self.reads_on(op, completion, context) {
            return;
        }
        let read = self.reads[op as usize].expect("a read was out");
        self.settle(&read, completion, context);
        if matches!(completion.result, Err(IoFault::Device(_))) {
            self.tell_store(&read);
        }
        if completion.result.is_err() && self.read_from_next_copy(op, context) {
            return;
        }
        let content = self.files.content(read.file);
        let can_verify = content.watched.is_some() || content.checksums.is_some();
        if can_verify && completion.result.is_ok() && read.got > 0 {
            let length = u32::try_from(read.got.min(read.expected)).expect("at most a chunk");
            let memory = Span { offset: memory_of(&read), length };
            context.io.verify(RequestKind::Verify { op }.token(), content, read.offset, memory);
        } else {
            self.finish_read(op, completion.result, context);
        }
    }

    /// The bytes of a read were verified. A disk that gave wrong bytes erred, as if it had reported an error.
    pub(super) fn verified<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        let read = self.reads[op as usize].as_mut().expect("a read was out");
        if completion.result.is_err() && self.files.content(read.file).checksums.is_some() {
            read.got = 0;
            let (disk, place) = (read.disk, read.place);
            context.gauges.disks[usize::from(disk.0)].errors.add(1);
            if self.disks[usize::from(disk.0)].health.read_failed(place, completion.at) {
                self.tell_condition(disk, context);
                self.leave_disk(disk, context);
            }
            self.tell_store(&self.reads[op as usize].expect("a read was out"));
            if self.read_from_next_copy(op, context) {
                return;
            }
        }
        self.finish_read(op, completion.result, context);
    }

    /// Tells the store of a copy that failed. A disk that errs everywhere is to be replaced: its places are not mended one by one.
    fn tell_store(&self, read: &ReadOp) {
        let content = self.files.content(read.file);
        if content.layout.copies() > 1
            && self.disk(read.disk).health.is_good()
            && let Some(checksums) = &content.checksums
        {
            checksums.copy_failed(read.offset);
        }
    }

    /// Lets a read wait for its turn on the disk of another copy, if there is one that was not tried and answers.
    pub(super) fn read_from_next_copy<I: Io>(&mut self, op: u32, context: &mut PlaneContext<I>) -> bool {
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
            self.release_file(read.file, context);
            self.reads[op as usize] = Some(ReadOp { copy, tried, file, disk: piece.disk, issued: context.now, ..read });
            self.disks[usize::from(piece.disk.0)].retries.push(op);
            return true;
        }
        false
    }

    /// Makes reads that wait for a disk because another one failed.
    pub(super) fn retry_reads<I: Io>(&mut self, disk: usize, context: &mut PlaneContext<I>) {
        while self.disks[disk].schedule.has_room()
            && let Some(op) = self.disks[disk].retries.pop()
        {
            let read = self.reads[op as usize].expect("a read waits");
            let content = self.files.content(read.file);
            let piece = content.layout.piece(read.copy, read.offset + read.got, read.expected - read.got);
            let piece = piece.expect("looked at before");
            self.disks[disk].schedule.begin_reads(piece.position.unwrap_or(0), piece.length, 1, context.now);
            self.read_piece(op, piece, context.now, context);
        }
    }

    /// The file of a read was looked at, or need not be: its pages are ready, or bad.
    pub(super) fn finish_read<I: Io>(&mut self, op: u32, result: Result<u32, IoFault>, context: &mut PlaneContext<I>) {
        let read = self.reads[op as usize].take().expect("a read was out");
        self.reads_free.push(op);
        let (got, bad) = match result {
            Ok(0) => (0, Outcome::ContentChanged),
            Ok(_) => (read.got, Outcome::ContentChanged),
            Err(_) => (0, Outcome::DiskError),
        };
        let version = self.files.content(read.file).version;
        for nth in 0..read.count {
            let from = u64::from(nth) * CACHE_PAGE_BYTES;
            let expected = read.expected.saturating_sub(from).min(CACHE_PAGE_BYTES);
            let there = got.saturating_sub(from);
            // A piece's valid bytes count from the page's start.
            let before = if read.count == 1 { read.offset % CACHE_PAGE_BYTES } else { 0 };
            let valid = u32::try_from(before + expected).expect("a page is small");
            let page = Cache::neighbour(read.first, nth);
            if there >= expected {
                self.cache.read_done(page, valid);
            } else {
                self.lose_page(page, PageKey { version, index: (read.offset + from) / CACHE_PAGE_BYTES }, bad, context);
            }
        }
        // A starting stream is listed at one of its content's disks.
        let content = Arc::clone(self.files.content(read.file));
        for disk in content.layout.disks() {
            self.run_those_ready(usize::from(disk.0), context);
        }
        self.release_file(read.file, context);
        let stream = &self.streams[read.slot as usize];
        if !read.real_time && stream.generation == read.generation && stream.plan.is_none() {
            context.tell_pacer(ToPacer::Wake { slot: read.slot });
        }
    }

    /// Counts the bytes of a read. A kernel may bring fewer blocks than were requested without the file having ended:
    /// then the rest is requested (true), and an answer of nothing, or of a broken block, is the end.
    fn reads_on<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) -> bool {
        let read = self.reads[op as usize].as_mut().expect("a read was out");
        let Ok(more) = completion.result.map(u64::from) else { return false };
        read.got += more;
        if read.got < read.expected {
            read.predicted = Nanos::ZERO; // the time of two requests says nothing about one
        }
        let left = read.expected.saturating_sub(read.got);
        if left == 0 || more == 0 || !more.is_multiple_of(limits::DIRECT_ALIGN) {
            return false;
        }
        let (copy, offset, issued) = (read.copy, read.offset + read.got, read.issued);
        let content = self.files.content(read.file);
        let Some(piece) = content.layout.piece(copy, offset, left) else { return false };
        self.read_piece(op, piece, issued, context);
        true
    }

    /// Enters a completed read into the statistics of its disk.
    fn settle<I: Io>(&mut self, read: &ReadOp, completion: Completion, context: &mut PlaneContext<I>) {
        let disk = &mut self.disks[usize::from(read.disk.0)];
        let gauges = &context.gauges.disks[usize::from(read.disk.0)];
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
            self.tell_condition(read.disk, context);
            self.leave_disk(read.disk, context);
        }
    }

    /// Makes the files of a content usable.
    pub(super) fn open_files<I: Io>(&mut self, content: &Arc<Content>, context: &mut PlaneContext<I>) {
        for (nth, file) in (0u16..).zip(content.layout.files()) {
            if let Some(slot) = self.files.open(content, nth) {
                context.io.open_file(slot, &file.file, file.access);
            }
        }
    }

    pub(super) fn close_files<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let content = self.streams[slot as usize].content();
        let (version, files) = (content.version, content.layout.files().len());
        for nth in (0u16..).take(files) {
            let file = self.files.find(version, nth).expect("a stream's files are open");
            self.release_file(file, context);
        }
    }

    pub(super) fn release_file<I: Io>(&mut self, file: FileSlot, context: &mut PlaneContext<I>) {
        if let Some(content) = self.files.release(file) {
            context.io.close_file(file);
            // Dropping the last reference closes the file, which may take long, so it is not done here. That others
            // hold one now does not help: they may drop theirs first.
            context.report(Report::Unused(content));
        }
    }
}

/// Everything that was to be issued came from the buffers.
pub(super) const fn nothing_issued(real_time: bool) -> IssuedRead {
    IssuedRead { real_time, position: 0, bytes: 0, requests: 0, advanced_bytes: u64::MAX, next_position: 0 }
}

/// Where in the arena a read's first byte comes: a part of a page lies at its place in it.
fn memory_of(read: &ReadOp) -> u64 {
    let within = if read.count == 1 { read.offset % CACHE_PAGE_BYTES } else { 0 };
    Cache::span(read.first).offset + within
}

/// Pieces a best-effort read of the page with so many bytes of content from its start takes.
fn pieces_of(content_left: u64) -> u8 {
    u8::try_from(content_left.min(CACHE_PAGE_BYTES).div_ceil(limits::PIECE_BYTES_MAX)).expect("a page has few pieces")
}

fn direct_length(bytes: u64) -> u32 {
    u32::try_from(bytes.next_multiple_of(limits::DIRECT_ALIGN)).expect("at most a chunk")
}
