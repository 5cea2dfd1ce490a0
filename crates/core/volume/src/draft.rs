//! A draft: a content that is being written. It is in no catalogue before it is published; a crash leaves its units free, except those that
//! the journal names for a recording (`recording`).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::choice::{HeldUnits, choose};
use crate::content::{StoredContent, StoredPart, UnitPlace, part_count};
use crate::record::{Record, put_bytes};
use crate::unit::{Checksums, UnitHeader};
use crate::{BLOCK_BYTES, BLOCK_LEN, DiskWrite, MemberId, Placement, Volume, VolumeError};

/// Units of a content at most: its record fits into a frame of the journal.
const PARTS_MAX: usize = 4_000_000;
/// A content of unknown length holds as much ahead as it has, and so many parts at least.
const AHEAD_PARTS_MIN: u64 = 8;
/// It holds so many bytes at most: a seek of 12 ms after each of these is less than 1 % of the time for reading them at 400 MB/s.
const AHEAD_BYTES_MAX: u64 = 512 << 20;

/// A content that is being written. Publish it or give it back with [`Volume::abandon`]: its units are not free before.
#[derive(Debug)]
pub struct Draft {
    pub(crate) name: Box<str>,
    pub(crate) content: u64,
    pub(crate) generation: u64,
    /// Payload bytes in the units that are sealed.
    pub(crate) sealed_bytes: u64,
    /// Bytes of the content without its tail, once all have come.
    content_bytes: Option<u64>,
    /// The checksums of all of the content that is in sealed units.
    pub(crate) table: Vec<u32>,
    pub(crate) parts: Vec<StoredPart>,
    pub(crate) open: Option<OpenUnit>,
    placement: Placement,
    /// Parts that are reserved for it and not taken yet.
    reserved: u64,
    /// Parts that are kept free for its tail, so that it can be ended when the volume is full.
    kept_for_tail: u64,
    held: HeldUnits,
    /// The disk of a span that it begins on.
    begins_on: Option<MemberId>,
    /// A part of it was on a disk that was taken out, and nowhere else.
    is_lost: bool,
}

/// A unit that was taken and is not sealed yet.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    pub(crate) first: UnitPlace,
    pub(crate) second: Option<UnitPlace>,
    pub(crate) checksums: Checksums,
}

impl OpenUnit {
    fn places(&self) -> impl Iterator<Item = UnitPlace> + use<> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

impl Draft {
    /// The name it will have.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the version that it will be.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Lets it stand beside the content it was to replace, as a content of its own.
    pub(crate) const fn set_apart(&mut self) {
        self.content = self.generation;
    }

    /// It will have another name.
    pub fn rename(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Its first part goes to this disk of a span, where that has room; those behind it follow.
    pub const fn begin_on(&mut self, member: MemberId) {
        self.begins_on = Some(member);
    }

    /// A recording that a crash left, as far as it was durable; nothing of it is read yet ([`Volume::restore`]).
    pub(crate) fn of_recorded(name: &str, content: &StoredContent, placement: Placement) -> Self {
        Self {
            name: name.into(),
            content: content.content,
            generation: content.generation,
            sealed_bytes: content.length,
            content_bytes: None,
            table: Vec::new(),
            parts: content.parts.to_vec(),
            open: None,
            placement,
            reserved: 0,
            kept_for_tail: 0,
            held: HeldUnits::default(),
            begins_on: None,
            is_lost: false,
        }
    }

    /// The units of its copies.
    pub(crate) fn places(&self) -> impl Iterator<Item = UnitPlace> {
        let open = self.open.iter().flat_map(OpenUnit::places);
        self.parts.iter().flat_map(StoredPart::places).chain(open)
    }

    /// True if a copy of some part of it is on a disk.
    #[must_use]
    pub fn is_on(&self, member: MemberId) -> bool {
        self.places().any(|place| place.member == member)
    }

    /// Payload bytes that have come.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.sealed_bytes + self.open.as_ref().map_or(0, |open| open.checksums.bytes())
    }

    /// The checksum of the table of the part that is being filled.
    pub(crate) fn open_digest(&self) -> u32 {
        self.open.as_ref().map_or(0, |open| open.checksums.clone().finish().digest())
    }

    /// All of the content has come: gives its length and the checksums of all of it, and fills its last block with zeros.
    pub(crate) fn end_content(&mut self) -> (u64, &[u32]) {
        let length = self.length();
        self.content_bytes = Some(length);
        if let Some(open) = &mut self.open {
            self.table.extend(open.checksums.clone().finish().0);
            let padding = usize::try_from(length.next_multiple_of(BLOCK_BYTES) - length).expect("less than a block");
            open.checksums.add(&[0; BLOCK_LEN][..padding]);
        }
        (length, &self.table)
    }
}

impl Volume {
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
        let placement = self.placement_of(name);
        let left = self.parts_left(placement);
        if parts > left || left == 0 && length != Some(0) {
            return Err(VolumeError::Full);
        }
        let generation = self.new_number()?;
        let content = self.catalogue.find(name).map_or(generation, |old| old.content);
        *self.promised.of(placement) += parts;
        Ok(Draft {
            name: name.into(),
            content,
            generation,
            sealed_bytes: 0,
            content_bytes: None,
            table: Vec::new(),
            parts: Vec::new(),
            open: None,
            placement,
            reserved: parts,
            kept_for_tail: 0,
            held: HeldUnits::default(),
            begins_on: None,
            is_lost: false,
        })
    }

