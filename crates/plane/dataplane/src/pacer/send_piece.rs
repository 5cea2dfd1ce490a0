//! The bytes of one send: those of a stream that are in memory and may be sent now.
//!
//! Promise: none that is not due, not read, or not of the content that was opened. Not here: literal bytes, and the send (`feed`).

use units::limits;
use units::limits::CACHE_PAGE_BYTES;

use super::{CurrentPage, PacedStream, SendKind};
use crate::cache::{Cache, PageKey, PageState};
use crate::port::{Sharing, Span};

/// The bytes of one send.
pub(super) struct SendPiece {
    pub(super) memory: Span,
    pub(super) then: Option<Span>,
    pub(super) sharing: Sharing,
    pub(super) kind: SendKind,
}

/// The part of the content that can be sent now.
pub(super) enum NextPiece {
    Bytes(SendPiece),
    NothingDue,
    Late,
    /// Its content is shorter than it was.
    Changed,
}

impl PacedStream {
    /// The bytes from a place in the content that are in memory and may be sent now: in one piece, or in two where they
    /// are lent.
    pub(super) fn ready_bytes(&mut self, (key, within, left): (PageKey, u64, u64), pages: &Cache) -> NextPiece {
        if self.budget == 0 {
            return NextPiece::NothingDue;
        }
        // Not yet requested, or still being read: late either way.
        let page = if self.send.payload < self.fetched { pages.find(key) } else { None };
        let Some(page) = page else { return NextPiece::Late };
        let valid = match pages.state(page) {
            PageState::Ready(valid) => u64::from(valid),
            PageState::Reading | PageState::Empty => return NextPiece::Late,
        };
        if valid < within + left {
            return NextPiece::Changed;
        }
        let (offset, sharing) = (Cache::span(page).offset + within, pages.sharing(page));
        let mut length = left;
        // Neighbours in the content are often neighbours in memory: one send for both.
        let (mut last, mut next) = (page, self.after(key, within + length, length));
        while let Some((key, wanted)) = next {
            let Some((neighbour, valid)) = pages.ready_neighbour(last, key) else { break };
            last = neighbour;
            let more = wanted.min(u64::from(valid));
            length += more;
            next = self.after(key, more, length);
        }
        let budget = self.budget.min(limits::CHUNK_BYTES);
        let then = next.filter(|_| sharing == Sharing::Shared).and_then(|(key, wanted)| {
            let page = pages.find(key)?;
            let ready = matches!(pages.state(page), PageState::Ready(valid) if u64::from(valid) >= wanted);
            let length = u32::try_from(wanted.min(budget.checked_sub(length)?)).expect("at most a page");
            let both = ready && length > 0 && pages.sharing(page) == Sharing::Shared;
            both.then(|| Span { length, ..Cache::span(page) })
        });
        self.current = Some(CurrentPage { offset, left, sharing });
        let length = u32::try_from(length.min(budget)).expect("at most a chunk");
        NextPiece::Bytes(SendPiece { memory: Span { offset, length }, then, sharing, kind: SendKind::Content })
    }

    /// The page after the one of `key`, and how many bytes of it belong to the segment, if a send of `length` bytes
    /// that ends at `end` in that of `key` may and can continue there.
    fn after(&self, key: PageKey, end: u64, length: u64) -> Option<(PageKey, u64)> {
        let continues =
            length < self.budget && end.is_multiple_of(CACHE_PAGE_BYTES) && self.send.payload + length < self.fetched;
        let more = if continues { self.in_segment_after(length) } else { 0 };
        (more > 0).then_some((PageKey { index: key.index + 1, ..key }, more))
    }

    /// Bytes of the send cursor's segment that follow the next `length`, at most a page.
    fn in_segment_after(&self, length: u64) -> u64 {
        let total = self.delivery().segments[self.send.segment].length();
        total.saturating_sub(self.send.passed + length).min(CACHE_PAGE_BYTES)
    }
}
