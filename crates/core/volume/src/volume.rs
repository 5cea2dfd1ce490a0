//! The volume: the catalogue, the free units and the journal as one state machine.
//!
//! Promise: a change is checked as a whole before anything of it is done; every unit belongs to one content, to one draft, or to neither.
//! Not here: choosing disks (`choice`) and units (`layout`), durability (`commit`), writing contents (`draft`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::allocator::FreeUnits;
use crate::areas::Areas;
use crate::catalogue::{Catalogue, ListedName};
use crate::changes::{CommitUnderWay, RetiredUnits, StagedChanges};
use crate::choice::{HeldUnits, pairs};
use crate::content::{StoredContent, StoredPart};
use crate::error::{CreateError, VolumeError};
use crate::journal::Journal;
use crate::numbers::Numbers;
use crate::record::{Record, Recorded};
use crate::superblock::{MemberRecord, MemberState, Placement, Superblock};
use crate::{DiskWrite, MEMBERS_MAX, MemberId, VolumeId, name_problem};

/// The properties of a new volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    /// Its identity: random.
    pub volume: VolumeId,
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// The layout of contents over the disks.
    pub placement: Placement,
    /// Payload bytes of a unit: a power of two from 64 KiB to 32 MiB.
    pub unit_bytes: u64,
    /// Bytes of each disk.
    pub sizes: Vec<u64>,
}

/// The reason that a folder cannot have a layout of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FolderLayoutError {
    /// Its name is not possible, or the volume takes no changes.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Two copies would be on one drive.
    #[error("a mirror needs disks on two drives or more")]
    OneDrive,
    /// Too many folders have one.
    #[error("the superblock has no room for the layout of another folder")]
    NoRoom,
}

/// Parts that are promised to drafts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PromisedParts {
    /// Parts with two copies.
    pairs: u64,
    /// Parts with one.
    singles: u64,
}

impl PromisedParts {
    pub(crate) const fn of(&mut self, placement: Placement) -> &mut u64 {
        if placement.copies() > 1 { &mut self.pairs } else { &mut self.singles }
    }
}

/// The disks and units of the upkeep under way.
#[derive(Debug, Default)]
pub(crate) struct UpkeepUnits {
    /// A disk that takes nothing new: the copies on it move to the others.
    pub(crate) draining: Option<MemberId>,
    /// Units that it takes next for the content it is at.
    pub(crate) held: HeldUnits,
    /// While disks are balanced: the units of each that are to go to others, or to come if there are less than none; empty else.
    pub(crate) surplus: Vec<i64>,
}

/// An open volume.
#[derive(Debug)]
pub struct Volume {
    pub(crate) superblock: Superblock,
    /// For each disk, true if it was there when the volume was opened.
    pub(crate) present: Vec<bool>,
    pub(crate) catalogue: Catalogue,
    /// Recordings that are not over, as the journal has them, or will have them with the next commit, by their generations.
    pub(crate) recordings: BTreeMap<u64, Recorded>,
    pub(crate) free: Vec<FreeUnits>,
    /// For each disk the number of the drive that it is, or is a part of ([`Volume::set_drives`]).
    pub(crate) drives: Vec<usize>,
    pub(crate) promised: PromisedParts,
    pub(crate) journal: Journal,
    /// Changes that the next commit makes durable.
    pub(crate) changes: StagedChanges,
    pub(crate) committing: Option<CommitUnderWay>,
    /// Disks that hold the durable state of the journal.
    pub(crate) journal_on: Vec<MemberId>,
    pub(crate) retired: Vec<RetiredUnits>,
    pub(crate) numbers: Numbers,
    pub(crate) read_only: bool,
    /// Failed disks that have the only copy of their units: they are read, and not written to before the volume is opened anew.
    pub(crate) only_read: Vec<MemberId>,
    /// Disks that were filled, which no superblock says durably: until then nothing relies on them.
    pub(crate) filled: Vec<MemberId>,
    pub(crate) upkeep: UpkeepUnits,
}

impl Volume {
    /// A new, empty volume. Write its first commit before its superblocks ([`Volume::superblock_writes`]): disks bear its mark
    /// when everything else is there.
    ///
    /// # Errors
    /// The name, the unit or the number of disks is not possible, or a disk is too small.
    pub fn create(new: NewVolume) -> Result<Self, CreateError> {
        let least = if new.placement == Placement::Mirror { 2 } else { 1 };
        if !(least..=MEMBERS_MAX).contains(&new.sizes.len()) {
            return Err(CreateError::DiskCount(new.sizes.len()));
        }
        if new.name.is_empty() || new.name.len() > 64 {
            return Err(CreateError::Name);
        }
        if !Areas::unit_bytes_allowed(new.unit_bytes) {
            return Err(CreateError::UnitSize(new.unit_bytes));
        }
        let journal_half = Areas::journal_half_for(&new.sizes, new.unit_bytes);
        let areas = new.sizes.iter().map(|size| Areas::for_disk(*size, journal_half, new.unit_bytes));
        let areas = areas.collect::<Result<Vec<_>, _>>()?;
        let record = |areas: &Areas| MemberRecord { size: areas.size, state: MemberState::Active, since: 0 };
        let members = areas.iter().map(record).collect();
        let superblock = Superblock {
            volume: new.volume,
            generation: 1,
            name: new.name,
            placement: new.placement,
            unit_bytes: new.unit_bytes,
            journal_half,
            member: MemberId(0),
            members,
            folders: Vec::new(),
        };
        let present = vec![true; areas.len()];
        let journal = Journal::new(new.volume, journal_half, 0, journal_half);
        Ok(Self::assemble(superblock, present, Catalogue::default(), journal, 1))
    }

