//! The copies that an upkeep reads, and those it makes: on which disk, in which half.
//!
//! Promise: a copy goes to a drive that does not have the other one; units promised to drafts are not taken for it.
//! Not here: entering a copy that was made into the catalogue (`upkeep`).

use crate::MemberId;
use crate::choice::{Half, HeldUnits};
use crate::content::{StoredPart, UnitPlace};
use crate::error::VolumeError;
use crate::members::MemberTable;
use crate::space::FreeSpace;

/// The purpose of an upkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// A disk that was put in gets the copies it should have, and a second copy of each part that has one only.
    Fill(MemberId),
    /// Copies on a disk that leaves go to the others.
    Drain(MemberId),
    /// Copies go from disks that are fuller than the mean to emptier ones ([`crate::Volume::begin_balance`]).
    Balance,
    /// Every copy is read, and written anew from the other one if it is wrong.
    Scrub,
    /// First copies that lie in the inner half of a disk go to its outer half, as far as there is room ([`crate::Volume::zone_moves`]).
    Outward,
    /// And the other way round.
    Inward,
}

/// A copy to look after: of `sources`, in this order, the first whole one is written to `target`, if it does not lie there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTask {
    /// The number of the part in the content.
    pub part: u32,
    /// Copies to read.
    pub sources: Vec<UnitPlace>,
    /// The copy that is to be right.
    pub target: UnitPlace,
    /// If the catalogue does not name the target yet: the copy to give to [`crate::Volume::take_copies`] when it is written.
    pub new_copy: Option<NewCopy>,
}

/// A copy in a unit that the catalogue does not name yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCopy {
    /// The number of the part in the content.
    pub part: u32,
    /// The copy that it takes the place of; none if the part had one copy.
    pub instead_of: Option<UnitPlace>,
    /// The unit it is in.
    pub to: UnitPlace,
}

/// The copies of the upkeep under way: the units they take next, and the disks they leave.
#[derive(Debug, Default)]
pub(crate) struct CopyPlan {
    /// Units that it takes next for the content it is at.
    held: HeldUnits,
    /// While disks are balanced: the units of each that are to go to others, or to come if there are less than none; empty else.
    surplus: Vec<i64>,
}

/// A part whose copies are looked after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartAtHand<'a> {
    pub(crate) stored: &'a StoredPart,
    pub(crate) number: u32,
    /// Parts of its content that are still to be looked at, with this one.
    pub(crate) left: u32,
    /// True if there is room for a copy without the units promised to drafts.
    pub(crate) has_room: bool,
}

impl PartAtHand<'_> {
    fn on(&self, member: MemberId) -> Option<UnitPlace> {
        self.stored.places().find(|place| place.member == member)
    }

    /// Reads a copy, and the others if it is wrong.
    fn look_at(&self, target: UnitPlace) -> CopyTask {
        let others = self.stored.places().filter(|place| *place != target);
        CopyTask { part: self.number, sources: [target].into_iter().chain(others).collect(), target, new_copy: None }
    }

    /// Makes a copy in a unit that was taken for it.
    fn copy_to(&self, to: UnitPlace, instead_of: Option<UnitPlace>) -> CopyTask {
        debug_assert!(self.stored.places().all(|place| place != to), "a copy over a copy of itself");
        debug_assert!(
            instead_of.is_none_or(|from| self.stored.places().any(|place| place == from)),
            "only a copy that there is goes"
        );
        let new_copy = Some(NewCopy { part: self.number, instead_of, to });
        CopyTask { part: self.number, sources: self.stored.places().collect(), target: to, new_copy }
    }

    /// The half of a disk for a copy that takes the place of the one at `from`.
    fn half_of(&self, from: UnitPlace) -> Half {
        match (self.stored.second, self.stored.first == from) {
            (None, _) => Half::Any,
            (Some(_), true) => Half::Outer,
            (Some(_), false) => Half::Inner,
        }
    }

    /// True if the copy at `from` can move to this disk: it is another one, and not on the drive of the other copy.
    fn may_move(&self, from: UnitPlace, to: MemberId, members: &MemberTable) -> bool {
        let stays = self.stored.places().find(|place| *place != from);
        to != from.member && members.takes_copies(to) && stays.is_none_or(|stays| members.are_apart(stays.member, to))
    }

    /// True if the part has one copy and can have the second on this disk.
    fn lacks_copy(&self, member: MemberId, members: &MemberTable) -> bool {
        self.stored.second.is_none() && members.are_apart(self.stored.first.member, member)
    }
}

impl CopyPlan {
    /// The upkeep ends: units that it held are open to others.
    pub(crate) fn end(&mut self, space: &mut FreeSpace) {
        space.let_go(std::mem::take(self).held);
    }

    /// Disks with a surplus or a lack, while disks are balanced.
    pub(crate) const fn disks(&self) -> usize {
        self.surplus.len()
    }

