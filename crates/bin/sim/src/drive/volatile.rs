//! The effect of a power cut on writes: of the writes since the last completed flush, a seeded choice survives.
//!
//! Promise: flushed data is never changed. Each other write survives whole, not at all, or torn in sectors of 512 bytes; where
//! writes overlap, the bytes of the last surviving write count. Bounded: beyond the limit the oldest writes count as drained to
//! the media, as a drive's cache drains (the limit is far above any drive's cache). Not here: the data itself. The caller
//! provides the before-images, `None` for zeros.

use std::collections::{HashMap, VecDeque};

use super::faults::mixed;

/// Size of the blocks in which before-images are kept.
pub const IMAGE_BYTES: u64 = 4096;
const SECTOR: usize = 512;

#[derive(Debug)]
struct Write {
    offset: u64,
    bytes: u64,
    /// Content before this write of each block it touches, in order; `None`: zeros.
    images: Vec<Option<Box<[u8]>>>,
    acknowledged: bool,
    /// The first flush that began after it was answered.
    covered_by: Option<u64>,
    /// That flush has completed. The entry stays until all earlier writes are removed: their before-images do not include this write.
    durable: bool,
    tag: u64,
    cost: usize,
}

/// The writes a power cut can undo.
#[derive(Debug)]
pub struct Unflushed {
    writes: VecDeque<Write>,
    cost: usize,
    cost_max: usize,
    /// Flushes that began since the start.
    flushes: u64,
}

/// Result of a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutReport {
    /// Unflushed writes that survived whole.
    pub kept: u64,
    /// Unflushed writes that were lost.
    pub dropped: u64,
    /// Unflushed writes of which some sectors survived.
    pub torn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteFate {
    Kept,
    Dropped,
    Torn(u64),
}