    /// Makes room for more payload: gives the headers of a unit that is full, to be written, and how many bytes there is room
    /// for; at least one.
    ///
    /// # Errors
    /// The volume is full; the content is too long. The draft is unchanged: it can be tried again.
    pub fn room(&mut self, draft: &mut Draft) -> Result<(Vec<DiskWrite>, u64), VolumeError> {
        let filled = draft.open.as_ref().map_or(0, |open| open.checksums.bytes());
        let full = draft.open.take_if(|_| filled == self.unit_bytes());
        if draft.open.is_some() {
            return Ok((Vec::new(), self.unit_bytes() - filled));
        }
        match self.take_next(draft, full.as_ref()) {
            Ok(next) => {
                let headers = full.map(|full| self.seal(draft, full, None)).unwrap_or_default();
                draft.open = Some(next);
                Ok((headers, self.unit_bytes()))
            }
            Err(error) => {
                draft.open = full;
                Err(error)
            }
        }
    }

    /// Keeps a part free for the tail of a content of unknown length, if there is one and none is kept yet.
    pub(crate) fn keep_for_tail(&mut self, draft: &mut Draft) {
        if draft.kept_for_tail == 0 && self.parts_left(draft.placement) > 0 {
            draft.kept_for_tail = 1;
            *self.promised.of(draft.placement) += 1;
        }
    }

    /// The tail comes now.
    pub(crate) fn free_for_tail(&mut self, draft: &mut Draft) {
        *self.promised.of(draft.placement) -= std::mem::take(&mut draft.kept_for_tail);
    }

    /// Takes the next unit, behind `full` if that is not sealed yet.
    fn take_next(&mut self, draft: &mut Draft, full: Option<&OpenUnit>) -> Result<OpenUnit, VolumeError> {
        let parts = draft.parts.len() + usize::from(full.is_some());
        if parts >= PARTS_MAX {
            return Err(VolumeError::TooLong);
        }
        if draft.reserved == 0 && self.parts_left(draft.placement) == 0 {
            self.reuse_retired();
            if self.parts_left(draft.placement) == 0 {
                return Err(VolumeError::Full);
            }
        }
        let last = full.map(|full| full.first).or(draft.parts.last().map(|part| part.first));
        let before = last.map(|place| place.member).or(draft.begins_on).map(MemberId::index);
        let taken = u64::try_from(parts).expect("at most PARTS_MAX");
        let turn = draft.content + taken;
        let parts = match draft.reserved {
            0 => taken.clamp(AHEAD_PARTS_MIN, AHEAD_BYTES_MAX / self.unit_bytes()),
            known => known,
        };
        let placement = draft.placement;
        let chosen = choose(placement, &self.free_for(placement), &self.drives, turn, before);
        let taken = chosen.and_then(|chosen| self.take_units(placement, chosen, parts, &mut draft.held));
        let (first, second) = taken.ok_or(VolumeError::Full)?;
        if draft.reserved > 0 {
            draft.reserved -= 1;
            *self.promised.of(draft.placement) -= 1;
        }
        Ok(OpenUnit { first, second, checksums: Checksums::default() })
    }

    /// Adds payload, no more than [`Volume::room`] said: gives where each copy is to be written, disk and position. All but the
    /// content's last bytes come in whole blocks; those are to be written with zeros up to a whole block.
    pub fn add(&self, draft: &mut Draft, payload: &[u8]) -> Vec<(MemberId, u64)> {
        let open = draft.open.as_mut().expect("there is room in a unit");
        let within = open.checksums.bytes();
        open.checksums.add(payload);
        open.places().map(|place| (place.member, self.areas(place.member).payload(place.unit) + within)).collect()
    }

    /// Ends the content when all its payload was added, its tail too ([`Volume::tail`]): gives the last headers to write.
    /// `modified` is in nanoseconds since 1970.
    pub fn end(&self, draft: &mut Draft, modified: u64) -> Vec<DiskWrite> {
        draft.open.take().map(|open| self.seal(draft, open, Some(modified))).unwrap_or_default()
    }

