//! Growing and shrinking: a disk more, or one less, whose units move to the others.
//!
//! Promise: a disk leaves when nothing that the catalogue names lies on it; a copy moves to a disk that does not have the other one.
//! A crash at any moment leaves every content whole. Not here: reading and writing the units.

use std::sync::Arc;

use crate::allocator::FreeUnits;
use crate::catalogue::{StoredContent, StoredPart, UnitPlace};
use crate::commit::Retired;
use crate::layout::Half;
use crate::record::Record;
use crate::superblock::{MemberRecord, MemberState};
use crate::{Areas, CreateError, DiskWrite, MEMBERS_MAX, MemberId, Placement, Volume, VolumeError};

/// A copy of a part that was written somewhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedCopy {
    /// Which part of the content.
    pub part: u32,
    /// The unit it was in.
    pub from: UnitPlace,
    /// The unit it is in.
    pub to: UnitPlace,
}

impl Volume {
    /// Takes a disk of `size` bytes into the volume: under the number of one that left, or a new one. Gives the superblocks
    /// to write, in three steps: its own, and those of all disks in two (see [`Volume::take_out`]).
    ///
    /// # Errors
    /// It is too small, or there are as many disks as can be; the volume takes no changes.
    pub fn add_disk(&mut self, size: u64) -> Result<(MemberId, [Vec<DiskWrite>; 3]), AddError> {
        self.check_changes()?;
        let areas = Areas::for_disk(size, self.superblock.journal_half, self.unit_bytes())?;
        let left = self.member_ids().find(|member| self.has_left(*member));
        let number = left.map_or(self.superblock.members.len(), MemberId::index);
        if number >= MEMBERS_MAX {
            return Err(CreateError::DiskCount(number + 1).into());
        }
        let member = MemberId(u8::try_from(number).expect("at most MEMBERS_MAX"));
        let record = MemberRecord { size: areas.size, state: MemberState::Active };
        let free = FreeUnits::new(areas.units());
        let cursor = (0, areas.units().div_ceil(2));
        if left.is_some() {
            self.superblock.members[number] = record;
            (self.present[number], self.free[number], self.cursors[number]) = (true, free, cursor);
        } else {
            self.superblock.members.push(record);
            self.present.push(true);
            self.free.push(free);
            self.cursors.push(cursor);
        }
        let [one, two] = self.set_member(member, MemberState::Active);
        let own = one.iter().chain(&two).filter(|write| write.member == member).cloned().collect();
        Ok((member, [own, one, two]))
    }

    /// Whether a disk is out and nothing lies on it.
    #[must_use]
    pub fn has_left(&self, member: MemberId) -> bool {
        self.superblock.members[member.index()].state == MemberState::Out && !self.holds_parts(member)
    }

    fn holds_parts(&self, member: MemberId) -> bool {
        let mut parts = self.catalogue.iter().flat_map(|(_, content)| &content.parts);
        parts.any(|part| part.places().any(|place| place.member == member))
    }

    /// Takes a unit for the copy of a part that lies on `leaving`: on a disk that does not have the other copy. None if there is
    /// no room. [`Volume::move_copies`] makes it the copy.
    pub fn take_unit_instead(&mut self, part: &StoredPart, leaving: MemberId) -> Option<UnitPlace> {
        let taken = |member: MemberId| part.places().any(|place| place.member == member);
        let free = |member: MemberId| self.free[member.index()].free();
        let fits =
            |member: &MemberId| *member != leaving && !taken(*member) && self.is_readable(*member) && free(*member) > 0;
        let to = self.member_ids().filter(fits).max_by_key(|member| free(*member))?;
        let half = match (self.placement(), part.first.member == leaving) {
            (Placement::Mirror, true) => Half::Outer,
            (Placement::Mirror, false) => Half::Inner,
            _ => Half::Any,
        };
        self.take_unit(to.index(), half)
    }

    /// Tells that copies of a content lie elsewhere, written whole. Durable with the next commit, and the old units are free
    /// when that is durable and nobody reads them.
    ///
    /// # Errors
    /// No content has the name; the volume takes no changes.
    pub fn move_copies(&mut self, name: &str, copies: &[MovedCopy]) -> Result<(), VolumeError> {
        self.check_changes()?;
        let old = self.catalogue.remove(name).ok_or(VolumeError::NotFound)?;
        let mut content = StoredContent::clone(&old);
        for MovedCopy { part, from, to } in copies {
            let part = usize::try_from(*part).ok().and_then(|part| content.parts.get_mut(part));
            let part = part.expect("a part of the content");
            match from {
                from if part.first == *from => part.first = *to,
                from if part.second == Some(*from) => part.second = Some(*to),
                from => panic!("no copy lies in {from:?}"),
            }
        }
        self.dirty.extend(copies.iter().map(|copy| copy.to.member));
        Record::Put(name.into(), content.clone()).encode(&mut self.staged);
        self.catalogue.insert(name.into(), Arc::new(content));
        self.staged_retired.push(Retired { units: copies.iter().map(|copy| copy.from).collect(), content: old });
        Ok(())
    }

    /// Whether enough disks are left without this one for the volume's layout.
    #[must_use]
    pub fn may_leave(&self, member: MemberId) -> bool {
        let others = self.member_ids().filter(|other| *other != member && self.is_readable(*other)).count();
        u64::try_from(others).is_ok_and(|others| others >= self.placement().copies())
    }

    /// Takes a disk out on which nothing lies any more, durably. Gives the superblocks to write, in two steps (see
    /// [`Volume::take_out`]).
    ///
    /// # Errors
    /// Something lies on it ([`VolumeError::PartLost`]); it would leave too few disks ([`VolumeError::Full`]).
    pub fn leave(&mut self, member: MemberId) -> Result<[Vec<DiskWrite>; 2], VolumeError> {
        self.check_changes()?;
        if !self.may_leave(member) {
            return Err(VolumeError::Full);
        }
        if self.holds_parts(member) {
            return Err(VolumeError::PartLost);
        }
        Ok(self.set_member(member, MemberState::Out))
    }
}

/// Why a disk cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// It does not fit.
    #[error(transparent)]
    Disk(#[from] CreateError),
    /// The volume cannot be changed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
