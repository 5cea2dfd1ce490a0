//! Free units of a disk, and the runs in which they follow each other.
//!
//! Promise: finding a stretch of free units, taking a unit and giving it back cost the same on a disk of ten million units
//! whether it is empty or nearly full: a bitmap, and for each range of 64, 512, 4096 … units the stretches it begins with, ends with and
//! has at most (as the page allocator of Go's runtime has since 1.14). Not here: the choice of units for a content (`layout`).

use std::ops::Range;

const WORD: u32 = 64;
/// Ranges of a level that are one of the next.
const FAN: usize = 8;
/// The same, as a shift.
const FAN_SHIFT: u32 = FAN.ilog2();

/// The free units of one disk. Some of them are held: a draft will take them next, unless there are no others.
#[derive(Debug, Clone)]
pub(crate) struct FreeUnits {
    free: UnitSet,
    /// Free, and not held.
    open: UnitSet,
}

impl FreeUnits {
    /// A disk with all of `units` free.
    pub(crate) fn new(units: u32) -> Self {
        Self { free: UnitSet::full(units), open: UnitSet::full(units) }
    }

    pub(crate) const fn free(&self) -> u32 {
        self.free.count
    }

    pub(crate) const fn units(&self) -> u32 {
        self.free.units
    }

    /// The number of free units in `range`.
    pub(crate) fn free_in(&self, range: Range<u32>) -> u64 {
        self.free.count_below(range.end).saturating_sub(self.free.count_below(range.start))
    }

    /// Takes `unit` if it is there and free.
    pub(crate) fn claim(&mut self, unit: u32) -> bool {
        let is_taken = self.free.set(unit, false);
        self.open.set(unit, false);
        debug_assert!(self.open.count <= self.free.count, "a unit is open only while it is free");
        is_taken
    }

    /// True if `unit` is there and not free.
    pub(crate) fn is_taken(&self, unit: u32) -> bool {
        unit < self.units() && !self.free.holds(unit)
    }

    /// Gives back a unit that was taken.
    ///
    /// # Panics
    /// It is free already: two contents had it.
    pub(crate) fn give(&mut self, unit: u32) {
        assert!(self.free.set(unit, true), "unit {unit} is given back once");
        self.open.set(unit, true);
    }

    /// Holds units of `range` that follow each other: at most `wanted`, from `behind` on if that one is open, else the first
    /// stretch of this length, else the longest. Empty if none is open.
    pub(crate) fn hold(&mut self, range: Range<u32>, wanted: u32, behind: Option<u32>) -> Range<u32> {
        let continues = behind.filter(|unit| range.contains(unit) && self.open.holds(*unit));
        let stretch = match continues {
            Some(start) => start..range.end.min(start.saturating_add(wanted)),
            None => {
                let length = wanted.min(self.open.search(range.clone(), u32::MAX).longest);
                let found = self.open.search(range, length.max(1)).found.unwrap_or(0);
                found..found + length
            }
        };
        let end = stretch.clone().find(|unit| !self.open.set(*unit, false)).unwrap_or(stretch.end);
        debug_assert!(end - stretch.start <= wanted && end <= self.units(), "held beyond the demand or the disk");
        stretch.start..end
    }

    /// Units that were held and not taken are open again.
    pub(crate) fn let_go(&mut self, held: Range<u32>) {
        held.filter(|unit| self.free.holds(*unit)).for_each(|unit| {
            self.open.set(unit, true);
        });
    }

    /// A free unit of `range`, even a held one.
    pub(crate) fn first_free(&self, range: Range<u32>) -> Option<u32> {
        self.free.search(range, 1).found
    }
}

/// A set of units.
#[derive(Debug, Clone)]
struct UnitSet {
    words: Vec<u64>,
    /// Level 0 has the stretches of each word, the others those of [`FAN`] entries of the level before; all but the last are
    /// filled up with entries of nothing.
    levels: Vec<Vec<Stretches>>,
    units: u32,
    count: u32,
}

/// Stretches of a range of units: the one it begins with, the longest, and the one it ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stretches {
    first: u32,
    longest: u32,
    last: u32,
}

/// A search through a range, from left to right.
#[derive(Debug)]
struct StretchSearch {
    range: Range<u32>,
    wanted: u32,
    /// The stretch that ends where the search is.
    current: Range<u32>,
    longest: u32,
    found: Option<u32>,
}

fn index(value: u32) -> usize {
    usize::try_from(value).expect("32 bits fit into an address")
}

