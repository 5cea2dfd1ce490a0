//! Memory behind the arena: more with the promises and with the latest reads, less after a
//! lull.
//!
//! The arena's address space is as large as it may ever become; memory is brought in and given back in *steps* of
//! [`STEP_CHUNKS`] by the world outside, never by the plane's thread. One step changes at a time. Contents stay in memory for
//! [`PlaneConfig::memory_lull`](crate::PlaneConfig) after their last use; then their place is used again or given back.
//!
//! Promise: only chunks with memory are in the cache's hands; the memory promised to streams is brought in before they need
//! it, one step ahead; the first step stays. Memory that was lent to sockets is *renewed* before it is read into, given back
//! and brought in by the huge page: the plane would replace the small pages that were lent, and to send small pages costs a
//! tenth more (docs/decisions/0054). Not here: whether memory can be had (`port::Io::chunks_obtainable`), which admission
//! counts on.

use units::Nanos;

use crate::cache::{CHUNK_PAGES, Cache};
use crate::port::{Chunks, MemoryChange, STEP_CHUNKS};

/// Free chunks below which the next step is brought in. At 2 GiB/s, which bringing in takes, a disk of
/// 1 GB/s does not use them up meanwhile. Follows from that.
const SPARE_CHUNKS: u32 = STEP_CHUNKS / 2;
/// The period of the search for unused steps, and of another request for a step that could not be had. Chosen.
const CHECK_PERIOD: Nanos = Nanos::from_secs(1);

/// Which steps of the arena have memory.
#[derive(Debug)]
pub(crate) struct ArenaMemory {
    chunk_count: u32,
    lull: Nanos,
    /// Per step of the arena: its memory is there (and in the cache).
    present: Vec<bool>,
    /// The change that is under way.
    changing: Option<MemoryChange>,
    /// Given back to be brought in anew.
    renewed: Option<Chunks>,
    /// When a step to give back is looked for next.
    check_at: Nanos,
    /// The last step got no memory: the next one is requested at this time at the earliest.
    retry_at: Nanos,
}

impl ArenaMemory {
    /// An arena of `chunk_count` chunks, the first step of which is there: it is given to `cache`.
    pub(crate) fn new(chunk_count: u32, lull: Nanos, cache: &mut Cache) -> Self {
        let mut present = vec![false; chunk_count.div_ceil(STEP_CHUNKS) as usize];
        present[0] = true;
        let (check_at, retry_at) = (Nanos::ZERO, Nanos::ZERO);
        let this = Self { chunk_count, lull, present, changing: None, renewed: None, check_at, retry_at };
        cache.add(this.chunks(0));
        this
    }

    /// The change of memory that shall be made now, if any, with `pages` promised or asked for. It is under way until
    /// [`ArenaMemory::changed`].
    pub(crate) fn next_change(&mut self, cache: &mut Cache, pages: u64, now: Nanos) -> Option<MemoryChange> {
        if self.changing.is_some() {
            return None;
        }
        let wanted = pages.div_ceil(u64::from(CHUNK_PAGES)) + u64::from(SPARE_CHUNKS);
        let (chunks, unused_since) = (u64::from(cache.present()), now.saturating_sub(self.lull));
        let is_short = chunks < wanted || !cache.has_spare(SPARE_CHUNKS, unused_since);
        let missing = self.renewed.or_else(|| if is_short { self.absent() } else { None });
        let missing = missing.filter(|_| now >= self.retry_at);
        if missing.is_some() {
            self.changing = missing.map(MemoryChange::BringIn);
        } else if !is_short
            && now >= self.check_at
            && chunks >= wanted + u64::from(STEP_CHUNKS)
            && cache.has_spare(SPARE_CHUNKS + STEP_CHUNKS, unused_since)
        {
            // From the end, so that the remaining steps lie at the start.
            let unused = |step: &usize| self.present[*step] && cache.remove(self.chunks(*step), unused_since);
            if let Some(step) = (1..self.present.len()).rev().find(unused) {
                self.present[step] = false;
                self.changing = Some(MemoryChange::GiveBack(self.chunks(step)));
            }
        }
        // Promised memory must not wait for it.
        if self.changing.is_none() && self.renewed.is_none() && chunks >= wanted {
            let unused_since = if is_short { now } else { unused_since };
            self.renewed = cache.remove_lent(SPARE_CHUNKS, unused_since);
            self.changing = self.renewed.map(MemoryChange::GiveBack);
        }
        debug_assert!(self.present[0], "the first step stays");
        if self.changing.is_none() && now >= self.check_at {
            self.check_at = now.saturating_add(CHECK_PERIOD);
        }
        self.changing
    }

    /// The change under way was made, or could not be.
    pub(crate) fn changed(&mut self, cache: &mut Cache, made: bool, now: Nanos) {
        match self.changing.take().expect("a change was under way") {
            MemoryChange::BringIn(chunks) if made => {
                // While there is one, nothing else is brought in.
                self.renewed = None;
                self.present[(chunks.first / STEP_CHUNKS) as usize] = true;
                cache.add(chunks);
            }
            MemoryChange::BringIn(_) => self.retry_at = now.saturating_add(CHECK_PERIOD),
            MemoryChange::GiveBack(_) => {}
        }
    }

