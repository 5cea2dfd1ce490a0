//! Upkeep: which copies are read, and which are written anew from them, so that a disk is filled or emptied, or everything is known
//! to be right.
//!
//! Promise: a copy goes to a drive that does not have the other one; a unit that nothing names any more is free when that is durable
//! and its last reader is gone. Not here: reading and writing the units (see [`Volume::mend`] for the bytes to write).

use std::sync::Arc;

use crate::changes::RetiredUnits;
use crate::choice::Half;
use crate::content::{StoredContent, StoredPart, UnitPlace};
use crate::record::Record;
use crate::superblock::MemberState;
use crate::{MemberId, Placement, Volume, VolumeError};

/// The purpose of an upkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// A disk that was put in gets the copies it should have, and a second copy of each part that has one only.
    Fill(MemberId),
    /// Copies on a disk that leaves go to the others.
    Drain(MemberId),
    /// Copies go from disks that are fuller than all together to those that are emptier ([`Volume::begin_balance`]).
    Balance,
    /// Every copy is read, and written anew from the other one if it is wrong.
    Scrub,
    /// First copies that lie in the inner half of a disk go to its outer half, as far as there is room ([`Volume::zone_moves`]).
    Outward,
    /// And the other way round.
    Inward,
}

/// A copy to look after: of `sources`, in this order, the first one that is whole is written to `target`, if it does not lie there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTask {
    /// The number of the part in the content.
    pub part: u32,
    /// Copies to read.
    pub sources: Vec<UnitPlace>,
    /// The copy that is to be right.
    pub target: UnitPlace,
    /// If the catalogue does not name the target yet: the copy to give to [`Volume::take_copies`] when it is written.
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

impl Volume {
    /// The disks that are to be filled.
    pub fn filling(&self) -> impl Iterator<Item = MemberId> {
        let state = |member: &MemberId| self.superblock.members[member.index()].state;
        self.unreadable().filter(move |member| state(member) == MemberState::Filling)
    }

