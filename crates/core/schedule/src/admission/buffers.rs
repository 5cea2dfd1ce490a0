//! The promises of buffers, in pages.
//!
//! Streams of one content find each other's pages, independent of the reader. So of all pages that its streams may hold a content
//! takes no more than it has:
//!
//! ```text
//! promised = sum over contents of  min(sum of the pages its reservations hold, pages of the content)
//! ```
//!
//! The pages of start bursts come from the remaining ones, and no promise fails for them: bursts end where a promise needs their pages.
//!
//! Promise: exact over any history, without allocation once made. Not here: how many pages a stream holds (`resources`), which
//! pages these are (the data plane's cache).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use units::ContentVersion;
use units::limits::CACHE_PAGE_BYTES;

use super::*;

/// The content that a request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedContent {
    /// Its version.
    pub version: ContentVersion,
    /// Its pages.
    pub pages: u64,
}

impl RequestedContent {
    /// A content of this number of bytes.
    #[must_use]
    pub const fn new(version: ContentVersion, bytes: u64) -> Self {
        Self { version, pages: bytes.div_ceil(CACHE_PAGE_BYTES) }
    }

    /// A content of which no other stream finds pages.
    pub const ALONE: Self = Self { version: ContentVersion(0), pages: u64::MAX };
}

/// The promises of buffer pages.
#[derive(Debug)]
pub(super) struct BufferAccount {
    /// By version: pages that reservations hold, each counted for itself, and reservations.
    held: HashMap<ContentVersion, (u64, u64), BuildHasherDefault<VersionHasher>>,
    promised: u64,
    /// Start bursts, the oldest first, with their pages beyond those.
    bursts: Vec<(ReservationId, u64)>,
    burst_pages: u64,
    pages: u64,
}

impl BufferAccount {
    /// An empty table of this number of pages, for at most this number of reservations.
    pub(super) fn new(pages: u64, reservations_max: usize) -> Self {
        // Twice as large as it gets: a table of this kind then clears removed entries without allocating.
        let held = HashMap::with_capacity_and_hasher(2 * reservations_max, BuildHasherDefault::default());
        Self { held, promised: 0, bursts: Vec::with_capacity(reservations_max), burst_pages: 0, pages }
    }

    /// Pages promised.
    pub(super) const fn promised(&self) -> u64 {
        self.promised
    }

    /// Pages in all.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages of all reservations, each counted by itself.
    pub(super) fn held(&self) -> u64 {
        self.held.values().map(|(held, _)| held).sum()
    }

    pub(super) const fn set_pages(&mut self, pages: u64) {
        self.pages = pages;
    }

    /// Whether a reservation that holds `instead` pages of a content can be promised this number.
    pub(super) fn fits(&self, content: RequestedContent, instead: u64, pages: u64) -> bool {
        let held = self.held.get(&content.version).map_or(0, |(held, _)| *held);
        self.promised - held.min(content.pages) + (held - instead + pages).min(content.pages) <= self.pages
    }

    pub(super) fn promise(&mut self, content: RequestedContent, pages: u64) {
        if pages > 0 {
            let (held, reservations) = self.held.entry(content.version).or_default();
            self.promised = self.promised - (*held).min(content.pages) + (*held + pages).min(content.pages);
            (*held, *reservations) = (*held + pages, *reservations + 1);
            debug_assert!(*held >= *reservations, "each of them holds a page at least");
        }
    }

    /// Takes back the pages that [`Self::promise`] gave.
    pub(super) fn withdraw(&mut self, content: RequestedContent, pages: u64) {
        if pages > 0 {
            let (held, reservations) = self.held.get_mut(&content.version).expect("it was promised");
            self.promised = self.promised - (*held).min(content.pages) + (*held - pages).min(content.pages);
            (*held, *reservations) = (*held - pages, *reservations - 1);
            debug_assert!((*reservations == 0) == (*held == 0), "the last one gives back the last page");
            if *reservations == 0 {
                self.held.remove(&content.version);
            }
        }
    }

    /// Lends pages to a start burst; false if no more are left.
    fn begin_burst(&mut self, id: ReservationId, pages: u64) -> bool {
        let fits = self.promised + self.burst_pages + pages <= self.pages;
        if fits {
            self.end_burst(id);
            self.bursts.push((id, pages));
            self.burst_pages += pages;
            debug_assert!(self.bursts_are_summed(), "their sum decides whether the next one fits");
        }
        fits
    }

    /// The pages of a reservation's start burst, if it has one, are left again.
    pub(super) fn end_burst(&mut self, id: ReservationId) {
        if let Some(at) = self.bursts.iter().position(|(of, _)| *of == id) {
            self.burst_pages -= self.bursts.remove(at).1;
            debug_assert!(self.bursts_are_summed(), "their sum decides whether the next one fits");
        }
    }

