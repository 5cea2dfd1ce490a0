//! Choice of the disks for a part of a content.
//!
//! Promise: span keeps a content on one disk, stripe goes round, mirror puts the second copy on the next disk; first copies of a
//! mirror lie in the outer halves (low unit numbers) and second ones in the inner halves while these have room. Where the
//! rule finds no room, any other disk will do, as long as no unit that was promised is lost by it. Both copies are never on one
//! drive, of which two disks may be parts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::Placement;

/// The half of a disk that a copy should be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Any,
    Outer,
    Inner,
}

impl Half {
    pub(crate) const fn range(self, units: u32) -> Range<u32> {
        let middle = units.div_ceil(2);
        match self {
            Self::Any => 0..units,
            Self::Outer => 0..middle,
            Self::Inner => middle..units,
        }
    }
}

/// Units that a draft, or an upkeep, will take next: a stretch for each disk and half it writes to. Held units are as free as before, and
/// go to others when no other free unit is left.
#[derive(Debug, Default)]
pub(crate) struct HeldUnits(pub(crate) Vec<HeldStretch>);

#[derive(Debug)]
pub(crate) struct HeldStretch {
    pub(crate) disk: usize,
    half: Half,
    pub(crate) units: Range<u32>,
}

impl HeldUnits {
    pub(crate) fn of(&mut self, disk: usize, half: Half) -> &mut Range<u32> {
        let known = self.0.iter().position(|held| (held.disk, held.half) == (disk, half));
        let at = known.unwrap_or_else(|| {
            self.0.push(HeldStretch { disk, half, units: 0..0 });
            self.0.len() - 1
        });
        &mut self.0[at].units
    }
}

/// The number of parts with two copies on different drives that fit into disks with these free units; each is on the drive of that
/// number.
pub(crate) fn pairs(free: &[u64], drives: &[usize]) -> u64 {
    let total: u64 = free.iter().sum();
    (total / 2).min(total - free_by_drive(free, drives).values().max().unwrap_or(&0))
}

fn free_by_drive(free: &[u64], drives: &[usize]) -> BTreeMap<usize, u64> {
    free.iter().zip(drives).fold(BTreeMap::new(), |mut by_drive, (free, drive)| {
        *by_drive.entry(*drive).or_default() += free;
        by_drive
    })
}

/// The disk or disks for the next part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChosenDisks {
    pub(crate) first: usize,
    pub(crate) second: Option<usize>,
}

/// Chooses disks for part `turn` (a content's number plus its part's, so that contents begin on different disks) among disks
/// with `free` units each, none where a disk cannot be written, on these `drives`. `before` is the disk of the part before it.
pub(crate) fn choose(
    placement: Placement,
    free: &[Option<u64>],
    drives: &[usize],
    turn: u64,
    before: Option<usize>,
) -> Option<ChosenDisks> {
    let count = free.len();
    let writable = free.iter().zip(drives).filter_map(|(free, drive)| free.map(|_| drive)).collect::<BTreeSet<_>>();
    let free: Vec<u64> = free.iter().map(|free| free.unwrap_or(0)).collect();
    let start = usize::try_from(turn % u64::try_from(count).ok()?).ok()?;
    let round = (0..count).map(|step| (start + step) % count);
    let fullest = || (0..count).filter(|disk| free[*disk] > 0).max_by_key(|disk| (free[*disk], usize::MAX - disk));
    let single = |first| Some(ChosenDisks { first, second: None });
    debug_assert!(count == drives.len(), "each disk has its drive");
    match placement {
        Placement::Span => before.filter(|disk| free[*disk] > 0).or_else(fullest).and_then(single),
        Placement::Stripe => round.into_iter().find(|disk| free[*disk] > 0).and_then(single),
        Placement::Mirror => {
            // With one drive left there is one copy; the other is made when a disk is put in.
            if writable.len() < 2 {
                return fullest().and_then(single);
            }
            let left = pairs(&free, drives);
            let keeps = |first: usize, second: usize| {
                let mut after = free.clone();
                after[first] -= 1;
                after[second] -= 1;
                pairs(&after, drives) + 1 >= left
            };
            let is_apart = |first: usize, second: usize| drives[first] != drives[second];
            let behind = |first: usize| (1..count).map(move |step| (first + step) % count);
            let next = |first| behind(first).find(|second| is_apart(first, *second)).map(|second| (first, second));
            let chained = round
                .into_iter()
                .filter_map(next)
                .find(|(first, second)| free[*first] > 0 && free[*second] > 0 && keeps(*first, *second));
            let (first, second) = chained.or_else(|| {
                let by_drive = free_by_drive(&free, drives);
                let mut by_room: Vec<usize> = (0..count).filter(|disk| free[*disk] > 0).collect();
                by_room.sort_by_key(|disk| Reverse((by_drive[&drives[*disk]], free[*disk], Reverse(*disk))));
                let first = *by_room.first()?;
                by_room.into_iter().find(|second| is_apart(first, *second)).map(|second| (first, second))
            })?;
            debug_assert!(free[first] > 0 && free[second] > 0, "a chosen disk has room");
            Some(ChosenDisks { first, second: Some(second) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mirror_finds_room_for_as_many_pairs_as_it_promises(
            mut free in prop::collection::vec(0u64..40, 2..8),
            drives in prop::collection::vec(0usize..6, 8),
            seed in any::<u32>(),
        ) {
            let drives = &drives[..free.len()];
            let promised = pairs(&free, drives);
            for part in 0..promised {
                let all: Vec<_> = free.iter().copied().map(Some).collect();
                let chosen = choose(Placement::Mirror, &all, drives, u64::from(seed) + part, None).expect("promised");
                let second = chosen.second.expect("two copies while a pair is left");
                prop_assert_ne!(drives[chosen.first], drives[second]);
                free[chosen.first] -= 1;
                free[second] -= 1;
            }
            prop_assert_eq!(pairs(&free, drives), 0);
        }
    }

    #[test]
    fn a_span_stays_on_its_disk_and_a_stripe_goes_round() {
        let free = [3, 9, 5].map(Some);
        let first =
            |placement, turn, before| choose(placement, &free, &[0, 1, 2], turn, before).map(|chosen| chosen.first);
        assert_eq!(first(Placement::Span, 7, None), Some(1));
        assert_eq!(first(Placement::Span, 7, Some(2)), Some(2));
        assert_eq!((0..4).map(|turn| first(Placement::Stripe, turn, None)).collect::<Vec<_>>(), [0, 1, 2, 0].map(Some));
    }
}
