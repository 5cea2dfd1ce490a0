//! Mending: a copy of a part is written anew from the other one, and a new disk is filled.
//!
//! Promise: a copy is overwritten only where the other one was just read and found right; nothing in the catalogue changes.

use crate::content::{StoredContent, UnitPlace};
use crate::disk::ReadDisk;
use crate::members::MemberTable;
use crate::superblock::MemberState;
use crate::unit::{ChecksumTable, UnitHeader};
use crate::{DiskWrite, MemberId, Volume, VolumeError};

/// A copy to write anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRewrite {
    /// Disk and position of the payload.
    pub payload: (MemberId, u64),
    /// The header to write behind it.
    pub header: DiskWrite,
}

impl MemberTable {
    /// The writes that renew the copy at `place` of a part; its other copy has these checksums.
    #[must_use]
    pub fn mend(
        &self,
        name: &str,
        content: &StoredContent,
        part: u32,
        place: UnitPlace,
        table: ChecksumTable,
    ) -> CopyRewrite {
        let areas = self.areas(place.member);
        let last = usize::try_from(part).is_ok_and(|part| part + 1 == content.parts.len());
        debug_assert!(
            usize::try_from(part).is_ok_and(|part| part < content.parts.len()),
            "a copy of a part that the content has"
        );
        let header = UnitHeader {
            volume: self.superblock().volume,
            member: place.member,
            unit: place.unit,
            content: content.content,
            generation: content.generation,
            part,
            payload: u32::try_from(self.part_bytes(content, part)).expect("at most 32 MiB"),
            last: last.then_some((content.modified, content.length)),
            name: name.to_owned(),
            table,
        };
        CopyRewrite { payload: (place.member, areas.payload(place.unit)), header: self.write_of(&header) }
    }

    /// The write of a header, on the disk and into the unit that it names.
    pub(crate) fn write_of(&self, header: &UnitHeader) -> DiskWrite {
        let UnitHeader { member, unit, .. } = *header;
        DiskWrite { member, position: self.areas(member).header(unit), bytes: header.encode() }
    }

    /// True if the unit at `place`, on a disk that may still be filled, is part `part` of `content`, whole.
    pub fn holds(&self, content: &StoredContent, part: u32, place: UnitPlace, disks: &mut impl ReadDisk) -> bool {
        let mut block = vec![0; crate::BLOCK_LEN];
        let read = disks.read(place.member.index(), self.areas(place.member).header(place.unit), &mut block);
        let table = read.ok().and_then(|()| self.table_of(content, part, place, &block).ok());
        let length = self.part_bytes(content, part);
        table.is_some_and(|table| self.read_whole(place, length, &table, disks, |_| {}).is_ok())
    }
}

impl Volume {
    /// Puts a new disk of `size` bytes in the place of `member`, to be filled: it is written to from now on and read when
    /// [`Volume::filled`] was called. Gives the superblocks to write, in four steps: its own, and those of all others (see
    /// [`Volume::take_out`]).
    ///
    /// # Errors
    /// It is too small; no other disk has copies of the old one's units.
    pub fn put_in(&mut self, member: MemberId, size: u64) -> Result<[Vec<DiskWrite>; 4], VolumeError> {
        self.changes.check()?;
        let areas = self.members.areas(member);
        let others = self.members.ids().any(|other| other != member && self.is_readable(other));
        if size < areas.size || self.members.placement().copies() < 2 || !others {
            return Err(VolumeError::Full);
        }
        // The new disk is used as far as the old one was: unit numbers do not change.
        self.members.enter(member, areas.size, MemberState::Filling);
        debug_assert!(self.members.unit_count(member) == areas.units(), "unit numbers do not change");
        Ok(self.set_coming(member, MemberState::Filling))
    }

    /// A disk that was put in has all its copies, durably. Gives the superblocks to write, in two steps; the disk counts when they are
    /// durable ([`Volume::superblocks_durable`]).
    pub fn filled(&mut self, member: MemberId) -> [Vec<DiskWrite>; 2] {
        let steps = self.set_member(member, MemberState::Active);
        self.members.await_filled(member);
        debug_assert!(!self.is_readable(member), "a crash now would leave a disk that is to be filled");
        steps
    }

    /// All superblocks that were to be written are durable.
    pub fn superblocks_durable(&mut self) {
        self.members.superblocks_durable();
    }
}