    /// A volume of these parts, all of its units free.
    pub(crate) fn assemble(
        superblock: Superblock,
        present: Vec<bool>,
        catalogue: Catalogue,
        journal: Journal,
        next_number: u64,
    ) -> Self {
        let members = (0..superblock.members.len()).filter_map(|number| u8::try_from(number).ok()).map(MemberId);
        let free = members.map(|member| FreeUnits::new(superblock.areas(member).units())).collect();
        let mut changes = StagedChanges::default();
        let numbers = Numbers::from(next_number, &mut changes.records);
        let drives = (0..superblock.members.len()).collect();
        Self {
            superblock,
            present,
            catalogue,
            recordings: BTreeMap::new(),
            free,
            drives,
            promised: PromisedParts::default(),
            journal,
            changes,
            committing: None,
            journal_on: Vec::new(),
            retired: Vec::new(),
            numbers,
            read_only: false,
            only_read: Vec::new(),
            filled: Vec::new(),
            upkeep: UpkeepUnits::default(),
        }
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

    /// Lays contents written below `folder` so from now on; as the volume's others, if none. Existing contents stay as they are. Gives the
    /// superblocks to write, in two steps (see [`Volume::take_out`]).
    ///
    /// # Errors
    /// The folder's name is not possible; two copies need two drives; the volume takes no changes.
    pub fn set_folder_layout(
        &mut self,
        folder: &str,
        placement: Option<Placement>,
    ) -> Result<[Vec<DiskWrite>; 2], FolderLayoutError> {
        self.check_changes()?;
        if let Some(problem) = name_problem(folder) {
            return Err(VolumeError::Name(problem).into());
        }
        if placement == Some(Placement::Mirror) && self.drives.iter().collect::<BTreeSet<_>>().len() < 2 {
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
        Ok(self.superblock_writes())
    }

    /// Sets the drive of each disk, by the drives' names; a disk without one is a drive of its own, as all are until then and as one that
    /// comes is. The two copies of a part are never put on one drive.
    pub fn set_drives(&mut self, names: &[Option<&str>]) {
        let first = |(number, name): (usize, &Option<&str>)| match name {
            Some(_) => names.iter().position(|other| other == name).unwrap_or(number),
            None => number,
        };
        let known = names.iter().enumerate().map(first);
        self.drives = known.chain(names.len()..).take(self.superblock.members.len()).collect();
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

    /// True if a disk holds the units that the catalogue places on it.
    #[must_use]
    pub fn is_readable(&self, member: MemberId) -> bool {
        let state = self.superblock.members.get(member.index()).map(|member| member.state);
        state == Some(MemberState::Active) && self.present[member.index()] && !self.filled.contains(&member)
    }

    /// True if contents are written to a disk.
    #[must_use]
    pub fn is_writable(&self, member: MemberId) -> bool {
        let state = self.superblock.members.get(member.index()).map(|member| member.state);
        let takes_part = state.is_some_and(|state| state != MemberState::Out) && self.present[member.index()];
        takes_part && !self.only_read.contains(&member)
    }

    /// True if the volume takes no more changes.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The number of contents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.catalogue.len()
    }

    /// True if there is no content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of contents with a part that lies on no disk that is read.
    #[must_use]
    pub fn unreadable_count(&self) -> usize {
        if self.member_ids().all(|member| self.is_readable(member)) {
            return 0;
        }
        let is_there = |part: &StoredPart| part.places().any(|place| self.is_readable(place.member));
        self.contents().filter(|(_, content)| !content.parts.iter().all(is_there)).count()
    }

    /// Every content with its name, in order of names.
    pub fn contents(&self) -> impl Iterator<Item = (&str, &Arc<StoredContent>)> {
        self.catalogue.contents()
    }

    /// The first content behind this name, in order of names; the empty name is before all.
    #[must_use]
    pub fn content_behind(&self, name: &str) -> Option<(&str, &Arc<StoredContent>)> {
        self.catalogue.behind(name)
    }

    /// The content of this name. Its units are not used for anything else while the answer is kept.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<StoredContent>> {
        self.catalogue.find(name)
    }

    /// True if the folder of this name is there; the empty name is the volume itself.
    #[must_use]
    pub fn is_folder(&self, name: &str) -> bool {
        self.catalogue.is_folder(name)
    }

    /// Names in the folder, in their order.
    #[must_use]
    pub fn list(&self, folder: &str) -> Vec<ListedName<'_>> {
        self.catalogue.list(folder)
    }

