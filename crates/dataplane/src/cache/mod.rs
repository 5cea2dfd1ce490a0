//! The buffers: which bytes of which content lie in the arena.
//!
//! The unit is a *quarter* of a chunk (256 KiB); four neighbours form a *frame* (1 MiB), the largest read. A quarter is
//! found by (content version, index), so streams of one content share what was read once (interval caching), and what
//! nobody uses any more stays until its place is needed (least recently used first).
//!
//! Frames have memory from [`Cache::add`] to [`Cache::remove`] (`memory`); only those are used.
//!
//! Promise: a quarter that is referenced or being read is never reused; if fewer quarters are in use than have memory,
//! one can be had. No allocation after construction. Not here: how many quarters a stream may hold (`admission`).

mod list;

use schedule::admission::QUARTER_BYTES;
use units::{ContentVersion, Nanos, limits};

use crate::port::{Chunks, SHARED_STREAMS_MIN, Sharing, Span};
use list::NumberList;

/// Quarters in a frame.
pub const FRAME_QUARTERS: u32 = 4;
const NONE: u32 = u32::MAX;
const _: () = assert!(QUARTER_BYTES * FRAME_QUARTERS as u64 == limits::CHUNK_BYTES);

/// Names a quarter of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarter(u32);

/// What a quarter holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarterKey {
    /// Which content.
    pub version: ContentVersion,
    /// Which of its quarters: offset / `QUARTER_BYTES`.
    pub index: u64,
}

/// How far a quarter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarterState {
    /// Nothing in it.
    Empty,
    /// Being read.
    Reading,
    /// So many bytes are valid.
    Ready(u32),
}

#[derive(Debug, Clone, Copy)]
struct QuarterEntry {
    key: Option<QuarterKey>,
    state: QuarterState,
    refs: u32,
    /// Streams that found it here instead of reading it.
    hits: u32,
    /// Reads out for it: until they are answered the kernel may write into it.
    reads: u8,
    /// Valid bytes that its reads have brought so far, counted from its start: they may be answered in any order.
    valid: u32,
    /// The next one in its hash bucket.
    chain: u32,
}

impl QuarterEntry {
    /// Nobody holds it, and no read may write into it.
    const fn is_unused(&self) -> bool {
        self.refs == 0 && self.reads == 0
    }
}

/// The table of all quarters.
#[derive(Debug)]
pub struct Cache {
    entries: Vec<QuarterEntry>,
    buckets: Vec<u32>,
    /// Unused quarters in frames of which another quarter is used.
    partial: NumberList,
    /// Frames of which no quarter is used, the one that was idle for longest first.
    idle: NumberList,
    frames: Vec<Frame>,
    /// Frames that have memory.
    present: u32,
    /// Frames that there can be, as far as the world outside knows.
    obtainable: u32,
    used: u32,
    clock: Nanos,
}

/// One frame.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// How many of its quarters are used.
    busy: u32,
    /// Since when it is idle; zero if it was never used.
    idle_since: Nanos,
    present: bool,
}

