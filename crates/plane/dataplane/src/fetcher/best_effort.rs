//! Reading ahead for deliveries without a reservation: as far as their share of the buffers lets them, from all disks of a content at
//! once.
//!
//! Promise: pages come to a delivery in its order, independent of the order of the reads; the pages read before their turn count as
//! held pages like all others. Not here: when a disk has time for it (`schedule::disk`), when it is sent (`pacer`).

use content::layout::Piece;
use schedule::disk::IssuedRead;
use schedule::disk::best_effort::BeWork;

use super::reads::nothing_issued;
use super::*;

/// A delivery reads ahead this far at first, and if its content lies on several disks a unit on each of them, and one more. Chosen: one
/// chunk.
pub(super) const WINDOW_BYTES: u64 = 4 * CACHE_PAGE_BYTES;
/// Later it reads as far ahead as its client has taken bytes before, but no farther than this: half of it is one turn of a disk,
/// and the seek then takes a tenth of the time (`schedule::disk::best_effort`). Follows from that turn.
const GROWN_WINDOW_BYTES: u64 = 16 << 20;
/// It reads no farther ahead than this, for every stream has room for marks of so many pages: enough for seven disks
/// with units of 8 MiB.
pub(super) const AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Follows from that.
const MARKS: u64 = AHEAD_BYTES_MAX / CACHE_PAGE_BYTES;
const _: () = assert!(MARKS == 4 * 64);

/// Marks of pages of one content, by their number: all within [`AHEAD_BYTES_MAX`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AheadPages([u64; 4]);

impl AheadPages {
    fn place(index: u64) -> (usize, u64) {
        let at = usize::try_from(index % MARKS).expect("small");
        (at / 64, 1 << (at % 64))
    }

    pub(super) fn has(&self, index: u64) -> bool {
        let (word, bit) = Self::place(index);
        self.0[word] & bit != 0
    }

    fn add(&mut self, index: u64) {
        let (word, bit) = Self::place(index);
        self.0[word] |= bit;
    }

    /// False if it was not marked.
    pub(super) fn remove(&mut self, index: u64) -> bool {
        let (word, bit) = Self::place(index);
        let had = self.0[word] & bit != 0;
        self.0[word] &= !bit;
        had
    }

    pub(super) const fn is_empty(&self) -> bool {
        matches!(self.0, [0, 0, 0, 0])
    }
}

impl Fetcher {
    /// Asks for the next bytes of a delivery. While others hold nothing and find no page, it gets one page, and no other before that is
    /// sent. False if it holds nothing and there is no page for it.
    pub(super) fn want_best_effort<I: Io>(
        &mut self,
        slot: u32,
        pages_short: bool,
        context: &mut PlaneContext<I>,
    ) -> bool {
        let stream = &self.streams[slot as usize];
        if stream.life != ReadsLife::Running || stream.plan.is_some() || stream.send.payload >= stream.payload {
            return true;
        }
        let holds_nothing = !stream.holds_pages() && stream.target <= stream.fetch.payload;
        if pages_short && !holds_nothing {
            return true;
        }
        // The reads already requested of the disks take free pages first; this holds also for a delivery that finds its
        // own pages in the buffers.
        let asked = if pages_short { self.disks.iter().map(|disk| disk.schedule.bulk_reads()).sum() } else { 0 };
        let room = self.best_effort_pages_max().saturating_sub(self.best_effort.1);
        if usize::try_from(room).is_ok_and(|room| room <= asked) {
            return !holds_nothing;
        }
        let window = if pages_short { CACHE_PAGE_BYTES } else { self.best_effort_window(slot) };
        let stream = &mut self.streams[slot as usize];
        let target = (stream.send.payload + window).min(stream.payload);
        // Half a window of one disk at a time: not every page is worth a seek.
        if holds_nothing || target >= stream.target + window / 2 || target == stream.payload {
            stream.target = target.max(stream.target);
        }
        self.take_buffered(slot, context);
        self.ask_best_effort(slot);
        true
    }

    /// How far a delivery reads ahead: all of them together within their share of the buffers.
    fn best_effort_window(&self, slot: u32) -> u64 {
        let stream = &self.streams[slot as usize];
        let layout = &stream.content().layout;
        let disks = layout.disks().len() as u64;
        let share = u64::from(self.best_effort_pages_max() / self.best_effort.0.max(1)) * CACHE_PAGE_BYTES;
        let unit = layout.piece(0, 0, AHEAD_BYTES_MAX).map_or(0, |piece| piece.length);
        // A response of several ranges is read in order, and so is one that begins with so many bytes on one disk that
        // no other disk is within reach.
        if disks == 1 || stream.segment_list().range().is_none() || unit >= AHEAD_BYTES_MAX / 2 {
            return stream.send.payload.min(share).clamp(WINDOW_BYTES, GROWN_WINDOW_BYTES);
        }
        // A range may begin within a page. One unit more than there are disks: a disk that has read its own does not
        // wait until that of another was sent.
        (unit * (disks + 1)).min(share).clamp(WINDOW_BYTES, AHEAD_BYTES_MAX - CACHE_PAGE_BYTES)
    }

