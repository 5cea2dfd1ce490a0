//! Zones: the most read contents lie in the outer halves of the disks, where they are read fastest.
//!
//! Promise: reads are counted, in bounded memory, and forgotten in time; a move changes which units hold a copy and nothing else, and is
//! made only where it gains. Not here: when there is time for it, and making the copies (see `upkeep`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::choice::Half;
use crate::content::StoredContent;
use crate::space::HalvesFree;
use crate::{Upkeep, Volume};

/// Contents that are counted. Of all bytes read, a content with more than a 1024th is surely among them (Metwally, Agrawal, El Abbadi:
/// "Efficient computation of frequent and top-k elements in data streams", 2005, theorem 2).
const COUNTED_MAX: usize = 1024;
/// All counts are halved when this multiple of the bytes of the outer halves was counted: TinyLFU's reset with its sample of ten times
/// the bytes to choose (Einziger, Friedman, Manes, 2017, §3.3).
const SAMPLE_FACTOR: u64 = 10;

/// The bytes read lately of each content: Space-Saving counters that age.
#[derive(Debug, Clone, Default)]
pub struct ReadCounts {
    bytes: BTreeMap<String, u64>,
    /// Since the last halving.
    counted: u64,
}

/// A move of the first copies of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneMove {
    /// The content.
    pub name: String,
    /// [`Upkeep::Outward`] or [`Upkeep::Inward`].
    pub upkeep: Upkeep,
}

impl ReadCounts {
    /// Counts `bytes` read of a content. The counts are to choose the contents that lie in `outer_bytes`.
    pub fn add(&mut self, name: &str, bytes: u64, outer_bytes: u64) {
        let known = match self.bytes.remove(name) {
            Some(known) => known,
            // A new one takes the place of the least, and its count, the most that it can have had unseen.
            None if self.bytes.len() >= COUNTED_MAX => self.forget_least(),
            None => 0,
        };
        self.bytes.insert(name.to_owned(), known.saturating_add(bytes));
        debug_assert!(self.bytes.len() <= COUNTED_MAX, "counts take bounded memory");
        self.counted = self.counted.saturating_add(bytes);
        if self.counted >= outer_bytes.saturating_mul(SAMPLE_FACTOR) {
            self.counted = 0;
            self.bytes.values_mut().for_each(|bytes| *bytes /= 2);
            self.bytes.retain(|_, bytes| *bytes > 0);
        }
    }

    fn forget_least(&mut self) -> u64 {
        let least = self.bytes.iter().min_by_key(|(_, bytes)| **bytes).map(|(name, _)| name.clone());
        least.and_then(|name| self.bytes.remove(&name)).unwrap_or(0)
    }

    /// The bytes counted for a content.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        self.bytes.get(name).copied().unwrap_or(0)
    }

    /// Names and counts, the most read first.
    fn most_read(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> = self.bytes.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
        all.sort_by_key(|(name, bytes)| (u64::MAX - bytes, *name));
        all
    }
}

impl Volume {
    /// The moves for the most read content that does not lie in the outer halves as a whole and can: first inwards, the contents that were
    /// read less than half as much and make room for it, then this one outwards. Half, since age shows in a count only as a halving.
    /// Empty if nothing is to be gained.
    #[must_use]
    pub fn zone_moves(&self, counts: &ReadCounts) -> Vec<ZoneMove> {
        let free: Vec<HalvesFree> = self.members.ids().map(|member| self.space.halves(member, &self.members)).collect();
        let moves = |(name, count): (&str, u64)| self.moves_for(name, count, free.clone(), counts);
        if self.is_read_only() { None } else { counts.most_read().into_iter().find_map(moves) }.unwrap_or_default()
    }

    fn moves_for(
        &self,
        name: &str,
        count: u64,
        mut free: Vec<HalvesFree>,
        counts: &ReadCounts,
    ) -> Option<Vec<ZoneMove>> {
        let wanted = self.firsts_in(self.find(name)?, Half::Inner);
        if wanted.iter().all(|units| *units == 0) {
            return None;
        }
        let has_room = |free: &[HalvesFree]| wanted.iter().zip(free).all(|(wanted, free)| *wanted <= free.outer);
        let mut moves = Vec::new();
        let mut others = self.contents();
        while !has_room(&free) {
            let (other, content) = others.next()?;
            if other == name || counts.of(other) >= count / 2 {
                continue;
            }
            let given = self.firsts_in(content, Half::Outer);
            let helps =
                wanted.iter().zip(&free).zip(&given).any(|((wanted, free), given)| *wanted > free.outer && *given > 0);
            if helps && given.iter().zip(&free).all(|(given, free)| *given <= free.inner) {
                for (given, free) in given.iter().zip(&mut free) {
                    (free.outer, free.inner) = (free.outer + given, free.inner - given);
                }
                moves.push(ZoneMove { name: other.to_owned(), upkeep: Upkeep::Inward });
            }
        }
        debug_assert!(moves.iter().all(|other| other.name != name), "a content moves one way");
        moves.push(ZoneMove { name: name.to_owned(), upkeep: Upkeep::Outward });
        Some(moves)
    }

    /// The number of first copies of a content in that half, for each disk.
    fn firsts_in(&self, content: &Arc<StoredContent>, half: Half) -> Vec<u64> {
        let mut units = vec![0; self.superblock().members.len()];
        let firsts = content.parts.iter().map(|part| part.first).filter(|first| self.members.lies_in(*first, half));
        firsts.for_each(|first| units[first.member.index()] += 1);
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_counts_are_bounded_and_halved_in_time() {
        let mut counts = ReadCounts::default();
        for number in 0..20_000u32 {
            counts.add(&format!("cold {number}"), 100, 1 << 40);
            counts.add("hot", 50, 1 << 40);
        }
        assert_eq!(counts.bytes.len(), COUNTED_MAX);
        assert_eq!((counts.most_read()[0].0, counts.of("hot")), ("hot", 1_000_000));
        for _ in 0..20 {
            counts.add("later", 10_000, 1_000);
        }
        assert_eq!(counts.of("hot"), 0, "halved twenty times");
    }
}