impl Cache {
    /// A table for `frames` frames, all without memory yet.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        assert!(frames > 0, "an arena has at least one frame");
        let quarters = frames * FRAME_QUARTERS;
        let entry =
            QuarterEntry { key: None, state: QuarterState::Empty, refs: 0, hits: 0, reads: 0, valid: 0, chain: NONE };
        let frame = Frame { busy: 0, idle_since: Nanos::ZERO, present: false };
        Self {
            entries: vec![entry; quarters as usize],
            buckets: vec![NONE; quarters.next_power_of_two() as usize],
            partial: NumberList::new(quarters),
            idle: NumberList::new(frames),
            frames: vec![frame; frames as usize],
            present: 0,
            obtainable: frames,
            used: 0,
            clock: Nanos::ZERO,
        }
    }

    /// Sets the time at which what is released from now on was last used.
    pub fn set_clock(&mut self, now: Nanos) {
        self.clock = now;
    }

    /// Takes frames in that have memory now. They are used before any that hold something.
    pub fn add(&mut self, chunks: Chunks) {
        for frame in (chunks.first..chunks.first + chunks.count).rev() {
            assert!(!self.frames[frame as usize].present, "a frame is brought in once");
            self.frames[frame as usize].present = true;
            self.frames[frame as usize].idle_since = Nanos::ZERO;
            self.idle.push_first(frame);
        }
        self.present += chunks.count;
    }

    /// Lets go of frames that are about to lose their memory, if all of them were idle since `unused_since`; what they
    /// hold is forgotten.
    pub fn remove(&mut self, chunks: Chunks, unused_since: Nanos) -> bool {
        let range = chunks.first..chunks.first + chunks.count;
        let unused = |frame: &Frame| frame.present && frame.busy == 0 && frame.idle_since <= unused_since;
        if !self.frames[range.start as usize..range.end as usize].iter().all(unused) {
            return false;
        }
        for frame in range {
            for at in frame * FRAME_QUARTERS..(frame + 1) * FRAME_QUARTERS {
                self.forget_key(at);
                self.entries[at as usize].state = QuarterState::Empty;
            }
            self.idle.remove(frame);
            self.frames[frame as usize].present = false;
        }
        self.present -= chunks.count;
        true
    }

    /// Frames that have memory.
    #[must_use]
    pub const fn present(&self) -> u32 {
        self.present
    }

    /// Frames that there can be now.
    #[must_use]
    pub const fn obtainable(&self) -> u32 {
        self.obtainable
    }

    /// Takes note of how many frames there can be now.
    pub fn set_obtainable(&mut self, frames: u32) {
        self.obtainable = frames.min(u32::try_from(self.frames.len()).expect("built from a u32"));
    }

    /// Whether there are `count` frames whose contents, if any, nobody used since `unused_since`.
    #[must_use]
    pub fn has_spare(&self, count: u32, unused_since: Nanos) -> bool {
        let spare = |&frame: &u32| self.frames[frame as usize].idle_since <= unused_since;
        self.idle.iter().take(count as usize).take_while(spare).count() == count as usize
    }

    /// The quarter that holds (or will hold) `key`, with one more reference to it.
    pub fn take(&mut self, key: QuarterKey) -> Option<Quarter> {
        let quarter = self.find(key)?;
        let entry = &mut self.entries[quarter.0 as usize];
        entry.refs += 1;
        entry.hits = entry.hits.saturating_add(1);
        if entry.refs == 1 && entry.reads == 0 {
            self.leave_unused(quarter.0);
        }
        Some(quarter)
    }

    /// The quarter that holds (or will hold) `key`.
    #[must_use]
    pub fn find(&self, key: QuarterKey) -> Option<Quarter> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.key == Some(key) {
                return Some(Quarter(at));
            }
            at = entry.chain;
        }
        None
    }

    /// A place for `count` quarters from `key` on, neighbours in memory, each referenced once and in state
    /// `Reading`, with `reads` answers to come. More than one lie in one frame at their place in their chunk of the content; one
    /// lies behind the quarter before it if it can. None of the keys may be present. `None` if there is no such place.
    pub fn allocate(&mut self, key: QuarterKey, count: u32, reads: u8) -> Option<Quarter> {
        let first = if count == 1 { self.place_for_one(key)? } else { self.place_in_idle(key)? };
        debug_assert!(first % FRAME_QUARTERS + count <= FRAME_QUARTERS, "a run stays in its frame");
        for (at, index) in (first..first + count).zip(key.index..) {
            self.leave_unused(at);
            self.forget_key(at);
            self.entries[at as usize] = QuarterEntry {
                key: None,
                state: QuarterState::Reading,
                refs: 1,
                hits: 0,
                reads,
                valid: 0,
                chain: NONE,
            };
            self.put_key(at, QuarterKey { index, ..key });
        }
        Some(Quarter(first))
    }

    /// Where one quarter may lie. Behind the one before it: a frame that has one content is passed on whole, in large pages
    /// and in one send. Else in the frame that was idle for longest: what was sent last rests longest, lent memory with it.
    /// Else, once every second frame that there can be is used, in a leftover, so that the others stay for runs.
    fn place_for_one(&self, key: QuarterKey) -> Option<u32> {
        let (idle, leftover) = (self.place_in_idle(key), self.partial.first());
        let few_are_used = self.present - self.idle.count() < self.obtainable / 2;
        self.place_behind(key).or(if few_are_used { idle.or(leftover) } else { leftover.or(idle) })
    }

    /// The unused place in memory behind the quarter before `key`, in the same frame.
    fn place_behind(&self, key: QuarterKey) -> Option<u32> {
        let before = self.find(QuarterKey { index: key.index.checked_sub(1)?, ..key })?;
        let at = before.0 + 1;
        let free = !at.is_multiple_of(FRAME_QUARTERS) && self.entries[at as usize].is_unused();
        free.then_some(at)
    }

    /// The place of `key` in the frame that was idle for longest.
    fn place_in_idle(&self, key: QuarterKey) -> Option<u32> {
        let within = u32::try_from(key.index % u64::from(FRAME_QUARTERS)).expect("below four");
        self.idle.first().map(|frame| frame * FRAME_QUARTERS + within)
    }

    /// Gives back one reference.
    pub fn release(&mut self, quarter: Quarter) {
        let entry = &mut self.entries[quarter.0 as usize];
        entry.refs = entry.refs.checked_sub(1).expect("a reference was held");
        if entry.is_unused() {
            self.become_unused(quarter.0);
        }
    }

    /// A quarter whose read will not be answered in time gives who waits for it to another one, which is to be read by one
    /// request: `None` if nobody waits, or there is no place. The old one is used again when its read is answered.
    pub fn supersede(&mut self, quarter: Quarter) -> Option<Quarter> {
        let QuarterEntry { key: Some(key), state: QuarterState::Reading, refs: refs @ 1.., .. } =
            self.entries[quarter.0 as usize]
        else {
            return None;
        };
        self.forget_key(quarter.0);
        let Some(new) = self.allocate(key, 1, 1) else {
            self.put_key(quarter.0, key);
            return None;
        };
        self.entries[new.0 as usize].refs = refs;
        self.entries[quarter.0 as usize].refs = 0;
        Some(new)
    }

    /// One read for this quarter ended: from its start, so many bytes are valid.
    pub fn read_done(&mut self, quarter: Quarter, valid: u32) {
        let entry = &mut self.entries[quarter.0 as usize];
        entry.reads = entry.reads.checked_sub(1).expect("a read was out");
        entry.valid = entry.valid.max(valid);
        if entry.reads == 0 {
            entry.state = QuarterState::Ready(entry.valid);
        }
        if entry.is_unused() {
            self.become_unused(quarter.0);
        }
    }

    /// One read for this quarter brought nothing. Who waited for it has let go of it, and who wants its bytes reads them into
    /// another one. It is used again when its last read is answered.
    pub fn read_failed(&mut self, quarter: Quarter) {
        assert_eq!(self.entries[quarter.0 as usize].refs, 0, "nobody holds what cannot be read");
        self.forget_key(quarter.0);
        self.read_done(quarter, 0);
    }

    /// How far a quarter is.
    #[must_use]
    pub fn state(&self, quarter: Quarter) -> QuarterState {
        self.entries[quarter.0 as usize].state
    }

    /// Whether more than a few streams send it.
    #[must_use]
    pub fn sharing(&self, quarter: Quarter) -> Sharing {
        // The first did not find it.
        if self.entries[quarter.0 as usize].hits + 1 >= SHARED_STREAMS_MIN { Sharing::Shared } else { Sharing::Single }
    }

    /// The arena's bytes of a quarter.
    #[must_use]
    pub fn span(quarter: Quarter) -> Span {
        let length = u32::try_from(QUARTER_BYTES).expect("a quarter is small");
        Span { offset: u64::from(quarter.0) * QUARTER_BYTES, length }
    }

    /// The `nth` neighbour.
    #[must_use]
    pub fn neighbour(quarter: Quarter, nth: u32) -> Quarter {
        Quarter(quarter.0 + nth)
    }

    /// The next quarter in memory if it is in the same frame, holds `key` and is ready.
    #[must_use]
    pub fn ready_neighbour(&self, quarter: Quarter, key: QuarterKey) -> Option<(Quarter, u32)> {
        let next = quarter.0 + 1;
        if next.is_multiple_of(FRAME_QUARTERS) {
            return None;
        }
        let entry = &self.entries[next as usize];
        match entry.state {
            QuarterState::Ready(valid) if entry.key == Some(key) => Some((Quarter(next), valid)),
            QuarterState::Ready(_) | QuarterState::Empty | QuarterState::Reading => None,
        }
    }

    /// Quarters referenced or being read.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// All quarters, with memory and without.
    #[must_use]
    pub fn quarters(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("built from a u32")
    }

    fn bucket(&self, key: QuarterKey) -> usize {
        // Fibonacci hashing (Knuth, TAOCP 3, §6.4): neighbours spread over the table.
        let mixed = (key.version.0.rotate_left(32) ^ key.index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        usize::try_from(mixed >> 32).expect("32 bits") & (self.buckets.len() - 1)
    }

    fn put_key(&mut self, at: u32, key: QuarterKey) {
        let bucket = self.bucket(key);
        let entry = &mut self.entries[at as usize];
        (entry.key, entry.chain) = (Some(key), self.buckets[bucket]);
        self.buckets[bucket] = at;
    }

    fn forget_key(&mut self, at: u32) {
        let Some(key) = self.entries[at as usize].key.take() else { return };
        let bucket = self.bucket(key);
        let chain = self.entries[at as usize].chain;
        let mut place = self.buckets[bucket];
        if place == at {
            self.buckets[bucket] = chain;
            return;
        }
        while place != NONE {
            let next = self.entries[place as usize].chain;
            if next == at {
                self.entries[place as usize].chain = chain;
                return;
            }
            place = next;
        }
    }

    /// An unused quarter becomes used.
    fn leave_unused(&mut self, at: u32) {
        self.used += 1;
        let frame = at / FRAME_QUARTERS;
        let busy = &mut self.frames[frame as usize].busy;
        *busy += 1;
        if *busy > 1 {
            self.partial.remove(at);
        } else {
            self.idle.remove(frame);
            others_in_frame(at).for_each(|other| self.partial.push_last(other));
        }
    }

    /// A used quarter becomes unused; what it holds can still be found.
    fn become_unused(&mut self, at: u32) {
        self.used -= 1;
        let frame = at / FRAME_QUARTERS;
        let Frame { busy, idle_since, .. } = &mut self.frames[frame as usize];
        *busy -= 1;
        if *busy > 0 {
            self.partial.push_last(at);
        } else {
            *idle_since = self.clock;
            self.idle.push_last(frame);
            others_in_frame(at).for_each(|other| self.partial.remove(other));
        }
    }
}