impl Unflushed {
    /// Keeps at most about `bytes_max` of before-images.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { writes: VecDeque::new(), cost: 0, cost_max: bytes_max, flushes: 0 }
    }

    /// Notes a write before it is made. `before` returns the present bytes of the block of [`IMAGE_BYTES`] at an offset, `None`
    /// for zeros.
    pub fn note(&mut self, tag: u64, offset: u64, bytes: u64, mut before: impl FnMut(u64) -> Option<Box<[u8]>>) {
        if bytes == 0 {
            return;
        }
        let first = offset / IMAGE_BYTES;
        let last = (offset + bytes - 1) / IMAGE_BYTES;
        let images: Vec<_> = (first..=last).map(|block| before(block * IMAGE_BYTES)).collect();
        let cost = 64 + images.iter().map(|image| 16 + image.as_ref().map_or(0, |b| b.len())).sum::<usize>();
        self.cost += cost;
        let (acknowledged, covered_by, durable) = (false, None, false);
        self.writes.push_back(Write { offset, bytes, images, acknowledged, covered_by, durable, tag, cost });
        while self.cost > self.cost_max {
            // Only acknowledged writes can have drained to the media; the drive's queue bounds the others.
            match self.writes.front() {
                Some(write) if write.acknowledged => self.drop_front(),
                _ => break,
            }
        }
    }

    fn drop_front(&mut self) {
        if let Some(write) = self.writes.pop_front() {
            self.cost -= write.cost;
        }
    }

    /// Notes that the write with this tag was acknowledged. False if a power cut has removed the write.
    pub fn acknowledge(&mut self, tag: u64) -> bool {
        let write = self.writes.iter_mut().rev().find(|write| write.tag == tag && !write.acknowledged);
        write.map(|write| write.acknowledged = true).is_some()
    }

    /// Begins a flush and returns its number, for [`Unflushed::flushed`]. It covers all writes acknowledged before, even if an
    /// earlier write or flush is still under way.
    pub fn begin_flush(&mut self) -> u64 {
        self.flushes += 1;
        for write in self.writes.iter_mut().filter(|write| write.acknowledged) {
            write.covered_by.get_or_insert(self.flushes);
        }
        self.flushes
    }

    /// Writes under way or not flushed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.iter().filter(|write| !write.durable).count()
    }

    /// True if a power cut would lose nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that the flush of this number has completed: the writes that it covers are safe.
    pub fn flushed(&mut self, flush: u64) {
        for write in self.writes.iter_mut().filter(|write| write.covered_by.is_some_and(|number| number <= flush)) {
            write.durable = true;
        }
        while self.writes.front().is_some_and(|write| write.durable) {
            self.drop_front();
        }
    }

    /// Cuts the power: chooses by `seed` the writes that survive, and writes the final bytes of each block that changes. `read`
    /// returns the present bytes of a block, `write` replaces them.
    pub fn cut(
        &mut self,
        seed: u64,
        mut read: impl FnMut(u64) -> Box<[u8]>,
        mut write: impl FnMut(u64, &[u8]),
    ) -> CutReport {
        let mut report = CutReport::default();
        let mut blocks: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
        let mut fates = Vec::with_capacity(self.writes.len());
        for (index, w) in self.writes.iter().enumerate() {
            let chance = mixed(seed ^ mixed(u64::try_from(index).unwrap_or(0)));
            fates.push(match chance % 4 {
                _ if w.durable => WriteFate::Kept,
                0 => WriteFate::Kept,
                1 => WriteFate::Torn(mixed(chance)),
                _ => WriteFate::Dropped,
            });
            match fates[index] {
                _ if w.durable => {}
                WriteFate::Kept => report.kept += 1,
                WriteFate::Dropped => report.dropped += 1,
                WriteFate::Torn(_) => report.torn += 1,
            }
            for (image, block) in (w.offset / IMAGE_BYTES..=(w.offset + w.bytes - 1) / IMAGE_BYTES).enumerate() {
                blocks.entry(block * IMAGE_BYTES).or_default().push((index, image));
            }
        }
        for (&block, touched) in &blocks {
            let now = read(block);
            let result = self.final_content(block, touched, &fates, &now);
            if result != now {
                write(block, &result);
            }
        }
        self.writes.clear();
        self.cost = 0;
        report
    }

    /// The final bytes of a block: for each sector, those after the last surviving write to it.
    fn final_content(&self, block: u64, touched: &[(usize, usize)], fates: &[WriteFate], now: &[u8]) -> Box<[u8]> {
        let mut result = now.to_vec().into_boxed_slice();
        for (sector, out) in result.chunks_mut(SECTOR).enumerate() {
            let at = block + u64::try_from(sector * SECTOR).unwrap_or(0);
            let survivor = touched.iter().rposition(|&(index, _)| self.survives(index, at, fates[index]));
            // The bytes after write k are the before-image of write k + 1, or the present bytes.
            let next = survivor.map_or(0, |k| k + 1);
            let Some(&(index, image)) = touched.get(next) else { continue };
            match &self.writes[index].images[image] {
                Some(bytes) => out.copy_from_slice(&bytes[sector * SECTOR..sector * SECTOR + out.len()]),
                None => out.fill(0),
            }
        }
        result
    }

    fn survives(&self, index: usize, sector_at: u64, fate: WriteFate) -> bool {
        let w = &self.writes[index];
        let sector = u64::try_from(SECTOR).unwrap_or(512);
        let inside = sector_at < w.offset + w.bytes && w.offset < sector_at + sector;
        match fate {
            // A write outside of this sector does not change it.
            _ if !inside => false,
            WriteFate::Kept => true,
            WriteFate::Dropped => false,
            WriteFate::Torn(chance) => mixed(chance ^ sector_at).is_multiple_of(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    type Blocks = RefCell<HashMap<u64, Box<[u8]>>>;

    fn zeros() -> Box<[u8]> {
        vec![0; 4096].into_boxed_slice()
    }

    fn put(disk: &Blocks, log: &mut Unflushed, tag: u64, offset: u64, bytes: usize, fill: u8) {
        log.note(tag, offset, u64::try_from(bytes).expect("small"), |block| disk.borrow().get(&block).cloned());
        for at in (offset..offset + u64::try_from(bytes).expect("small")).step_by(SECTOR) {
            let block = at / IMAGE_BYTES * IMAGE_BYTES;
            let within = usize::try_from(at - block).expect("small");
            let mut disk = disk.borrow_mut();
            disk.entry(block).or_insert_with(zeros)[within..within + SECTOR].fill(fill);
        }
        log.acknowledge(tag);
    }

    fn cut(disk: &Blocks, log: &mut Unflushed, seed: u64) -> CutReport {
        log.cut(
            seed,
            |block| disk.borrow().get(&block).cloned().unwrap_or_else(zeros),
            |block, bytes| {
                disk.borrow_mut().insert(block, bytes.to_vec().into_boxed_slice());
            },
        )
    }

    #[test]
    fn flushed_writes_survive_and_others_are_chosen_by_the_seed() {
        let (mut kept, mut dropped, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let disk = Blocks::default();
            let mut log = Unflushed::new(1 << 20);
            put(&disk, &mut log, 1, 0, 4096, 1);
            let flush = log.begin_flush();
            log.flushed(flush);
            put(&disk, &mut log, 2, 4096, 4096, 2);
            put(&disk, &mut log, 3, 0, 512, 3);
            let report = cut(&disk, &mut log, seed);
            assert_eq!(report.kept + report.dropped + report.torn, 2);
            kept += report.kept;
            dropped += report.dropped;
            torn += report.torn;
            let disk = disk.borrow();
            let first = &disk[&0];
            assert!(first[512..].iter().all(|&b| b == 1), "a flushed sector changed (seed {seed})");
            assert!(first[0] == 1 || first[0] == 3);
            assert!(disk[&4096].chunks(512).all(|s| s.iter().all(|&b| b == s[0]) && (s[0] == 0 || s[0] == 2)));
        }
        assert!(kept > 50 && dropped > 100 && torn > 50, "{kept} {dropped} {torn}");
    }

    #[test]
    fn the_last_survivor_of_overlapping_writes_stands() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let disk = Blocks::default();
            let mut log = Unflushed::new(1 << 20);
            for (tag, fill) in [(1, 1), (2, 2), (3, 3)] {
                put(&disk, &mut log, tag, 0, 512, fill);
            }
            cut(&disk, &mut log, seed);
            seen.insert(disk.borrow()[&0][0]);
            assert!(log.is_empty());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn the_same_seed_gives_the_same_disk() {
        let run = |seed| {
            let disk = Blocks::default();
            let mut log = Unflushed::new(1 << 20);
            for tag in 0..50 {
                put(&disk, &mut log, tag, tag % 7 * 4096, 8192, u8::try_from(tag + 1).expect("small"));
            }
            cut(&disk, &mut log, seed);
            let mut blocks: Vec<_> = disk.take().into_iter().collect();
            blocks.sort_unstable();
            blocks
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn a_write_under_way_when_the_flush_began_is_not_safe() {
        let mut log = Unflushed::new(1 << 20);
        log.note(1, 0, 512, |_| None);
        log.acknowledge(1);
        log.note(2, 4096, 512, |_| None);
        let flush = log.begin_flush();
        log.acknowledge(2);
        log.flushed(flush);
        assert_eq!(log.len(), 1);
    }

    #[test]
    fn a_flush_covers_answered_writes_behind_one_under_way() {
        for seed in 0..100 {
            let disk = Blocks::default();
            let mut log = Unflushed::new(1 << 20);
            // Under way all the time, in the same block as the flushed one.
            log.note(1, 0, 512, |_| None);
            put(&disk, &mut log, 2, 512, 512, 2);
            let first = log.begin_flush();
            put(&disk, &mut log, 3, 512, 512, 3);
            let second = log.begin_flush();
            assert_eq!(log.len(), 3);
            // Flushes may be answered in any order; a later one covers more.
            log.flushed(second);
            log.flushed(first);
            assert_eq!(log.len(), 1);
            let report = cut(&disk, &mut log, seed);
            assert_eq!(report.kept + report.dropped + report.torn, 1);
            let block = disk.borrow()[&0].clone();
            assert!(block[512..1024].iter().all(|&b| b == 3), "a flushed sector changed (seed {seed})");
        }
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = Unflushed::new(100_000);
        for tag in 0..1000 {
            log.note(tag, tag * 4096, 4096, |_| Some(zeros()));
            log.acknowledge(tag);
        }
        assert!(log.cost <= 100_000 + 5000 && log.len() < 30);
    }
}
