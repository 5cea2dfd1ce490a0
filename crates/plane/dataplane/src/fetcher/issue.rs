//! Issue of reads: the pages that a stream wants next get places in the buffers, and are requested of the disk.
//!
//! Not here: when a disk has time for them (`schedule::disk`), how far a stream reads ahead (`read_ahead`).

use schedule::disk::step::IssuedRead;
use units::DiskId;
use units::limits::{self, CACHE_PAGE_BYTES};

use super::buffer_pool::{BufferPool, PageTerms};
use super::read_ahead::ReadAhead;
use super::reads_in_flight::{IssuedPages, PageRun, ReadsInFlight};
use super::source::Sources;
use crate::cache::PageKey;
use crate::context::PlaneContext;
use crate::port::Io;

/// A read that a disk's schedule has chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedRead {
    pub(super) disk: DiskId,
    pub(super) bytes_max: u64,
    pub(super) real_time: bool,
}

impl ReadsInFlight {
    /// Issues the next read of a stream; `None` if there is no buffer for it now.
    pub(super) fn issue<I: Io>(
        &mut self,
        stream: &mut ReadAhead,
        WantedRead { disk, bytes_max, real_time }: WantedRead,
        (sources, buffers): (&Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) -> Option<IssuedRead> {
        let taken = stream.take_buffered(buffers, context);
        if !real_time {
            return self.issue_best_effort(stream, disk, (sources, buffers), context);
        }
        let next = stream.next_piece(sources).filter(|next| next.disk == disk);
        let (Some((key, ..)), Some(next)) = (stream.next_page(), next) else { return Some(nothing_issued(real_time)) };
        let count = stream.run_length(key, bytes_max.min(next.length), buffers);
        let run = self.allocate(stream, (key, count), real_time, (sources, buffers))?;
        let advanced_bytes = taken + (0..run.count).map(|_| stream.pass_page()).sum::<u64>();
        stream.tell_fetched(context);
        context.gauges.plane.cache_misses.add(u64::from(run.count));
        let IssuedPages { position, bytes, requests } = self.begin(stream, run, real_time, (sources, buffers), context);
        let next_position = stream.next_piece(sources).and_then(|next| next.position).unwrap_or(0);
        Some(IssuedRead { real_time, position, bytes, requests, advanced_bytes, next_position })
    }

    /// Issues the read of the first page that a delivery without a reservation wants from this disk.
    fn issue_best_effort<I: Io>(
        &mut self,
        stream: &mut ReadAhead,
        disk: DiskId,
        (sources, buffers): (&Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) -> Option<IssuedRead> {
        let Some(missing) = stream.missing_on(disk, sources, buffers) else { return Some(nothing_issued(false)) };
        let run = self.allocate(stream, (missing.key, 1), false, (sources, buffers))?;
        context.gauges.plane.cache_misses.add(1);
        let IssuedPages { position, bytes, requests } = self.begin(stream, run, false, (sources, buffers), context);
        if missing.is_next {
            stream.pass_page();
            stream.tell_fetched(context);
        } else {
            stream.hold_ahead(missing.key);
        }
        let (advanced_bytes, next_position) = match stream.missing_on(disk, sources, buffers) {
            Some(next) => (bytes, next.position),
            None => (u64::MAX, 0),
        };
        Some(IssuedRead { real_time: false, position, bytes, requests, advanced_bytes, next_position })
    }

    /// Places for this number of pages of a stream from a key on, or for the first of them; `None` if there is none now, or no room for
    /// reads.
    fn allocate(
        &self,
        stream: &ReadAhead,
        (key, count): (PageKey, u32),
        real_time: bool,
        (sources, buffers): (&Sources, &mut BufferPool),
    ) -> Option<PageRun> {
        if !self.has_room() {
            return None;
        }
        let pieces = if real_time { 1 } else { pieces_of(stream.content().size - key.index * CACHE_PAGE_BYTES) };
        let terms = PageTerms { is_delivery: !real_time, is_kept: sources[stream.disk()].spins() };
        let (first, count) = buffers.allocate(key, count, pieces, terms)?;
        Some(PageRun { key, first, count })
    }
}

/// Everything that was to be issued came from the buffers.
const fn nothing_issued(real_time: bool) -> IssuedRead {
    IssuedRead { real_time, position: 0, bytes: 0, requests: 0, advanced_bytes: u64::MAX, next_position: 0 }
}

/// Pieces a best-effort read of the page with this number of content bytes from its start takes.
fn pieces_of(content_left: u64) -> u8 {
    u8::try_from(content_left.min(CACHE_PAGE_BYTES).div_ceil(limits::PIECE_BYTES_MAX)).expect("a page has few pieces")
}