impl UnitSet {
    fn full(units: u32) -> Self {
        let mut words = vec![u64::MAX; index(units.div_ceil(WORD)).max(1)];
        let rest = units % WORD;
        if rest != 0 || units == 0 {
            *words.last_mut().expect("there is one") = (1 << rest) - 1;
        }
        let mut levels: Vec<Vec<Stretches>> = vec![words.iter().map(|word| Stretches::of_word(*word)).collect()];
        let mut span = WORD;
        while let Some(below) = levels.last_mut().filter(|below| below.len() > 1) {
            below.resize(below.len().next_multiple_of(FAN), Stretches::default());
            let above = below.chunks(FAN).map(|entries| Stretches::joined(entries, span)).collect();
            levels.push(above);
            span = wider(span);
        }
        Self { words, levels, units, count: units }
    }

    fn holds(&self, unit: u32) -> bool {
        unit < self.units && self.words[index(unit / WORD)] & (1 << (unit % WORD)) != 0
    }

    /// Adds a unit or takes it out; false if nothing changes by it.
    fn set(&mut self, unit: u32, is_in: bool) -> bool {
        if unit >= self.units || self.holds(unit) == is_in {
            return false;
        }
        let mut at = index(unit / WORD);
        self.words[at] ^= 1 << (unit % WORD);
        self.count = if is_in { self.count + 1 } else { self.count - 1 };
        debug_assert!(self.count <= self.units, "more units are in the set than there are");
        let (mut entry, mut span) = (Stretches::of_word(self.words[at]), WORD);
        for level in 0..self.levels.len() {
            if std::mem::replace(&mut self.levels[level][at], entry) == entry || level + 1 == self.levels.len() {
                break;
            }
            at /= FAN;
            entry = Stretches::joined(&self.levels[level][at * FAN..(at + 1) * FAN], span);
            span = wider(span);
        }
        true
    }

    fn count_below(&self, end: u32) -> u64 {
        let (whole, rest) = (index(end / WORD), end % WORD);
        let words: u64 = self.words[..whole].iter().map(|word| u64::from(word.count_ones())).sum();
        let last = self.words.get(whole).map_or(0, |word| word & ((1 << rest) - 1));
        words + u64::from(last.count_ones())
    }

    /// Looks for the first stretch of `wanted` units in `range`, or else for how long the longest is.
    fn search(&self, range: Range<u32>, wanted: u32) -> StretchSearch {
        let range = range.start..range.end.min(self.units);
        let mut search = StretchSearch { range, wanted, current: 0..0, longest: 0, found: None };
        let top = self.levels.len() - 1;
        let span = (0..top).fold(WORD, |span, _| wider(span));
        self.look(top, 0, span, &mut search);
        search
    }

    fn look(&self, level: usize, at: usize, span: u32, search: &mut StretchSearch) {
        let start = u32::try_from(at).unwrap_or(u32::MAX).saturating_mul(span);
        let end = start.saturating_add(span);
        let Range { start: from, end: to } = search.range;
        if search.found.is_some() || end <= from || start >= to {
            return;
        }
        let is_whole = from <= start && end <= to;
        if is_whole && !search.ends_in(self.levels[level][at], start) {
            return search.pass(self.levels[level][at], start..end);
        }
        if let Some(below) = level.checked_sub(1) {
            (at * FAN..(at + 1) * FAN).for_each(|at| self.look(below, at, span >> FAN_SHIFT, search));
            return;
        }
        let mut word = self.words[at];
        let mut passed = 0;
        while word != 0 {
            let gap = word.trailing_zeros();
            let length = (word >> gap).trailing_ones();
            let stretch = start + passed + gap..start + passed + gap + length;
            search.add(stretch.start.max(from)..stretch.end.min(to));
            passed += gap + length;
            word = word.checked_shr(gap + length).unwrap_or(0);
        }
    }
}

/// Units that an entry of the next level covers.
const fn wider(span: u32) -> u32 {
    span.saturating_mul(1 << FAN_SHIFT)
}

impl Stretches {
    fn of_word(word: u64) -> Self {
        let (mut rest, mut longest) = (word, 0);
        while rest != 0 {
            rest &= rest << 1;
            longest += 1;
        }
        Self { first: word.trailing_ones(), longest, last: word.leading_ones() }
    }

    /// Joins the stretches of ranges of `span` units each, one behind the other.
    fn joined(entries: &[Self], span: u32) -> Self {
        let (mut all, mut before) = (Self::default(), 0);
        for entry in entries {
            all.longest = all.longest.max(entry.longest).max(all.last + entry.first);
            if all.first == before {
                all.first += entry.first;
            }
            all.last = if entry.last == span { all.last + span } else { entry.last };
            before += span;
        }
        debug_assert!(
            all.first <= all.longest && all.last <= all.longest && all.longest <= before,
            "a stretch at an end is one of them, and all lie in the range"
        );
        all
    }
}

