//! Reads: each from the request to the page that is ready, or cannot be read.

use std::sync::Arc;

use content::layout::Piece;
use schedule::disk::IssuedRead;
use schedule::disk::health::ErrorLocation;
use units::limits;

use super::buffer_pool::PageTerms;
use super::reads_in_flight::ReadOp;
use super::*;
use crate::cache::Page;
use crate::control::Outcome;
use crate::port::{IoFault, ReadRequest, Span};

/// Reads of a page at most. Follows from the pieces of a page.
const READS_PER_PAGE: usize = 2;

impl Fetcher {
    /// Issues the next read of a stream, at most `bytes_max`; `None` if there is no buffer for it now.
    pub(super) fn issue<I: Io>(
        &mut self,
        disk: DiskId,
        slot: u32,
        bytes_max: u64,
        real_time: bool,
        context: &mut PlaneContext<I>,
    ) -> Option<IssuedRead> {
        let taken = self.take_buffered(slot, context);
        if !real_time {
            return self.issue_best_effort(disk, slot, context);
        }
        let stream = &self.streams[slot];
        let next = stream.next_piece(&self.sources).filter(|next| next.disk == disk);
        let (Some((key, ..)), Some(next)) = (stream.next_page(), next) else { return Some(nothing_issued(real_time)) };
        let count = stream.run_length(key, bytes_max.min(next.length), &self.buffers);
        let (first, count) = self.allocate(key, count, real_time, slot)?;
        let stream = &mut self.streams[slot];
        let advanced_bytes = taken + (0..count).map(|_| stream.pass_page()).sum::<u64>();
        context.tell_pacer(ToPacer::Fetched { slot, payload: stream.fetched() });
        context.gauges.plane.cache_misses.add(u64::from(count));
        let (position, bytes, requests) = self.read_pages(slot, key, (first, count), real_time, context);
        let next = self.streams[slot].next_piece(&self.sources);
        let next_position = next.and_then(|next| next.position).unwrap_or(0);
        Some(IssuedRead { real_time, position, bytes, requests, advanced_bytes, next_position })
    }