    /// Asks at once all disks that hold wanted bytes of a delivery which no stream has read.
    pub(super) fn ask_best_effort(&mut self, slot: u32) {
        let content = Arc::clone(self.streams[slot as usize].content());
        for disk in content.layout.disks() {
            if self.disk(*disk).schedule.wants(slot) {
                continue;
            }
            let Some((_, next)) = self.missing_on(slot, *disk) else { continue };
            let work = BeWork::Read { slot, position: next.position.unwrap_or(0), bytes: next.length };
            self.disk_mut(*disk).schedule.put_job(work);
        }
    }

    /// The first page on this disk that a delivery wants and no stream has read; and its place, with all bytes wanted from there on.
    /// Several ranges are read in their order: the same page may be wanted twice, and two share a mark.
    fn missing_on(&self, slot: u32, disk: DiskId) -> Option<(Cursor, Piece)> {
        let stream = &self.streams[slot as usize];
        let layout = &stream.content().layout;
        let is_one_range = stream.segment_list().range().is_some();
        let mut cursor = stream.fetch;
        while cursor.payload < stream.target && (is_one_range || cursor == stream.fetch) {
            let (key, _, left) = cursor.next_content(stream.segment_list())?;
            if self.cache.find(key).is_none() {
                let (offset, wanted) = (key.index * CACHE_PAGE_BYTES, stream.target - cursor.payload);
                let piece = layout.piece(layout.copy_at(offset, |disk| self.reluctance(disk)), offset, wanted)?;
                if piece.disk == disk {
                    return Some((cursor, Piece { length: wanted, ..piece }));
                }
            }
            cursor.pass(left);
        }
        None
    }

    /// Issues the read of the first page that a delivery wants from this disk; `None` if there is no buffer for it now.
    pub(super) fn issue_best_effort<I: Io>(
        &mut self,
        disk: DiskId,
        slot: u32,
        context: &mut PlaneContext<I>,
    ) -> Option<IssuedRead> {
        let Some((mut cursor, _)) = self.missing_on(slot, disk) else { return Some(nothing_issued(false)) };
        let stream = &self.streams[slot as usize];
        let is_next = cursor.payload == stream.fetch.payload;
        let (key, ..) = cursor.next_content(stream.segment_list()).expect("it is missing there");
        let (first, _) = self.allocate(key, 1, false, slot)?;
        self.count_best_effort(slot, 1);
        context.gauges.plane.cache_misses.add(1);
        let (position, bytes, requests) = self.read_pages(slot, key, (first, 1), false, context);
        if is_next {
            self.pass_page(slot);
            context.tell_pacer(ToPacer::Fetched { slot, payload: self.streams[slot as usize].fetch.payload });
        } else {
            self.streams[slot as usize].ahead_pages.add(key.index);
        }
        let (advanced_bytes, next_position) = match self.missing_on(slot, disk) {
            Some((_, next)) => (bytes, next.position.unwrap_or(0)),
            None => (u64::MAX, 0),
        };
        Some(IssuedRead { real_time: false, position, bytes, requests, advanced_bytes, next_position })
    }

    /// Gives back the pages of a delivery that were read before their turn.
    pub(super) fn give_back_ahead(&mut self, slot: u32) {
        let stream = &self.streams[slot as usize];
        let mut cursor = stream.fetch;
        while !self.streams[slot as usize].ahead_pages.is_empty() {
            let segment_list = self.streams[slot as usize].segment_list();
            let (key, _, left) = cursor.next_content(segment_list).expect("they lie behind the pages it has fetched");
            if self.streams[slot as usize].ahead_pages.remove(key.index) {
                self.give_back(slot, key);
            }
            cursor.pass(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_pages_go_round() {
        let mut pages = AheadPages::default();
        for index in 200..400 {
            pages.add(index);
        }
        assert!(pages.has(200) && pages.has(399) && !pages.has(400) && !pages.has(199));
        assert!((200..400).all(|index| pages.remove(index)) && !pages.remove(300) && pages.is_empty());
    }
}
