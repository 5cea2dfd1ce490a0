//! Reads: each from the request to the page that is ready, or cannot be read.

use std::sync::Arc;

use schedule::disk::IssuedRead;
use units::limits;

use super::buffer_pool::PageTerms;
use super::reads_in_flight::{IssuedPages, PageRun};
use super::*;
use crate::control::Outcome;
use crate::port::IoFault;

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
        let run = self.allocate(key, count, real_time, slot)?;
        let stream = &mut self.streams[slot];
        let advanced_bytes = taken + (0..run.count).map(|_| stream.pass_page()).sum::<u64>();
        context.tell_pacer(ToPacer::Fetched { slot, payload: stream.fetched() });
        context.gauges.plane.cache_misses.add(u64::from(run.count));
        let IssuedPages { position, bytes, requests } = self.read_pages(slot, run, real_time, context);
        let next = self.streams[slot].next_piece(&self.sources);
        let next_position = next.and_then(|next| next.position).unwrap_or(0);
        Some(IssuedRead { real_time, position, bytes, requests, advanced_bytes, next_position })
    }

    /// Places for `count` pages of a stream from `key` on, or for the first of them; `None` if there is none now, or no room for reads.
    pub(super) fn allocate(&mut self, key: PageKey, count: u32, real_time: bool, slot: u32) -> Option<PageRun> {
        if !self.reads.has_room() {
            return None;
        }
        let stream = &self.streams[slot];
        let pieces = if real_time { 1 } else { pieces_of(stream.content().size - key.index * CACHE_PAGE_BYTES) };
        let terms = PageTerms { is_delivery: !real_time, is_kept: self.sources[stream.disk()].spins() };
        let (first, count) = self.buffers.allocate(key, count, pieces, terms)?;
        Some(PageRun { key, first, count })
    }

    /// Reads pages for a stream.
    pub(super) fn read_pages<I: Io>(
        &mut self,
        slot: u32,
        run: PageRun,
        real_time: bool,
        context: &mut PlaneContext<I>,
    ) -> IssuedPages {
        let reader = (slot, &self.streams[slot]);
        self.reads.begin(reader, run, real_time, (&self.sources, &mut self.buffers), context)
    }

    /// A read ended. Its bytes count once they are verified: other programs may have written to its file meanwhile, and a disk
    /// may give other bytes than it was given.
    pub(super) fn read_done<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        let disks = (&self.sources, &self.buffers);
        let Some(completion) = self.reads.answered(op, completion, disks, context) else { return };
        let read = self.reads.get(op);
        if self.sources[read.disk].read_done(&read, completion, &context.gauges) {
            self.condition_changed(read.disk, context);
        }
        if matches!(completion.result, Err(IoFault::Device(_))) {
            read.tell_store(&self.sources, &self.buffers);
        }
        let waits = match completion.result {
            Ok(_) => self.reads.verify(op, &self.buffers, context),
            Err(_) => self.reads.try_next_copy(op, (&mut self.sources, &mut self.buffers), context),
        };
        if !waits {
            self.finish_read(op, completion.result, context);
        }
    }

    /// The bytes of a read were verified. A disk that gave wrong bytes erred, as if it had reported an error.
    pub(super) fn verified<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        let wrong = completion.result.err().and_then(|_| self.reads.is_wrong(op, &self.buffers));
        if let Some(read) = wrong {
            if self.sources[read.disk].read_failed(&read, completion.at, &context.gauges) {
                self.condition_changed(read.disk, context);
            }
            read.tell_store(&self.sources, &self.buffers);
            if self.reads.try_next_copy(op, (&mut self.sources, &mut self.buffers), context) {
                return;
            }
        }
        self.finish_read(op, completion.result, context);
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
}

/// Everything that was to be issued came from the buffers.
pub(super) const fn nothing_issued(real_time: bool) -> IssuedRead {
    IssuedRead { real_time, position: 0, bytes: 0, requests: 0, advanced_bytes: u64::MAX, next_position: 0 }
}

/// Pieces a best-effort read of the page with so many bytes of content from its start takes.
fn pieces_of(content_left: u64) -> u8 {
    u8::try_from(content_left.min(CACHE_PAGE_BYTES).div_ceil(limits::PIECE_BYTES_MAX)).expect("a page has few pieces")
}