    /// Places for `count` pages of a stream from `key` on, or for the first of them; `None` if there is none now, or no room for reads.
    pub(super) fn allocate(&mut self, key: PageKey, count: u32, real_time: bool, slot: u32) -> Option<(Page, u32)> {
        if self.reads.room() < READS_PER_PAGE {
            return None;
        }
        let stream = &self.streams[slot];
        let pieces = if real_time { 1 } else { pieces_of(stream.content().size - key.index * CACHE_PAGE_BYTES) };
        let terms = PageTerms { is_delivery: !real_time, is_kept: self.sources[stream.disk()].spins() };
        self.buffers.allocate(key, count, pieces, terms)
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
        let stream = &self.streams[slot];
        let generation = stream.generation();
        let content = Arc::clone(stream.content());
        debug_assert!(key.index + u64::from(count) <= content.size.div_ceil(CACHE_PAGE_BYTES), "within the content");
        let offset = key.index * CACHE_PAGE_BYTES;
        let copy = content.layout.copy_at(offset, |disk| self.sources.reluctance(disk));
        let expected = (u64::from(count) * CACHE_PAGE_BYTES).min(content.size - offset);
        let unit = if real_time { limits::CHUNK_BYTES } else { limits::PIECE_BYTES_MAX };
        let (mut done, mut requests, mut at) = (0, 0, None);
        while done < expected {
            let piece =
                content.layout.piece(copy, offset + done, unit.min(expected - done)).expect("within the content");
            at = at.or(Some(piece.position.unwrap_or(0)));
            let file = self.buffers.use_file(content.version, piece.file).expect("a stream's files are open");
            let op = self.reads.add(ReadOp {
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
        let read = self.reads.get_mut(op);
        let source = &self.sources[piece.disk];
        if let Some(position) = piece.position {
            read.place = ErrorLocation::at(position);
            if source.spins() && read.real_time && read.got == 0 {
                read.predicted = source.schedule.predicted_read(position, piece.length);
            }
        }
        read.issued = issued;
        let span = Span { offset: read.memory() + read.got, length: direct_length(piece.length) };
        let (token, disk, file) = (RequestKind::Read { op }.token(), piece.disk, read.file);
        context.io.read(ReadRequest { token, disk, file, offset: piece.offset, memory: span });
    }

    /// A read ended. Its bytes count once they are verified: other programs may have written to its file meanwhile, and a disk
    /// may give other bytes than it was given. Bytes missing from one copy are read from the next.
    pub(super) fn read_done<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        if self.reads_on(op, completion, context) {
            return;
        }
        let is_on_volume = self.buffers.content(self.reads.get(op).file).checksums.is_some();
        let completion = self.reads.get_mut(op).judge_end(completion, is_on_volume);
        let read = self.reads.get(op);
        self.settle(&read, completion, context);
        if matches!(completion.result, Err(IoFault::Device(_))) {
            self.tell_store(&read);
        }
        if completion.result.is_err() && self.read_from_next_copy(op, context) {
            return;
        }
        let content = self.buffers.content(read.file);
        let can_verify = content.watched.is_some() || content.checksums.is_some();
        if can_verify && completion.result.is_ok() && read.got > 0 {
            let length = u32::try_from(read.got.min(read.expected)).expect("at most a chunk");
            let memory = Span { offset: read.memory(), length };
            context.io.verify(RequestKind::Verify { op }.token(), content, read.offset, memory);
        } else {
            self.finish_read(op, completion.result, context);
        }
    }

    /// The bytes of a read were verified. A disk that gave wrong bytes erred, as if it had reported an error.
    pub(super) fn verified<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        let read = self.reads.get_mut(op);
        if completion.result.is_err() && self.buffers.content(read.file).checksums.is_some() {
            read.got = 0;
            let (disk, place) = (read.disk, read.place);
            context.gauges.disks[usize::from(disk.0)].errors.add(1);
            if self.sources[disk].health.read_failed(place, completion.at) {
                self.tell_condition(disk, context);
                self.leave_disk(disk, context);
            }
            self.tell_store(&self.reads.get(op));
            if self.read_from_next_copy(op, context) {
                return;
            }
        }
        self.finish_read(op, completion.result, context);
    }

    /// Tells the store of a copy that failed. A disk that errs everywhere is to be replaced: its places are not mended one by one.
    fn tell_store(&self, read: &ReadOp) {
        let content = self.buffers.content(read.file);
        if self.sources[read.disk].health.is_good()
            && let Some(checksums) = &content.checksums
        {
            checksums.copy_failed(read.offset);
        }
    }

    /// Lets a read wait for its turn on the disk of another copy, if there is one that was not tried and answers.
    pub(super) fn read_from_next_copy<I: Io>(&mut self, op: u32, context: &mut PlaneContext<I>) -> bool {
        let read = self.reads.get(op);
        let content = Arc::clone(self.buffers.content(read.file));
        let copies = content.layout.copies();
        for tried in read.tried + 1..copies {
            let copy = (read.copy + tried - read.tried) % copies;
            let Some(piece) = content.layout.piece(copy, read.offset + read.got, read.expected - read.got) else {
                continue;
            };
            if piece.length < read.expected - read.got || self.sources[piece.disk].health.is_hung() {
                continue;
            }
            let Some(file) = self.buffers.use_file(content.version, piece.file) else { continue };
            self.buffers.release_file(read.file, context);
            *self.reads.get_mut(op) = ReadOp { copy, tried, file, disk: piece.disk, issued: context.now, ..read };
            self.sources[piece.disk].retries.push(op);
            return true;
        }
        false
    }

    /// Makes reads that wait for a disk because another one failed. False if some still wait for the reads in flight: no others go before them.
    pub(super) fn retry_reads<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) -> bool {
        while self.sources[disk].schedule.has_room()
            && let Some(op) = self.sources[disk].retries.pop()
        {
            let read = self.reads.get(op);
            let content = self.buffers.content(read.file);
            let piece = content.layout.piece(read.copy, read.offset + read.got, read.expected - read.got);
            let piece = piece.expect("looked at before");
            self.sources[disk].schedule.begin_reads(piece.position.unwrap_or(0), piece.length, 1, context.now);
            self.read_piece(op, piece, context.now, context);
        }
        self.sources[disk].retries.is_empty()
    }