fn others_in_frame(at: u32) -> impl Iterator<Item = u32> {
    let first = at - at % FRAME_QUARTERS;
    (first..first + FRAME_QUARTERS).filter(move |&other| other != at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of which all frames have memory.
    fn full(frames: u32) -> Cache {
        let mut cache = Cache::new(frames);
        cache.add(Chunks { first: 0, count: frames });
        cache
    }

    fn key(index: u64) -> QuarterKey {
        QuarterKey { version: ContentVersion(7), index }
    }

    #[test]
    fn a_frame_is_read_once_and_found_by_all() {
        let mut cache = full(2);
        let first = cache.allocate(key(4), 4, 1).expect("an idle frame");
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
        let quarter = cache.allocate(key(0), 1, 1).expect("room");
        cache.read_done(quarter, 262_144);
        for (found, sharing) in [(0, Sharing::Single), (1, Sharing::Single), (2, Sharing::Shared)] {
            assert_eq!(cache.sharing(quarter), sharing, "found {found} times");
            cache.release(quarter);
            assert_eq!(cache.take(key(0)), Some(quarter));
        }
        cache.release(quarter);
        let again = cache.allocate(key(4), 4, 1).expect("room");
        assert_eq!((again, cache.sharing(again)), (quarter, Sharing::Single));
    }

    #[test]
    fn contents_read_by_the_quarter_fill_frames_of_their_own_while_there_are_idle_ones() {
        let other = |index| QuarterKey { version: ContentVersion(8), index };
        let mut cache = full(6);
        let mut last = [None; 2];
        for index in 4..8 {
            for (nth, key) in [key(index), other(index)].into_iter().enumerate() {
                let quarter = cache.allocate(key, 1, 1).expect("room");
                if let Some(last) = last[nth] {
                    assert_eq!(quarter, Cache::neighbour(last, 1), "behind the one before");
                }
                last[nth] = Some(quarter);
            }
        }
        // Two frames are full, one more is begun; from then on half are idle, and leftovers are used.
        let begun = cache.allocate(key(40), 1, 1).expect("room");
        let leftover = cache.allocate(key(80), 1, 1).expect("room");
        assert_eq!(leftover, Cache::neighbour(begun, 1));
        assert_eq!(cache.allocate(key(41), 1, 1), Some(Cache::neighbour(begun, 2)), "its place is taken");
        for chunk in 0..3 {
            assert!(cache.allocate(other(100 + chunk * 4), 4, 1).is_some(), "idle frames stay for runs");
        }
    }

    #[test]
    fn the_pieces_of_a_quarter_may_come_in_any_order() {
        let mut cache = full(2);
        let quarter = cache.allocate(key(0), 1, 2).expect("room");
        cache.read_done(quarter, 262_144);
        assert_eq!(cache.state(quarter), QuarterState::Reading, "the first piece is still out");
        cache.read_done(quarter, 131_072);
        assert_eq!(cache.state(quarter), QuarterState::Ready(262_144));
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
        let mut held: Vec<Quarter> = vec![];
        let mut seed = 1u64;
        for step in 0..20_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if cache.used() < cache.quarters() && seed >> 63 == 0 {
                let count = if seed >> 62 & 1 == 0 { 1 } else { 4 };
                let key = key(step * 4);
                let got = cache.allocate(key, count, 1).map(|first| (first, count));
                let (first, count) = got.or_else(|| cache.allocate(key, 1, 1).map(|q| (q, 1))).expect("one can be had");
                for nth in 0..count {
                    let quarter = Cache::neighbour(first, nth);
                    assert!(!held.contains(&quarter), "in use twice");
                    cache.read_done(quarter, 1);
                    held.push(quarter);
                }
            } else if !held.is_empty() {
                let at = usize::try_from(seed >> 33).expect("31 bits") % held.len();
                cache.release(held.swap_remove(at));
            }
            assert_eq!(cache.used() as usize, held.len());
        }
    }

    #[test]
    fn what_cannot_be_read_is_forgotten_at_once_and_its_place_used_when_all_its_reads_are_answered() {
        let mut cache = full(1);
        let quarter = cache.allocate(key(0), 1, 2).expect("room");
        cache.release(quarter);
        cache.read_failed(quarter);
        assert_eq!((cache.find(key(0)), cache.used()), (None, 1));
        let again = cache.allocate(key(0), 1, 1).expect("room");
        assert_ne!(again, quarter, "whose other half may still be written to");
        cache.read_done(quarter, 5);
        assert_eq!((cache.find(key(0)), cache.used()), (Some(again), 1), "nor does it heal it");
    }
}