    fn bursts_are_summed(&self) -> bool {
        self.burst_pages == self.bursts.iter().map(|(_, pages)| pages).sum::<u64>()
    }

    /// Another reservation has the start burst of this one.
    pub(super) fn hand_over_burst(&mut self, from: ReservationId, to: ReservationId) {
        debug_assert!(self.bursts.iter().all(|(of, _)| *of != to), "a reservation has one start burst");
        self.bursts.iter_mut().filter(|(of, _)| *of == from).for_each(|(of, _)| *of = to);
    }

    fn burst_to_end(&mut self) -> Option<ReservationId> {
        let (id, _) = *self.bursts.first().filter(|_| self.promised + self.burst_pages > self.pages)?;
        self.end_burst(id);
        Some(id)
    }
}

impl Admission {
    /// Charges a reservation with pages that it holds, beyond its own window, for those that share its reads; how many it
    /// held before. `None` if the table lacks them; the reservation stays as it was.
    pub fn hold_pages(&mut self, id: ReservationId, pages: u64) -> Option<u64> {
        let &Reservation { request, pages: own, held_pages: before, .. } = self.find(id)?;
        // Fewer pages than before are always possible, even if there is less memory by now than was promised.
        let fits = pages <= before || self.resources.buffers.fits(request.content, own + before, own + pages);
        if fits {
            self.set_pages_of(id, own, pages);
        }
        fits.then_some(before)
    }

    /// A reservation holds this number of pages from now on: of its own, and for those that share its reads.
    pub(super) fn set_pages_of(&mut self, id: ReservationId, own: u64, held: u64) {
        let Some(reservation) = self.find_mut(id) else { return };
        let before = reservation.pages + reservation.held_pages;
        (reservation.pages, reservation.held_pages) = (own, held);
        let content = reservation.request.content;
        self.resources.buffers.withdraw(content, before);
        self.resources.buffers.promise(content, own + held);
    }

    /// The start burst that a reservation which has not started may send: all of it, or nothing if it takes buffers or disk time that
    /// are not there. A burst is a wish: nothing is refused for it ([`Self::burst_to_end`]). From flash the bytes sent are read again at once, and a stream
    /// that shares reads, or has a whole block, has its pages: only reads from a spinning disk go further ahead for it.
    pub fn grant_burst(&mut self, id: ReservationId, bytes: u64) -> u64 {
        let Some(&Reservation { request, demand, pages, shares, .. }) = self.find(id) else { return 0 };
        if bytes == 0 || shares || demand.is_spread() || !self.resources.table(request.disk).profile().rotational {
            return bytes;
        }
        let disk = self.resources.disk(request.disk);
        let burst_pages = disk.pages_with(&request, &demand, bytes).saturating_sub(pages);
        if !disk.starts(&request, &demand, bytes) || !self.resources.buffers.begin_burst(id, burst_pages) {
            return 0;
        }
        self.find_mut(id).expect("found above").burst_bytes = bytes;
        bytes
    }

    /// Ends the oldest start burst if the promises need its pages: the stream of that reservation gives them back.
    pub fn burst_to_end(&mut self) -> Option<ReservationId> {
        let id = self.resources.buffers.burst_to_end()?;
        self.find_mut(id)?.burst_bytes = 0;
        Some(id)
    }

    /// A reservation is for another content from now on, with this number of pages, if there is memory.
    pub(super) fn reads_on(&mut self, id: ReservationId, content: RequestedContent, pages: u64) -> bool {
        let held = *self.find(id).expect("looked at before");
        let before = held.pages + held.held_pages;
        self.resources.buffers.withdraw(held.request.content, before);
        let fits =
            (pages <= before && content == held.request.content) || self.resources.buffers.fits(content, 0, pages);
        if fits {
            self.resources.buffers.promise(content, pages);
            self.resources.buffers.end_burst(id);
            let reservation = self.find_mut(id).expect("looked at before");
            (reservation.pages, reservation.held_pages, reservation.burst_bytes) = (pages, 0, 0);
            reservation.request.content = content;
        } else {
            self.resources.buffers.promise(held.request.content, before);
        }
        fits
    }

    /// Buffers in pages: promised, and in all.
    #[must_use]
    pub const fn memory(&self) -> (u64, u64) {
        (self.resources.buffers.promised(), self.resources.buffers.pages())
    }

    /// Sets the number of possible pages from now on. Promises stay: with fewer pages nothing is admitted until enough
    /// of them have ended.
    pub const fn set_pages(&mut self, pages: u64) {
        self.resources.buffers.set_pages(pages);
    }
}

/// Versions are numbers without a pattern that a peer could choose.
#[derive(Debug, Default)]
struct VersionHasher(u64);

impl Hasher for VersionHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