    /// See [`crate::Volume::begin_balance`].
    pub(crate) fn balance(&mut self, members: &MemberTable, space: &FreeSpace) {
        let counts = |member: MemberId| match members.is_readable(member) {
            true => (members.unit_count(member) - space.free_on(member), members.unit_count(member)),
            false => (0, 0),
        };
        let counts: Vec<(i64, i64)> =
            members.ids().map(counts).map(|(used, units)| (i64::from(used), i64::from(units))).collect();
        let (used, units) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        self.surplus = counts.iter().map(|one| one.0 - used * one.1 / units.max(1)).collect();
        debug_assert!(
            (0..=i64::try_from(self.surplus.len()).expect("at most 32 disks")).contains(&self.surplus.iter().sum()),
            "the surplus of some disks is the lack of others, but for a rest of less than a unit of each"
        );
    }

    /// See [`crate::Volume::copies_to_look_after`].
    pub(crate) fn tasks(
        &mut self,
        upkeep: Upkeep,
        part: PartAtHand,
        is_mirrored: bool,
        (members, space): (&MemberTable, &mut FreeSpace),
    ) -> Result<Vec<CopyTask>, VolumeError> {
        // Units of one content that move stay together.
        if part.number == 0 {
            space.let_go(std::mem::take(&mut self.held));
        }
        let task = match upkeep {
            Upkeep::Scrub => return Ok(part.stored.places().map(|place| part.look_at(place)).collect()),
            Upkeep::Fill(member) => match part.on(member) {
                Some(own) => Some(part.look_at(own)),
                None if part.lacks_copy(member, members) && is_mirrored => {
                    let to = self.take_copy(member, Half::Any, part, space).ok_or(VolumeError::Full)?;
                    Some(part.copy_to(to, None))
                }
                None => None,
            },
            Upkeep::Drain(member) => match part.on(member) {
                Some(from) => Some(self.move_away(part, from, members, space).ok_or(VolumeError::Full)?),
                None => None,
            },
            Upkeep::Balance => self.move_to_emptier(part, members, space),
            Upkeep::Outward => self.move_first(part, [Half::Inner, Half::Outer], members, space),
            Upkeep::Inward => self.move_first(part, [Half::Outer, Half::Inner], members, space),
        };
        Ok(task.into_iter().collect())
    }

    /// Moves the first copy of a part to the other half of its disk.
    fn move_first(
        &mut self,
        part: PartAtHand,
        [from, to]: [Half; 2],
        members: &MemberTable,
        space: &mut FreeSpace,
    ) -> Option<CopyTask> {
        let first = part.stored.first;
        let may_move = members.lies_in(first, from) && !space.is_draining(first.member);
        if !may_move || space.free_in(first.member, to) == 0 {
            return None;
        }
        Some(part.copy_to(self.take_copy(first.member, to, part, space)?, Some(first)))
    }

    /// Moves a copy of a part from a disk with a surplus to the disk that lacks most and does not have the other copy.
    fn move_to_emptier(&mut self, part: PartAtHand, members: &MemberTable, space: &mut FreeSpace) -> Option<CopyTask> {
        let surplus = |member: MemberId| self.surplus.get(member.index()).copied().unwrap_or(0);
        let full = part.stored.places().filter(|place| surplus(place.member) > 0);
        let from = full.max_by_key(|place| surplus(place.member))?;
        let lacks = |to: &MemberId| surplus(*to) < 0 && part.may_move(from, *to, members);
        let to = members.ids().filter(lacks).min_by_key(|member| surplus(*member))?;
        let target = self.take_copy(to, part.half_of(from), part, space)?;
        self.surplus[from.member.index()] -= 1;
        self.surplus[to.index()] += 1;
        debug_assert!(
            self.surplus[from.member.index()] >= 0 && self.surplus[to.index()] <= 0,
            "a part would go back and forth"
        );
        Some(part.copy_to(target, Some(from)))
    }

    /// Moves the copy at `from` to the disk with most room that does not have the other copy.
    fn move_away(
        &mut self,
        part: PartAtHand,
        from: UnitPlace,
        members: &MemberTable,
        space: &mut FreeSpace,
    ) -> Option<CopyTask> {
        let fits = |to: &MemberId| part.may_move(from, *to, members) && space.free_on(*to) > 0;
        let to = members.ids().filter(fits).max_by_key(|member| space.free_on(*member))?;
        Some(part.copy_to(self.take_copy(to, part.half_of(from), part, space)?, Some(from)))
    }

    /// Takes a unit for a copy of a part. Units promised to drafts are not taken from them.
    fn take_copy(
        &mut self,
        member: MemberId,
        half: Half,
        part: PartAtHand,
        space: &mut FreeSpace,
    ) -> Option<UnitPlace> {
        if part.has_room { space.take_unit(member.index(), half, part.left, &mut self.held) } else { None }
    }
}