    fn seal(&self, draft: &mut Draft, full: OpenUnit, last: Option<u64>) -> Vec<DiskWrite> {
        let OpenUnit { first, second, checksums } = full;
        let payload = checksums.bytes();
        let table = checksums.finish();
        let part = StoredPart { digest: table.digest(), first, second };
        if draft.content_bytes.is_none() {
            draft.table.extend(&table.0);
        }
        let mut header = UnitHeader {
            volume: self.superblock.volume,
            member: first.member,
            unit: first.unit,
            content: draft.content,
            generation: draft.generation,
            part: u32::try_from(draft.parts.len()).expect("at most PARTS_MAX"),
            payload: u32::try_from(payload).expect("a unit has at most 32 MiB"),
            last: last.map(|modified| (modified, draft.content_bytes.expect("the tail comes before the end"))),
            name: draft.name.to_string(),
            table,
        };
        draft.parts.push(part);
        draft.sealed_bytes += payload;
        let mut write = |place: UnitPlace| {
            header.member = place.member;
            header.unit = place.unit;
            self.write_of(&header)
        };
        part.places().map(&mut write).collect()
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
        let checked = self.check_new_name(&draft.name).and_then(|()| {
            self.check_catalogue_room(put_bytes(draft.name.len(), draft.parts.len()))?;
            if draft.is_lost { Err(VolumeError::PartLost) } else { Ok(()) }
        });
        if let Err(error) = checked {
            self.abandon(draft);
            return Err(error);
        }
        *self.promised.of(draft.placement) -= draft.reserved + draft.kept_for_tail;
        self.let_go(draft.held);
        let content = StoredContent {
            content: draft.content,
            generation: draft.generation,
            length: draft.content_bytes.unwrap_or(0),
            modified,
            parts: draft.parts.into_boxed_slice(),
        };
        let members = content.parts.iter().flat_map(StoredPart::places).map(|place| place.member);
        let (written, only_read): (BTreeSet<_>, BTreeSet<_>) = members.partition(|member| self.is_writable(*member));
        let are_read = only_read.into_iter().all(|member| self.is_readable(member));
        assert!(are_read, "copies on disks that are out were left out");
        self.changes.dirty.extend(written);
        Record::Put(draft.name.clone(), content.clone()).encode(&mut self.changes.records);
        let content = Arc::new(content);
        self.end_recording(&content);
        if let Some(old) = self.catalogue.insert(draft.name, Arc::clone(&content)) {
            self.retire(old);
        }
        Ok(content)
    }

    /// Gives up a draft: its units are free at once, but those of a recording that the journal names with the next commit. All writes to
    /// them must be complete.
    pub fn abandon(&mut self, draft: Draft) {
        *self.promised.of(draft.placement) -= draft.reserved + draft.kept_for_tail;
        let named = self.give_up_recording(draft.generation);
        for place in draft.places().filter(|place| !named.contains(place)) {
            self.free[place.member.index()].give(place.unit);
        }
        self.let_go(draft.held);
    }

    /// Leaves out the copies of a draft on a disk that was taken out, is only read, or leaves. To be done for each draft at once: the next
    /// disk of this number does not hold them. A part that is nowhere else stays named if its disk is only read; the unit that is not full
    /// continues elsewhere. Gives the bytes of these, any of which may be wrong: the disk erred before it made them durable.
    ///
    /// # Errors
    /// A part has no other copy on a disk that can be read, or there is no room to continue: the draft can only be abandoned.
    pub fn leave_out(&mut self, draft: &mut Draft, member: MemberId) -> Result<u64, VolumeError> {
        let is_read = self.is_readable(member);
        let (mut left_out, mut is_lost, mut doubtful) = (Vec::new(), draft.is_lost, 0);
        let mut keep = |first: &mut UnitPlace, second: &mut Option<UnitPlace>, bytes: Option<u64>| {
            let copies = [Some(*first), *second].into_iter().flatten();
            let (gone, kept): (Vec<_>, Vec<_>) = copies.partition(|place| place.member == member);
            if is_read && kept.is_empty() {
                doubtful += bytes.unwrap_or(self.superblock.unit_bytes);
                return bytes.is_none().then_some(());
            }
            left_out.extend(gone);
            is_lost |= !kept.iter().any(|place| self.is_readable(place.member));
            *first = *kept.first()?;
            *second = kept.get(1).copied();
            Some(())
        };
        draft.parts.retain_mut(|part| keep(&mut part.first, &mut part.second, None).is_some());
        let open =
            draft.open.take_if(|open| keep(&mut open.first, &mut open.second, Some(open.checksums.bytes())).is_none());
        draft.is_lost = is_lost;
        if let Some(open) = open.filter(|_| is_read) {
            left_out.extend(open.places());
            draft.open = self.take_next(draft, None).ok();
            draft.is_lost |= draft.open.is_none();
            draft.open.iter_mut().for_each(|elsewhere| elsewhere.checksums.clone_from(&open.checksums));
        }
        // A unit that the journal names is free when the journal names it no more.
        left_out.retain(|place| !self.is_recorded(draft.generation, *place));
        left_out.iter().for_each(|place| self.free[place.member.index()].give(place.unit));
        if draft.is_lost { Err(VolumeError::PartLost) } else { Ok(doubtful) }
    }
}
