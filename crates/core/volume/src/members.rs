//! The disks of a volume: the superblock that they share, and the presence, reads and writes of each.
//!
//! Promise: each change of a disk's state gives the superblocks to write, in two steps of which a crash leaves one whole; the two copies of
//! a part are never put on one drive. Not here: the contents on them (`catalogue`), their free units (`space`).

use std::collections::BTreeSet;

use crate::choice::Half;
use crate::content::{StoredPart, UnitPlace};
use crate::error::{FolderLayoutError, VolumeError};
use crate::superblock::{MemberRecord, MemberState, Placement, Superblock};
use crate::{Areas, DiskWrite, MEMBERS_MAX, MemberId, name_problem};

/// Disks that hold the journal.
const JOURNAL_COPIES: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct MemberTable {
    superblock: Superblock,
    /// For each disk, true if it was there when the volume was opened.
    present: Vec<bool>,
    /// For each disk the number of the drive that it is, or is a part of ([`crate::Volume::set_drives`]).
    drives: Vec<usize>,
    /// Failed disks that have the only copy of their units: they are read, and not written to before the volume is opened anew.
    only_read: Vec<MemberId>,
    /// Disks that were filled, which no superblock says durably: until then nothing relies on them.
    filled: Vec<MemberId>,
}

impl MemberTable {
    pub(crate) fn new(superblock: Superblock, present: Vec<bool>) -> Self {
        let drives = (0..superblock.members.len()).collect();
        Self { superblock, present, drives, only_read: Vec::new(), filled: Vec::new() }
    }