    /// The file of a read was looked at, or need not be: its pages are ready, or bad.
    pub(super) fn finish_read<I: Io>(&mut self, op: u32, result: Result<u32, IoFault>, context: &mut PlaneContext<I>) {
        let read = self.reads.take(op);
        let (got, bad) = match result {
            Ok(0) => (0, Outcome::ContentChanged),
            Ok(_) => (read.got, Outcome::ContentChanged),
            Err(_) => (0, Outcome::DiskError),
        };
        let version = self.buffers.content(read.file).version;
        for nth in 0..read.count {
            let from = u64::from(nth) * CACHE_PAGE_BYTES;
            let expected = read.expected.saturating_sub(from).min(CACHE_PAGE_BYTES);
            let there = got.saturating_sub(from);
            // A piece's valid bytes count from the page's start.
            let valid = u32::try_from(read.within_page() + expected).expect("a page is small");
            let page = Cache::neighbour(read.first, nth);
            if there >= expected {
                self.buffers.read_done(page, valid);
            } else {
                self.lose_page(page, PageKey { version, index: (read.offset + from) / CACHE_PAGE_BYTES }, bad, context);
            }
        }
        // A starting stream is listed at one of its content's disks.
        let content = Arc::clone(self.buffers.content(read.file));
        for disk in content.layout.disks() {
            self.run_those_ready(*disk, context);
        }
        self.buffers.release_file(read.file, context);
        let stream = &self.streams[read.slot];
        if !read.real_time && stream.generation() == read.generation && stream.is_best_effort() {
            context.tell_pacer(ToPacer::Wake { slot: read.slot });
        }
    }

    /// Counts the bytes of a read. A kernel may bring fewer blocks than were requested without the file having ended:
    /// then the rest is requested (true), and an answer of nothing, or of a broken block, is the end.
    fn reads_on<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) -> bool {
        let read = self.reads.get_mut(op);
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
        let content = self.buffers.content(read.file);
        let Some(piece) = content.layout.piece(copy, offset, left) else { return false };
        self.read_piece(op, piece, issued, context);
        true
    }

    /// Enters a completed read into the statistics of its disk.
    fn settle<I: Io>(&mut self, read: &ReadOp, completion: Completion, context: &mut PlaneContext<I>) {
        let source = &mut self.sources[read.disk];
        let ok = completion.result.is_ok();
        source.read_done(read.issued, completion.at, if ok { read.predicted } else { Nanos::ZERO }, read.real_time);
        let mut changed = source.health.answered();
        changed |= match ok {
            true => source.health.succeeded(),
            false => {
                context.gauges.disks[usize::from(read.disk.0)].errors.add(1);
                source.health.read_failed(read.place, completion.at)
            }
        };
        if changed {
            self.tell_condition(read.disk, context);
            self.leave_disk(read.disk, context);
        }
    }
}

/// Everything that was to be issued came from the buffers.
pub(super) const fn nothing_issued(real_time: bool) -> IssuedRead {
    IssuedRead { real_time, position: 0, bytes: 0, requests: 0, advanced_bytes: u64::MAX, next_position: 0 }
}

/// Pieces a best-effort read of the page with so many bytes of content from its start takes.
fn pieces_of(content_left: u64) -> u8 {
    u8::try_from(content_left.min(CACHE_PAGE_BYTES).div_ceil(limits::PIECE_BYTES_MAX)).expect("a page has few pieces")
}

fn direct_length(bytes: u64) -> u32 {
    u32::try_from(bytes.next_multiple_of(limits::DIRECT_ALIGN)).expect("at most a chunk")
}
