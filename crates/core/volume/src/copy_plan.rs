//! Plan of an upkeep: the copies that it reads, and the disk and half of each copy that it makes.
//!
//! Promise: a copy is placed on a drive without the other copy, and never in units promised to drafts. Not here: the entry of a
//! finished copy in the catalogue (`upkeep`).

use crate::MemberId;
use crate::choice::{Half, HeldUnits};
use crate::content::{StoredPart, UnitPlace};
use crate::error::VolumeError;
use crate::members::MemberTable;
use crate::space::FreeSpace;

/// The purpose of an upkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// A disk that was put in, or came back, gets the copies it lacks; those it has are verified, and each part with one copy gets a
    /// second.
    Fill(MemberId),
    /// Copies move from a leaving disk to the others.
    Drain(MemberId),
    /// Copies move from disks that are fuller than the mean to emptier ones ([`crate::Volume::begin_balance`]).
    Balance,
    /// Every copy is read, and rewritten from the other copy if it is wrong.
    Scrub,
    /// First copies in the inner half of a disk move to its outer half, as far as there is room ([`crate::Volume::zone_moves`]).
    Outward,
    /// First copies in the outer half of a disk move to its inner half.
    Inward,
}

/// A copy to read or make: the first whole copy of `sources`, in their order, is written to `target`, unless it is the one at `target`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTask {
    /// The number of the part in the content.
    pub part: u32,
    /// Copies to read.
    pub sources: Vec<UnitPlace>,
    /// The place of the copy that must be right afterwards.
    pub target: UnitPlace,
    /// For a target that is not in the catalogue yet, the copy to pass to [`crate::Volume::take_copies`] when it is written.
    pub new_copy: Option<NewCopy>,
}

/// A copy in a unit that the catalogue does not name yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCopy {
    /// The number of the part in the content.
    pub part: u32,
    /// The copy that it replaces; `None` if it is the part's second copy.
    pub instead_of: Option<UnitPlace>,
    /// The unit that holds it.
    pub to: UnitPlace,
}

/// State of the plan: the units for the next copies, and the balance of the disks.
#[derive(Debug, Default)]
pub(crate) struct CopyPlan {
    /// Units held for the next copies of the present content.
    held: HeldUnits,
    /// During a balance, the units that each disk has too many; negative: too few. Empty otherwise.
    surplus: Vec<i64>,
}

/// The part whose copies are being planned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartAtHand<'a> {
    pub(crate) stored: &'a StoredPart,
    pub(crate) number: u32,
    /// Parts of the content that remain, including this one.
    pub(crate) left: u32,
    /// True if there is room for a copy besides the units promised to drafts.
    pub(crate) has_room: bool,
}

impl PartAtHand<'_> {
    fn on(&self, member: MemberId) -> Option<UnitPlace> {
        self.stored.places().find(|place| place.member == member)
    }

    /// A task that reads a copy, and, if it is wrong, rewrites it from the others.
    fn look_at(&self, target: UnitPlace) -> CopyTask {
        let others = self.stored.places().filter(|place| *place != target);
        CopyTask { part: self.number, sources: [target].into_iter().chain(others).collect(), target, new_copy: None }
    }

    /// A task that makes a copy in a unit that was taken for it.
    fn copy_to(&self, to: UnitPlace, instead_of: Option<UnitPlace>) -> CopyTask {
        debug_assert!(self.stored.places().all(|place| place != to), "a copy over a copy of itself");
        debug_assert!(
            instead_of.is_none_or(|from| self.stored.places().any(|place| place == from)),
            "the replaced copy is one of the part's"
        );
        let new_copy = Some(NewCopy { part: self.number, instead_of, to });
        CopyTask { part: self.number, sources: self.stored.places().collect(), target: to, new_copy }
    }

    /// The half of a disk for a copy that replaces the one at `from`.
    fn half_of(&self, from: UnitPlace) -> Half {
        match (self.stored.second, self.stored.first == from) {
            (None, _) => Half::Any,
            (Some(_), true) => Half::Outer,
            (Some(_), false) => Half::Inner,
        }
    }

    /// True if the copy at `from` can move to disk `to`: a different disk, and not on the drive of the other copy.
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
    /// Ends the plan: gives back the units that it holds.
    pub(crate) fn end(&mut self, space: &mut FreeSpace) {
        space.let_go(std::mem::take(self).held);
    }

    /// Number of disks in the balance; zero without one.
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
        // Units are held for one content at a time, so that its copies lie together.
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

    /// A task that moves the first copy of a part to the other half of its disk.
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

    /// A task that moves a copy from a disk with a surplus to the disk with the greatest lack, if that does not have the other copy.
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

    /// A task that moves the copy at `from` to the disk with most room among those without the other copy.
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

    /// Takes a unit for a copy of a part; never a unit promised to a draft.
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