    /// The superblock that all disks share.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The layout of contents over the disks.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.superblock.placement
    }

    /// The layout of a content of this name when it is written: that of its folder, or of the nearest above it; else that of the volume.
    #[must_use]
    pub fn placement_of(&self, name: &str) -> Placement {
        let is_above = |folder: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let folders = self.superblock.folders.iter().filter(|(folder, _)| is_above(folder));
        folders.max_by_key(|(folder, _)| folder.len()).map_or(self.placement(), |(_, placement)| *placement)
    }

    /// See [`crate::Volume::set_folder_layout`].
    pub(crate) fn set_folder_layout(
        &mut self,
        folder: &str,
        placement: Option<Placement>,
    ) -> Result<[Vec<DiskWrite>; 2], FolderLayoutError> {
        if let Some(problem) = name_problem(folder) {
            return Err(VolumeError::Name(problem).into());
        }
        if placement == Some(Placement::Mirror) && drive_count(self.drives.iter()) < 2 {
            return Err(FolderLayoutError::OneDrive);
        }
        let mut folders = self.superblock.folders.clone();
        folders.retain(|(other, _)| other != folder);
        folders.extend(placement.map(|placement| (folder.to_owned(), placement)));
        if !Superblock::has_room_for(&folders) {
            return Err(FolderLayoutError::NoRoom);
        }
        self.superblock.folders = folders;
        self.superblock.generation += 1;
        self.assert_sound();
        Ok(self.superblock_writes())
    }

    /// See [`crate::Volume::set_drives`].
    pub(crate) fn set_drives(&mut self, names: &[Option<&str>]) {
        let first = |(number, name): (usize, &Option<&str>)| match name {
            Some(_) => names.iter().position(|other| other == name).unwrap_or(number),
            None => number,
        };
        let known = names.iter().enumerate().map(first);
        self.drives = known.chain(names.len()..).take(self.superblock.members.len()).collect();
        self.assert_sound();
    }

    /// The drive of each disk.
    pub(crate) fn drives(&self) -> &[usize] {
        &self.drives
    }

    /// True if two disks are not on one drive.
    pub(crate) fn are_apart(&self, one: MemberId, other: MemberId) -> bool {
        self.drives[one.index()] != self.drives[other.index()]
    }

    /// Payload bytes of a unit.
    #[must_use]
    pub const fn unit_bytes(&self) -> u64 {
        self.superblock.unit_bytes
    }

    /// The areas of a disk.
    #[must_use]
    pub fn areas(&self, member: MemberId) -> Areas {
        self.superblock.areas(member)
    }

    /// Units of a disk, free and used.
    #[must_use]
    pub fn unit_count(&self, member: MemberId) -> u32 {
        self.areas(member).units()
    }

    /// Bytes of the outer halves of all disks.
    #[must_use]
    pub fn outer_bytes(&self) -> u64 {
        let units = |member: MemberId| u64::from(Half::Outer.range(self.unit_count(member)).end);
        self.ids().map(units).sum::<u64>() * self.unit_bytes()
    }

    /// All of its disks.
    pub fn ids(&self) -> impl Iterator<Item = MemberId> + use<> {
        (0..self.superblock.members.len().min(MEMBERS_MAX)).filter_map(|number| u8::try_from(number).ok()).map(MemberId)
    }

    /// The state of a disk, as the superblock has it.
    pub(crate) fn state(&self, member: MemberId) -> Option<MemberState> {
        self.superblock.members.get(member.index()).map(|member| member.state)
    }

    /// True if a disk holds the units that the catalogue places on it.
    #[must_use]
    pub fn is_readable(&self, member: MemberId) -> bool {
        let is_active = self.state(member) == Some(MemberState::Active);
        is_active && self.present[member.index()] && !self.filled.contains(&member)
    }

    /// True if contents are written to a disk.
    #[must_use]
    pub fn is_writable(&self, member: MemberId) -> bool {
        let takes_part = self.state(member).is_some_and(MemberState::takes_part);
        takes_part && self.present[member.index()] && !self.only_read.contains(&member)
    }

    /// True if copies on other disks can move to this one.
    pub(crate) fn takes_copies(&self, member: MemberId) -> bool {
        self.is_readable(member) && self.is_writable(member)
    }

    /// True if a copy lies in that half of a disk that is written to.
    pub(crate) fn lies_in(&self, place: UnitPlace, half: Half) -> bool {
        self.takes_copies(place.member) && half.range(self.unit_count(place.member)).contains(&place.unit)
    }

    /// True if a copy of a part is on a disk that is read.
    pub(crate) fn can_read(&self, part: &StoredPart) -> bool {
        part.places().any(|place| self.is_readable(place.member))
    }

    /// The disks that are to be filled.
    pub fn filling(&self) -> impl Iterator<Item = MemberId> {
        self.unreadable().filter(|member| self.state(*member) == Some(MemberState::Filling))
    }

    /// The disks that are written to and not read yet.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = MemberId> {
        self.ids().filter(|member| self.is_writable(*member) && !self.is_readable(*member))
    }

    /// The disks that the journal is written to: the first two that can be read, if they can be written to, and those that are being
    /// filled, so that a disk that counts from now on has no old journal.
    pub(crate) fn journal_members(&self) -> Vec<MemberId> {
        let readable = self.ids().filter(|member| self.is_readable(*member)).take(JOURNAL_COPIES);
        readable.filter(|member| self.is_writable(*member)).chain(self.unreadable()).collect()
    }

    /// True if disks that take writes, on enough drives for the volume's layout, are left without this one, and one of them has the journal.
    #[must_use]
    pub fn may_leave(&self, member: MemberId) -> bool {
        let others = || self.ids().filter(|other| *other != member && self.is_readable(*other));
        let written = others().filter(|other| self.is_writable(*other));
        let drives = drive_count(written.map(|other| self.drives[other.index()]));
        let has_journal = others().take(JOURNAL_COPIES).any(|other| self.is_writable(other));
        has_journal && u64::try_from(drives).is_ok_and(|drives| drives >= self.placement().copies())
    }

    /// A disk of `size` bytes comes under the number of a disk that left, or the next, on a drive of its own.
    pub(crate) fn enter(&mut self, member: MemberId, size: u64, state: MemberState) {
        let number = member.index();
        debug_assert!(number <= self.superblock.members.len(), "numbers of disks have no gap");
        debug_assert!(self.state(member).is_none_or(|state| !state.takes_part()), "the number of a disk that is there");
        if number == self.superblock.members.len() {
            self.superblock.members.push(MemberRecord { size, state, since: 0 });
            self.present.push(true);
            self.drives.push(0);
        }
        self.only_read.retain(|failed| *failed != member);
        self.superblock.members[number] = MemberRecord { size, state, since: self.superblock.generation + 1 };
        self.present[number] = true;
        self.drives[number] = self.drives.iter().max().map_or(0, |drive| drive + 1);
        debug_assert!(
            self.ids().all(|other| other == member || self.are_apart(other, member)),
            "a disk that comes is a drive of its own"
        );
    }

    /// Gives a disk another state, with the superblocks to write for it (see [`crate::Volume::take_out`]).
    pub(crate) fn set_state(&mut self, member: MemberId, state: MemberState) -> [Vec<DiskWrite>; 2] {
        let before = std::mem::replace(&mut self.superblock.members[member.index()].state, state);
        assert!(
            before == state || state == MemberState::Left || before.takes_part() && state != MemberState::Filling,
            "a disk that is {before:?} has old bytes: it does not become {state:?} before it is put in and filled"
        );
        self.superblock.generation += 1;
        self.filled.retain(|filled| *filled != member);
        self.assert_sound();
        self.superblock_writes()
    }

    /// A disk that failed is only read from now on.
    pub(crate) fn only_read(&mut self, member: MemberId) {
        debug_assert!(self.is_writable(member), "a disk fails once");
        self.only_read.push(member);
        debug_assert!(self.is_readable(member), "it has the only copy of its units");
        self.assert_sound();
    }

    /// A disk counts as filled when the superblocks that say so are durable.
    pub(crate) fn await_filled(&mut self, member: MemberId) {
        self.filled.push(member);
        self.assert_sound();
    }

    /// All superblocks that were to be written are durable.
    pub(crate) fn superblocks_durable(&mut self) {
        self.filled.clear();
    }

    /// Checks the promises between the fields, in builds with debug assertions.
    fn assert_sound(&self) {
        let count = self.superblock.members.len();
        debug_assert!(count <= MEMBERS_MAX, "a disk without a number");
        debug_assert!(self.present.len() == count, "each disk is there or not");
        debug_assert!(self.drives.len() == count, "each disk is on a drive");
        debug_assert!(
            self.filled.iter().all(|disk| self.state(*disk) == Some(MemberState::Active)),
            "a disk is filled once"
        );
        debug_assert!(
            self.filled.iter().all(|disk| !self.only_read.contains(disk)),
            "a disk that lacks copies is read"
        );
    }

    /// The superblocks of all disks that take part, in two steps.
    #[must_use]
    pub fn superblock_writes(&self) -> [Vec<DiskWrite>; 2] {
        let mut steps = [Vec::new(), Vec::new()];
        for member in self.ids().filter(|member| self.is_writable(*member)) {
            let bytes = Superblock { member, ..self.superblock.clone() }.encode();
            let positions = Areas::superblock_positions(self.superblock.members[member.index()].size);
            // One copy of each end in each step: an end that was damaged as a whole leaves two of the other.
            for (copy, position) in positions.into_iter().enumerate() {
                steps[copy % 2].push(DiskWrite { member, position, bytes: bytes.clone() });
            }
        }
        debug_assert!(steps[0].len() == steps[1].len(), "a crash leaves one step whole, with a copy at each end");
        steps
    }
}

/// The number of different drives.
pub(crate) fn drive_count<T: Ord>(drives: impl Iterator<Item = T>) -> usize {
    drives.collect::<BTreeSet<_>>().len()
}

/// Steps of superblocks in which those of a disk that comes are durable before any other says that it is there, or it would be taken for
/// the disk that had its number before.
pub(crate) fn own_first(member: MemberId, steps: [Vec<DiskWrite>; 2]) -> [Vec<DiskWrite>; 4] {
    let [[own_one, one], [own_two, two]] = steps.map(|step| {
        let (own, others): (Vec<_>, Vec<_>) = step.into_iter().partition(|write| write.member == member);
        [own, others]
    });
    [own_one, own_two, one, two]
}
