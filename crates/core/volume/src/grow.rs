//! Growing and shrinking: a disk more, or one less.
//!
//! Promise: a disk leaves when nothing that the catalogue names lies on it. A crash at any moment leaves every content whole.
//! Not here: moving the units on it to the others (`upkeep`).

use crate::superblock::MemberState;
use crate::{Areas, CreateError, DiskWrite, MEMBERS_MAX, MemberId, Volume, VolumeError};

impl Volume {
    /// Takes a disk of `size` bytes into the volume: under the number of a disk that left, or a new one. Gives the superblocks
    /// to write, in four steps: its own, and those of all others (see [`Volume::take_out`]).
    ///
    /// # Errors
    /// It is too small, or there are as many disks as can be; the volume takes no changes.
    pub fn add_disk(&mut self, size: u64) -> Result<(MemberId, [Vec<DiskWrite>; 4]), AddError> {
        self.changes.check()?;
        let areas = Areas::for_disk(size, self.superblock().journal_half, self.unit_bytes())?;
        let member = self.next_member().ok_or(CreateError::DiskCount(MEMBERS_MAX + 1))?;
        self.changes.forget_disk(member);
        self.members.enter(member, areas.size, MemberState::Active);
        self.space.enter(member, areas.units());
        Ok((member, self.set_coming(member, MemberState::Active)))
    }

    /// The number that the next disk gets: that of a disk that left, or a new one; none at the largest number of disks.
    #[must_use]
    pub fn next_member(&self) -> Option<MemberId> {
        let left = self.members.ids().find(|member| self.has_left(*member));
        let new = || u8::try_from(self.superblock().members.len()).ok().map(MemberId);
        left.or_else(new).filter(|member| member.index() < MEMBERS_MAX)
    }

    /// The disks that are out: the parts on them have their other copies only.
    pub fn taken_out(&self) -> impl Iterator<Item = MemberId> {
        self.members.ids().filter(|member| self.members.state(*member) == Some(MemberState::Out))
    }

    /// True if a disk left the volume.
    #[must_use]
    pub fn has_left(&self, member: MemberId) -> bool {
        self.members.state(member) == Some(MemberState::Left)
    }

    fn holds_parts(&self, member: MemberId) -> bool {
        self.named_parts().any(|part| part.places().any(|place| place.member == member))
    }

    /// Takes a disk out on which nothing lies any more, durably. Gives the superblocks to write, in two steps (see
    /// [`Volume::take_out`]).
    ///
    /// # Errors
    /// Something lies on it ([`VolumeError::PartLost`]); it would leave too few disks ([`VolumeError::Full`]).
    pub fn leave(&mut self, member: MemberId) -> Result<[Vec<DiskWrite>; 2], VolumeError> {
        self.changes.check()?;
        if !self.members.may_leave(member) || !self.journal_stays_without(member) {
            return Err(VolumeError::Full);
        }
        if self.holds_parts(member) {
            return Err(VolumeError::PartLost);
        }
        Ok(self.set_member(member, MemberState::Left))
    }
}

/// The reason that a disk cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// It does not fit.
    #[error(transparent)]
    Disk(#[from] CreateError),
    /// The volume cannot be changed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}
