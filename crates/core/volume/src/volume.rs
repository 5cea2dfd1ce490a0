//! The volume: the catalogue, the free units and the journal as one state machine.
//!
//! Promise: a change is checked as a whole before anything of it is done; every unit belongs to one content, to one draft, or to neither.
//! Not here: the disks' states (`members`), free units (`space`), durability (`changes`), writing contents (`draft`), recordings that are
//! not over (`recording`): each of these owns its state, and the volume leads a change through them.

use std::sync::Arc;

use crate::areas::Areas;
use crate::catalogue::{Catalogue, ListedName};
use crate::changes::PendingChanges;
use crate::content::{StoredContent, StoredPart, part_count};
use crate::copy_plan::CopyPlan;
use crate::draft::{Draft, PARTS_MAX};
use crate::error::{CreateError, FolderLayoutError, VolumeError};
use crate::journal::Journal;
use crate::members::MemberTable;
use crate::record::{Record, Recorded, put_bytes};
use crate::recording::Recordings;
use crate::space::FreeSpace;
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

impl NewVolume {
    fn superblock(self) -> Result<Superblock, CreateError> {
        let least = if self.placement == Placement::Mirror { 2 } else { 1 };
        if !(least..=MEMBERS_MAX).contains(&self.sizes.len()) {
            return Err(CreateError::DiskCount(self.sizes.len()));
        }
        if self.name.is_empty() || self.name.len() > 64 {
            return Err(CreateError::Name);
        }
        if !Areas::unit_bytes_allowed(self.unit_bytes) {
            return Err(CreateError::UnitSize(self.unit_bytes));
        }
        let journal_half = Areas::journal_half_for(&self.sizes, self.unit_bytes);
        if !Areas::JOURNAL_HALVES.contains(&journal_half) {
            return Err(CreateError::TooManyUnits(self.unit_bytes));
        }
        let areas = self.sizes.iter().map(|size| Areas::for_disk(*size, journal_half, self.unit_bytes));
        let areas = areas.collect::<Result<Vec<_>, _>>()?;
        let record = |areas: &Areas| MemberRecord { size: areas.size, state: MemberState::Active, since: 0 };
        Ok(Superblock {
            volume: self.volume,
            generation: 1,
            name: self.name,
            placement: self.placement,
            unit_bytes: self.unit_bytes,
            journal_half,
            member: MemberId(0),
            members: areas.iter().map(record).collect(),
            folders: Vec::new(),
        })
    }
}

/// An open volume.
#[derive(Debug)]
pub struct Volume {
    pub(crate) members: MemberTable,
    pub(crate) space: FreeSpace,
    pub(crate) catalogue: Catalogue,
    pub(crate) recordings: Recordings,
    pub(crate) changes: PendingChanges,
    pub(crate) upkeep: CopyPlan,
}

impl Volume {
    /// A new, empty volume. Write its first commit before its superblocks ([`MemberTable::superblock_writes`]): disks bear its mark
    /// when everything else is there.
    ///
    /// # Errors
    /// The name, the unit or the number of disks is not possible, or a disk is too small.
    pub fn create(new: NewVolume) -> Result<Self, CreateError> {
        let superblock = new.superblock()?;
        let journal_half = superblock.journal_half;
        let journal = Journal::new(superblock.volume, journal_half, 0, journal_half);
        let present = vec![true; superblock.members.len()];
        let members = MemberTable::new(superblock, present);
        let changes = PendingChanges::behind(journal, Vec::new(), 1);
        Ok(Self::of(members, Catalogue::default(), Recordings::default(), changes).expect("no content has a unit"))
    }

