//! Read-ahead of a delivery without a reservation: as far as its share of the buffers lets it, from all disks of its content at once.
//!
//! Promise: pages come to a delivery in its order, independent of the order of the reads; the pages read before their turn count as
//! held pages like all others. Not here: when a disk has time for it (`schedule::disk`), when it is sent (`pacer`).

use super::*;

/// A delivery reads ahead this far at first, and if its content lies on several disks a unit on each of them, and one more. Chosen: one
/// chunk.
pub(in super::super) const WINDOW_BYTES: u64 = 4 * CACHE_PAGE_BYTES;
/// Later it reads as far ahead as its client has taken bytes before, but no farther than this: half of it is one turn of a disk,
/// and the seek then takes a tenth of the time (`schedule::disk::best_effort`). Follows from that turn.
const GROWN_WINDOW_BYTES: u64 = 16 << 20;
/// A response with this number of first bytes on one disk reads no other disk ahead: none is within reach. Follows from the marks.
const LONG_UNIT_BYTES: u64 = AHEAD_BYTES_MAX / 2;
/// A delivery requests one part in this number of its window from a disk at a time: not every page is worth a seek. Chosen.
const WANTED_PART: u64 = 2;

impl ReadAhead {
    /// It begins, and holds this number of pages.
    pub(in super::super) fn begin_delivery(&mut self, pages: u32, buffers: &mut BufferPool) {
        self.run();
        buffers.begin_delivery(pages);
    }

    /// Asks for its next bytes. While others hold nothing and find no page, it gets one page, and no other before that is sent. False if
    /// it holds nothing and there is no page for it.
    pub(in super::super) fn want_next<I: Io>(
        &mut self,
        pages_short: bool,
        (sources, buffers): (&mut Sources, &mut BufferPool),
        context: &mut PlaneContext<I>,
    ) -> bool {
        let holds_nothing = self.holds_nothing();
        if !self.is_unsent_delivery() || (pages_short && !holds_nothing) {
            return true;
        }
        // The reads already requested of the disks take free pages first; this holds also for a delivery that finds its
        // own pages in the buffers.
        let asked = if pages_short { sources.bulk_reads() } else { 0 };
        if usize::try_from(buffers.delivery_pages_left()).is_ok_and(|room| room <= asked) {
            return !holds_nothing;
        }
        self.want_window(if pages_short {
            CACHE_PAGE_BYTES
        } else {
            self.delivery_window(buffers.bytes_per_delivery())
        });
        self.take_buffered(buffers, context);
        self.ask_best_effort(sources, buffers);
        true
    }

    /// It finds no buffer: it asks again in its next step, and does not keep its disk from others meanwhile (uploads stood still behind it).
    pub(in super::super) fn postpone<I: Io>(&mut self, sources: &mut Sources, context: &mut PlaneContext<I>) {
        self.target = self.fetch.payload;
        self.ask_nothing(sources);
        context.tell_pacer(ToPacer::Continue { slot: self.slot, has_pages: self.holds_pages() });
    }

    /// True if it is such a delivery and has bytes to send.
    fn is_unsent_delivery(&self) -> bool {
        self.life == ReadsLife::Running && self.is_best_effort() && self.send.payload < self.payload
    }

    /// True if it holds no page and none is being read for it.
    const fn holds_nothing(&self) -> bool {
        !self.holds_pages() && self.target <= self.fetch.payload
    }

    /// How far it reads ahead where each such delivery may hold `share` bytes.
    fn delivery_window(&self, share: u64) -> u64 {
        let layout = &self.content().layout;
        let disks = layout.disks().len() as u64;
        let unit = layout.piece(0, 0, AHEAD_BYTES_MAX).map_or(0, |piece| piece.length);
        // A response of several ranges is read in order.
        if disks == 1 || self.segment_list().range().is_none() || unit >= LONG_UNIT_BYTES {
            return self.send.payload.min(share).clamp(WINDOW_BYTES, GROWN_WINDOW_BYTES);
        }
        // A range may begin within a page. One unit more than there are disks: a disk that has read its own does not
        // wait until that of another was sent.
        (unit * (disks + 1)).min(share).clamp(WINDOW_BYTES, AHEAD_BYTES_MAX - CACHE_PAGE_BYTES)
    }

    /// Wants its payload up to `window` from the last sent byte on.
    fn want_window(&mut self, window: u64) {
        let target = (self.send.payload + window).min(self.payload);
        if self.holds_nothing() || target >= self.target + window / WANTED_PART || target == self.payload {
            self.want(target);
        }
    }

    /// The first page on this disk that it wants and no stream has read; and its place, with all bytes wanted from there on.
    /// Several ranges are read in their order: the same page may be wanted twice, and two share a mark.
    pub(in super::super) fn missing_on(
        &self,
        disk: DiskId,
        sources: &Sources,
        buffers: &BufferPool,
    ) -> Option<MissingPage> {
        let layout = &self.content().layout;
        let is_one_range = self.segment_list().range().is_some();
        let mut cursor = self.fetch;
        while cursor.payload < self.target && (is_one_range || cursor == self.fetch) {
            let (key, _, left) = cursor.next_content(self.segment_list())?;
            if !buffers.has(key) {
                let (offset, wanted) = (key.index * CACHE_PAGE_BYTES, self.target - cursor.payload);
                let copy = layout.copy_at(offset, |disk| sources.reluctance(disk));
                let piece = layout.piece(copy, offset, wanted)?;
                if piece.disk == disk {
                    let position = piece.position.unwrap_or(0);
                    return Some(MissingPage { key, is_next: cursor.payload == self.fetch.payload, position, wanted });
                }
            }
            cursor.pass(left);
        }
        None
    }

    /// Holds a page that is read before its turn.
    pub(in super::super) fn hold_ahead(&mut self, key: PageKey) {
        self.ahead_pages.add(key.index);
    }

    /// Gives back the pages that were read before their turn.
    pub(super) fn give_back_ahead(&mut self, buffers: &mut BufferPool) {
        let mut cursor = self.fetch;
        while !self.ahead_pages.is_empty() {
            let (key, _, left) =
                cursor.next_content(self.segment_list()).expect("they lie behind the pages it has fetched");
            if self.ahead_pages.remove(key.index) {
                buffers.give_back(key, self.is_best_effort());
            }
            cursor.pass(left);
        }
    }
}

/// A page that a delivery wants and no stream has read.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct MissingPage {
    pub(in super::super) key: PageKey,
    /// It comes next in the delivery.
    pub(in super::super) is_next: bool,
    /// Its place on the disk, in bytes.
    pub(in super::super) position: u64,
    /// Bytes wanted from there on.
    pub(in super::super) wanted: u64,
}