    /// When [`ArenaMemory::next_change`] should be called although nothing happened.
    pub(crate) fn next_wakeup(&self) -> Option<Nanos> {
        let may_shrink = self.changing.is_none() && self.present[1..].contains(&true);
        may_shrink.then_some(self.check_at)
    }

    /// The first step without memory.
    fn absent(&self) -> Option<Chunks> {
        self.present.iter().position(|present| !present).map(|step| self.chunks(step))
    }

    fn chunks(&self, step: usize) -> Chunks {
        let first = u32::try_from(step).expect("counted by a u32") * STEP_CHUNKS;
        Chunks { first, count: STEP_CHUNKS.min(self.chunk_count - first) }
    }
}

#[cfg(test)]
mod tests {
    use units::ContentVersion;

    use super::*;
    use crate::cache::PageKey;

    const LULL: Nanos = Nanos::from_secs(60);

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    fn arena(steps: u32) -> (ArenaMemory, Cache) {
        let chunks = steps * STEP_CHUNKS;
        let mut cache = Cache::new(chunks);
        (ArenaMemory::new(chunks, LULL, &mut cache), cache)
    }

    /// Makes changes until none is wanted; how many chunks have memory then.
    fn settle(memory: &mut ArenaMemory, cache: &mut Cache, pages: u64, now: Nanos) -> u32 {
        cache.set_clock(now);
        while memory.next_change(cache, pages, now).is_some() {
            memory.changed(cache, true, now);
        }
        cache.present()
    }

    /// Reads this number of chunks of a content, each given back at once.
    fn read(cache: &mut Cache, version: u64, chunks: u64) {
        for chunk in 0..chunks {
            let key = PageKey { version: ContentVersion(version), index: chunk * u64::from(CHUNK_PAGES) };
            let first = cache.allocate(key, CHUNK_PAGES, 1).expect("a chunk is idle");
            cache.keep(first);
            for nth in 0..CHUNK_PAGES {
                cache.read_done(Cache::neighbour(first, nth), 1);
                cache.release(Cache::neighbour(first, nth));
            }
        }
    }

    /// Three streams are sent a chunk each of this number of contents, which lends it to their sockets.
    fn lend(cache: &mut Cache, chunks: u64) {
        for version in 0..chunks {
            let key = |index| PageKey { version: ContentVersion(version), index };
            let first = cache.allocate(key(0), CHUNK_PAGES, 1).expect("a chunk is idle");
            for (nth, index) in (0..CHUNK_PAGES).zip(0..) {
                let page = Cache::neighbour(first, nth);
                cache.read_done(page, 1);
                assert_eq!([cache.take(key(index)), cache.take(key(index))], [Some(page); 2]);
                (0..3).for_each(|_| cache.release(page));
            }
        }
    }

    #[test]
    fn memory_that_was_lent_is_renewed_by_the_huge_page_before_it_is_read_into() {
        let (mut memory, mut cache) = arena(1);
        cache.set_clock(at(100));
        lend(&mut cache, u64::from(SPARE_CHUNKS + 2));
        let mut changes = vec![];
        while let Some(change) = memory.next_change(&mut cache, 0, at(100)) {
            changes.push(change);
            memory.changed(&mut cache, true, at(100));
        }
        let oldest = Chunks { first: 0, count: 2 };
        assert_eq!(changes, [MemoryChange::GiveBack(oldest), MemoryChange::BringIn(oldest)]);
        let found = |version| cache.find(PageKey { version: ContentVersion(version), index: 0 }).is_some();
        assert_eq!([found(0), found(1), found(2)], [false, false, true]);
        assert!(cache.has_spare(SPARE_CHUNKS, Nanos::ZERO) && cache.present() == STEP_CHUNKS);
    }

    #[test]
    fn a_renewed_huge_page_is_requested_until_it_is_there() {
        let (mut memory, mut cache) = arena(1);
        cache.set_clock(at(100));
        lend(&mut cache, u64::from(SPARE_CHUNKS + 2));
        let oldest = Chunks { first: 0, count: 2 };
        assert_eq!(memory.next_change(&mut cache, 0, at(100)), Some(MemoryChange::GiveBack(oldest)));
        memory.changed(&mut cache, true, at(100));
        for _ in 0..3 {
            assert_eq!(memory.next_change(&mut cache, 0, at(101)), Some(MemoryChange::BringIn(oldest)));
            memory.changed(&mut cache, false, at(100));
        }
        assert_eq!((cache.present(), memory.next_change(&mut cache, 0, at(100))), (STEP_CHUNKS - 2, None));
        assert_eq!(settle(&mut memory, &mut cache, 0, at(102)), STEP_CHUNKS);
    }