    /// The volume of these parts: all units are free that no content and no recording has.
    pub(crate) fn of(
        members: MemberTable,
        catalogue: Catalogue,
        recordings: Recordings,
        changes: PendingChanges,
    ) -> Result<Self, &'static str> {
        let space = FreeSpace::of(&members);
        let mut volume = Self { members, space, catalogue, recordings, changes, upkeep: CopyPlan::default() };
        volume.claim_all()?;
        volume.assert_sound();
        Ok(volume)
    }

    /// Takes the units of all contents.
    fn claim_all(&mut self) -> Result<(), &'static str> {
        let (unit_bytes, space) = (self.members.unit_bytes(), &mut self.space);
        let is_whole = |content: &StoredContent, parts: u64| usize::try_from(parts) == Ok(content.parts.len());
        let mut claim = |content: &StoredContent| {
            let is_free = content.parts.iter().flat_map(StoredPart::places).all(|place| space.claim(place));
            if is_free { Ok(()) } else { Err("two contents have one unit, or one has a unit that does not exist") }
        };
        for (_, content) in self.catalogue.iter() {
            if !is_whole(content, part_count(content.length, unit_bytes)) {
                return Err("a content's length does not agree with its units");
            }
            claim(content)?;
        }
        for Recorded { content, .. } in self.recordings.iter() {
            if !is_whole(content, content.length.div_ceil(unit_bytes)) {
                return Err("a recording's length does not agree with its units");
            }
            claim(content)?;
        }
        Ok(())
    }

    /// Its disks.
    #[must_use]
    pub const fn members(&self) -> &MemberTable {
        &self.members
    }

    /// The superblock that all disks share.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        self.members.superblock()
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
        self.changes.check()?;
        self.members.set_folder_layout(folder, placement)
    }

    /// Sets the drive of each disk, by the drives' names; a disk without a name is a drive of its own, as are all until then and
    /// each new disk. The two copies of a part are never put on one drive.
    pub fn set_drives(&mut self, names: &[Option<&str>]) {
        self.members.set_drives(names);
    }

    /// Payload bytes of a unit.
    #[must_use]
    pub const fn unit_bytes(&self) -> u64 {
        self.members.unit_bytes()
    }

    /// True if a disk holds the units that the catalogue places on it.
    #[must_use]
    pub fn is_readable(&self, member: MemberId) -> bool {
        self.members.is_readable(member)
    }

    /// True if contents are written to a disk.
    #[must_use]
    pub fn is_writable(&self, member: MemberId) -> bool {
        self.members.is_writable(member)
    }

    /// True if the volume takes no more changes.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.changes.is_read_only()
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
        if self.members.ids().all(|member| self.is_readable(member)) {
            return 0;
        }
        self.contents().filter(|(_, content)| !content.parts.iter().all(|part| self.members.can_read(part))).count()
    }

    /// Every content with its name, in order of names.
    pub fn contents(&self) -> impl Iterator<Item = (&str, &Arc<StoredContent>)> {
        self.catalogue.contents()
    }

    /// The folders that were made as such, and stay when they are empty.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.catalogue.folders()
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
        self.space.counts(&self.members)
    }

    /// The sets of disks, of which a content of this name is written to one if it is begun now, the emptiest first, and how many copies of
    /// each byte go to them. A span has a set for each disk ([`Draft::begin_on`]).
    #[must_use]
    pub fn written_disks(&self, name: &str) -> (Vec<Vec<MemberId>>, u8) {
        self.space.written_disks(self.members.placement_of(name), &self.members)
    }

    /// Payload bytes that can still be written, in whole units, without those promised to drafts.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.parts_left() * self.unit_bytes()
    }

    /// Parts that can still be written in the volume's own layout.
    pub(crate) fn parts_left(&self) -> u64 {
        self.space.parts_left(self.members.placement(), &self.members)
    }

    /// Checks that free, used and promised units add up on each disk; gives the disks where they do not.
    #[must_use]
    pub fn unbalanced(&self) -> Vec<MemberId> {
        let named = self.named_parts().flat_map(StoredPart::places);
        self.space.unbalanced(named.chain(self.changes.retired_units()))
    }

    /// The recordings that are not over, as far as they are durable, or will be with the next commit.
    pub fn recordings(&self) -> impl Iterator<Item = (&str, &StoredContent)> {
        self.recordings.iter().map(|recorded| (&*recorded.name, &recorded.content))
    }

    /// True if nothing has this name, and a content may.
    #[must_use]
    pub fn is_free_name(&self, name: &str) -> bool {
        self.check_new_name(name).is_ok() && self.find(name).is_none()
    }

    /// Removes a content. It is gone at once, and durably so with the next commit.
    ///
    /// # Errors
    /// No content has the name; the volume takes no changes.
    pub fn remove(&mut self, name: &str) -> Result<(), VolumeError> {
        self.changes.check()?;
        let old = self.catalogue.remove(name).ok_or(VolumeError::NotFound)?;
        self.assert_taken(&old);
        self.changes.record(&Record::Remove(name.into()));
        self.changes.retire(old);
        self.assert_sound();
        Ok(())
    }

    /// Gives a content another modification time, in nanoseconds since 1970. It is durable with the next commit.
    ///
    /// # Errors
    /// No content has the name; the volume takes no changes.
    pub fn set_modified(&mut self, name: &str, modified: u64) -> Result<(), VolumeError> {
        self.changes.check()?;
        let old = Arc::clone(self.find(name).ok_or(VolumeError::NotFound)?);
        let content = StoredContent { modified, ..StoredContent::clone(&old) };
        self.changes.record(&Record::Put(name.into(), content.clone()));
        self.catalogue.insert(name.into(), Arc::new(content));
        // Its units are those of the new one, which are not free while the old one is read.
        self.changes.retire_units(Vec::new(), old);
        self.assert_sound();
        Ok(())
    }

    pub(crate) fn check_new_name(&self, name: &str) -> Result<(), VolumeError> {
        self.changes.check()?;
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
        let recorded = self.recordings.iter().map(|recorded| &recorded.content);
        self.contents().map(|(_, content)| &**content).chain(recorded).flat_map(|content| &content.parts)
    }

    /// Three quarters of a half of the journal are for the checkpoint, the rest for frames' heads and changes.
    pub(crate) fn check_catalogue_room(&self, more: usize) -> Result<(), VolumeError> {
        let recorded: usize = self.recordings.iter().map(Recorded::bytes).sum();
        let bytes = u64::try_from(self.catalogue.record_bytes() + recorded + more).unwrap_or(u64::MAX);
        if bytes <= self.superblock().journal_half / 4 * 3 { Ok(()) } else { Err(VolumeError::CatalogueFull) }
    }

    /// Gives units back that are durably free and unread.
    pub(crate) fn reuse_retired(&mut self) {
        let unread = self.changes.take_unread();
        debug_assert!(
            unread.iter().all(|place| place.unit < self.members.unit_count(place.member)),
            "units beyond their disks"
        );
        self.space.give(unread);
    }

    /// Begins a content, which replaces the one of this name when it is published. Where its length is known, room for it is
    /// reserved.
    ///
    /// # Errors
    /// The name is not possible; there is no room for the length; the volume takes no changes.
    pub fn begin(&mut self, name: &str, length: Option<u64>) -> Result<Draft, VolumeError> {
        self.check_new_name(name)?;
        let parts = length.map_or(0, |length| part_count(length, self.unit_bytes()));
        let count = usize::try_from(parts).ok().filter(|count| *count <= PARTS_MAX).ok_or(VolumeError::TooLong)?;
        self.check_catalogue_room(put_bytes(name.len(), count))?;
        self.reuse_retired();
        let placement = self.members.placement_of(name);
        let left = self.space.parts_left(placement, &self.members);
        if parts > left || left == 0 && length != Some(0) {
            return Err(VolumeError::Full);
        }
        let generation = self.changes.new_number()?;
        let content = self.catalogue.find(name).map_or(generation, |old| old.content);
        self.space.promise(placement, parts);
        Ok(Draft::new(name, (content, generation), placement, parts))
    }

    /// Makes room for more payload: gives the headers of a unit that is full, to be written, and how many bytes there is room
    /// for; at least one.
    ///
    /// # Errors
    /// The volume is full; the content is too long. The draft is unchanged: it can be tried again.
    pub fn room(&mut self, draft: &mut Draft) -> Result<(Vec<DiskWrite>, u64), VolumeError> {
        draft.room(&self.members, &mut self.space).or_else(|error| {
            self.reuse_retired();
            if error == VolumeError::Full { draft.room(&self.members, &mut self.space) } else { Err(error) }
        })
    }

    /// Keeps a part free for the tail of a content of unknown length, if there is one and none is kept yet.
    pub(crate) fn keep_for_tail(&mut self, draft: &mut Draft) {
        draft.keep_for_tail(&self.members, &mut self.space);
    }

    /// The tail comes now.
    pub(crate) fn free_for_tail(&mut self, draft: &mut Draft) {
        draft.free_for_tail(&mut self.space);
    }

    /// Enters `length` bytes of a recording, which are on its disks; `digest` is the checksum of the last part's table there. Durable with
    /// the next commit.
    pub(crate) fn enter(&mut self, draft: &Draft, length: u64, digest: u32, modified: u64) -> Result<(), VolumeError> {
        self.changes.check()?;
        let Some(new) = draft.recorded(length, digest, modified, self.unit_bytes()) else { return Ok(()) };
        match new.bytes().saturating_sub(self.recordings.bytes_of(draft.generation())) {
            0 => {}
            more => self.check_catalogue_room(more)?,
        }
        debug_assert!(
            usize::try_from(length.div_ceil(self.unit_bytes())) == Ok(new.content.parts.len()),
            "a start would refuse the volume: the recording's length does not agree with its units"
        );
        self.assert_taken(&new.content);
        self.recordings.enter(new, &mut self.changes);
        self.assert_sound();
        Ok(())
    }

    /// Takes up the recordings that a crash left, each as a draft: to be done once, before anything is begun. Each is to be read
    /// ([`Draft::reader`]), restored and ended.
    pub fn take_up_recordings(&self) -> Vec<Draft> {
        let draft = |recorded: &Recorded| Draft::of_recorded(recorded, self.members.placement_of(&recorded.name));
        self.recordings.iter().map(draft).collect()
    }

    /// Gives the content its name, once all writes of the draft are complete. It is visible at once and durable with the next commit. The
    /// units of a content that had the name are free when that is durable and its last reader is gone.
    ///
    /// # Errors
    /// A disk was taken out that held the only copy of a part; a name on the way to it became a content; the catalogue is
    /// full. The draft's units are free again.
    ///
    /// # Panics
    /// A disk was taken out and [`Volume::leave_out`] not called.
    pub fn publish(&mut self, draft: Draft, modified: u64) -> Result<Arc<StoredContent>, VolumeError> {
        let checked = self.check_new_name(draft.name()).and_then(|()| {
            self.check_catalogue_room(put_bytes(draft.name().len(), draft.part_count()))?;
            if draft.is_lost() { Err(VolumeError::PartLost) } else { Ok(()) }
        });
        if let Err(error) = checked {
            self.abandon(draft);
            return Err(error);
        }
        let (name, content) = draft.into_content(modified, &mut self.space);
        debug_assert!(
            u64::try_from(content.parts.len()) == Ok(part_count(content.length, self.unit_bytes())),
            "a start would refuse the volume: the length does not agree with the units"
        );
        let members = content.parts.iter().flat_map(StoredPart::places).map(|place| place.member);
        let (written, only_read): (Vec<_>, Vec<_>) = members.partition(|member| self.is_writable(*member));
        let are_read = only_read.into_iter().all(|member| self.is_readable(member));
        assert!(are_read, "copies on disks that are out were left out");
        self.changes.await_payload(written);
        self.assert_taken(&content);
        let content = Arc::new(content);
        self.put(name, Arc::clone(&content)).into_iter().for_each(|old| self.changes.retire(old));
        self.recordings.end(&content, &mut self.changes);
        self.assert_sound();
        Ok(content)
    }

    /// Enters a content under its name, and gives the content that had it.
    pub(crate) fn put(&mut self, name: Box<str>, content: Arc<StoredContent>) -> Option<Arc<StoredContent>> {
        self.changes.record_content(&name, &content);
        self.catalogue.insert(name, content)
    }

    /// Gives up a draft: its units are free at once, but those of a recording that the journal names with the next commit. All writes to
    /// them must be complete.
    pub fn abandon(&mut self, draft: Draft) {
        let named = self.recordings.give_up(draft.generation(), &mut self.changes);
        draft.give_back(&named, &mut self.space);
        self.assert_sound();
    }

    /// Leaves out the copies of a draft on a disk that was taken out, is only read, or leaves. To be done for each draft at once: the next
    /// disk of this number does not hold them. A part that is nowhere else stays named if its disk is only read; the unit that is not full
    /// continues elsewhere. Gives the bytes of these, any of which may be wrong: the disk erred before it made them durable.
    ///
    /// # Errors
    /// A part has no other copy on a disk that can be read, or there is no room to continue: the draft can only be abandoned.
    pub fn leave_out(&mut self, draft: &mut Draft, member: MemberId) -> Result<u64, VolumeError> {
        self.reuse_retired();
        draft.leave_out(member, &self.members, &self.recordings, &mut self.space)
    }

    /// Checks the promises between the parts of the volume, in builds with debug assertions.
    pub(crate) fn assert_sound(&self) {
        let count = self.members.ids().count();
        debug_assert!(self.space.disks() == count, "each disk has its free units");
        debug_assert!(
            self.members.ids().all(|member| self.space.units_on(member) == self.members.unit_count(member)),
            "a disk's units are free or taken, and no more"
        );
        debug_assert!(
            self.members.ids().all(|member| self.space.free_on(member) <= self.space.units_on(member)),
            "more units are free than the disk has"
        );
        debug_assert!(
            self.changes.journal_on().iter().all(|member| member.index() < count),
            "the journal is on disks of the volume"
        );
        debug_assert!(self.upkeep.disks() <= count, "a surplus of a disk that is not of the volume");
    }

    /// Checks that nothing else can take the units of a content, in builds with debug assertions.
    pub(crate) fn assert_taken(&self, content: &StoredContent) {
        debug_assert!(
            content.parts.iter().flat_map(StoredPart::places).all(|place| self.space.is_taken(place)),
            "a unit of a content is free: the next draft would write over it"
        );
        debug_assert!(
            content.parts.iter().all(|part| part.second != Some(part.first)),
            "both copies of a part are one"
        );
    }
}
