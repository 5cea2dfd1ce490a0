//! The buffers: which bytes of which content lie in the arena.
//!
//! The unit is a *page* of 256 KiB; four neighbours form a *chunk* (1 MiB), the largest read. A page is
//! found by (content version, index), so streams of one content share the bytes that were read once (interval caching),
//! and an unused page stays until its place is needed (least recently used first).
//!
//! Chunks have memory from [`Cache::add`] to [`Cache::remove`] (`memory`); only those are used.
//!
//! Promise: a page that is referenced or being read is never reused; if fewer pages are in use than have memory,
//! one can be had. No allocation after construction. Not here: how many pages a stream may hold (`admission`).

mod list;
mod page_index;

use units::limits::CACHE_PAGE_BYTES;
use units::{ContentVersion, Nanos, limits};

use crate::port::{Chunks, HUGE_PAGE_CHUNKS, SHARED_STREAMS_MIN, Sharing, Span};
use list::NumberList;
use page_index::PageIndex;

/// Pages in a chunk. Follows from the sizes of both.
pub const CHUNK_PAGES: u32 = 4;
/// Few chunks are used while they are less than one part in this number of the possible ones. Chosen.
const FEW_PART: u32 = 2;
const NONE: u32 = u32::MAX;
/// Of the chunks that were idle for longest, this number is searched for one that was lent. Chosen.
const LENT_LOOKED_AT: usize = 16;
const _: () = assert!(CACHE_PAGE_BYTES * CHUNK_PAGES as u64 == limits::CHUNK_BYTES);

/// Names a page of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page(u32);

/// The bytes that a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageKey {
    /// The version of the content.
    pub version: ContentVersion,
    /// Which of its pages: offset / `CACHE_PAGE_BYTES`.
    pub index: u64,
}

/// How far a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Nothing in it.
    Empty,
    /// Being read.
    Reading,
    /// This number of bytes is valid.
    Ready(u32),
}

#[derive(Debug, Clone, Copy)]
struct PageEntry {
    state: PageState,
    refs: u32,
    /// Streams that found it here instead of reading it.
    hits: u32,
    /// Reads out for it: until they are answered the kernel may write into it.
    reads: u8,
    /// Valid bytes that its reads have brought so far, counted from its start: they may be answered in any order.
    valid: u32,
}

impl PageEntry {
    const EMPTY: Self = Self { state: PageState::Empty, refs: 0, hits: 0, reads: 0, valid: 0 };

    /// No stream holds it, and no read may write into it.
    const fn is_unused(&self) -> bool {
        self.refs == 0 && self.reads == 0
    }
}

/// The table of all pages.
#[derive(Debug)]
pub struct Cache {
    entries: Vec<PageEntry>,
    index: PageIndex,
    /// Unused pages in chunks of which another page is used.
    partial: NumberList,
    /// Chunks of which no page is used and that hold nothing worth keeping: empty chunks first, then the chunk that
    /// was idle for longest.
    spare: NumberList,
    /// The other chunks of which no page is used, the longest idle one first.
    idle: NumberList,
    chunks: Vec<ChunkEntry>,
    /// Chunks that have memory.
    present: u32,
    /// Chunks that there can be, as far as the world outside knows.
    obtainable: u32,
    used: u32,
    clock: Nanos,
}

/// One chunk.
#[derive(Debug, Clone, Copy)]
struct ChunkEntry {
    /// How many of its pages are used.
    busy: u32,
    /// Since when it is idle; zero if it was never used.
    idle_since: Nanos,
    /// Its bytes are worth more memory: a second stream found them, or it would take a spinning disk's time to read them
    /// again.
    kept: bool,
    present: bool,
    /// Memory of it was lent to sockets, or may have been.
    lent: bool,
}

