//! Upkeep: which copies are read, and which are written anew from them, so that a disk is filled or emptied, or everything is known
//! to be right.
//!
//! Promise: a unit that nothing names any more is free when that is durable and its last reader is gone. Not here: the choice of the copies
//! (`copy_plan`), reading and writing the units (see [`crate::MemberTable::mend`] for the bytes to write).

use std::sync::Arc;

use crate::content::{StoredContent, UnitPlace};
use crate::copy_plan::{CopyTask, NewCopy, PartAtHand, Upkeep};
use crate::{MemberId, Placement, Volume, VolumeError};

impl Volume {
    /// From now on nothing new goes to a disk that is to leave, until [`Volume::end_upkeep`].
    ///
    /// # Errors
    /// Too few disks would be left; the volume takes no changes.
    pub fn begin_drain(&mut self, member: MemberId) -> Result<(), VolumeError> {
        self.changes.check()?;
        if !self.members.may_leave(member) {
            return Err(VolumeError::Full);
        }
        self.space.drain(Some(member));
        Ok(())
    }

    /// Counts by how many units each disk is fuller than all together: these move, until [`Volume::end_upkeep`].
    ///
    /// # Errors
    /// The volume takes no changes.
    pub fn begin_balance(&mut self) -> Result<(), VolumeError> {
        self.changes.check()?;
        self.upkeep.balance(&self.members, &self.space);
        Ok(())
    }

    /// Ends the upkeep: a disk has left, or stays; disks are balanced, or as they are.
    pub fn end_upkeep(&mut self) {
        self.space.drain(None);
        self.upkeep.end(&mut self.space);
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
        let left = u32::try_from(content.parts.len() - at).unwrap_or(u32::MAX);
        let part = PartAtHand { stored, number: part, left, has_room: self.parts_left() > 0 };
        let is_mirrored = self.members.placement_of(name) == Placement::Mirror;
        self.upkeep.tasks(upkeep, part, is_mirrored, (&self.members, &mut self.space))
    }

    /// Gives back a unit that was taken for a copy and will not be one. All writes to it must be complete.
    pub fn give_back(&mut self, place: UnitPlace) {
        self.space.give([place]);
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
        self.changes.check()?;
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
            assert!(
                instead_of.map_or(part.second.is_none(), |from| part.places().any(|place| place == from)),
                "a new copy comes beside the only one, or in the place of one that the catalogue names"
            );
            match *instead_of {
                None => part.second = Some(*to),
                Some(from) if part.first == from => part.first = *to,
                Some(from) => part.second = part.second.filter(|second| *second != from).or(Some(*to)),
            }
        }
        self.assert_taken(&content);
        self.changes.await_payload(copies.iter().map(|copy| copy.to.member));
        self.put(name.into(), Arc::new(content));
        let units = copies.iter().filter_map(|copy| copy.instead_of).collect();
        self.changes.retire_units(units, old);
        self.assert_sound();
        Ok(true)
    }
}
