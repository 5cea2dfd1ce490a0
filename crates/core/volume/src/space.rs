//! The free units of a volume's disks: which are taken for the parts of a content, and how many parts are promised to drafts.
//!
//! Promise: every unit is free, or was taken once; units promised to drafts are there when these take them. Not here: the disks for a part
//! (`choice`), the content that a unit belongs to (`catalogue`, `draft`).

use std::cmp::Reverse;

use crate::allocator::FreeUnits;
use crate::choice::{ChosenDisks, Half, HeldUnits, choose, pairs};
use crate::content::UnitPlace;
use crate::members::{MemberTable, drive_count};
use crate::{MemberId, Placement};

/// Parts that are promised to drafts.
#[derive(Debug, Clone, Copy, Default)]
struct PromisedParts {
    /// Parts with two copies.
    pairs: u64,
    /// Parts with one.
    singles: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    free: Vec<FreeUnits>,
    promised: PromisedParts,
    /// A disk that takes nothing new: the copies on it move to the others.
    draining: Option<MemberId>,
}

/// Free units of a disk in its outer and its inner half.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HalvesFree {
    pub(crate) outer: u64,
    pub(crate) inner: u64,
}

impl FreeSpace {
    /// All units of these disks are free.
    pub(crate) fn of(members: &MemberTable) -> Self {
        let free = members.ids().map(|member| FreeUnits::new(members.unit_count(member))).collect();
        Self { free, promised: PromisedParts::default(), draining: None }
    }

    /// A disk with this number of units comes under a number, that of a disk that left or the next.
    pub(crate) fn enter(&mut self, member: MemberId, units: u32) {
        if member.index() == self.free.len() {
            self.free.push(FreeUnits::new(units));
        } else {
            self.free[member.index()] = FreeUnits::new(units);
        }
    }

    /// Nothing new goes to this disk.
    pub(crate) const fn drain(&mut self, member: Option<MemberId>) {
        self.draining = member;
    }

    /// Takes a unit if it is there and free.
    pub(crate) fn claim(&mut self, place: UnitPlace) -> bool {
        self.free.get_mut(place.member.index()).is_some_and(|free| free.claim(place.unit))
    }

    /// Gives back units that were taken.
    pub(crate) fn give(&mut self, places: impl IntoIterator<Item = UnitPlace>) {
        places.into_iter().for_each(|place| self.free[place.member.index()].give(place.unit));
    }

    /// Leaves the rest of held stretches to others.
    pub(crate) fn let_go(&mut self, held: HeldUnits) {
        held.0.into_iter().for_each(|held| self.free[held.disk].let_go(held.units));
    }

    /// True if a unit is there and not free.
    pub(crate) fn is_taken(&self, place: UnitPlace) -> bool {
        self.free.get(place.member.index()).is_some_and(|free| free.is_taken(place.unit))
    }

    /// Disks with units.
    pub(crate) const fn disks(&self) -> usize {
        self.free.len()
    }

    /// Units of a disk.
    pub(crate) fn units_on(&self, member: MemberId) -> u32 {
        self.free[member.index()].units()
    }

    /// Free units of a disk.
    pub(crate) fn free_on(&self, member: MemberId) -> u32 {
        self.free[member.index()].free()
    }

    /// Free units of a disk in that half.
    pub(crate) fn free_in(&self, member: MemberId, half: Half) -> u64 {
        let free = &self.free[member.index()];
        free.free_in(half.range(free.units()))
    }

    /// Free units in the halves of a disk; none of a disk that takes no copies.
    pub(crate) fn halves(&self, member: MemberId, members: &MemberTable) -> HalvesFree {
        if !members.takes_copies(member) || self.is_draining(member) {
            return HalvesFree::default();
        }
        HalvesFree { outer: self.free_in(member, Half::Outer), inner: self.free_in(member, Half::Inner) }
    }

    /// True if nothing new goes to this disk.
    pub(crate) fn is_draining(&self, member: MemberId) -> bool {
        self.draining == Some(member)
    }

    /// Free units of each disk, none where it cannot be written, or leaves.
    pub(crate) fn counts(&self, members: &MemberTable) -> Vec<Option<u64>> {
        let takes = |member: MemberId| members.is_writable(member) && !self.is_draining(member);
        let free = |member: MemberId| takes(member).then(|| u64::from(self.free_on(member)));
        members.ids().map(free).collect()
    }

    /// Those that new contents of this layout may take: of each part a copy can be read at once. So of the disks that are being filled one
    /// takes second copies where a disk on another drive takes the first ones, and none takes single ones.
    pub(crate) fn counts_for(&self, placement: Placement, members: &MemberTable) -> Vec<Option<u64>> {
        let counts = self.counts(members);
        let is_read = |member: MemberId| counts[member.index()].is_some() && members.is_readable(member);
        let has_first =
            |filling: &MemberId| members.ids().any(|other| is_read(other) && members.are_apart(other, *filling));
        let filling = members.unreadable().next().filter(|filling| placement.copies() > 1 && has_first(filling));
        let takes = |member: MemberId| members.is_readable(member) || filling == Some(member);
        members.ids().zip(&counts).map(|(member, free)| free.filter(|_| takes(member))).collect()
    }