impl Cache {
    /// A table for `chunks` chunks, all without memory yet.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(chunks: u32) -> Self {
        assert!(chunks > 0, "an arena has at least one chunk");
        let pages = chunks * CHUNK_PAGES;
        let chunk = ChunkEntry { busy: 0, idle_since: Nanos::ZERO, kept: false, present: false, lent: false };
        Self {
            entries: vec![PageEntry::EMPTY; pages as usize],
            index: PageIndex::new(pages),
            partial: NumberList::new(pages),
            spare: NumberList::new(chunks),
            idle: NumberList::new(chunks),
            chunks: vec![chunk; chunks as usize],
            present: 0,
            obtainable: chunks,
            used: 0,
            clock: Nanos::ZERO,
        }
    }

    /// Sets the time of last use for pages released from now on.
    pub fn set_clock(&mut self, now: Nanos) {
        self.clock = now;
    }

    /// Takes chunks in that have memory now. They are used before any that hold something.
    pub fn add(&mut self, chunks: Chunks) {
        for chunk in (chunks.first..chunks.first + chunks.count).rev() {
            assert!(!self.chunks[chunk as usize].present, "a chunk is brought in once");
            self.chunks[chunk as usize] =
                ChunkEntry { busy: 0, idle_since: Nanos::ZERO, kept: false, present: true, lent: false };
            self.spare.push_first(chunk);
        }
        self.present += chunks.count;
        debug_assert!(self.present as usize <= self.chunks.len(), "no more have memory than there are");
    }

    /// Lets go of chunks that are about to lose their memory, if all of them were idle since `unused_since`; their
    /// contents are forgotten.
    pub fn remove(&mut self, chunks: Chunks, unused_since: Nanos) -> bool {
        let unused = self.are_unused(chunks, unused_since);
        if unused {
            self.let_go(chunks);
        }
        unused
    }

    fn let_go(&mut self, chunks: Chunks) {
        for chunk in chunks.first..chunks.first + chunks.count {
            debug_assert!(self.chunks[chunk as usize].busy == 0, "a chunk in use keeps its memory");
            for at in chunk * CHUNK_PAGES..(chunk + 1) * CHUNK_PAGES {
                self.index.forget(at);
                self.entries[at as usize].state = PageState::Empty;
            }
            self.take_from_idle(chunk);
            self.chunks[chunk as usize].present = false;
        }
        self.present -= chunks.count;
    }

    fn are_unused(&self, chunks: Chunks, unused_since: Nanos) -> bool {
        let unused = |chunk: &ChunkEntry| chunk.present && chunk.busy == 0 && chunk.idle_since <= unused_since;
        self.chunks[chunks.first as usize..][..chunks.count as usize].iter().all(unused)
    }

    /// Lets go of a huge page of which memory was lent, if fewer than `count` chunks hold nothing worth keeping: one of those
    /// that were idle for longest, all of it since `unused_since`.
    pub fn remove_lent(&mut self, count: u32, unused_since: Nanos) -> Option<Chunks> {
        if self.spare.count() >= count {
            return None;
        }
        let lent = self.idle.iter().take(LENT_LOOKED_AT).filter(|&chunk| self.chunks[chunk as usize].lent);
        let all = u32::try_from(self.chunks.len()).expect("built from a u32");
        let huge = |chunk: u32| {
            let first = chunk - chunk % HUGE_PAGE_CHUNKS;
            Chunks { first, count: HUGE_PAGE_CHUNKS.min(all - first) }
        };
        let found = lent.map(huge).find(|&chunks| self.are_unused(chunks, unused_since))?;
        self.let_go(found);
        Some(found)
    }

    /// Chunks that have memory.
    #[must_use]
    pub const fn present(&self) -> u32 {
        self.present
    }

    /// Chunks that there can be now.
    #[must_use]
    pub const fn obtainable(&self) -> u32 {
        self.obtainable
    }

    /// Notes the number of possible chunks.
    pub fn set_obtainable(&mut self, chunks: u32) {
        self.obtainable = chunks.min(u32::try_from(self.chunks.len()).expect("built from a u32"));
    }

    /// True if there are `count` chunks that hold nothing worth keeping, or only pages unused since `unused_since`.
    #[must_use]
    pub fn has_spare(&self, count: u32, unused_since: Nanos) -> bool {
        let more = count.saturating_sub(self.spare.count()) as usize;
        let unused = |&chunk: &u32| self.chunks[chunk as usize].idle_since <= unused_since;
        self.idle.iter().take(more).take_while(unused).count() == more
    }

    /// Marks the bytes being read into the chunk of `page`, which is in use, as worth keeping.
    pub fn keep(&mut self, page: Page) {
        let chunk = &mut self.chunks[(page.0 / CHUNK_PAGES) as usize];
        assert!(chunk.busy > 0, "a chunk that is kept while idle would be in the wrong list");
        chunk.kept = true;
    }

    /// The page that holds (or will hold) `key`, with one more reference to it.
    pub fn take(&mut self, key: PageKey) -> Option<Page> {
        let page = self.find(key)?;
        let entry = &mut self.entries[page.0 as usize];
        entry.refs += 1;
        entry.hits = entry.hits.saturating_add(1);
        if entry.refs == 1 && entry.reads == 0 {
            self.leave_unused(page.0);
        }
        self.keep(page);
        self.chunks[(page.0 / CHUNK_PAGES) as usize].lent |= self.sharing(page) == Sharing::Shared;
        Some(page)
    }

    /// The page that holds (or will hold) `key`.
    #[must_use]
    pub fn find(&self, key: PageKey) -> Option<Page> {
        self.index.find(key).map(Page)
    }

    /// A place for `count` pages from `key` on, neighbours in memory, each referenced once and in state
    /// `Reading`, with `reads` answers to come. More than one lie in one chunk, where they lie in their chunk of the content; one
    /// lies behind the page before it if it can. None of the keys may be present. `None` if there is no such place.
    pub fn allocate(&mut self, key: PageKey, count: u32, reads: u8) -> Option<Page> {
        debug_assert!(count > 0 && reads > 0, "a place is for reads");
        let first = if count == 1 { self.place_for_one(key)? } else { self.place_in_idle(key)? };
        debug_assert!(first % CHUNK_PAGES + count <= CHUNK_PAGES, "a run stays in its chunk");
        for (at, index) in (first..first + count).zip(key.index..) {
            self.leave_unused(at);
            self.index.forget(at);
            self.entries[at as usize] = PageEntry { state: PageState::Reading, refs: 1, reads, ..PageEntry::EMPTY };
            self.index.enter(at, PageKey { index, ..key });
        }
        Some(Page(first))
    }

    /// Where one page may lie. Behind the one before it: a chunk that has one content is passed on whole, in huge pages
    /// and in one send. Else in the chunk that was idle for longest: the bytes sent last rest longest, lent memory with
    /// them. Else, once many chunks are used, in a leftover, so that the others stay for runs.
    fn place_for_one(&self, key: PageKey) -> Option<u32> {
        let (idle, leftover) = (self.place_in_idle(key), self.partial.first());
        let few_are_used = self.present - self.idle.count() - self.spare.count() < self.obtainable / FEW_PART;
        self.place_behind(key).or(if few_are_used { idle.or(leftover) } else { leftover.or(idle) })
    }

    /// The unused place in memory behind the page before `key`, in the same chunk.
    fn place_behind(&self, key: PageKey) -> Option<u32> {
        let before = self.find(PageKey { index: key.index.checked_sub(1)?, ..key })?;
        let at = before.0 + 1;
        let free = !at.is_multiple_of(CHUNK_PAGES) && self.entries[at as usize].is_unused();
        free.then_some(at)
    }

    /// The place of `key` in a chunk of which no page is used.
    fn place_in_idle(&self, key: PageKey) -> Option<u32> {
        let within = u32::try_from(key.index % u64::from(CHUNK_PAGES)).expect("below four");
        self.spare.first().or(self.idle.first()).map(|chunk| chunk * CHUNK_PAGES + within)
    }

    /// Gives back one reference.
    pub fn release(&mut self, page: Page) {
        let entry = &mut self.entries[page.0 as usize];
        entry.refs = entry.refs.checked_sub(1).expect("a reference was held");
        if entry.is_unused() {
            self.become_unused(page.0);
        }
    }

    /// Moves the streams that wait for a page with an overdue read to another page, which is to be read by one request:
    /// `None` if no stream waits, or there is no place. The old one is used again when its read is answered.
    pub fn supersede(&mut self, page: Page) -> Option<Page> {
        let PageEntry { state: PageState::Reading, refs: refs @ 1.., .. } = self.entries[page.0 as usize] else {
            return None;
        };
        let key = self.index.key(page.0)?;
        self.index.forget(page.0);
        let Some(new) = self.allocate(key, 1, 1) else {
            self.index.enter(page.0, key);
            return None;
        };
        self.entries[new.0 as usize].refs = refs;
        self.entries[page.0 as usize].refs = 0;
        Some(new)
    }

    /// One read for this page ended: from its start, this number of bytes is valid.
    pub fn read_done(&mut self, page: Page, valid: u32) {
        let entry = &mut self.entries[page.0 as usize];
        entry.reads = entry.reads.checked_sub(1).expect("a read was out");
        debug_assert!(u64::from(valid) <= CACHE_PAGE_BYTES, "a read brings no more than its page");
        entry.valid = entry.valid.max(valid);
        if entry.reads == 0 {
            entry.state = PageState::Ready(entry.valid);
        }
        if entry.is_unused() {
            self.become_unused(page.0);
        }
    }

    /// One read for this page brought nothing. The streams that waited for it have let go of it, and a stream that wants
    /// its bytes reads them into another one. It is used again when its last read is answered.
    pub fn read_failed(&mut self, page: Page) {
        assert_eq!(self.entries[page.0 as usize].refs, 0, "no stream holds an unreadable page");
        self.index.forget(page.0);
        self.read_done(page, 0);
    }

    /// How far a page is.
    #[must_use]
    pub fn state(&self, page: Page) -> PageState {
        self.entries[page.0 as usize].state
    }

    /// Whether more than a few streams send it.
    #[must_use]
    pub fn sharing(&self, page: Page) -> Sharing {
        // The first did not find it.
        if self.entries[page.0 as usize].hits + 1 >= SHARED_STREAMS_MIN { Sharing::Shared } else { Sharing::Single }
    }

    /// The arena's bytes of a page.
    #[must_use]
    pub fn span(page: Page) -> Span {
        let length = u32::try_from(CACHE_PAGE_BYTES).expect("a page is small");
        Span { offset: u64::from(page.0) * CACHE_PAGE_BYTES, length }
    }

    /// The `nth` neighbour.
    #[must_use]
    pub fn neighbour(page: Page, nth: u32) -> Page {
        Page(page.0 + nth)
    }

    /// The next page in memory if it is in the same chunk, holds `key` and is ready.
    #[must_use]
    pub fn ready_neighbour(&self, page: Page, key: PageKey) -> Option<(Page, u32)> {
        let next = page.0 + 1;
        if next.is_multiple_of(CHUNK_PAGES) {
            return None;
        }
        match self.entries[next as usize].state {
            PageState::Ready(valid) if self.index.key(next) == Some(key) => Some((Page(next), valid)),
            PageState::Ready(_) | PageState::Empty | PageState::Reading => None,
        }
    }

    /// Pages referenced or being read.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// All pages, with memory and without.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.index.pages()
    }

    /// An unused page becomes used.
    fn leave_unused(&mut self, at: u32) {
        self.used += 1;
        debug_assert!(self.used <= self.present * CHUNK_PAGES, "no more pages are used than have memory");
        let chunk = at / CHUNK_PAGES;
        debug_assert!(self.chunks[chunk as usize].present, "a page in use has memory");
        let busy = &mut self.chunks[chunk as usize].busy;
        *busy += 1;
        if *busy > 1 {
            self.partial.remove(at);
        } else {
            self.take_from_idle(chunk);
            others_in_chunk(at).for_each(|other| self.partial.push_last(other));
        }
    }

    /// A chunk is not idle any more; bytes read into it from now on are worth keeping only after [`Self::keep`].
    fn take_from_idle(&mut self, chunk: u32) {
        let kept = std::mem::take(&mut self.chunks[chunk as usize].kept);
        if kept { self.idle.remove(chunk) } else { self.spare.remove(chunk) }
    }

    /// A used page becomes unused; its bytes can still be found.
    fn become_unused(&mut self, at: u32) {
        debug_assert!(self.entries[at as usize].is_unused(), "a page that a stream or a read holds is in use");
        self.used -= 1;
        let chunk = at / CHUNK_PAGES;
        let ChunkEntry { busy, idle_since, kept, .. } = &mut self.chunks[chunk as usize];
        *busy -= 1;
        if *busy > 0 {
            self.partial.push_last(at);
        } else {
            *idle_since = self.clock;
            let list = if *kept { &mut self.idle } else { &mut self.spare };
            list.push_last(chunk);
            others_in_chunk(at).for_each(|other| self.partial.remove(other));
        }
    }
}

