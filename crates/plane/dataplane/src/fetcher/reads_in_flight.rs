//! Reads in flight: each from its request to its last byte, from one copy or from the next.
//!
//! Promise: a number names one read until it is taken out, and the number of reads in flight is bounded. Bytes missing from one copy
//! are read from the next. Not here: the pages that a stream wants, and the end of a read for the streams (`reads`).

use std::sync::Arc;

use content::layout::Piece;
use schedule::disk::health::ErrorLocation;
use units::limits::{self, CACHE_PAGE_BYTES};
use units::{DiskId, Nanos};

use super::READS_MAX;
use super::buffer_pool::BufferPool;
use super::read_ahead::ReadAhead;
use super::read_op::ReadOp;
use super::source::Sources;
use crate::cache::{Cache, Page, PageKey};
use crate::context::{PlaneContext, RequestKind};
use crate::port::{Completion, Io, IoFault, ReadRequest, Span};

/// "No data available". Follows from the system's numbers of errors (`errno`(3)).
const ENODATA: i32 = 61;

/// Reads of a page at most. Follows from the pieces of a page.
const READS_PER_PAGE: usize = 2;

/// Places of pages that are next to each other in one piece of a content.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRun {
    pub(super) key: PageKey,
    pub(super) first: Page,
    pub(super) count: u32,
}

/// The reads that were issued at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct IssuedPages {
    pub(super) position: u64,
    pub(super) bytes: u64,
    pub(super) requests: u32,
}

/// The reads by their numbers.
#[derive(Debug)]
pub(super) struct ReadsInFlight {
    reads: Vec<Option<ReadOp>>,
    free: Vec<u32>,
}

impl ReadsInFlight {
    pub(super) fn new() -> Self {
        let numbers = (0..READS_MAX).rev().map(|op| u32::try_from(op).expect("few"));
        Self { reads: vec![None; READS_MAX], free: numbers.collect() }
    }

    /// True if a page more can be read.
    pub(super) const fn has_room(&self) -> bool {
        self.free.len() >= READS_PER_PAGE
    }

    /// Adds a read, for which there is room.
    fn add(&mut self, read: ReadOp) -> u32 {
        let op = self.free.pop().expect("the caller looked for room");
        debug_assert!(self.reads[op as usize].is_none(), "a number is of one read");
        self.reads[op as usize] = Some(read);
        op
    }

    /// The read of this number, which is out.
    pub(super) fn get(&self, op: u32) -> ReadOp {
        self.find(op).expect("a read is out")
    }

    /// The same, to change it.
    fn get_mut(&mut self, op: u32) -> &mut ReadOp {
        self.reads[op as usize].as_mut().expect("a read is out")
    }

    /// Takes a read out.
    pub(super) fn take(&mut self, op: u32) -> ReadOp {
        self.free.push(op);
        self.reads[op as usize].take().expect("a read was out")
    }

    /// The read of this number, if one is out.
    pub(super) fn find(&self, op: u32) -> Option<ReadOp> {
        self.reads[op as usize]
    }

    /// The reads that are out.
    fn iter(&self) -> impl Iterator<Item = &ReadOp> {
        // The table is large, and is looked through at each tick while a disk is quiet.
        let count = if self.free.len() < self.reads.len() { self.reads.len() } else { 0 };
        self.reads[..count].iter().flatten()
    }
}

