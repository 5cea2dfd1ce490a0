//! The units that are taken for the parts of a content (on which disks: `choice`).

use std::cmp::Reverse;

use crate::choice::{ChosenDisks, Half, HeldUnits, choose};
use crate::content::UnitPlace;
use crate::{MemberId, Placement, Volume};

impl Volume {
    /// The sets of disks, of which a content of this name is written to one if it is begun now, the emptiest first, and how many copies of
    /// each byte go to them. A span has a set for each disk ([`crate::Draft::begin_on`]).
    #[must_use]
    pub fn written_disks(&self, name: &str) -> (Vec<Vec<MemberId>>, u8) {
        let placement = self.placement_of(name);
        let free = self.free_for(placement);
        let Some(ChosenDisks { first, second }) = choose(placement, &free, &self.drives, 0, None) else {
            return (Vec::new(), 1);
        };
        let mut there: Vec<MemberId> =
            self.member_ids().filter(|member| free[member.index()].is_some_and(|free| free > 0)).collect();
        match (placement, second) {
            (Placement::Stripe, _) => (vec![there], 1),
            (Placement::Mirror, Some(_)) => (vec![there], 2),
            (Placement::Mirror, None) => (vec![self.member_ids().skip(first).take(1).collect()], 1),
            (Placement::Span, _) => {
                there.sort_by_key(|member| Reverse(free[member.index()]));
                (there.into_iter().map(|member| vec![member]).collect(), 1)
            }
        }
    }

    /// Takes the units for a part from the disks chosen; `parts` are expected in this layout, with this one.
    pub(crate) fn take_units(
        &mut self,
        placement: Placement,
        chosen: ChosenDisks,
        parts: u64,
        held: &mut HeldUnits,
    ) -> Option<(UnitPlace, Option<UnitPlace>)> {
        let disks = match placement {
            Placement::Span => 1,
            Placement::Stripe | Placement::Mirror => self.free_counts().iter().flatten().count(),
        };
        let wanted = u32::try_from(parts.div_ceil(u64::try_from(disks).ok()?)).unwrap_or(u32::MAX);
        let halves = if chosen.second.is_some() { [Half::Outer, Half::Inner] } else { [Half::Any; 2] };
        let first = self.take_unit(chosen.first, halves[0], wanted, held)?;
        let second = match chosen.second {
            Some(disk) => Some(self.take_unit(disk, halves[1], wanted, held)?),
            None => None,
        };
        Some((first, second))
    }

    /// Takes a unit in that half of a disk while it has one, else elsewhere on it: the next of the stretch held there, or of a new stretch
    /// of `wanted` units.
    pub(crate) fn take_unit(
        &mut self,
        disk: usize,
        half: Half,
        wanted: u32,
        held: &mut HeldUnits,
    ) -> Option<UnitPlace> {
        let (free, held) = (&mut self.free[disk], held.of(disk, half));
        let mut taken = held.find(|unit| free.claim(*unit));
        for range in [half.range(free.units()), 0..free.units()] {
            if taken.is_none() {
                *held = free.hold(range.clone(), wanted, Some(held.end).filter(|end| *end > 0));
                taken = held.next().or_else(|| free.first_free(range)).filter(|unit| free.claim(*unit));
            }
        }
        Some(UnitPlace { member: MemberId(u8::try_from(disk).ok()?), unit: taken? })
    }

    /// Leaves the rest of held stretches to others.
    pub(crate) fn let_go(&mut self, held: HeldUnits) {
        held.0.into_iter().for_each(|held| self.free[held.disk].let_go(held.units));
    }
}