impl StretchSearch {
    /// True if the stretch sought ends in, or lies in, a range with these stretches that begins at `start`.
    fn ends_in(&self, stretches: Stretches, start: u32) -> bool {
        let before = if self.current.end == start { self.current.end - self.current.start } else { 0 };
        before + stretches.first >= self.wanted || stretches.longest >= self.wanted
    }

    fn pass(&mut self, stretches: Stretches, range: Range<u32>) {
        self.add(range.start..range.start + stretches.first);
        self.longest = self.longest.max(stretches.longest);
        if stretches.last > 0 {
            let is_full = stretches.last == range.end - range.start;
            self.current = if is_full { self.current.clone() } else { range.end - stretches.last..range.end };
        }
    }

    fn add(&mut self, stretch: Range<u32>) {
        if self.found.is_some() || stretch.is_empty() {
            return;
        }
        let continues = self.current.end == stretch.start && !self.current.is_empty();
        self.current = if continues { self.current.start..stretch.end } else { stretch };
        let length = self.current.end - self.current.start;
        self.longest = self.longest.max(length);
        debug_assert!(
            self.range.start <= self.current.start && self.current.end <= self.range.end,
            "a stretch outside the searched range"
        );
        self.found = (length >= self.wanted).then_some(self.current.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The first stretch of `wanted` units of a plain set in a range, and how long the longest is.
    fn plainly(set: &BTreeSet<u32>, range: Range<u32>, wanted: u32) -> (Option<u32>, u32) {
        let (mut start, mut end, mut longest, mut found) = (0, 0, 0, None);
        for unit in set.range(range).copied() {
            if unit != end || start == end {
                start = unit;
            }
            end = unit + 1;
            longest = longest.max(end - start);
            if end - start >= wanted {
                found = found.or(Some(start));
            }
        }
        (found, longest)
    }

    proptest! {
        #[test]
        fn the_allocator_agrees_with_plain_sets(
            units in 1u32..9_000,
            taken in prop::collection::vec(0u32..9_000, 0..200),
            steps in prop::collection::vec((0u32..9_000, 0u32..9_000, 1u32..3_000, 0u8..5), 1..60),
        ) {
            let mut free = FreeUnits::new(units);
            let (mut model, mut open): (BTreeSet<u32>, BTreeSet<u32>) = ((0..units).collect(), (0..units).collect());
            let mut held = Vec::new();
            for unit in taken {
                prop_assert_eq!(free.claim(unit), model.remove(&unit));
                open.remove(&unit);
            }
            for (one, other, wanted, step) in steps {
                let range = one.min(other).min(units)..one.max(other).min(units);
                match step {
                    0 if one < units && !model.contains(&one) => {
                        free.give(one);
                        model.insert(one);
                        open.insert(one);
                    }
                    0 | 1 => {
                        prop_assert_eq!(free.claim(one), model.remove(&one));
                        open.remove(&one);
                    }
                    2 | 3 => {
                        let behind = (step == 3).then_some(one);
                        let stretch = free.hold(range.clone(), wanted, behind);
                        prop_assert!(stretch.clone().all(|unit| open.contains(&unit)), "only what is open");
                        let (found, longest) = plainly(&open, range.clone(), wanted);
                        let length = u32::try_from(stretch.len()).expect("few");
                        if let Some(unit) = behind.filter(|unit| range.contains(unit) && open.contains(unit)) {
                            let ends = length == wanted || stretch.end == range.end || !open.contains(&stretch.end);
                            prop_assert!(stretch.start == unit && ends);
                        } else {
                            prop_assert_eq!(length, wanted.min(longest));
                            prop_assert!(found.is_none_or(|found| found == stretch.start));
                        }
                        stretch.clone().for_each(|unit| { open.remove(&unit); });
                        held.push(stretch);
                    }
                    _ => if let Some(stretch) = held.pop() {
                        free.let_go(stretch.clone());
                        open.extend(stretch.filter(|unit| model.contains(unit)));
                    },
                }
                prop_assert_eq!(free.first_free(range.clone()), model.range(range.clone()).next().copied());
                prop_assert_eq!(free.free_in(range.clone()), u64::try_from(model.range(range).count()).expect("few"));
                prop_assert_eq!(index(free.free()), model.len());
            }
            prop_assert!((0..units).all(|unit| free.free.holds(unit) == model.contains(&unit)));
            prop_assert!((0..units).all(|unit| free.open.holds(unit) == open.contains(&unit)));
        }
    }
}