    /// The disks that are written to and not read yet.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = MemberId> {
        self.member_ids().filter(|member| self.is_writable(*member) && !self.is_readable(*member))
    }

    /// From now on nothing new goes to a disk that is to leave, until [`Volume::end_upkeep`].
    ///
    /// # Errors
    /// Too few disks would be left; the volume takes no changes.
    pub fn begin_drain(&mut self, member: MemberId) -> Result<(), VolumeError> {
        self.check_changes()?;
        if !self.may_leave(member) {
            return Err(VolumeError::Full);
        }
        self.upkeep.draining = Some(member);
        Ok(())
    }

    /// Counts by how many units each disk is fuller than all together: these move, until [`Volume::end_upkeep`].
    ///
    /// # Errors
    /// The volume takes no changes.
    pub fn begin_balance(&mut self) -> Result<(), VolumeError> {
        self.check_changes()?;
        let counts = |member: MemberId| match self.is_readable(member) {
            true => (self.unit_count(member) - self.free[member.index()].free(), self.unit_count(member)),
            false => (0, 0),
        };
        let counts: Vec<(i64, i64)> =
            self.member_ids().map(counts).map(|(used, units)| (i64::from(used), i64::from(units))).collect();
        let (used, units) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        self.upkeep.surplus = counts.iter().map(|one| one.0 - used * one.1 / units.max(1)).collect();
        Ok(())
    }

    /// Ends the upkeep: a disk has left, or stays; disks are balanced, or as they are.
    pub fn end_upkeep(&mut self) {
        let ended = std::mem::take(&mut self.upkeep);
        self.let_go(ended.held);
    }

    /// The copies to look after in a part of a content. Each unit that is taken goes either to [`Volume::take_copies`] or to
    /// [`Volume::give_back`].
    ///
    /// # Errors
    /// There is no room for a copy.
    pub fn copies_to_look_after(
        &mut self,
        upkeep: Upkeep,
        name: &str,
        content: &StoredContent,
        part: u32,
    ) -> Result<Vec<CopyTask>, VolumeError> {
        let at = usize::try_from(part).unwrap_or(usize::MAX);
        let Some(stored) = content.parts.get(at) else { return Ok(vec![]) };
        // Units of one content that move stay together.
        let left = u32::try_from(content.parts.len() - at).unwrap_or(u32::MAX);
        if part == 0 {
            let held = std::mem::take(&mut self.upkeep.held);
            self.let_go(held);
        }
        let target_first = |target: UnitPlace| {
            let others = stored.places().filter(move |place| *place != target);
            CopyTask { part, sources: [target].into_iter().chain(others).collect(), target, new_copy: None }
        };
        let new = |instead_of, to: Option<UnitPlace>| {
            let to = to.ok_or(VolumeError::Full)?;
            let new_copy = Some(NewCopy { part, instead_of, to });
            Ok::<_, VolumeError>(vec![CopyTask { part, sources: stored.places().collect(), target: to, new_copy }])
        };
        // Units promised to drafts are not taken from them.
        let has_room = self.parts_left(self.placement()) > 0;
        let on = |member: MemberId| stored.places().find(|place| place.member == member);
        Ok(match upkeep {
            Upkeep::Scrub => stored.places().map(target_first).collect(),
            Upkeep::Fill(member) => match on(member) {
                Some(own) => vec![target_first(own)],
                None if self.lacks_copy(stored, member) && self.placement_of(name) == Placement::Mirror => {
                    new(None, has_room.then(|| self.take_copy(member, Half::Any, left)).flatten())?
                }
                None => vec![],
            },
            Upkeep::Balance => self.move_to_emptier(stored, part, left).into_iter().collect(),
            Upkeep::Outward => self.move_first(stored, (part, left), [Half::Inner, Half::Outer]),
            Upkeep::Inward => self.move_first(stored, (part, left), [Half::Outer, Half::Inner]),
            Upkeep::Drain(member) => match on(member) {
                Some(from) => new(Some(from), has_room.then(|| self.take_unit_instead(stored, from, left)).flatten())?,
                None => vec![],
            },
        })
    }

    /// Moves the first copy of a part to the other half of its disk.
    fn move_first(&mut self, stored: &StoredPart, (part, left): (u32, u32), [from, to]: [Half; 2]) -> Vec<CopyTask> {
        let first = stored.first;
        let free = &self.free[first.member.index()];
        let is_there_room = free.free_in(to.range(free.units())) > 0 && self.parts_left(self.placement()) > 0;
        if self.upkeep.draining == Some(first.member) || !self.lies_in(first, from) || !is_there_room {
            return vec![];
        }
        let Some(target) = self.take_copy(first.member, to, left) else { return vec![] };
        let new_copy = Some(NewCopy { part, instead_of: Some(first), to: target });
        vec![CopyTask { part, sources: stored.places().collect(), target, new_copy }]
    }

    /// True if a part with one copy can have the second on this disk.
    fn lacks_copy(&self, part: &StoredPart, member: MemberId) -> bool {
        part.second.is_none() && self.drives[part.first.member.index()] != self.drives[member.index()]
    }

    /// True if the copy at `from` can move to this disk: it is another one, and not on the drive of the other copy.
    fn may_move(&self, part: &StoredPart, from: UnitPlace, to: MemberId) -> bool {
        let drive = |member: MemberId| self.drives[member.index()];
        let stays = part.places().find(|place| *place != from);
        to != from.member && stays.is_none_or(|stays| drive(stays.member) != drive(to))
    }

    /// True if copies on other disks can move to this one.
    pub(crate) fn takes_copies(&self, member: MemberId) -> bool {
        self.is_readable(member) && self.is_writable(member)
    }

    /// Moves a copy of a part from a disk with a surplus to the one that lacks most and does not have the other copy.
    fn move_to_emptier(&mut self, stored: &StoredPart, part: u32, left: u32) -> Option<CopyTask> {
        let surplus = |member: MemberId| self.upkeep.surplus.get(member.index()).copied().unwrap_or(0);
        let from =
            stored.places().filter(|place| surplus(place.member) > 0).max_by_key(|place| surplus(place.member))?;
        let lacks = |to: &MemberId| surplus(*to) < 0 && self.takes_copies(*to) && self.may_move(stored, from, *to);
        let to = self.member_ids().filter(lacks).min_by_key(|member| surplus(*member))?;
        if self.parts_left(self.placement()) == 0 {
            return None;
        }
        let target = self.take_copy(to, Self::half_of(stored, from), left)?;
        self.upkeep.surplus[from.member.index()] -= 1;
        self.upkeep.surplus[to.index()] += 1;
        let new_copy = Some(NewCopy { part, instead_of: Some(from), to: target });
        Some(CopyTask { part, sources: stored.places().collect(), target, new_copy })
    }

    /// The half of a disk for a copy that takes the place of the one at `from`.
    fn half_of(part: &StoredPart, from: UnitPlace) -> Half {
        match (part.second, part.first == from) {
            (None, _) => Half::Any,
            (Some(_), true) => Half::Outer,
            (Some(_), false) => Half::Inner,
        }
    }

    /// Takes a unit for a copy instead of the one at `from`: on a disk that does not have the other copy.
    fn take_unit_instead(&mut self, part: &StoredPart, from: UnitPlace, left: u32) -> Option<UnitPlace> {
        let free = |member: MemberId| self.free[member.index()].free();
        let fits = |to: &MemberId| self.may_move(part, from, *to) && self.takes_copies(*to) && free(*to) > 0;
        let to = self.member_ids().filter(fits).max_by_key(|member| free(*member))?;
        self.take_copy(to, Self::half_of(part, from), left)
    }

    /// Takes a unit for a copy; `left` parts of its content are still to be looked at, with its own.
    fn take_copy(&mut self, member: MemberId, half: Half, left: u32) -> Option<UnitPlace> {
        let mut held = std::mem::take(&mut self.upkeep.held);
        let taken = self.take_unit(member.index(), half, left, &mut held);
        self.upkeep.held = held;
        taken
    }

    /// Gives back a unit that was taken for a copy and will not be one. All writes to it must be complete.
    pub fn give_back(&mut self, place: UnitPlace) {
        self.free[place.member.index()].give(place.unit);
    }

    /// Enters copies of a content in new units, written whole. Durable with the next commit; the units they take the place of are free when
    /// that is durable and their last reader is gone. False if the name has another content, or none, by now: the units are given back.
    ///
    /// # Errors
    /// The volume takes no changes.
    pub fn take_copies(
        &mut self,
        name: &str,
        content: &StoredContent,
        copies: &[NewCopy],
    ) -> Result<bool, VolumeError> {
        self.check_changes()?;
        let Some(old) = self.catalogue.find(name).filter(|old| old.generation == content.generation).cloned() else {
            copies.iter().for_each(|copy| self.give_back(copy.to));
            return Ok(false);
        };
        // Copies to a disk that was taken out since are lost.
        let (copies, gone): (Vec<NewCopy>, Vec<NewCopy>) =
            copies.iter().partition(|copy| self.is_writable(copy.to.member));
        gone.iter().for_each(|copy| self.give_back(copy.to));
        if copies.is_empty() {
            return Ok(true);
        }
        let mut content = StoredContent::clone(&old);
        for NewCopy { part, instead_of, to } in &copies {
            let part = usize::try_from(*part).ok().and_then(|part| content.parts.get_mut(part));
            let part = part.expect("a part of the content");
            match *instead_of {
                None => part.second = Some(*to),
                Some(from) if part.first == from => part.first = *to,
                Some(from) => part.second = part.second.filter(|second| *second != from).or(Some(*to)),
            }
        }
        self.changes.dirty.extend(copies.iter().map(|copy| copy.to.member));
        Record::Put(name.into(), content.clone()).encode(&mut self.changes.records);
        self.catalogue.insert(name.into(), Arc::new(content));
        let units = copies.iter().filter_map(|copy| copy.instead_of).collect();
        self.changes.retired.push(RetiredUnits { units, content: old });
        Ok(true)
    }
}