fn others_in_chunk(at: u32) -> impl Iterator<Item = u32> {
    let first = at - at % CHUNK_PAGES;
    (first..first + CHUNK_PAGES).filter(move |&other| other != at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of which all chunks have memory.
    fn full(chunks: u32) -> Cache {
        let mut cache = Cache::new(chunks);
        cache.add(Chunks { first: 0, count: chunks });
        cache
    }

    fn key(index: u64) -> PageKey {
        PageKey { version: ContentVersion(7), index }
    }

    #[test]
    fn a_chunk_is_read_once_and_found_by_all() {
        let mut cache = full(2);
        let first = cache.allocate(key(4), 4, 1).expect("an idle chunk");
        for nth in 0..4 {
            cache.read_done(Cache::neighbour(first, nth), 262_144);
        }
        let again = cache.take(key(5)).expect("it is there");
        assert_eq!(again, Cache::neighbour(first, 1));
        assert!(cache.ready_neighbour(first, key(5)).is_some());
        assert!(cache.ready_neighbour(first, key(9)).is_none());
        assert_eq!(cache.used(), 4);
    }

    #[test]
    fn bytes_are_shared_from_the_third_stream_on_until_they_are_replaced() {
        let mut cache = full(1);
        let page = cache.allocate(key(0), 1, 1).expect("room");
        cache.read_done(page, 262_144);
        for (found, sharing) in [(0, Sharing::Single), (1, Sharing::Single), (2, Sharing::Shared)] {
            assert_eq!(cache.sharing(page), sharing, "found {found} times");
            cache.release(page);
            assert_eq!(cache.take(key(0)), Some(page));
        }
        cache.release(page);
        let again = cache.allocate(key(4), 4, 1).expect("room");
        assert_eq!((again, cache.sharing(again)), (page, Sharing::Single));
    }

    #[test]
    fn contents_read_by_the_page_fill_chunks_of_their_own_while_there_are_idle_ones() {
        let other = |index| PageKey { version: ContentVersion(8), index };
        let mut cache = full(6);
        let mut last = [None; 2];
        for index in 4..8 {
            for (nth, key) in [key(index), other(index)].into_iter().enumerate() {
                let page = cache.allocate(key, 1, 1).expect("room");
                if let Some(last) = last[nth] {
                    assert_eq!(page, Cache::neighbour(last, 1), "behind the one before");
                }
                last[nth] = Some(page);
            }
        }
        // Two chunks are full, one more is begun; from then on half are idle, and leftovers are used.
        let begun = cache.allocate(key(40), 1, 1).expect("room");
        let leftover = cache.allocate(key(80), 1, 1).expect("room");
        assert_eq!(leftover, Cache::neighbour(begun, 1));
        assert_eq!(cache.allocate(key(41), 1, 1), Some(Cache::neighbour(begun, 2)), "its place is taken");
        for chunk in 0..3 {
            assert!(cache.allocate(other(100 + chunk * 4), 4, 1).is_some(), "idle chunks stay for runs");
        }
    }

    #[test]
    fn the_pieces_of_a_page_may_come_in_any_order() {
        let mut cache = full(2);
        let page = cache.allocate(key(0), 1, 2).expect("room");
        cache.read_done(page, 262_144);
        assert_eq!(cache.state(page), PageState::Reading, "the first piece is still out");
        cache.read_done(page, 131_072);
        assert_eq!(cache.state(page), PageState::Ready(262_144));
    }

    #[test]
    fn unused_bytes_stay_until_their_place_is_needed_oldest_first() {
        let mut cache = full(2);
        for chunk in 0..2 {
            let first = cache.allocate(key(chunk * 4), 4, 1).expect("room");
            for nth in 0..4 {
                cache.read_done(Cache::neighbour(first, nth), 1);
                cache.release(Cache::neighbour(first, nth));
            }
        }
        assert_eq!(cache.used(), 0);
        assert!(cache.find(key(0)).is_some() && cache.find(key(4)).is_some());
        cache.allocate(key(100), 4, 1).expect("room");
        assert!(cache.find(key(0)).is_none(), "the oldest went");
        assert!(cache.find(key(4)).is_some());
    }

    #[test]
    fn while_fewer_are_used_than_there_are_one_can_be_had() {
        let mut cache = full(8);
        let mut held: Vec<Page> = vec![];
        let mut seed = 1u64;
        for step in 0..20_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if cache.used() < cache.pages() && seed >> 63 == 0 {
                let count = if seed >> 62 & 1 == 0 { 1 } else { 4 };
                let key = key(step * 4);
                let got = cache.allocate(key, count, 1).map(|first| (first, count));
                let (first, count) = got.or_else(|| cache.allocate(key, 1, 1).map(|q| (q, 1))).expect("one can be had");
                for nth in 0..count {
                    let page = Cache::neighbour(first, nth);
                    assert!(!held.contains(&page), "in use twice");
                    cache.read_done(page, 1);
                    held.push(page);
                }
            } else if !held.is_empty() {
                let at = usize::try_from(seed >> 33).expect("31 bits") % held.len();
                cache.release(held.swap_remove(at));
            }
            assert_eq!(cache.used() as usize, held.len());
        }
    }

    #[test]
    #[should_panic(expected = "kept while idle")]
    fn only_pages_in_use_are_marked_worth_keeping() {
        let mut cache = full(1);
        let page = cache.allocate(key(0), 1, 1).expect("room");
        cache.release(page);
        cache.keep(page);
        cache.read_done(page, 1);
        cache.keep(page);
    }

    #[test]
    fn a_failed_page_is_forgotten_and_reused_after_its_reads() {
        let mut cache = full(1);
        let page = cache.allocate(key(0), 1, 2).expect("room");
        cache.release(page);
        cache.read_failed(page);
        assert_eq!((cache.find(key(0)), cache.used()), (None, 1));
        let again = cache.allocate(key(0), 1, 1).expect("room");
        assert_ne!(again, page, "whose other half may still be written to");
        cache.read_done(page, 5);
        assert_eq!((cache.find(key(0)), cache.used()), (Some(again), 1), "nor does it heal it");
    }
}