    #[test]
    fn promised_memory_does_not_wait_for_renewal() {
        let (mut memory, mut cache) = arena(1);
        lend(&mut cache, u64::from(SPARE_CHUNKS + 2));
        let promised = u64::from((STEP_CHUNKS - SPARE_CHUNKS) * CHUNK_PAGES);
        assert_eq!(memory.next_change(&mut cache, promised + 1, at(100)), None);
        assert!(memory.next_change(&mut cache, promised, at(100)).is_some());
    }

    #[test]
    fn promised_memory_is_there_one_step_ahead_and_no_more() {
        let (mut memory, mut cache) = arena(8);
        assert_eq!(settle(&mut memory, &mut cache, 0, at(100)), STEP_CHUNKS);
        assert_eq!(settle(&mut memory, &mut cache, u64::from(3 * STEP_CHUNKS * CHUNK_PAGES), at(100)), 4 * STEP_CHUNKS);
        assert_eq!(settle(&mut memory, &mut cache, u64::MAX / 8, at(100)), 8 * STEP_CHUNKS, "all there is");
        assert_eq!(settle(&mut memory, &mut cache, 0, at(102)), STEP_CHUNKS, "none of it was ever used");
    }

    #[test]
    fn contents_read_lately_are_kept_and_given_back_after_a_lull() {
        let (mut memory, mut cache) = arena(8);
        for round in 0..12 {
            settle(&mut memory, &mut cache, 0, at(100));
            read(&mut cache, round, u64::from(SPARE_CHUNKS));
        }
        assert_eq!(settle(&mut memory, &mut cache, 0, at(101)), 7 * STEP_CHUNKS);
        let first = PageKey { version: ContentVersion(0), index: 0 };
        assert!(cache.find(first).is_some(), "nothing had to go");
        assert_eq!(settle(&mut memory, &mut cache, 0, at(159)), 7 * STEP_CHUNKS);
        assert!(memory.next_wakeup().is_some_and(|wakeup| wakeup > at(159)), "it looks again by itself");
        assert_eq!(settle(&mut memory, &mut cache, 0, at(161)), STEP_CHUNKS);
        assert!(cache.find(PageKey { version: ContentVersion(11), index: 0 }).is_none());
    }

    /// Forty contents at once, each read a page at a time and the next before the last is given back: chunks that have memory
    /// then, and pages that had to go.
    fn read_by_the_page(streams_each: u32) -> (u32, usize) {
        let (mut memory, mut cache) = arena(8);
        let key = |version, index| PageKey { version: ContentVersion(version), index };
        let mut held = vec![];
        for index in 0..16 {
            let before = std::mem::take(&mut held);
            for version in 0..40 {
                settle(&mut memory, &mut cache, 0, at(100));
                let page = cache.allocate(key(version, index), 1, 1).expect("there is room");
                cache.read_done(page, 1);
                for _ in 1..streams_each {
                    assert_eq!(cache.take(key(version, index)), Some(page));
                    cache.release(page);
                }
                held.push(page);
            }
            before.into_iter().for_each(|page| cache.release(page));
        }
        let all = (0..40).flat_map(|version| (0..16).map(move |index| key(version, index)));
        (cache.present(), all.filter(|&key| cache.find(key).is_none()).count())
    }

    #[test]
    fn pages_of_several_streams_stay_while_memory_can_grow() {
        assert_eq!(read_by_the_page(2).1, 0, "nothing had to go");
    }

    #[test]
    fn flash_pages_of_one_stream_take_no_more_memory() {
        assert_eq!(read_by_the_page(1).0, 3 * STEP_CHUNKS, "eighty chunks are in use at once");
    }

    #[test]
    fn long_unused_contents_make_room_instead_of_more_memory() {
        let (mut memory, mut cache) = arena(8);
        for round in 0..20 {
            let chunks = settle(&mut memory, &mut cache, 0, at(100 + round * 61));
            assert!(chunks <= 2 * STEP_CHUNKS, "{chunks}");
            read(&mut cache, round, u64::from(SPARE_CHUNKS));
        }
    }

    #[test]
    fn refused_memory_is_tried_again_and_used_chunks_stay() {
        let (mut memory, mut cache) = arena(2);
        let key = PageKey { version: ContentVersion(1), index: 0 };
        let pages = u64::from(2 * STEP_CHUNKS * CHUNK_PAGES);
        assert!(memory.next_change(&mut cache, pages, at(1)).is_some());
        assert!(memory.next_change(&mut cache, pages, at(1)).is_none(), "one at a time");
        memory.changed(&mut cache, false, at(1));
        assert!(memory.next_change(&mut cache, pages, at(1)).is_none());
        assert_eq!(settle(&mut memory, &mut cache, pages, at(3)), 2 * STEP_CHUNKS);
        // The chunk in use lies in the step that was brought in last, which is used first.
        let used = cache.allocate(key, 1, 1).expect("there is room");
        assert_eq!(settle(&mut memory, &mut cache, 0, at(1000)), 2 * STEP_CHUNKS);
        cache.release(used);
        cache.read_failed(used);
        assert_eq!(settle(&mut memory, &mut cache, 0, at(1002)), 2 * STEP_CHUNKS);
        assert_eq!(settle(&mut memory, &mut cache, 0, at(1100)), STEP_CHUNKS);
    }
}