    /// At most `count` names under `prefix` (a folder's name with a slash, or nothing) from `next` on, and the name from which the page
    /// after it begins.
    #[must_use]
    pub fn page(&self, prefix: &str, next: &str, count: usize) -> (Vec<ListedName<'_>>, String) {
        self.catalogue.page(prefix, next, count)
    }

    /// Free units of each disk, none where it cannot be written, or leaves.
    #[must_use]
    pub fn free_counts(&self) -> Vec<Option<u64>> {
        let takes = |member: MemberId| self.is_writable(member) && self.upkeep.draining != Some(member);
        let free = |member: MemberId| takes(member).then(|| u64::from(self.free[member.index()].free()));
        self.member_ids().map(free).collect()
    }

    /// Those that new contents of this layout may take: of each part a copy can be read at once. So of the disks that are being filled one
    /// takes second copies, and none takes single ones.
    pub(crate) fn free_for(&self, placement: Placement) -> Vec<Option<u64>> {
        let filling = self.unreadable().next().filter(|_| placement.copies() > 1);
        let takes = |member: MemberId| self.is_readable(member) || filling == Some(member);
        self.member_ids().zip(self.free_counts()).map(|(member, free)| free.filter(|_| takes(member))).collect()
    }

    /// Units of a disk, free and used.
    #[must_use]
    pub fn unit_count(&self, member: MemberId) -> u32 {
        self.free.get(member.index()).map_or(0, FreeUnits::units)
    }

    /// Payload bytes that can still be written, in whole units, without those promised to drafts.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.parts_left(self.placement()) * self.unit_bytes()
    }

    /// Removes a content. It is gone at once, and durably so with the next commit.
    ///
    /// # Errors
    /// No content has the name; the volume takes no changes.
    pub fn remove(&mut self, name: &str) -> Result<(), VolumeError> {
        self.check_changes()?;
        let old = self.catalogue.remove(name).ok_or(VolumeError::NotFound)?;
        Record::Remove(name.into()).encode(&mut self.changes.records);
        self.retire(old);
        Ok(())
    }

    pub(crate) fn check_changes(&self) -> Result<(), VolumeError> {
        if self.read_only { Err(VolumeError::ReadOnly) } else { Ok(()) }
    }

    pub(crate) fn check_new_name(&self, name: &str) -> Result<(), VolumeError> {
        self.check_changes()?;
        if let Some(problem) = name_problem(name) {
            return Err(VolumeError::Name(problem));
        }
        if self.catalogue.find(name).is_none() && self.catalogue.is_folder(name) {
            return Err(VolumeError::IsFolder);
        }
        if self.catalogue.lies_below_content(name) { Err(VolumeError::NotAFolder) } else { Ok(()) }
    }

    /// All parts that the catalogue, or the journal of a recording that is not over, names.
    pub(crate) fn named_parts(&self) -> impl Iterator<Item = &StoredPart> {
        let recorded = self.recordings.values().map(|recorded| &recorded.content);
        self.contents().map(|(_, content)| &**content).chain(recorded).flat_map(|content| &content.parts)
    }

    /// Three quarters of a half of the journal are for the checkpoint, the rest for frames' heads and changes.
    pub(crate) fn check_catalogue_room(&self, more: usize) -> Result<(), VolumeError> {
        let recorded: usize = self.recordings.values().map(Recorded::bytes).sum();
        let bytes = u64::try_from(self.catalogue.record_bytes() + recorded + more).unwrap_or(u64::MAX);
        if bytes <= self.superblock.journal_half / 4 * 3 { Ok(()) } else { Err(VolumeError::CatalogueFull) }
    }

    /// The number of parts that can still be written in this layout. A part with one copy takes at most one of the pairs that are left.
    pub(crate) fn parts_left(&self, placement: Placement) -> u64 {
        let counts = self.free_for(Placement::Mirror);
        let there = counts.iter().zip(&self.drives).filter_map(|(free, drive)| free.map(|free| (free, *drive)));
        let (free, drives): (Vec<u64>, Vec<usize>) = there.unzip();
        let all: u64 = self.free_for(Placement::Stripe).iter().flatten().sum();
        let pairs = if drives.iter().collect::<BTreeSet<_>>().len() > 1 { pairs(&free, &drives) } else { all };
        let PromisedParts { pairs: doubled, singles } = self.promised;
        let in_pairs = pairs.saturating_sub(doubled + singles);
        match (placement, doubled) {
            (Placement::Mirror, _) => in_pairs,
            (Placement::Span | Placement::Stripe, 0) => all.saturating_sub(singles),
            (Placement::Span | Placement::Stripe, _) => all.saturating_sub(2 * doubled + singles).min(in_pairs),
        }
    }

    /// A number that was never used and never will be, even after a crash.
    pub(crate) fn new_number(&mut self) -> Result<u64, VolumeError> {
        self.numbers.take().ok_or(VolumeError::ReadOnly)
    }

    pub(crate) fn retire(&mut self, content: Arc<StoredContent>) {
        let units = content.parts.iter().flat_map(StoredPart::places).collect();
        self.changes.retired.push(RetiredUnits { units, content });
    }
}