    /// The number of parts that can still be written in this layout. A part with one copy takes at most one of the pairs that are left.
    pub(crate) fn parts_left(&self, placement: Placement, members: &MemberTable) -> u64 {
        let counts = self.counts_for(Placement::Mirror, members);
        let there = counts.iter().zip(members.drives()).filter_map(|(free, drive)| free.map(|free| (free, *drive)));
        let (free, drives): (Vec<u64>, Vec<usize>) = there.unzip();
        let all: u64 = self.counts_for(Placement::Stripe, members).iter().flatten().sum();
        let pairs = if drive_count(drives.iter()) > 1 { pairs(&free, &drives) } else { all };
        let PromisedParts { pairs: doubled, singles } = self.promised;
        let in_pairs = pairs.saturating_sub(doubled + singles);
        match (placement, doubled) {
            (Placement::Mirror, _) => in_pairs,
            (Placement::Span | Placement::Stripe, 0) => all.saturating_sub(singles),
            (Placement::Span | Placement::Stripe, _) => all.saturating_sub(2 * doubled + singles).min(in_pairs),
        }
    }

    /// Promises parts to a draft.
    pub(crate) const fn promise(&mut self, placement: Placement, parts: u64) {
        *self.promised_in(placement) += parts;
    }

    /// Parts that were promised are taken, or left.
    pub(crate) const fn end_promise(&mut self, placement: Placement, parts: u64) {
        debug_assert!(*self.promised_in(placement) >= parts, "each promised part is taken or given back once");
        *self.promised_in(placement) -= parts;
    }

    const fn promised_in(&mut self, placement: Placement) -> &mut u64 {
        if placement.copies() > 1 { &mut self.promised.pairs } else { &mut self.promised.singles }
    }

    /// See [`crate::Volume::written_disks`].
    pub(crate) fn written_disks(&self, placement: Placement, members: &MemberTable) -> (Vec<Vec<MemberId>>, u8) {
        let free = self.counts_for(placement, members);
        let Some(ChosenDisks { first, second }) = choose(placement, &free, members.drives(), 0, None) else {
            return (Vec::new(), 1);
        };
        let mut there: Vec<MemberId> =
            members.ids().filter(|member| free[member.index()].is_some_and(|free| free > 0)).collect();
        match (placement, second) {
            (Placement::Stripe, _) => (vec![there], 1),
            (Placement::Mirror, Some(_)) => (vec![there], 2),
            (Placement::Mirror, None) => (vec![members.ids().skip(first).take(1).collect()], 1),
            (Placement::Span, _) => {
                there.sort_by_key(|member| Reverse(free[member.index()]));
                (there.into_iter().map(|member| vec![member]).collect(), 1)
            }
        }
    }

    /// Takes the units for a part on the disks that are chosen for it: part `turn` of a content (see [`choose`]), behind one on disk
    /// `before`. `parts` are expected in this layout, with this one.
    pub(crate) fn take_part(
        &mut self,
        (placement, turn, before): (Placement, u64, Option<MemberId>),
        parts: u64,
        held: &mut HeldUnits,
        members: &MemberTable,
    ) -> Option<(UnitPlace, Option<UnitPlace>)> {
        let free = self.counts_for(placement, members);
        let chosen = choose(placement, &free, members.drives(), turn, before.map(MemberId::index))?;
        let disks = match placement {
            Placement::Span => 1,
            Placement::Stripe | Placement::Mirror => self.counts(members).iter().flatten().count(),
        };
        let wanted = u32::try_from(parts.div_ceil(u64::try_from(disks).ok()?)).unwrap_or(u32::MAX);
        let halves = if chosen.second.is_some() { [Half::Outer, Half::Inner] } else { [Half::Any; 2] };
        let first = self.take_unit(chosen.first, halves[0], wanted, held)?;
        let second = match chosen.second {
            Some(disk) => Some(self.take_unit(disk, halves[1], wanted, held)?),
            None => None,
        };
        assert!(
            second.is_none_or(|second| members.are_apart(second.member, first.member)),
            "copies lie on different drives"
        );
        let places = || [Some(first), second].into_iter().flatten();
        debug_assert!(
            places().any(|place| members.is_readable(place.member)),
            "of each part a copy can be read at once"
        );
        debug_assert!(
            places().all(|place| members.is_writable(place.member) && !self.is_draining(place.member)),
            "new units are on disks that take writes and stay"
        );
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

    /// Disks of which the free units and these, which are used, are not all.
    pub(crate) fn unbalanced(&self, used: impl Iterator<Item = UnitPlace>) -> Vec<MemberId> {
        let mut counts = vec![0u64; self.free.len()];
        used.for_each(|place| counts[place.member.index()] += 1);
        let sums = (0u8..).map(MemberId).zip(counts).zip(&self.free);
        sums.filter(|((_, used), free)| used + u64::from(free.free()) != u64::from(free.units()))
            .map(|((member, _), _)| member)
            .collect()
    }
}