/// The life of the reads.
impl ReadsInFlight {
    /// Reads pages for a stream: in one request for a guaranteed one, in pieces for a best-effort one.
    pub(super) fn begin<I: Io>(
        &mut self,
        stream: &ReadAhead,
        PageRun { key, first, count }: PageRun,
        real_time: bool,
        (sources, buffers): (&Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) -> IssuedPages {
        let content = stream.content();
        debug_assert!(key.index + u64::from(count) <= content.size.div_ceil(CACHE_PAGE_BYTES), "within the content");
        let offset = key.index * CACHE_PAGE_BYTES;
        let copy = content.layout.copy_at(offset, |disk| sources.reluctance(disk));
        let bytes = (u64::from(count) * CACHE_PAGE_BYTES).min(content.size - offset);
        let unit = if real_time { limits::CHUNK_BYTES } else { limits::PIECE_BYTES_MAX };
        let (mut done, mut requests, mut at) = (0, 0, None);
        while done < bytes {
            let piece = content.layout.piece(copy, offset + done, unit.min(bytes - done)).expect("within the content");
            at = at.or(Some(piece.position.unwrap_or(0)));
            let file = buffers.use_file(content.version, piece.file).expect("a stream's files are open");
            let op = self.add(ReadOp {
                slot: stream.slot(),
                generation: stream.generation(),
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
            self.read_piece(op, piece, context.now, sources, context);
            done += piece.length;
            requests += 1;
        }
        debug_assert!(done == bytes && requests > 0, "the pieces of a run are its bytes");
        IssuedPages { position: at.unwrap_or(0), bytes, requests }
    }

    /// Hands a read to the world: of its missing bytes, in this piece.
    fn read_piece<I: Io>(
        &mut self,
        op: u32,
        piece: Piece,
        issued: Nanos,
        sources: &Sources,
        context: &mut PlaneContext<I>,
    ) {
        let read = self.get_mut(op);
        let source = &sources[piece.disk];
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

    /// Counts the bytes of an answer. A kernel may bring fewer blocks than were requested without the file having ended: then the rest is
    /// requested (`None`), and an answer of nothing, or of a broken block, is the end. A disk of a volume that ends before the bytes it was
    /// given erred: the kernel gives a disk that was pulled out no length.
    pub(super) fn answered<I: Io>(
        &mut self,
        op: u32,
        completion: Completion,
        (sources, buffers): (&Sources, &BufferPool),
        context: &mut PlaneContext<I>,
    ) -> Option<Completion> {
        let Ok(more) = completion.result.map(u64::from) else { return Some(completion) };
        let read = self.get_mut(op);
        read.got += more;
        debug_assert!(read.got <= u64::from(direct_length(read.expected)), "an answer brings what was requested");
        let left = read.expected.saturating_sub(read.got);
        if left == 0 {
            return Some(completion);
        }
        read.predicted = Nanos::ZERO; // the time of two requests says nothing about one
        let content = buffers.content(read.file);
        let whole_blocks = more > 0 && more.is_multiple_of(limits::DIRECT_ALIGN);
        let rest = content.layout.piece(read.copy, read.offset + read.got, left).filter(|_| whole_blocks);
        if let Some(piece) = rest {
            let issued = read.issued;
            self.read_piece(op, piece, issued, sources, context);
            return None;
        }
        if content.checksums.is_none() {
            return Some(completion);
        }
        read.got = 0;
        Some(Completion { result: Err(IoFault::Device(ENODATA)), ..completion })
    }

    /// Has the bytes of a read verified; false if nothing tells whether they are the right ones.
    pub(super) fn verify<I: Io>(&self, op: u32, buffers: &BufferPool, context: &mut PlaneContext<I>) -> bool {
        let read = self.get(op);
        let content = buffers.content(read.file);
        let can_verify = (content.watched.is_some() || content.checksums.is_some()) && read.got > 0;
        if can_verify {
            let length = u32::try_from(read.got.min(read.expected)).expect("at most a chunk");
            let memory = Span { offset: read.memory(), length };
            context.io.verify(RequestKind::Verify { op }.token(), content, read.offset, memory);
        }
        can_verify
    }

    /// The bytes of a read are not those that its disk was given; the read, if that can be known.
    pub(super) fn is_wrong(&mut self, op: u32, buffers: &BufferPool) -> Option<ReadOp> {
        let read = self.get_mut(op);
        buffers.content(read.file).checksums.as_ref()?;
        read.got = 0;
        Some(*read)
    }

    /// Lets a read wait for its turn on the disk of another copy, if there is an untried disk that answers.
    pub(super) fn try_next_copy<I: Io>(
        &mut self,
        op: u32,
        (sources, buffers): (&mut Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) -> bool {
        let read = self.get(op);
        let content = Arc::clone(buffers.content(read.file));
        let copies = content.layout.copies();
        for tried in read.tried + 1..copies {
            let copy = (read.copy + tried - read.tried) % copies;
            let Some(piece) = content.layout.piece(copy, read.offset + read.got, read.expected - read.got) else {
                continue;
            };
            if piece.length < read.expected - read.got || sources[piece.disk].health.is_hung() {
                continue;
            }
            let Some(file) = buffers.use_file(content.version, piece.file) else { continue };
            buffers.release_file(read.file, context);
            *self.get_mut(op) = ReadOp { copy, tried, file, disk: piece.disk, issued: context.now, ..read };
            sources[piece.disk].retries.push(op);
            return true;
        }
        false
    }

    /// Makes reads that wait for a disk because another one failed. False if some still wait for the reads in flight: no others go before them.
    pub(super) fn retry<I: Io>(
        &mut self,
        disk: DiskId,
        (sources, buffers): (&mut Sources, &BufferPool),
        context: &mut PlaneContext<I>,
    ) -> bool {
        while sources[disk].schedule.has_room()
            && let Some(op) = sources[disk].retries.pop()
        {
            let read = self.get(op);
            let layout = &buffers.content(read.file).layout;
            let piece = layout.piece(read.copy, read.offset + read.got, read.expected - read.got);
            let piece = piece.expect("looked at before");
            sources[disk].schedule.begin_reads(piece.position.unwrap_or(0), piece.length, 1, context.now);
            self.read_piece(op, piece, context.now, sources, context);
        }
        sources[disk].retries.is_empty()
    }

    /// Whether a read of this disk is out for longer than `limit`; only a read that a good disk could answer, if `copies`.
    pub(super) fn is_overdue(
        &self,
        disk: DiskId,
        limit: Nanos,
        copies: bool,
        now: Nanos,
        (sources, buffers): (&Sources, &BufferPool),
    ) -> bool {
        let overdue = |read: &ReadOp| read.disk == disk && now.saturating_sub(read.issued) > limit;
        self.iter().any(|read| overdue(read) && (!copies || has_good_copy(read, sources, buffers)))
    }

    /// The pages of the read of this number, if it waits for this disk and should be made from another copy: one on a good disk, or, once
    /// this disk is given up, any.
    pub(super) fn pages_for_elsewhere(
        &self,
        op: u32,
        disk: DiskId,
        (sources, buffers): (&Sources, &BufferPool),
    ) -> std::ops::Range<u32> {
        let should_leave = |read: &ReadOp| {
            let has_copies = buffers.content(read.file).layout.copies() > 1;
            read.disk == disk && has_copies && (sources[disk].health.is_hung() || has_good_copy(read, sources, buffers))
        };
        0..self.find(op).filter(should_leave).map_or(0, |read| read.count)
    }

    /// Reads a page of a read that is not answered once more, into another place, if a stream waits for it and there is room: its number,
    /// and whether there is a copy to read.
    pub(super) fn read_again<I: Io>(
        &mut self,
        op: u32,
        nth: u32,
        (sources, buffers): (&mut Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) -> Option<(u32, bool)> {
        if self.free.is_empty() {
            return None;
        }
        let read = self.get(op);
        let first = buffers.supersede(Cache::neighbour(read.first, nth))?;
        let offset = (read.offset / CACHE_PAGE_BYTES + u64::from(nth)) * CACHE_PAGE_BYTES;
        let expected = CACHE_PAGE_BYTES.min(buffers.content(read.file).size - offset);
        buffers.use_file_again(read.file);
        let is_hung = sources[read.disk].health.is_hung();
        let tried = if is_hung { read.tried } else { 0 };
        let again = self.add(ReadOp { tried, ..read.of_one_page(first, offset, expected) });
        let has_copy = self.try_next_copy(again, (sources, buffers), context);
        if has_copy && !is_hung {
            // The other disk may be worse than it seemed: then this disk, which may answer yet, gets the read again.
            self.get_mut(again).tried = 0;
        }
        Some((again, has_copy))
    }
}

fn direct_length(bytes: u64) -> u32 {
    u32::try_from(bytes.next_multiple_of(limits::DIRECT_ALIGN)).expect("at most a chunk")
}

/// True if the bytes of a read have another copy on a good disk.
fn has_good_copy(read: &ReadOp, sources: &Sources, buffers: &BufferPool) -> bool {
    let layout = &buffers.content(read.file).layout;
    (0..layout.copies())
        .filter_map(|copy| layout.piece(copy, read.offset, 1))
        .any(|piece| piece.disk != read.disk && sources[piece.disk].health.is_good())
}

/// Tells the store of the copy of a read, which failed. A disk that errs everywhere is to be replaced: its places are not mended one by one.
pub(super) fn tell_store(read: &ReadOp, sources: &Sources, buffers: &BufferPool) {
    let content = buffers.content(read.file);
    if sources[read.disk].health.is_good()
        && let Some(checksums) = &content.checksums
    {
        checksums.copy_failed(read.offset);
    }
}
