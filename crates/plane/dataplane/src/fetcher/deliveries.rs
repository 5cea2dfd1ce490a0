//! Reads of deliveries without a reservation, in the time and the buffers that others leave.
//!
//! Not here: how far one reads ahead (`read_ahead::delivery`).

use schedule::disk::IssuedRead;

use super::reads::nothing_issued;
use super::reads_in_flight::IssuedPages;
use super::*;

impl Fetcher {
    /// Begins such a delivery, which holds so many pages.
    pub(super) fn begin_delivery(&mut self, slot: u32, pages: u32) {
        self.streams[slot].run();
        self.buffers.begin_delivery(pages);
    }

    /// Asks for the next bytes of a delivery. While others hold nothing and find no page, it gets one page, and no other before that is
    /// sent. False if it holds nothing and there is no page for it.
    pub(super) fn want_best_effort<I: Io>(
        &mut self,
        slot: u32,
        pages_short: bool,
        context: &mut PlaneContext<I>,
    ) -> bool {
        let stream = &mut self.streams[slot];
        let holds_nothing = stream.holds_nothing();
        if !stream.is_unsent_delivery() || (pages_short && !holds_nothing) {
            return true;
        }
        // The reads already requested of the disks take free pages first; this holds also for a delivery that finds its
        // own pages in the buffers.
        let asked = if pages_short { self.sources.bulk_reads() } else { 0 };
        if usize::try_from(self.buffers.delivery_pages_left()).is_ok_and(|room| room <= asked) {
            return !holds_nothing;
        }
        let window =
            if pages_short { CACHE_PAGE_BYTES } else { stream.delivery_window(self.buffers.bytes_per_delivery()) };
        stream.want_window(window);
        self.take_buffered(slot, context);
        self.sources.ask_best_effort(slot, &self.streams[slot], &self.buffers);
        true
    }

    /// Issues the read of the first page that a delivery wants from this disk; `None` if there is no buffer for it now.
    pub(super) fn issue_best_effort<I: Io>(
        &mut self,
        disk: DiskId,
        slot: u32,
        context: &mut PlaneContext<I>,
    ) -> Option<IssuedRead> {
        let Some(missing) = self.streams[slot].missing_on(disk, &self.sources, &self.buffers) else {
            return Some(nothing_issued(false));
        };
        let run = self.allocate(missing.key, 1, false, slot)?;
        context.gauges.plane.cache_misses.add(1);
        let IssuedPages { position, bytes, requests } = self.read_pages(slot, run, false, context);
        let stream = &mut self.streams[slot];
        if missing.is_next {
            stream.pass_page();
            context.tell_pacer(ToPacer::Fetched { slot, payload: stream.fetched() });
        } else {
            stream.hold_ahead(missing.key);
        }
        let (advanced_bytes, next_position) = match stream.missing_on(disk, &self.sources, &self.buffers) {
            Some(next) => (bytes, next.position),
            None => (u64::MAX, 0),
        };
        Some(IssuedRead { real_time: false, position, bytes, requests, advanced_bytes, next_position })
    }
}
