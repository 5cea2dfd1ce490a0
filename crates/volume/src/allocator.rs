//! Which units of a disk are free.
//!
//! Promise: taking, giving back and finding the next free unit behind another cost the same on a full disk of ten million
//! units as on an empty one of ten: a bitmap with a summary bit for each 64 bits, and so on up.

use std::ops::Range;

const BITS: u32 = 64;

/// The free units of one disk.
#[derive(Debug, Clone)]
pub(crate) struct FreeUnits {
    /// Level 0 has a bit for each unit, the others one for each word of the level before; one means free.
    levels: Vec<Vec<u64>>,
    units: u32,
    free: u32,
}

fn index(value: u32) -> usize {
    usize::try_from(value).expect("32 bits fit into an address")
}

impl FreeUnits {
    /// All of `units` are free.
    pub(crate) fn new(units: u32) -> Self {
        let mut levels = Vec::new();
        let mut count = units;
        loop {
            let mut words = vec![u64::MAX; index(count.div_ceil(BITS))];
            if let Some(last) = words.last_mut().filter(|_| !count.is_multiple_of(BITS)) {
                *last = (1 << (count % BITS)) - 1;
            }
            count = count.div_ceil(BITS);
            levels.push(words);
            if count <= 1 {
                return Self { levels, units, free: units };
            }
        }
    }

    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    pub(crate) const fn units(&self) -> u32 {
        self.units
    }

    pub(crate) fn is_free(&self, unit: u32) -> bool {
        unit < self.units && self.levels[0][index(unit / BITS)] & (1 << (unit % BITS)) != 0
    }

    /// Takes `unit` if it is there and free.
    pub(crate) fn claim(&mut self, unit: u32) -> bool {
        if !self.is_free(unit) {
            return false;
        }
        self.free -= 1;
        let mut at = unit;
        for level in &mut self.levels {
            let word = &mut level[index(at / BITS)];
            *word &= !(1 << (at % BITS));
            if *word != 0 {
                break;
            }
            at /= BITS;
        }
        true
    }

    /// How many units of `range` are free.
    pub(crate) fn free_in(&self, range: Range<u32>) -> u64 {
        let below = |end: u32| {
            let (whole, rest) = (index(end / BITS), end % BITS);
            let words: u64 = self.levels[0][..whole].iter().map(|word| u64::from(word.count_ones())).sum();
            let last = self.levels[0].get(whole).map_or(0, |word| word & ((1 << rest) - 1));
            words + u64::from(last.count_ones())
        };
        below(range.end).saturating_sub(below(range.start))
    }

    /// Gives back a unit that was taken.
    ///
    /// # Panics
    /// It is free already: two contents had it.
    pub(crate) fn give(&mut self, unit: u32) {
        assert!(unit < self.units && !self.is_free(unit), "unit {unit} is given back once");
        self.free += 1;
        let mut at = unit;
        for level in &mut self.levels {
            let word = &mut level[index(at / BITS)];
            let had_some = *word != 0;
            *word |= 1 << (at % BITS);
            if had_some {
                break;
            }
            at /= BITS;
        }
    }

    /// Takes the first free unit of `range` at or behind `from`, else the first of `range`.
    pub(crate) fn take(&mut self, range: Range<u32>, from: u32) -> Option<u32> {
        let behind = self.next_free(from.max(range.start)).filter(|unit| *unit < range.end);
        let unit = behind.or_else(|| self.next_free(range.start).filter(|unit| *unit < range.end))?;
        assert!(self.claim(unit), "what was found free can be taken");
        Some(unit)
    }

    /// The first free unit at or behind `unit`: up the levels until a word has one, then down to it.
    fn next_free(&self, unit: u32) -> Option<u32> {
        if unit >= self.units {
            return None;
        }
        let mut at = unit;
        let mut level = 0;
        loop {
            let word = self.levels[level].get(index(at / BITS))? & (u64::MAX << (at % BITS));
            if word != 0 {
                at = at / BITS * BITS + word.trailing_zeros();
                break;
            }
            at = at / BITS + 1;
            level += 1;
            if level == self.levels.len() {
                return None;
            }
        }
        for below in self.levels[..level].iter().rev() {
            at = at * BITS + below[index(at)].trailing_zeros();
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_does_what_a_plain_set_does(
            units in 1u32..9_000,
            steps in prop::collection::vec((0u32..9_000, 0u32..9_000, any::<bool>()), 1..300),
        ) {
            let mut free = FreeUnits::new(units);
            let mut model: BTreeSet<u32> = (0..units).collect();
            for (from, unit, take) in steps {
                if take {
                    let (start, end) = (from.min(unit).min(units), from.max(unit).min(units));
                    let expected = model.range(from.clamp(start, end)..end).next()
                        .or_else(|| model.range(start..end).next()).copied();
                    prop_assert_eq!(free.take(start..end, from), expected);
                    if let Some(unit) = expected {
                        model.remove(&unit);
                    }
                } else if unit < units && !model.contains(&unit) {
                    free.give(unit);
                    model.insert(unit);
                } else {
                    prop_assert_eq!(free.claim(unit), model.remove(&unit));
                }
                prop_assert_eq!(index(free.free()), model.len());
                let (start, end) = (from.min(unit).min(units), from.max(unit).min(units));
                prop_assert_eq!(free.free_in(start..end), u64::try_from(model.range(start..end).count()).expect("few"));
            }
            for unit in 0..units {
                prop_assert_eq!(free.is_free(unit), model.contains(&unit));
            }
        }
    }
}
